//! Every kind of image and of entry that honest tools make.

use serde_json::json;
use std::os::unix::fs::MetadataExt as _;

use super::made::{
    self, Entry, INDEX, Made, Stored, archive, blob, device, dir, file, gzip, hardlink, index, long, made,
    of_type, pax, plain, sha256, stored, symlink, tar, zstd,
};
use super::{listed, root, tree};

#[track_caller]
fn check(layers: &[&[Entry]], expected: &str) {
    let layers: Vec<Stored> = layers.iter().map(|entries| plain(entries)).collect();
    assert_eq!(tree(&layers).as_deref(), Ok(expected));
}

#[test]
fn files_directories_and_links_are_what_the_layer_says() {
    check(&[&[]], "");
    check(&[&[dir("a"), file("a/b", "text").mode(0o4755)]], "a/\na/b 4755 \"text\"\n");
    check(&[&[file("a/b/c", "")]], "a/\na/b/\na/b/c 644 \"\"\n");
    check(&[&[dir("./"), dir("./a/"), file("./a/b", "x")]], "a/\na/b 644 \"x\"\n");
    check(&[&[file("a", "x"), hardlink("b", "a"), hardlink("a", "a")]], "a 644 \"x\"\nb 644 \"x\"\n");
    check(&[&[file("a", "x"), hardlink("b", "./a")]], "a 644 \"x\"\nb 644 \"x\"\n");
    check(&[&[symlink("a", "/etc/x"), hardlink("b", "a")]], "a -> /etc/x\nb -> /etc/x\n");
    check(&[&[file("a", "one"), file("a", "two")]], "a 644 \"two\"\n");
    check(&[&[of_type("pipe", b'6')]], "pipe other 644\n");
    check(&[&[of_type("old/", b'\0')]], "old/\n");
    check(&[&[symlink("dangling", "nothing")]], "dangling -> nothing\n");
}

#[test]
fn long_names_are_taken_from_both_kinds_of_headers() {
    let name = format!("{}/{}", "d".repeat(200), "f".repeat(200));
    let expected = format!("{}/\n{name} 644 \"x\"\n", "d".repeat(200));
    check(&[&[long(b'L', &name), file("cut", "x")]], &expected);
    check(&[&[pax(&[("path", &name)]), file("cut", "x")]], &expected);
    let target = format!("/{}", "t/".repeat(100));
    check(&[&[long(b'K', &target), symlink("l", "cut")]], &format!("l -> {target}\n"));
    check(&[&[pax(&[("linkpath", &target)]), symlink("l", "cut")]], &format!("l -> {target}\n"));
    check(
        &[&[long(b'L', &name), long(b'K', "x"), symlink("cut", "cut")]],
        &format!("{}/\n{name} -> x\n", "d".repeat(200)),
    );
    // A header belongs to the next entry and to no other; a global one to none.
    check(&[&[pax(&[("path", "a")]), file("x", ""), file("b", "")]], "a 644 \"\"\nb 644 \"\"\n");
    check(&[&[of_type("g", b'g'), file("b", "")]], "b 644 \"\"\n");
}

