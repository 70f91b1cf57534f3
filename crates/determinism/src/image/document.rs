//! The documents of an image: index, manifest, configuration, and docker's own list. Shapes only.

use serde::Deserialize;

use super::digest::Digest;

/// What runs images here.
pub(super) const OS: &str = "linux";
pub(super) const ARCHITECTURE: &str = "amd64";

/// `index.json`, or any manifest that lists others.
#[derive(Debug, Deserialize)]
pub(super) struct Index {
    pub(super) manifests: Vec<Descriptor>,
}

/// One blob, as others name it.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    #[serde(default)]
    pub(super) media_type: String,
    pub(super) digest: Digest,
    pub(super) size: u64,
    pub(super) platform: Option<Platform>,
}

/// What an image runs on.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Platform {
    pub(super) os: String,
    pub(super) architecture: String,
}

impl Platform {
    pub(super) fn runs_here(&self) -> bool {
        self.os == OS && self.architecture == ARCHITECTURE
    }

    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.os, self.architecture)
    }
}

/// One image of one platform.
#[derive(Debug, Deserialize)]
pub(super) struct Manifest {
    pub(super) config: Descriptor,
    pub(super) layers: Vec<Descriptor>,
}

/// The configuration of an image.
#[derive(Debug, Deserialize)]
pub(super) struct Configuration {
    #[serde(flatten)]
    pub(super) platform: Platform,
    #[serde(default)]
    pub(super) config: Option<Runtime>,
    pub(super) rootfs: Layers,
}

/// The digests of the layers as plain tar archives.
#[derive(Debug, Deserialize)]
pub(super) struct Layers {
    pub(super) diff_ids: Vec<Digest>,
}

/// What is run, and how.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Runtime {
    pub(super) entrypoint: Option<Vec<String>>,
    pub(super) cmd: Option<Vec<String>>,
    pub(super) env: Option<Vec<String>>,
    pub(super) working_dir: Option<String>,
    pub(super) user: Option<String>,
}

/// One image in docker's `manifest.json`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Saved {
    pub(super) config: String,
    pub(super) layers: Vec<String>,
}
