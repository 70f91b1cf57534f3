//! Subjects of others: from an OCI layout, an archive or a directory to one read-only file system and what is run in it.
//!
//! An image is trusted with nothing. Every byte is held against its digest before it is used, every count and size has
//! a bound (`limits`), a name that leads out of the root is refused (`name`), and the tree is written below one
//! directory by the kernel's own rules (`tree`). Nothing is ever pulled, and nothing in an image is run here.
//!
//! # Examples
//!
//! ```no_run
//! use tidegate_determinism::image::{Image, Root};
//!
//! let image = Image::open("target/tidegate/image/tidegate")?;
//! let root = Root::of_image(&image, "target/tidegate/roots".as_ref(), &mut |line| eprintln!("{line}"))?;
//! println!("{} runs {:?} from {}", image.digest(), root.config.argv, root.erofs.display());
//! # Ok::<(), tidegate_determinism::image::ImageError>(())
//! ```

mod blobs;
mod digest;
mod document;
mod entry;
mod error;
mod layer;
mod limits;
mod name;
mod open;
mod provenance;
mod reference;
mod root;
mod secret;
mod section;
mod tree;
mod unpack;
mod user;

pub use error::ImageError;
pub use open::Image;
pub use provenance::Provenance;
pub use root::{Config, Root};
