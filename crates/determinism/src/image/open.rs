//! From a path to one image for this platform: what it is called, what it runs, and which layers it is made of.

use std::collections::BTreeMap;

use super::blobs::{self, Blobs};
use super::digest::Digest;
use super::document::{Configuration, Descriptor, Index, Manifest, Runtime, Saved};
use super::error::ImageError;
use super::layer::Layer;
use super::limits::{MAX_LAYERS, MAX_MANIFESTS};
use super::reference::{self, Reference};

/// An index may list indexes: one for the tags and one for the platforms.
const MAX_INDEXES: u32 = 3;

/// An image that is there, is for this platform, and whose documents are what their digests say.
#[derive(Debug)]
pub struct Image {
    digest: Digest,
    pub(super) runtime: Runtime,
    pub(super) environment: BTreeMap<String, String>,
    pub(super) layers: Vec<Layer>,
}

/// An image that a path offers.
#[derive(Debug)]
struct Offer<T> {
    /// Its own digest first, then those of the indexes that list it.
    digests: Vec<Digest>,
    /// As `linux/amd64`, where that is known without opening it, and whether that runs here.
    platform: Option<(String, bool)>,
    what: T,
}

impl Image {
    /// Opens what `PATH[@DIGEST]` names: an OCI layout, or an archive of one or of docker's kind.
    ///
    /// The digest is that of the manifest (or of an index over it); for docker's archives, which have none, it is that
    /// of the configuration, which docker calls the image's id.
    ///
    /// # Errors
    ///
    /// When there is nothing, something else, more than one image, none for this platform, or damage.
    pub fn open(text: &str) -> Result<Self, ImageError> {
        let reference = reference::parse(text, |path| path.exists())?;
        let blobs = Blobs::open(&reference.path)?;
        if let Some(index) = blobs.file("index.json")? {
            layout(&reference, &blobs, &blobs::bytes("index.json", index)?)
        } else if let Some(list) = blobs.file("manifest.json")? {
            saved(&reference, &blobs, &blobs::bytes("manifest.json", list)?)
        } else {
            let why = "it has neither an index.json nor a manifest.json".to_owned();
            Err(ImageError::NotAnImage { path: reference.path, why })
        }
    }

    /// What it is called, for ever.
    pub fn digest(&self) -> &str {
        self.digest.as_str()
    }

    /// The environment that it asks for.
    pub fn environment(&self) -> &BTreeMap<String, String> {
        &self.environment
    }

    fn new(digest: Digest, configuration: Configuration, layers: Vec<Layer>) -> Result<Self, ImageError> {
        let platform = &configuration.platform;
        if !platform.runs_here() {
            return Err(ImageError::Platform { found: vec![platform.name()] });
        }
        let runtime = configuration.config.unwrap_or_default();
        let variables = runtime.env.iter().flatten().map(|variable| {
            let (name, value) = variable.split_once('=').unwrap_or((variable, ""));
            (name.to_owned(), value.to_owned())
        });
        let environment = variables.filter(|(name, _)| !name.is_empty()).collect();
        Ok(Self { digest, environment, runtime, layers })
    }
}

fn layout(reference: &Reference, blobs: &Blobs, index: &[u8]) -> Result<Image, ImageError> {
    let mut offers = Vec::new();
    offered(blobs, blobs::parse("index.json", index)?, &[], MAX_INDEXES, &mut offers)?;
    let descriptor = choose(reference, offers)?;
    let manifest: Manifest = blobs.document(&descriptor)?;
    let configuration: Configuration = blobs.document(&manifest.config)?;
    let diff_ids = diff_ids(&configuration, manifest.layers.len())?;
    let layers = manifest.layers.iter().zip(diff_ids).map(|(layer, diff_id)| {
        Ok(Layer {
            name: format!("the layer {}", layer.digest),
            media_type: layer.media_type.clone(),
            digest: Some(layer.digest.clone()),
            diff_id,
            data: blobs.blob(layer)?,
        })
    });
    let layers = layers.collect::<Result<_, _>>()?;
    Image::new(descriptor.digest, configuration, layers)
}

