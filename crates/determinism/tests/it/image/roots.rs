//! What an image becomes: the same file for the same image, what is run in it, and a cache that mends itself.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use tidegate_determinism::image::{Config, Image, ImageError, Root};

use super::made::{Made, Stored, dir, file, gzip, made, plain, stored, symlink, tar, zstd};
use super::root;

const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nnode:x:1000:1001::/home/node:/bin/sh\n";

fn config(config: Value) -> Result<Config, String> {
    let scratch = tempfile::tempdir().unwrap();
    let layers = [plain(&[file("etc/passwd", PASSWD), file("etc/group", "tty:x:5:\n")])];
    let layout = Made { config, ..made(&layers) }.layout(&scratch.path().join("layout"));
    root(layout.to_str().unwrap(), &scratch.path().join("cache"))
        .map(|root| root.config)
        .map_err(|error| error.to_string())
}

#[test]
fn what_is_run_is_the_entrypoint_and_then_the_command() {
    let argv = |value: Value| config(value).unwrap().argv;
    assert_eq!(argv(json!({"Entrypoint": ["node"], "Cmd": ["a.mjs", "b c"]})), ["node", "a.mjs", "b c"]);
    assert_eq!(argv(json!({"Entrypoint": null, "Cmd": ["sh"]})), ["sh"]);
    assert_eq!(argv(json!({"Entrypoint": ["x"]})), ["x"]);
    assert!(argv(json!({})).is_empty());
    assert!(argv(Value::Null).is_empty());
}

#[test]
fn it_is_run_as_the_image_says_and_otherwise_as_in_a_container() {
    let found =
        config(json!({"User": "node:tty", "WorkingDir": "/app", "Env": ["A=b=c", "EMPTY=", "HOME=/x"]}));
    let found = found.unwrap();
    assert_eq!((found.uid, found.gid, found.workdir.as_str()), (1000, 5, "/app"));
    let env: Vec<(&str, &str)> =
        found.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(env[..3], [("A", "b=c"), ("EMPTY", ""), ("HOME", "/x")]);
    assert_eq!(env[3].0, "PATH");
    let plain = config(json!({"User": "1000"})).unwrap();
    assert_eq!((plain.uid, plain.gid, plain.workdir.as_str()), (1000, 1001, "/"));
    assert_eq!(plain.env["HOME"], "/home/node");
    assert!(config(json!({"User": "nobody"})).unwrap_err().contains("the image runs as \"nobody\""));
}

#[test]
fn a_user_database_is_read_below_the_root_and_nowhere_else() {
    let scratch = tempfile::tempdir().unwrap();
    // The link leads to a file of this machine, if it is taken from here.
    let layers = [plain(&[dir("etc"), symlink("etc/passwd", "/proc/self/root/etc/passwd")])];
    let image = Made { config: json!({"User": "daemon"}), ..made(&layers) };
    let layout = image.layout(&scratch.path().join("layout"));
    let error = root(layout.to_str().unwrap(), &scratch.path().join("cache")).unwrap_err();
    assert!(error.to_string().contains("the image runs as \"daemon\""), "{error}");
}

fn unpacked(layers: &[Stored]) -> (tempfile::TempDir, Root) {
    let scratch = tempfile::tempdir().unwrap();
    let layout = made(layers).layout(&scratch.path().join("layout"));
    let root = root(layout.to_str().unwrap(), &scratch.path().join("cache")).unwrap();
    (scratch, root)
}

#[test]
fn the_same_files_are_the_same_file_system_however_they_are_stored() {
    let entries = [dir("d"), file("d/a", "1"), file("b", "2"), symlink("l", "d/a")];
    let archive = tar(&entries);
    let (_one, one) = unpacked(&[plain(&entries)]);
    let (_two, two) = unpacked(&[stored("+zstd", zstd(&archive), archive.clone())]);
    let (_three, three) =
        unpacked(&[plain(&entries[..2]), stored("+gzip", gzip(&tar(&entries[2..])), tar(&entries[2..]))]);
    assert_eq!(one.digest, two.digest);
    assert_eq!(one.digest, three.digest);
    let (_four, four) =
        unpacked(&[plain(&[dir("d"), file("d/a", "1"), file("b", "3"), symlink("l", "d/a")])]);
    assert_ne!(one.digest, four.digest);
    assert_eq!(std::fs::metadata(&one.erofs).unwrap().len() % (2 << 20), 0);
    assert_eq!(one.digest, super::made::sha256(&std::fs::read(&one.erofs).unwrap()));
}

