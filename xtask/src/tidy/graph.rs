//! Rules on the crates and what they depend on, from `cargo metadata` and the manifests. The direction of the
//! dependencies is the architecture: what stands lower knows nothing of what stands above it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Context as _;
use serde::Deserialize;

use super::Finding;

/// Crates that a library user gets none of: an async runtime, an HTTP server, an argument parser.
const HEAVY: [&str; 3] = ["tokio", "axum", "clap"];

/// Each crate's height. A crate depends only on lower ones; the four at height 2 never see each other.
const HEIGHTS: [(&str, u8); 18] = [
    ("tidegate-core", 0),
    ("tidegate-store", 1),
    ("tidegate-host", 1),
    ("tidegate-scenario", 1),
    ("tidegate-leases", THE_FOUR),
    ("tidegate-drain", THE_FOUR),
    ("tidegate-checkpoints", THE_FOUR),
    ("tidegate-incidents", THE_FOUR),
    ("tidegate-governor", 3),
    ("tidegate-relay", 3),
    ("tidegate-simulator", 4),
    ("tidegate", 4),
    ("tidegate-suite", 5),
    ("tidegate-bench", 5),
    ("tidegate-models", 5),
    ("tidegate-guest", 4),
    ("tidegate-determinism", 5),
    ("xtask", 6),
];
const THE_FOUR: u8 = 2;
/// Everything below this height stays free of `HEAVY`, and so does the simulator, which polls on its own executor.
const LIGHT_BELOW: u8 = 4;
const ALSO_LIGHT: &str = "tidegate-simulator";
/// The program that people run.
const GATEWAY: &str = "tidegate";
/// The crate that has the feature of wrong decisions, and the feature.
const PLANTED_IN: &str = "tidegate-core";
const PLANTED: &str = "planted";

/// The part of `cargo metadata` that the rules read.
#[derive(Clone, Debug)]
pub(super) struct Metadata {
    /// The workspace's own crates.
    pub(super) packages: Vec<Package>,
    /// What each package of the whole graph is built with (development dependencies left out), by package id.
    built_with: BTreeMap<String, BTreeSet<String>>,
    names: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Package {
    id: String,
    name: String,
    #[serde(rename = "manifest_path")]
    pub(super) manifest: PathBuf,
    dependencies: Vec<Dependency>,
    /// What each feature turns on.
    #[serde(default)]
    features: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Dependency {
    name: String,
    kind: Option<String>,
    #[serde(default)]
    features: Vec<String>,
}

impl Metadata {
    pub(super) fn parse(json: &str) -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        struct Raw {
            packages: Vec<Package>,
            workspace_members: BTreeSet<String>,
            resolve: Resolve,
        }
        #[derive(Deserialize)]
        struct Resolve {
            nodes: Vec<Node>,
        }
        #[derive(Deserialize)]
        struct Node {
            id: String,
            deps: Vec<Edge>,
        }
        #[derive(Deserialize)]
        struct Edge {
            pkg: String,
            dep_kinds: Vec<Kind>,
        }
        #[derive(Deserialize)]
        struct Kind {
            kind: Option<String>,
        }

        let raw: Raw = serde_json::from_str(json).context("read what cargo metadata printed")?;
        let built = |edge: &Edge| edge.dep_kinds.iter().any(|kind| kind.kind.as_deref() != Some("dev"));
        let built_with = raw
            .resolve
            .nodes
            .into_iter()
            .map(|node| (node.id, node.deps.into_iter().filter(built).map(|edge| edge.pkg).collect()))
            .collect();
        let names = raw.packages.iter().map(|package| (package.id.clone(), package.name.clone())).collect();
        let mut packages = raw.packages;
        packages.retain(|package| raw.workspace_members.contains(&package.id));
        packages.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { packages, built_with, names })
    }

    /// The names of everything that `package` is built with, however far down.
    fn tree(&self, package: &Package) -> BTreeSet<&str> {
        let mut seen = BTreeSet::new();
        let mut left = vec![package.id.as_str()];
        while let Some(id) = left.pop() {
            for next in self.built_with.get(id).into_iter().flatten() {
                if seen.insert(next.as_str()) {
                    left.push(next);
                }
            }
        }
        seen.into_iter().filter_map(|id| self.names.get(id)).map(String::as_str).collect()
    }
}

