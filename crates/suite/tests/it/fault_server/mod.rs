mod calls;
mod driver;
mod process;