#[test]
fn a_directory_is_taken_as_it_is() {
    let scratch = tempfile::tempdir().unwrap();
    let (directory, cache) = (scratch.path().join("d"), scratch.path().join("cache"));
    let of = |path: &Path, cache: &Path| Root::of_directory(path, cache, &mut |_| ());
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("a"), "1").unwrap();
    let first = of(&directory, &cache).unwrap();
    assert_eq!((&first.directory, first.config.argv.len()), (&directory.canonicalize().unwrap(), 0));
    assert_eq!(of(&directory, &cache).unwrap().digest, first.digest);
    std::fs::write(directory.join("a"), "2").unwrap();
    assert_ne!(of(&directory, &cache).unwrap().digest, first.digest);

    let says = |path: &Path, cache: &Path, expected: &str| {
        let error = of(path, cache).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    };
    says(&scratch.path().join("none"), &cache, "there is no such directory");
    says(&directory.join("a"), &cache, "it is no directory");
    says(Path::new("/"), &cache, "the file system would be written into it");
    says(&directory, &directory.join("cache"), "the file system would be written into it");
    says(&directory, Path::new("/dev/null/cache"), "failed to write /dev/null/cache");
}

#[test]
fn what_is_in_the_cache_is_used_while_it_is_what_it_was() {
    let (scratch, first) = unpacked(&[plain(&[file("a", "1")])]);
    let cache = scratch.path().join("cache");
    let again = |expected_steps: usize| {
        let mut steps = 0;
        let image = Image::open(scratch.path().join("layout").to_str().unwrap()).unwrap();
        let root = Root::of_image(&image, &cache, &mut |_| steps += 1).unwrap();
        assert_eq!((root.digest.as_str(), steps), (first.digest.as_str(), expected_steps));
        assert_eq!(std::fs::read_to_string(root.directory.join("a")).unwrap(), "1");
    };
    again(0);
    std::fs::write(&first.erofs, "spoilt").unwrap();
    again(2);
    again(0);
    std::fs::remove_dir_all(&first.directory).unwrap();
    again(2);
    again(0);
}

#[test]
fn what_a_run_that_was_killed_left_is_removed_and_what_another_one_uses_is_not() {
    let scratch = tempfile::tempdir().unwrap();
    let mut child = std::process::Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    let left = scratch.path().join(format!(".unfinished-{}-x", child.id()));
    let used = scratch.path().join(format!(".unfinished-{}-x", std::process::id()));
    for path in [&left, &used] {
        std::fs::create_dir(path).unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    Root::of_directory(directory.path(), scratch.path(), &mut |_| ()).unwrap();
    assert_eq!((left.exists(), used.exists()), (false, true));
}

#[test]
fn an_error_that_stands_in_every_way_has_a_code() {
    let code = |error: ImageError| serde_json::to_value(error.code()).unwrap();
    let scratch = tempfile::tempdir().unwrap();
    let image = Made { platform: ("linux", "s390x"), ..made(&[]) };
    let layout = image.layout(scratch.path());
    let path = layout.to_str().unwrap();
    let other = format!("sha256:{}", "00".repeat(32));
    let found: BTreeMap<&str, Value> = [
        ("none", format!("{path}/none")),
        ("tag", "alpine:3".to_owned()),
        ("no digest", format!("{path}@latest")),
        ("platform", path.to_owned()),
        ("stale", format!("{path}@{other}")),
        ("no image", format!("{path}/blobs")),
    ]
    .map(|(what, reference)| (what, code(Image::open(&reference).unwrap_err())))
    .into();
    assert_eq!(
        json!(found),
        json!({"none": "IMAGE_UNAVAILABLE", "tag": "TAG_NOT_DIGEST", "no digest": "TAG_NOT_DIGEST",
            "platform": "PLATFORM_UNSUPPORTED", "stale": "DIGEST_STALE", "no image": null})
    );
}