#[test]
fn a_later_layer_takes_away_and_replaces() {
    let below: &[Entry] = &[dir("d"), file("d/a", "1"), file("d/b", "1"), file("f", "1"), symlink("l", "d")];
    check(&[below, &[file(".wh.d", "")]], "f 644 \"1\"\nl -> d\n");
    check(&[below, &[file("d/.wh.a", ""), file(".wh.f", "")]], "d/\nd/b 644 \"1\"\nl -> d\n");
    check(
        &[below, &[file(".wh.none", ""), file("none/.wh.x", ""), file(".wh.d", ""), file(".wh.l", "")]],
        "f 644 \"1\"\n",
    );
    check(
        &[below, &[file("d/.wh..wh..opq", ""), file("d/c", "2")]],
        "d/\nd/c 644 \"2\"\nf 644 \"1\"\nl -> d\n",
    );
    check(&[below, &[file(".wh..wh..opq", ""), file("n", "2")]], "n 644 \"2\"\n");
    // A mark is about the layers below, wherever in its own layer it is written.
    check(
        &[below, &[dir("d"), file("d/a", "2"), file(".wh.d", "")]],
        "d/\nd/a 644 \"2\"\nf 644 \"1\"\nl -> d\n",
    );
    check(
        &[below, &[file("d/a", "2"), file("d/.wh..wh..opq", "")]],
        "d/\nd/a 644 \"2\"\nf 644 \"1\"\nl -> d\n",
    );
    check(
        &[below, &[file("d/.wh..wh.plnk", "notes")]],
        "d/\nd/a 644 \"1\"\nd/b 644 \"1\"\nf 644 \"1\"\nl -> d\n",
    );
    // A file for a directory, a directory for a file, and a directory for a link to one.
    check(&[below, &[file("d", "2")]], "d 644 \"2\"\nf 644 \"1\"\nl -> d\n");
    check(
        &[below, &[dir("f"), file("f/x", "2"), file(".wh.d", ""), file(".wh.l", "")]],
        "f/\nf/x 644 \"2\"\n",
    );
    check(
        &[&[dir("d"), file("d/a", "1"), symlink("l", "d")], &[dir("l"), file("l/x", "2")]],
        "d/\nd/a 644 \"1\"\nl/\nl/x 644 \"2\"\n",
    );
    // What lies behind a link is found through it, relative or absolute.
    check(
        &[&[dir("usr/bin"), symlink("bin", "usr/bin")], &[file("bin/x", "2")]],
        "bin -> usr/bin\nusr/\nusr/bin/\nusr/bin/x 644 \"2\"\n",
    );
    check(
        &[&[dir("run"), dir("var"), symlink("var/run", "/run")], &[file("var/run/x", "2")]],
        "run/\nrun/x 644 \"2\"\nvar/\nvar/run -> /run\n",
    );
    check(&[&[dir("d"), file("d/a", "1"), symlink("l", "d")], &[file("l/.wh.a", "")]], "d/\nl -> d\n");
}

#[test]
fn a_layer_is_read_however_it_is_stored() {
    let archive = tar(&[file("a", "x")]);
    let (first, second) = archive.split_at(300);
    let members = [gzip(first), gzip(second)].concat();
    for (suffix, bytes) in
        [("", archive.clone()), ("+gzip", gzip(&archive)), ("+gzip", members), ("+zstd", zstd(&archive))]
    {
        assert_eq!(
            tree(&[stored(suffix, bytes, archive.clone())]).as_deref(),
            Ok("a 644 \"x\"\n"),
            "{suffix}"
        );
    }
    let docker = Stored {
        media_type: "application/vnd.docker.image.rootfs.diff.tar.gzip".to_owned(),
        stored: gzip(&archive),
        plain: archive,
    };
    assert_eq!(tree(&[docker]).as_deref(), Ok("a 644 \"x\"\n"));
}

#[test]
fn owners_times_and_devices_are_kept_where_that_is_allowed() {
    let scratch = tempfile::tempdir().unwrap();
    let layers = [plain(&[
        dir("d").mode(0o1777),
        file("d/f", "x").owner(1000),
        device("null", 1, 3).mode(0o666),
        pax(&[
            ("mtime", "1234567890.5"),
            ("SCHILY.xattr.security.capability", "x"),
            ("SCHILY.xattr.user.a", "y"),
        ]),
        file("g", ""),
        file("home/node/.ssh/id_rsa", "not one"),
    ])];
    let layout = made(&layers).layout(&scratch.path().join("layout"));
    let root = root(layout.to_str().unwrap(), &scratch.path().join("cache")).unwrap();
    let stat = |name: &str| std::fs::symlink_metadata(root.directory.join(name)).unwrap();
    assert_eq!((stat("d").mode() & 0o7777, stat("d").mtime()), (0o1777, 1_000_000_000));
    assert_eq!((stat("d/f").mtime(), stat("g").mtime()), (1_000_000_000, 1_234_567_890));
    assert_eq!(root.secrets, ["/home/node/.ssh/id_rsa"]);
    if rustix::process::geteuid().is_root() {
        assert_eq!((stat("d/f").uid(), stat("d/f").gid()), (1000, 1000));
        assert_eq!((stat("null").mode() & 0o777, stat("null").rdev()), (0o666, rustix::fs::makedev(1, 3)));
        assert_eq!(root.notes, ["2 extended attributes were left out"]);
    } else {
        assert_eq!(root.notes.len(), 3, "{:?}", root.notes);
    }
}

fn small() -> Made {
    made(&[plain(&[file("a", "x")])])
}

