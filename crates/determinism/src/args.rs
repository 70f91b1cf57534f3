//! The command line of a check, for the binary of this crate and for anything that flattens it into its own.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::RunError;
use crate::executor::Part;
use crate::go_no_go::{self, ImageFacts, PLATFORM};
use crate::image::{Image, Provenance, Root};
use crate::plan::{
    Condition, DEFAULT_CACHE, DEFAULT_DEADLINE, DEFAULT_RUNS, DEFAULT_SEED, ExecutorKind, NO_IMAGE, Plan,
    default_hogs,
};
use crate::script::Script;

/// Where a record goes unless told otherwise.
const DEFAULT_OUT: &str = "target/tidegate/determinism";

/// The arguments of a check.
#[derive(Debug, Clone, clap::Args)]
pub struct CheckArgs {
    /// Runs per condition, the reference run included
    #[arg(long, default_value_t = DEFAULT_RUNS)]
    pub runs: u32,
    /// Conditions to run in
    #[arg(long = "condition", value_delimiter = ',', default_value = "idle,loaded")]
    pub conditions: Vec<Condition>,
    /// Handed to the subject as TIDEGATE_SEED
    #[arg(long, default_value_t = DEFAULT_SEED)]
    pub seed: u64,
    /// The longest that one run may take, such as 500ms, 30s or 2m
    #[arg(long, value_parser = parse_duration, default_value = "60s")]
    pub deadline: Duration,
    /// How long the subject's runs may take together; no further run is started after its share
    #[arg(long, value_parser = parse_duration, value_name = "TIME")]
    pub budget: Option<Duration>,
    /// Busy processes in the condition `loaded` [default: two for each core]
    #[arg(long)]
    pub hogs: Option<u32>,
    /// The client's side of a conversation, as JSON lines
    #[arg(long, value_name = "FILE")]
    pub script: Option<PathBuf>,
    /// Where determinism.json and determinism.md are written
    #[arg(long, value_name = "DIR", default_value = DEFAULT_OUT)]
    pub out: PathBuf,
    /// Print the record as JSON instead of the answer
    #[arg(long)]
    pub json: bool,
    /// How to run the subject; beside any other than `native` it runs natively too
    #[arg(long, default_value = "native")]
    pub executor: ExecutorKind,
    /// Parts of its life to run, where an executor has several [default: all that it has]
    #[arg(long = "part", value_delimiter = ',')]
    pub parts: Vec<Part>,
    /// Change one factor after the other, to confirm causes
    #[arg(long)]
    pub ablate: bool,
    /// What binds the image to a run of CI [default: PATH.provenance.json beside the image]
    #[arg(long, value_name = "FILE")]
    pub provenance: Option<PathBuf>,
    /// An image that was asked about and can't be had; may be repeated
    #[arg(long, value_name = "NAME")]
    pub wanted: Vec<String>,
    /// Decisions that were made about access and cost, as JSON
    #[arg(long, value_name = "FILE")]
    pub decisions: Option<PathBuf>,
    /// An OCI layout or archive that the subject is in
    #[arg(long, value_name = "PATH[@DIGEST]", conflicts_with = "rootfs")]
    pub image: Option<String>,
    /// A directory that the subject has as its root
    #[arg(long, value_name = "DIR")]
    pub rootfs: Option<PathBuf>,
    /// Where kernels, snapshots and unpacked images are kept from one check to the next
    #[arg(long, value_name = "DIR", default_value = DEFAULT_CACHE)]
    pub cache: PathBuf,
    /// The subject [default: what the image runs]
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
}

