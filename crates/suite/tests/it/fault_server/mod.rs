//! The fault server itself, line in and line out: every other test of the suite rests on it.

mod calls;
mod driver;
mod process;