/// An image at a path is unpacked, or refused with these words.
#[track_caller]
fn opens(reference: &str, expected: Result<&str, &str>) {
    let cache = tempfile::tempdir().unwrap();
    match (root(reference, cache.path()), expected) {
        (Ok(root), Ok(expected)) => assert_eq!(listed(&root.directory), expected),
        (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{error}"),
        (found, _) => panic!("{found:?}"),
    }
}

#[test]
fn an_image_is_a_layout_or_an_archive_of_either_kind() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let text = |name: &str| at(name).to_str().unwrap().to_owned();
    let image = small();
    image.layout(&at("layout"));
    std::fs::write(at("oci.tar"), archive(&at("layout"))).unwrap();
    std::fs::write(at("docker.tar"), image.saved()).unwrap();
    for name in ["layout", "oci.tar", "docker.tar"] {
        opens(&text(name), Ok("a 644 \"x\"\n"));
    }
    for name in ["layout", "oci.tar"] {
        opens(&format!("{}@{}", text(name), image.digest()), Ok("a 644 \"x\"\n"));
    }
    // Docker's archives have no manifest: what names them is the configuration, docker's image id.
    let id = sha256(&image.configuration());
    opens(&format!("{}@{id}", text("docker.tar")), Ok("a 644 \"x\"\n"));
    opens(&format!("{}@{}", text("docker.tar"), image.digest()), Err("doesn't hold sha256:"));
    // Two layers that are the same: older dockers write the second one as a link to the first.
    let twice = made(&[plain(&[file("a", "x")]), plain(&[file("a", "x")])]);
    let mut entries = vec![file("c.json", &String::from_utf8(twice.configuration()).unwrap())];
    entries.push(made::file("1/layer.tar", &String::from_utf8(twice.layers[0].stored.clone()).unwrap()));
    entries.push(symlink("2/layer.tar", "../1/layer.tar"));
    let list = json!([{"Config": "c.json", "RepoTags": null, "Layers": ["1/layer.tar", "2/layer.tar"]}]);
    entries.push(file("manifest.json", &list.to_string()));
    std::fs::write(at("linked.tar"), tar(&entries)).unwrap();
    opens(&text("linked.tar"), Ok("a 644 \"x\"\n"));
}

#[test]
fn what_is_no_image_is_refused_by_what_is_wrong_with_it() {
    let scratch = tempfile::tempdir().unwrap();
    let at = |name: &str| scratch.path().join(name);
    let text = |name: &str| at(name).to_str().unwrap().to_owned();
    let write = |name: &str, bytes: &[u8]| std::fs::write(at(name), bytes).unwrap();
    opens(&text("none"), Err("there is no image at"));
    opens("alpine:3.22", Err("a name with a tag"));
    opens(&text("x@latest"), Err("is no digest"));
    std::fs::create_dir(at("empty")).unwrap();
    opens(&text("empty"), Err("neither an index.json nor a manifest.json"));
    write("text", b"no archive at all");
    opens(&text("text"), Err("is cut short or can't be read"));
    write("zero", b"");
    opens(&text("zero"), Err("no tar archive, or an empty one"));
    write("whole.tgz", &gzip(&small().saved()));
    opens(&text("whole.tgz"), Err("unpack it with `gunzip`"));
    opens("/dev/null", Err("neither a directory nor a file"));
    let saved = small().saved();
    write("cut.tar", &saved[..saved.len() - 2_000]);
    opens(&text("cut.tar"), Err("can't be read"));
    write("list.tar", &tar(&[file("manifest.json", "[]")]));
    opens(&text("list.tar"), Err("it lists no image"));
    write("twice.tar", &tar(&[file("manifest.json", "[]"), file("./manifest.json", "[]")]));
    opens(&text("twice.tar"), Err("it is there twice"));
    write("up.tar", &tar(&[file("../manifest.json", "[]")]));
    opens(&text("up.tar"), Err("its name leads upwards"));
    write("out.tar", &tar(&[symlink("manifest.json", "/etc/passwd")]));
    opens(&text("out.tar"), Err("it links out of the archive"));
    write("loop.tar", &tar(&[symlink("manifest.json", "b"), symlink("b", "manifest.json")]));
    opens(&text("loop.tar"), Err("neither an index.json nor a manifest.json"));
    let missing = json!([{"Config": "c.json", "Layers": ["../../etc/passwd"]}]).to_string();
    write("missing.tar", &tar(&[file("manifest.json", &missing)]));
    opens(&text("missing.tar"), Err("it has no c.json"));
    let other = format!("{}.json", "0a".repeat(32));
    let renamed = json!([{"Config": other, "Layers": []}]).to_string();
    write("renamed.tar", &tar(&[file(&other, "{}"), file("manifest.json", &renamed)]));
    opens(&text("renamed.tar"), Err("is damaged: it should be sha256:0a0a"));
}