fn height(name: &str) -> Option<u8> {
    HEIGHTS.iter().find(|(known, _)| *known == name).map(|(_, height)| *height)
}

pub(super) fn inherits_lints(package: &Package, manifest: &str) -> Option<Finding> {
    #[derive(Deserialize)]
    struct Manifest {
        lints: Option<Lints>,
    }
    #[derive(Deserialize)]
    struct Lints {
        #[serde(default)]
        workspace: bool,
    }
    let inherits = toml::from_str::<Manifest>(manifest)
        .is_ok_and(|manifest| manifest.lints.is_some_and(|lints| lints.workspace));
    (!inherits).then(|| format!("{}: add `[lints] workspace = true` to its Cargo.toml", package.name))
}

/// Every dependency that a crate of ours names has a row in `docs/dependencies.md`, and every row a dependency.
pub(super) fn dependencies_are_listed(metadata: &Metadata, document: &str) -> Vec<Finding> {
    let ours: BTreeSet<&str> = metadata.packages.iter().map(|package| package.name.as_str()).collect();
    let used: BTreeSet<&str> = metadata
        .packages
        .iter()
        .flat_map(|package| &package.dependencies)
        .map(|dependency| dependency.name.as_str())
        .filter(|name| !ours.contains(name))
        .collect();
    let listed: BTreeSet<&str> = document
        .lines()
        .filter_map(|line| line.strip_prefix('|')?.split('|').next())
        .map(|cell| cell.trim().trim_matches('`'))
        .filter(|cell| *cell != "crate" && !cell.starts_with("---"))
        .collect();
    let unlisted =
        used.difference(&listed).map(|name| format!("docs/dependencies.md: say who uses {name}, and why"));
    let unused =
        listed.difference(&used).map(|name| format!("docs/dependencies.md: nothing uses {name} any more"));
    unlisted.chain(unused).collect()
}

/// Dependencies point down only. Tests may look sideways, but the four never see each other, tests included.
pub(super) fn point_down(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let name = &package.name;
        let Some(from) = height(name) else {
            findings.push(format!("{name}: give the new crate a height in xtask/src/tidy/graph.rs"));
            continue;
        };
        for dependency in &package.dependencies {
            let Some(to) = height(&dependency.name) else { continue };
            let for_tests = dependency.kind.as_deref() == Some("dev");
            let both_of_the_four = from == THE_FOUR && to == THE_FOUR && *name != dependency.name;
            if both_of_the_four || (!for_tests && to >= from) {
                findings
                    .push(format!("{name}: must not depend on {}: dependencies point down", dependency.name));
            }
        }
    }
    findings
}

/// Whoever depends on one of the lower crates alone gets no runtime, no HTTP and no argument parser with it.
pub(super) fn stay_light(metadata: &Metadata) -> Vec<Finding> {
    let is_light = |name: &str| name == ALSO_LIGHT || height(name).is_some_and(|height| height < LIGHT_BELOW);
    metadata
        .packages
        .iter()
        .filter(|package| is_light(&package.name))
        .flat_map(|package| {
            let tree = metadata.tree(package);
            HEAVY.iter().filter(move |heavy| tree.contains(*heavy)).map(|heavy| {
                format!(
                    "{}: its users would get {heavy} with it: find out with cargo tree -i {heavy}",
                    package.name
                )
            })
        })
        .collect()
}