/// Collects the images of an index, with the indexes that it lists.
fn offered(
    blobs: &Blobs,
    index: Index,
    above: &[Digest],
    depth: u32,
    offers: &mut Vec<Offer<Descriptor>>,
) -> Result<(), ImageError> {
    for descriptor in index.manifests {
        let mut digests = vec![descriptor.digest.clone()];
        digests.extend_from_slice(above);
        let lists =
            descriptor.media_type.contains("image.index") || descriptor.media_type.contains("manifest.list");
        if lists && depth > 0 {
            offered(blobs, blobs.document(&descriptor)?, &digests, depth - 1, offers)?;
            continue;
        }
        let platform = descriptor.platform.as_ref().map(|platform| (platform.name(), platform.runs_here()));
        offers.push(Offer { digests, platform, what: descriptor });
        if offers.len() > MAX_MANIFESTS {
            return Err(ImageError::TooLarge {
                what: "the index in images".to_owned(),
                limit: MAX_MANIFESTS as u64,
            });
        }
    }
    Ok(())
}

fn saved(reference: &Reference, blobs: &Blobs, list: &[u8]) -> Result<Image, ImageError> {
    let list: Vec<Saved> = blobs::parse("manifest.json", list)?;
    let mut offers = Vec::new();
    for saved in list {
        let bytes = blobs::bytes(&saved.config, blobs.needed(&saved.config)?)?;
        let digest = Digest::of(&bytes);
        // Docker names a configuration by its digest.
        let name = saved.config.trim_start_matches("blobs/sha256/").trim_end_matches(".json");
        if let Ok(wanted) = Digest::try_from(format!("sha256:{name}"))
            && wanted != digest
        {
            let (wanted, found) = (wanted.to_string(), digest.to_string());
            return Err(ImageError::Damaged { what: saved.config, wanted, found });
        }
        let configuration: Configuration = blobs::parse(&saved.config, &bytes)?;
        let platform = Some((configuration.platform.name(), configuration.platform.runs_here()));
        offers.push(Offer {
            digests: vec![digest.clone()],
            platform,
            what: (digest, configuration, saved.layers),
        });
    }
    let (digest, configuration, names) = choose(reference, offers)?;
    let diff_ids = diff_ids(&configuration, names.len())?;
    let layers = names.iter().zip(diff_ids).map(|(name, diff_id)| {
        Ok(Layer {
            name: format!("the layer {name}"),
            media_type: String::new(),
            digest: None,
            diff_id,
            data: blobs.needed(name)?,
        })
    });
    let layers = layers.collect::<Result<_, _>>()?;
    Image::new(digest, configuration, layers)
}

/// The one image that is meant: of the digest that was asked for, and for this platform.
fn choose<T>(reference: &Reference, mut offers: Vec<Offer<T>>) -> Result<T, ImageError> {
    let names = |offers: &[Offer<T>]| -> Vec<String> {
        offers.iter().filter_map(|offer| offer.digests.first()).map(ToString::to_string).collect()
    };
    let path = || reference.path.clone();
    if offers.is_empty() {
        return Err(ImageError::NotAnImage { path: path(), why: "it lists no image".to_owned() });
    }
    if let Some(wanted) = &reference.digest {
        let found = names(&offers);
        offers.retain(|offer| offer.digests.contains(wanted));
        if offers.is_empty() {
            return Err(ImageError::Stale { path: path(), wanted: wanted.to_string(), found });
        }
    }
    let platforms = offers.iter().filter_map(|offer| offer.platform.clone()).map(|(name, _)| name).collect();
    offers.retain(|offer| offer.platform.as_ref().is_none_or(|(_, here)| *here));
    // One image under several names is one image.
    offers.dedup_by(|next, first| next.digests.first() == first.digests.first());
    let found = names(&offers);
    match (offers.pop(), offers.is_empty()) {
        (Some(offer), true) => Ok(offer.what),
        (Some(_), false) => Err(ImageError::Ambiguous { path: path(), digests: found }),
        (None, _) => Err(ImageError::Platform { found: platforms }),
    }
}

fn diff_ids(configuration: &Configuration, layers: usize) -> Result<Vec<Digest>, ImageError> {
    if layers > MAX_LAYERS {
        return Err(ImageError::TooLarge {
            what: "the image in layers".to_owned(),
            limit: MAX_LAYERS as u64,
        });
    }
    let diff_ids = configuration.rootfs.diff_ids.clone();
    if diff_ids.len() == layers {
        return Ok(diff_ids);
    }
    Err(ImageError::Damaged {
        what: "the list of layers".to_owned(),
        wanted: format!("{} layers", diff_ids.len()),
        found: format!("{layers} layers"),
    })
}