#[test]
fn every_blob_is_held_against_its_digest_and_its_size() {
    let image = small();
    for bytes in [image.manifest(), image.configuration(), image.layers[0].stored.clone()] {
        let scratch = tempfile::tempdir().unwrap();
        let layout = image.layout(scratch.path());
        let path = layout.join("blobs/sha256").join(&sha256(&bytes)[7..]);
        let mut spoilt = bytes.clone();
        *spoilt.last_mut().unwrap() ^= 1;
        std::fs::write(&path, &spoilt).unwrap();
        opens(layout.to_str().unwrap(), Err("is damaged: it should be sha256:"));
        std::fs::write(&path, &bytes[1..]).unwrap();
        opens(layout.to_str().unwrap(), Err(&format!("is damaged: it should be {} bytes", bytes.len())));
        std::fs::remove_file(&path).unwrap();
        opens(layout.to_str().unwrap(), Err("it has no blobs/sha256/"));
        std::fs::write(&path, &bytes).unwrap();
        opens(layout.to_str().unwrap(), Ok("a 644 \"x\"\n"));
    }
}

#[test]
fn one_image_is_chosen_by_digest_and_platform_and_none_is_guessed() {
    let scratch = tempfile::tempdir().unwrap();
    let layout = scratch.path();
    let path = layout.to_str().unwrap();
    let ours = small();
    let arm = Made { platform: ("linux", "arm64"), ..small() };
    let another = made(&[plain(&[file("b", "y")])]);
    for image in [&ours, &arm, &another] {
        image.blobs(layout);
    }

    index(layout, &[]);
    opens(path, Err("it lists no image"));
    index(layout, &[arm.listed()]);
    opens(path, Err("the image is for linux/arm64, and what runs it is linux/amd64"));
    index(layout, &[arm.listed(), ours.listed()]);
    opens(path, Ok("a 644 \"x\"\n"));
    opens(&format!("{path}@{}", arm.digest()), Err("the image is for linux/arm64"));
    index(layout, &[ours.listed(), ours.listed()]);
    opens(path, Ok("a 644 \"x\"\n"));
    index(layout, &[ours.listed(), another.listed()]);
    opens(path, Err("holds 2 images; name one: sha256:"));
    opens(&format!("{path}@{}", another.digest()), Ok("b 644 \"y\"\n"));
    opens(&format!("{path}@{}", arm.digest()), Err("doesn't hold sha256:"));

    // The platforms of one tag, and beside them what a builder says about how it built them.
    let attested = json!({"mediaType": made::MANIFEST, "digest": sha256(b"x"), "size": 1,
        "platform": {"os": "unknown", "architecture": "unknown"}});
    let inner = json!({"manifests": [arm.listed(), ours.listed(), attested]}).to_string();
    blob(layout, inner.as_bytes());
    let tag = json!({"mediaType": INDEX, "digest": sha256(inner.as_bytes()), "size": inner.len()});
    index(layout, &[tag]);
    opens(path, Ok("a 644 \"x\"\n"));
    opens(&format!("{path}@{}", sha256(inner.as_bytes())), Ok("a 644 \"x\"\n"));
    opens(&format!("{path}@{}", ours.digest()), Ok("a 644 \"x\"\n"));

    // A manifest without a platform is what its configuration says.
    let mut unnamed = arm.listed();
    unnamed.as_object_mut().unwrap().remove("platform");
    index(layout, &[unnamed]);
    opens(path, Err("the image is for linux/arm64"));
}

#[test]
fn documents_have_bounds_and_agree_with_one_another() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().to_str().unwrap();
    index(scratch.path(), &[]);
    std::fs::write(scratch.path().join("index.json"), "{").unwrap();
    opens(path, Err("index.json is cut short or can't be read"));
    std::fs::write(scratch.path().join("index.json"), " ".repeat(5 << 20)).unwrap();
    opens(path, Err("index.json in bytes is beyond the bound of 4194304"));
    index(scratch.path(), &[json!({"digest": "sha256:../../../etc/passwd", "size": 1})]);
    opens(path, Err("is no digest"));
    // A configuration that knows of more layers than the manifest.
    let image = small();
    let mut manifest: serde_json::Value = serde_json::from_slice(&image.manifest()).unwrap();
    manifest["layers"] = json!([]);
    let manifest = manifest.to_string();
    image.blobs(scratch.path());
    blob(scratch.path(), manifest.as_bytes());
    index(scratch.path(), &[json!({"digest": sha256(manifest.as_bytes()), "size": manifest.len()})]);
    opens(path, Err("the list of layers is damaged: it should be 1 layers and is 0 layers"));
}
