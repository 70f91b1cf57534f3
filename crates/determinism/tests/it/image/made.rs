//! Images that no tool would make: archives entry by entry, layouts blob by blob. Whatever a test doesn't spoil is
//! as it should be.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tar::{EntryType, Header};

/// One entry of an archive, with names that are written as they are.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    name: Vec<u8>,
    kind: EntryType,
    link: Vec<u8>,
    data: Vec<u8>,
    mode: u32,
    owner: u64,
    device: (u32, u32),
    /// What the header says, where that isn't the truth.
    size: Option<u64>,
}

fn entry(name: &str, kind: EntryType) -> Entry {
    let mode = if kind == EntryType::Directory { 0o755 } else { 0o644 };
    let name = name.as_bytes().to_vec();
    Entry { name, kind, link: Vec::new(), data: Vec::new(), mode, owner: 0, device: (0, 0), size: None }
}

pub(super) fn file(name: &str, data: &str) -> Entry {
    Entry { data: data.as_bytes().to_vec(), ..entry(name, EntryType::Regular) }
}

pub(super) fn dir(name: &str) -> Entry {
    entry(name, EntryType::Directory)
}

pub(super) fn symlink(name: &str, target: &str) -> Entry {
    Entry { link: target.as_bytes().to_vec(), ..entry(name, EntryType::Symlink) }
}

pub(super) fn hardlink(name: &str, target: &str) -> Entry {
    Entry { link: target.as_bytes().to_vec(), ..entry(name, EntryType::Link) }
}

pub(super) fn device(name: &str, major: u32, minor: u32) -> Entry {
    Entry { device: (major, minor), ..entry(name, EntryType::Char) }
}

pub(super) fn of_type(name: &str, kind: u8) -> Entry {
    entry(name, EntryType::new(kind))
}

/// A header with attributes for the entry that follows.
pub(super) fn pax(attributes: &[(&str, &str)]) -> Entry {
    let mut data = Vec::new();
    for (key, value) in attributes {
        // The length counts its own digits.
        let rest = format!(" {key}={value}\n");
        let length =
            (rest.len()..).find(|length| length - rest.len() == length.to_string().len()).unwrap_or(0);
        data.extend_from_slice(format!("{length}{rest}").as_bytes());
    }
    Entry { data, ..entry("pax", EntryType::XHeader) }
}

/// GNU's header with a long name for the entry that follows.
pub(super) fn long(kind: u8, text: &str) -> Entry {
    Entry { data: format!("{text}\0").into_bytes(), ..of_type("././@LongLink", kind) }
}

impl Entry {
    pub(super) fn mode(self, mode: u32) -> Self {
        Self { mode, ..self }
    }

    pub(super) fn owner(self, owner: u64) -> Self {
        Self { owner, ..self }
    }

    pub(super) fn says_size(self, size: u64) -> Self {
        Self { size: Some(size), ..self }
    }

    fn write(&self, archive: &mut Vec<u8>) {
        let mut header = Header::new_gnu();
        let old = header.as_old_mut();
        old.name[..self.name.len()].copy_from_slice(&self.name);
        old.linkname[..self.link.len()].copy_from_slice(&self.link);
        header.set_entry_type(self.kind);
        header.set_size(self.size.unwrap_or(self.data.len() as u64));
        header.set_mode(self.mode);
        header.set_uid(self.owner);
        header.set_gid(self.owner);
        header.set_mtime(1_000_000_000);
        header.set_device_major(self.device.0).unwrap();
        header.set_device_minor(self.device.1).unwrap();
        header.set_cksum();
        archive.extend_from_slice(header.as_bytes());
        archive.extend_from_slice(&self.data);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
}

/// A whole archive.
pub(super) fn tar(entries: &[Entry]) -> Vec<u8> {
    let mut archive = Vec::new();
    entries.iter().for_each(|entry| entry.write(&mut archive));
    archive.resize(archive.len() + 1024, 0);
    archive
}

pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(super) fn zstd(bytes: &[u8]) -> Vec<u8> {
    zstd::encode_all(bytes, 1).unwrap()
}

/// A layer as it is stored, and as the image says it is.
#[derive(Debug, Clone)]
pub(super) struct Stored {
    pub(super) media_type: String,
    pub(super) stored: Vec<u8>,
    pub(super) plain: Vec<u8>,
}

pub(super) fn stored(suffix: &str, stored: Vec<u8>, plain: Vec<u8>) -> Stored {
    Stored { media_type: format!("application/vnd.oci.image.layer.v1.tar{suffix}"), stored, plain }
}

pub(super) fn plain(entries: &[Entry]) -> Stored {
    stored("", tar(entries), tar(entries))
}

/// Everything that an image is made of, to be spoilt before it is written.
#[derive(Debug, Clone)]
pub(super) struct Made {
    pub(super) layers: Vec<Stored>,
    pub(super) platform: (&'static str, &'static str),
    pub(super) config: Value,
}

pub(super) fn made(layers: &[Stored]) -> Made {
    Made { layers: layers.to_vec(), platform: ("linux", "amd64"), config: json!({}) }
}

pub(super) fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(bytes))
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn descriptor(media_type: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": media_type, "digest": sha256(bytes), "size": bytes.len()})
}