impl CheckArgs {
    /// The plan that these arguments describe.
    ///
    /// `companion` is the `tidegate-determinism` binary; `invoked_as` is what a reader types before the arguments to
    /// repeat the check, as in `cargo xtask determinism`.
    ///
    /// # Errors
    ///
    /// When no command is given, a number is out of bounds, the script is unusable or the image is.
    pub fn plan(
        &self,
        companion: PathBuf,
        invoked_as: &str,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Plan, RunError> {
        let (mut image, mut image_facts) = (NO_IMAGE.to_owned(), None);
        let roots = self.cache.join("roots");
        let root = match (&self.image, &self.rootfs) {
            (Some(path), _) => {
                let opened = Image::open(path)?;
                image = format!("{}@{}", path.split('@').next().unwrap_or_default(), opened.digest());
                let root = Root::of_image(&opened, &roots, progress)?;
                image_facts = Some(self.facts(path, &opened, &root)?);
                Some(root)
            }
            (None, Some(directory)) => Some(Root::of_directory(directory, &roots, progress)?),
            (None, None) => None,
        };
        let mut argv = self.command.clone();
        if let (true, Some(root)) = (argv.is_empty(), &root) {
            argv.clone_from(&root.config.argv);
        }
        let mut conditions = self.conditions.clone();
        conditions.sort();
        conditions.dedup();
        let plan = Plan {
            argv,
            script: self.script.as_deref().map(Script::read).transpose()?,
            executor: self.executor,
            parts: self.parts.clone(),
            ablate: self.ablate,
            root,
            cache: self.cache.clone(),
            image,
            image_facts,
            wanted: self.wanted.clone(),
            hand_over: (self.executor == ExecutorKind::Antithesis).then(|| self.out.join("antithesis")),
            on_record: self.decisions.as_deref().map(go_no_go::read).transpose()?.unwrap_or_default(),
            runs: self.runs,
            conditions,
            seed: self.seed,
            deadline: self.deadline,
            budget: self.budget,
            hogs: self.hogs.unwrap_or_else(default_hogs),
            companion,
            reproduce: self.reproduce(invoked_as),
        };
        plan.validate()?;
        Ok(plan)
    }

    /// What a go/no-go record has to say about an image.
    fn facts(&self, path: &str, image: &Image, root: &Root) -> Result<ImageFacts, RunError> {
        let beside = PathBuf::from(format!("{}.provenance.json", path.split('@').next().unwrap_or_default()));
        let file = self.provenance.clone().unwrap_or(beside);
        let provenance = Provenance::read(&file)
            .map_err(|source| RunError::ReadProvenance { path: file.clone(), source })?;
        let environment = image.environment().iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Ok(ImageFacts {
            digest: Some(image.digest().to_owned()),
            platform: PLATFORM.to_owned(),
            built: provenance.and_then(|provenance| provenance.built_by_ci()),
            commit: None,
            needs_network: false,
            secrets: go_no_go::secrets(environment).into_iter().chain(root.secrets.iter().cloned()).collect(),
        })
    }

    /// The command that repeats this check, with everything that isn't a default.
    fn reproduce(&self, invoked_as: &str) -> String {
        let mut line = invoked_as.to_owned();
        let mut add = |option: &str, value: String| line.push_str(&format!(" {option} {}", quote(&value)));
        if self.executor != ExecutorKind::Native {
            add("--executor", self.executor.name().to_owned());
        }
        if !self.parts.is_empty() {
            add("--part", self.parts.iter().map(|part| part.name()).collect::<Vec<_>>().join(","));
        }
        if let Some(provenance) = &self.provenance {
            add("--provenance", provenance.display().to_string());
        }
        self.wanted.iter().for_each(|name| add("--wanted", name.clone()));
        if let Some(decisions) = &self.decisions {
            add("--decisions", decisions.display().to_string());
        }
        add("--runs", self.runs.to_string());
        add("--condition", self.conditions.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
        add("--seed", self.seed.to_string());
        if self.deadline != DEFAULT_DEADLINE {
            add("--deadline", format!("{}ms", self.deadline.as_millis()));
        }
        if let Some(budget) = self.budget {
            add("--budget", format!("{}ms", budget.as_millis()));
        }
        if let Some(hogs) = self.hogs {
            add("--hogs", hogs.to_string());
        }
        if let Some(script) = &self.script {
            add("--script", script.display().to_string());
        }
        if let Some(image) = &self.image {
            add("--image", image.clone());
        }
        if let Some(rootfs) = &self.rootfs {
            add("--rootfs", rootfs.display().to_string());
        }
        if self.ablate {
            line.push_str(" --ablate");
        }
        if !self.command.is_empty() {
            line.push_str(" --");
        }
        for word in &self.command {
            line.push(' ');
            line.push_str(&quote(word));
        }
        line
    }
}

/// A word as a POSIX shell takes it.
pub(crate) fn quote(word: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-_./=:,@+%".contains(character);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|character: char| !character.is_ascii_digit());
    let unit_ms = match &text[digits.len()..] {
        "ms" => Some(1),
        "s" => Some(1_000),
        "m" => Some(60_000),
        _ => None,
    };
    let number: Option<u64> = digits.parse().ok();
    number
        .zip(unit_ms)
        .and_then(|(number, unit)| number.checked_mul(unit))
        .map(Duration::from_millis)
        .ok_or_else(|| "a duration is a whole number with its unit, such as 500ms, 30s or 2m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: CheckArgs,
    }

    fn plan(line: &[&str]) -> Result<Plan, String> {
        let line = Line::try_parse_from(["check"].iter().chain(line)).map_err(|error| error.to_string())?;
        line.args
            .plan("companion".into(), "cargo xtask determinism", &mut |_| ())
            .map_err(|error| error.to_string())
    }

    fn refused(line: &[&str], expected: &str) {
        let said = plan(line).map(|plan| plan.reproduce).unwrap_err();
        assert!(said.contains(expected), "{line:?} gave {said:?}");
    }

    #[test]
    fn what_comes_later_and_what_is_impossible_is_refused_by_name() {
        refused(&["--executor", "docker", "--", "true"], "possible values: native, sandbox, vm, antithesis");
        refused(
            &["--decisions", "no-such-file", "--", "true"],
            "failed to read the decisions in no-such-file",
        );
        refused(&["--image", "a", "--rootfs", "b"], "cannot be used with");
        refused(&["--image", "no-such-image"], "no-such-image");
        refused(&["--rootfs", "no-such-directory", "--", "true"], "no-such-directory");
        refused(&[], "nothing to run");
        refused(&["--runs", "1", "--", "true"], "--runs is 1");
        refused(&["--condition", "hot", "--", "true"], "possible values: idle, loaded");
        refused(&["--script", "no-such-file", "--", "true"], "failed to read the script no-such-file");
        for deadline in ["", "5", "s", "1h", "1.5s", "99999999999999999999s", "-1s"] {
            refused(&[&format!("--deadline={deadline}"), "--", "true"], "500ms, 30s or 2m");
        }
    }

    #[test]
    fn a_plan_says_how_it_is_repeated_in_words_a_shell_takes() {
        let plan = plan(&["--condition", "loaded,idle", "--deadline", "2m", "--", "sh", "-c", "echo 'a b'"])
            .unwrap();
        assert_eq!(plan.conditions, [Condition::Idle, Condition::Loaded]);
        assert_eq!(plan.deadline, Duration::from_secs(120));
        assert_eq!(
            plan.reproduce,
            r"cargo xtask determinism --runs 5 --condition loaded,idle --seed 1 --deadline 120000ms -- sh -c 'echo '\''a b'\'''"
        );
    }
}