/// Nothing that the gateway is built with can turn wrong decisions on: the feature for them is defined in one crate, and no
/// other feature, and no dependency, names it on the way there.
pub(super) fn nothing_is_planted(metadata: &Metadata) -> Vec<Finding> {
    let Some(gateway) = metadata.packages.iter().find(|package| package.name == GATEWAY) else {
        return vec![format!("there is no crate {GATEWAY}: say in xtask/src/tidy/graph.rs what people run")];
    };
    let tree = metadata.tree(gateway);
    let mut findings = Vec::new();
    for package in metadata.packages.iter().filter(|p| p.name == GATEWAY || tree.contains(p.name.as_str())) {
        let name = &package.name;
        let names_it = |feature: &String| feature.rsplit('/').next() == Some(PLANTED);
        for (feature, turns_on) in &package.features {
            let defined = name == PLANTED_IN && feature == PLANTED;
            if !defined && (feature == PLANTED || turns_on.iter().any(names_it)) {
                findings.push(format!("{name}: the feature {feature} would plant bugs in what people run"));
            }
        }
        for dependency in package.dependencies.iter().filter(|it| it.kind.as_deref() != Some("dev")) {
            if dependency.features.iter().any(names_it) {
                findings.push(format!(
                    "{name}: depends on {} with the feature {PLANTED}, which would plant bugs in what people run",
                    dependency.name
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A crate, and what it depends on with which kind.
    type Row<'a> = (&'a str, &'a [(&'a str, Option<&'a str>)]);

    /// Builds metadata from rows `(crate, [(dependency, kind)])`; crates not in the first column are foreign.
    fn metadata(rows: &[Row<'_>]) -> Metadata {
        let mut packages = Vec::new();
        let mut nodes = Vec::new();
        let mut names = BTreeSet::new();
        for (name, dependencies) in rows {
            names.insert(*name);
            let listed: Vec<_> = dependencies
                .iter()
                .map(|(name, kind)| serde_json::json!({"name": name, "kind": kind}))
                .collect();
            let edges: Vec<_> = dependencies
                .iter()
                .map(|(name, kind)| serde_json::json!({"pkg": name, "dep_kinds": [{"kind": kind}]}))
                .collect();
            packages.push(serde_json::json!({"id": name, "name": name, "manifest_path": "Cargo.toml", "dependencies": listed}));
            nodes.push(serde_json::json!({"id": name, "deps": edges}));
        }
        let foreign: BTreeSet<&str> = rows
            .iter()
            .flat_map(|row| row.1)
            .map(|(name, _)| *name)
            .filter(|name| !names.contains(name))
            .collect();
        for name in foreign {
            packages.push(serde_json::json!({"id": name, "name": name, "manifest_path": "Cargo.toml", "dependencies": []}));
        }
        let members: Vec<&&str> =
            names.iter().filter(|name| height(name).is_some() || name.starts_with("new")).collect();
        let json = serde_json::json!({"packages": packages, "workspace_members": members, "resolve": {"nodes": nodes}});
        Metadata::parse(&json.to_string()).unwrap()
    }

    const BUILD: Option<&str> = None;
    const TEST: Option<&str> = Some("dev");

    #[test]
    fn dependencies_point_down_only() {
        let check = |from: &str, to: &str, kind, allowed: bool| {
            let found = point_down(&metadata(&[(from, &[(to, kind)])]));
            assert_eq!(found.is_empty(), allowed, "{from} → {to}: {found:?}");
        };
        check("tidegate-store", "tidegate-core", BUILD, true);
        check("tidegate-leases", "tidegate-store", BUILD, true);
        check("tidegate-governor", "tidegate-incidents", BUILD, true);
        check("tidegate", "tidegate-relay", BUILD, true);
        check("tidegate-core", "tidegate-store", BUILD, false);
        check("tidegate-store", "tidegate-host", BUILD, false);
        check("tidegate-store", "tidegate-host", TEST, true);
        check("tidegate-relay", "tidegate-governor", BUILD, false);
        check("tidegate-governor", "tidegate-simulator", BUILD, false);
        check("tidegate-simulator", "tidegate", BUILD, false);
        check("tidegate-leases", "tidegate-drain", BUILD, false);
        check("tidegate-leases", "tidegate-drain", TEST, false);
        check("tidegate-leases", "serde", BUILD, true);
        check("new-crate", "serde", BUILD, false);
    }

    #[test]
    fn a_library_user_gets_no_runtime_and_no_argument_parser() {
        let check = |rows: &[Row<'_>], heavy: bool| {
            assert_eq!(!stay_light(&metadata(rows)).is_empty(), heavy, "{rows:?}");
        };
        check(&[("tidegate-leases", &[("serde", BUILD)])], false);
        check(&[("tidegate-leases", &[("tokio", BUILD)])], true);
        check(&[("tidegate-leases", &[("tokio", TEST)])], false);
        check(&[("tidegate-leases", &[("middle", BUILD)]), ("middle", &[("clap", BUILD)])], true);
        check(&[("tidegate-simulator", &[("tokio", BUILD)])], true);
        check(&[("tidegate", &[("tokio", BUILD)])], false);
    }

    #[test]
    fn no_feature_and_no_dependency_plants_a_bug_in_the_gateway() {
        let workspace = || {
            metadata(&[
                ("tidegate", &[("tidegate-leases", BUILD)]),
                ("tidegate-leases", &[("tidegate-core", BUILD)]),
                ("tidegate-core", &[]),
                ("tidegate-simulator", &[("tidegate-core", BUILD)]),
            ])
        };
        let feature = |of: &str, feature: &str, turns_on: &str, planted: bool| {
            let mut metadata = workspace();
            let package = metadata.packages.iter_mut().find(|package| package.name == of).unwrap();
            package.features.insert(feature.to_owned(), vec![turns_on.to_owned()]);
            assert_eq!(!nothing_is_planted(&metadata).is_empty(), planted, "{of}: {feature} = {turns_on}");
        };
        feature("tidegate-core", "planted", "serde", false);
        feature("tidegate-simulator", "planted", "tidegate-core/planted", false);
        feature("tidegate-core", "default", "planted", true);
        feature("tidegate-leases", "tests", "tidegate-core/planted", true);
        feature("tidegate-leases", "tests", "tidegate-core?/planted", true);
        feature("tidegate", "planted", "serde", true);

        let dependency = |of: &str, kind: Option<&str>, planted: bool| {
            let mut metadata = workspace();
            let package = metadata.packages.iter_mut().find(|package| package.name == of).unwrap();
            package.dependencies[0].kind = kind.map(str::to_owned);
            package.dependencies[0].features.push(PLANTED.to_owned());
            assert_eq!(!nothing_is_planted(&metadata).is_empty(), planted, "{of} with {kind:?}");
        };
        dependency("tidegate-leases", BUILD, true);
        dependency("tidegate-leases", Some("build"), true);
        dependency("tidegate-leases", TEST, false);
        dependency("tidegate-simulator", BUILD, false);
    }

    #[test]
    fn every_dependency_has_a_row_and_every_row_a_dependency() {
        let uses = metadata(&[
            ("tidegate-leases", &[("serde", BUILD), ("insta", TEST), ("tidegate-core", BUILD)]),
            ("tidegate-core", &[]),
        ]);
        let check = |rows: &str, expected: &[&str]| {
            let document = format!("# Dependencies\n\n| crate | used by | why |\n|---|---|---|\n{rows}");
            assert_eq!(dependencies_are_listed(&uses, &document), expected);
        };
        check("| serde | all | records |\n| `insta` | tests | timelines |\n", &[]);
        check("| serde | all | records |\n", &["docs/dependencies.md: say who uses insta, and why"]);
        check(
            "| serde | all | records |\n| insta | tests | timelines |\n| rand | x | y |\n",
            &["docs/dependencies.md: nothing uses rand any more"],
        );
    }

    #[test]
    fn every_crate_inherits_the_lints() {
        let package = &metadata(&[("tidegate-core", &[])]).packages[0];
        let check = |manifest: &str, inherits: bool| {
            assert_eq!(inherits_lints(package, manifest).is_none(), inherits, "{manifest}");
        };
        check("[lints]\nworkspace = true\n", true);
        check("[package]\nname = 'x'\n\n[lints]\nworkspace = true\n", true);
        check("[lints]\nworkspace = false\n", false);
        check("[lints.rust]\nunsafe_code = 'forbid'\n", false);
        check("[package]\nname = 'x'\n", false);
    }
}