pub(super) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(super) const INDEX: &str = "application/vnd.oci.image.index.v1+json";

impl Made {
    pub(super) fn configuration(&self) -> Vec<u8> {
        let diff_ids: Vec<String> = self.layers.iter().map(|layer| sha256(&layer.plain)).collect();
        let (os, architecture) = self.platform;
        let value = json!({"os": os, "architecture": architecture, "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": diff_ids}});
        value.to_string().into_bytes()
    }

    pub(super) fn manifest(&self) -> Vec<u8> {
        let layers: Vec<Value> =
            self.layers.iter().map(|layer| descriptor(&layer.media_type, &layer.stored)).collect();
        let config = descriptor("application/vnd.oci.image.config.v1+json", &self.configuration());
        json!({"schemaVersion": 2, "config": config, "layers": layers}).to_string().into_bytes()
    }

    pub(super) fn digest(&self) -> String {
        sha256(&self.manifest())
    }

    /// Its line in an index.
    pub(super) fn listed(&self) -> Value {
        let mut listed = descriptor(MANIFEST, &self.manifest());
        listed["platform"] = json!({"os": self.platform.0, "architecture": self.platform.1});
        listed
    }

    /// Its blobs into a layout.
    pub(super) fn blobs(&self, layout: &Path) {
        blob(layout, &self.configuration());
        blob(layout, &self.manifest());
        self.layers.iter().for_each(|layer| blob(layout, &layer.stored));
    }

    /// A layout of its own.
    pub(super) fn layout(&self, directory: &Path) -> PathBuf {
        self.blobs(directory);
        index(directory, &[self.listed()]);
        directory.to_owned()
    }

    /// What `docker save` writes.
    pub(super) fn saved(&self) -> Vec<u8> {
        let configuration = self.configuration();
        let name = format!("{}.json", hex(&configuration));
        let mut entries = vec![file(&name, &String::from_utf8(configuration).unwrap())];
        let mut names = Vec::new();
        for (number, layer) in self.layers.iter().enumerate() {
            let name = format!("{number}/layer.tar");
            entries.push(Entry { data: layer.stored.clone(), ..file(&name, "") });
            names.push(name);
        }
        let list = json!([{"Config": name, "RepoTags": ["made:1"], "Layers": names}]);
        entries.push(file("manifest.json", &list.to_string()));
        tar(&entries)
    }
}

pub(super) fn blob(layout: &Path, bytes: &[u8]) {
    let directory = layout.join("blobs/sha256");
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join(hex(bytes)), bytes).unwrap();
}

pub(super) fn index(layout: &Path, listed: &[Value]) {
    std::fs::create_dir_all(layout).unwrap();
    std::fs::write(layout.join("index.json"), json!({"manifests": listed}).to_string()).unwrap();
    std::fs::write(layout.join("oci-layout"), r#"{"imageLayoutVersion": "1.0.0"}"#).unwrap();
}

/// A directory as an archive.
pub(super) fn archive(directory: &Path) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    builder.append_dir_all(".", directory).unwrap();
    builder.into_inner().unwrap()
}
