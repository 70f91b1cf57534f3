//! May a subject be handed to an executor at all? Reason codes, evidence, who decides by when, and what is on record.
//!
//! Pure but for reading what is on record. A decision that is on record is shown and never asked for again. A missing cost decision blocks only the
//! executor that costs money, and no decision makes this program spend any: there is nothing here that could.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::error::RunError;
use crate::record::Level;

/// The one platform that the machine and the service behind the executors emulate or offer.
pub(crate) const PLATFORM: &str = "linux/amd64";

/// Why a subject isn't handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Code {
    /// The image can't be had here.
    ImageUnavailable,
    /// Nothing binds the image to a run of CI.
    ImageNotCiBuilt,
    /// What binds it names another digest.
    ProvenanceMismatch,
    /// It was built from another commit than this one.
    DigestStale,
    /// It is named by a tag, which may mean something else tomorrow.
    TagNotDigest,
    /// It is for another platform.
    PlatformUnsupported,
    /// The executor isn't there.
    ExecutorUnavailable,
    /// Its entrypoint needs a network, which no executor has.
    NetworkRequired,
    /// It carries something that looks like a secret.
    SecretInImage,
    /// Nobody has decided whether the service may have it.
    AccessDecisionAbsent,
    /// Nobody has decided to pay.
    CostDecisionAbsent,
}

impl Code {
    /// The name that the record uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ImageUnavailable => "IMAGE_UNAVAILABLE",
            Self::ImageNotCiBuilt => "IMAGE_NOT_CI_BUILT",
            Self::ProvenanceMismatch => "PROVENANCE_MISMATCH",
            Self::DigestStale => "DIGEST_STALE",
            Self::TagNotDigest => "TAG_NOT_DIGEST",
            Self::PlatformUnsupported => "PLATFORM_UNSUPPORTED",
            Self::ExecutorUnavailable => "EXECUTOR_UNAVAILABLE",
            Self::NetworkRequired => "NETWORK_REQUIRED",
            Self::SecretInImage => "SECRET_IN_IMAGE",
            Self::AccessDecisionAbsent => "ACCESS_DECISION_ABSENT",
            Self::CostDecisionAbsent => "COST_DECISION_ABSENT",
        }
    }

    /// What would change it.
    pub const fn remedy(self) -> &'static str {
        match self {
            Self::ImageUnavailable => "make the image available by its digest",
            Self::ImageNotCiBuilt => "have CI build the image and keep its provenance",
            Self::ProvenanceMismatch => "build the image again; don't edit its provenance",
            Self::DigestStale => "build the image from the present commit",
            Self::TagNotDigest => "name the image as NAME@sha256:…",
            Self::PlatformUnsupported => "build the image for linux/amd64",
            Self::ExecutorUnavailable => "install what the executor needs, as its prerequisites say",
            Self::NetworkRequired => "make the entrypoint start without a network",
            Self::SecretInImage => "take the secret out of the image and rotate it",
            Self::AccessDecisionAbsent => "an operator records whether the service may have the image",
            Self::CostDecisionAbsent => "an operator records whether to pay, and for which flake",
        }
    }
}

/// What a decision is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum About {
    /// Whether somebody else's service may have the image.
    Access,
    /// Whether to pay for it.
    Cost,
}

/// May it start?
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Nothing stands in the way.
    Go,
    /// Something does: the reasons.
    NoGo,
}

/// A decision that a person made and wrote down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OnRecord {
    /// The executor that it concerns.
    pub executor: String,
    /// What was decided on.
    pub about: About,
    /// How.
    pub decision: Answer,
    /// By whom.
    pub by: String,
    /// On which day, as `2026-11-30`.
    pub on: String,
    /// Why.
    pub text: String,
}

/// Whether one subject may be handed to one executor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GoNoGo {
    /// The executor.
    pub executor: String,
    /// The subject: an image by name and digest, or what stands for it.
    pub subject: String,
    /// `not_run`: nothing was started.
    pub level: Level,
    /// The answer.
    pub decision: Answer,
    /// Why not; empty for a go.
    pub reasons: Vec<Code>,
    /// How that is known.
    pub evidence: Vec<String>,
    /// What it would buy.
    pub buys: String,
    /// A concrete flake that cheaper means can't reach; `null` when none was found.
    pub flake: Option<String>,
    /// Who decides.
    pub owner: String,
    /// By when; `null` while nothing waits for it.
    pub decide_by: Option<String>,
    /// Decisions that were made already.
    pub on_record: Vec<OnRecord>,
}

/// What is known about an image.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ImageFacts {
    /// Its digest, where it is named by one.
    pub digest: Option<String>,
    /// As `linux/amd64`.
    pub platform: String,
    /// What a run of CI says it built: digest and commit.
    pub built: Option<(String, String)>,
    /// The commit that is checked out.
    pub commit: Option<String>,
    /// Whether its entrypoint needs a network.
    pub needs_network: bool,
    /// Names of what looks like a secret.
    pub secrets: Vec<String>,
}

/// The image of a question.
#[derive(Debug, Clone, Copy)]
pub enum Image<'a> {
    /// The subject isn't one.
    NotOne,
    /// It can't be had.
    Unavailable,
    /// What is known about it.
    Known(&'a ImageFacts),
}

/// Everything that the answer rests on.
#[derive(Debug, Clone)]
pub struct Question<'a> {
    /// The executor.
    pub executor: &'a str,
    /// The subject, in words.
    pub subject: &'a str,
    /// Its image.
    pub image: Image<'a>,
    /// Why the executor isn't there, if it isn't.
    pub unavailable: Option<&'a str>,
    /// Whether it is somebody else's service, which costs money.
    pub paid: bool,
    /// What it would buy.
    pub buys: &'a str,
    /// The flake that would justify it.
    pub flake: Option<&'a str>,
    /// Decisions that were made, about any executor.
    pub on_record: &'a [OnRecord],
}

/// The record of a question.
pub fn answer(question: &Question<'_>) -> GoNoGo {
    let mut found: Vec<(Code, String)> = Vec::new();
    match question.image {
        Image::NotOne => {}
        Image::Unavailable => {
            found.push((Code::ImageUnavailable, format!("{} can't be had here", question.subject)));
        }
        Image::Known(image) => found.extend(about_image(image)),
    }
    found.extend(question.unavailable.map(|why| (Code::ExecutorUnavailable, why.to_owned())));
    let on_record: Vec<OnRecord> = question
        .on_record
        .iter()
        .filter(|decision| decision.executor == question.executor)
        .cloned()
        .collect();
    if question.paid {
        for (about, code) in
            [(About::Access, Code::AccessDecisionAbsent), (About::Cost, Code::CostDecisionAbsent)]
        {
            if on_record.iter().all(|decision| decision.about != about) {
                found.push((code, "no decision is on record".to_owned()));
            }
        }
    }
    let refused = on_record.iter().any(|decision| decision.decision == Answer::NoGo);
    let waits =
        found.iter().any(|(code, _)| matches!(code, Code::AccessDecisionAbsent | Code::CostDecisionAbsent));
    GoNoGo {
        executor: question.executor.to_owned(),
        subject: question.subject.to_owned(),
        level: Level::NotRun,
        decision: if found.is_empty() && !refused { Answer::Go } else { Answer::NoGo },
        reasons: found.iter().map(|(code, _)| *code).collect(),
        evidence: found.into_iter().map(|(_, evidence)| evidence).collect(),
        buys: question.buys.to_owned(),
        flake: question.flake.map(str::to_owned),
        owner: "operator".to_owned(),
        decide_by: (waits && question.flake.is_some())
            .then(|| "before the flake blocks a release".to_owned()),
        on_record,
    }
}

fn about_image(image: &ImageFacts) -> Vec<(Code, String)> {
    let mut found = Vec::new();
    match (&image.digest, &image.built) {
        (None, _) => found.push((Code::TagNotDigest, "the image is named without a digest".to_owned())),
        (Some(_), None) => found.push((Code::ImageNotCiBuilt, "there is no provenance".to_owned())),
        (Some(digest), Some((built, _))) if built != digest => {
            found.push((Code::ProvenanceMismatch, format!("the provenance is of {built}")));
        }
        (Some(_), Some((_, built_from))) => {
            if let Some(commit) = image.commit.as_ref().filter(|commit| *commit != built_from) {
                found.push((Code::DigestStale, format!("built from {built_from}, this is {commit}")));
            }
        }
    }
    if image.platform != PLATFORM {
        found.push((Code::PlatformUnsupported, format!("the image is for {}", image.platform)));
    }
    if image.needs_network {
        found.push((Code::NetworkRequired, "the entrypoint needs a network".to_owned()));
    }
    if !image.secrets.is_empty() {
        found.push((Code::SecretInImage, format!("by name: {}", image.secrets.join(", "))));
    }
    found
}

/// The decisions in a file: a JSON list.
pub(crate) fn read(path: &Path) -> Result<Vec<OnRecord>, RunError> {
    let failed = |source| RunError::Decisions { path: path.to_owned(), source };
    let text = std::fs::read_to_string(path).map_err(failed)?;
    serde_json::from_str(&text).map_err(|error| failed(error.into()))
}

/// Names of environment variables that look as if they held a secret and hold anything.
pub fn secrets<'a>(environment: impl IntoIterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let marks = ["SECRET", "TOKEN", "PASSWORD", "PASSWD", "API_KEY", "PRIVATE_KEY", "CREDENTIAL"];
    let is_one = |name: &str| marks.iter().any(|mark| name.to_ascii_uppercase().contains(mark));
    environment
        .into_iter()
        .filter(|(name, value)| is_one(name) && !value.is_empty())
        .map(|(name, _)| name.to_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image() -> ImageFacts {
        ImageFacts {
            digest: Some("sha256:aa".to_owned()),
            platform: PLATFORM.to_owned(),
            built: Some(("sha256:aa".to_owned(), "c1".to_owned())),
            commit: Some("c1".to_owned()),
            ..ImageFacts::default()
        }
    }

    fn ask(executor: &'static str, image: Option<&ImageFacts>, on_record: &[OnRecord]) -> GoNoGo {
        answer(&Question {
            executor,
            subject: "tidegate",
            image: image.map_or(Image::Unavailable, Image::Known),
            unavailable: None,
            paid: executor == "antithesis",
            buys: "search",
            flake: None,
            on_record,
        })
    }

    fn check(change: impl FnOnce(&mut ImageFacts), expected: &[Code]) {
        let mut facts = image();
        change(&mut facts);
        let answered = ask("vm", Some(&facts), &[]);
        assert_eq!(answered.reasons, expected);
        assert_eq!(answered.evidence.len(), expected.len());
        assert_eq!(answered.decision, if expected.is_empty() { Answer::Go } else { Answer::NoGo });
        assert_eq!(answered.level, Level::NotRun);
    }

    #[test]
    fn each_thing_that_is_wrong_with_an_image_has_its_code() {
        check(|_| (), &[]);
        check(|image| image.digest = None, &[Code::TagNotDigest]);
        check(|image| image.built = None, &[Code::ImageNotCiBuilt]);
        check(
            |image| image.built = Some(("sha256:bb".to_owned(), "c1".to_owned())),
            &[Code::ProvenanceMismatch],
        );
        check(|image| image.commit = Some("c2".to_owned()), &[Code::DigestStale]);
        check(|image| image.commit = None, &[]);
        check(|image| image.platform = "linux/arm64".to_owned(), &[Code::PlatformUnsupported]);
        check(|image| image.needs_network = true, &[Code::NetworkRequired]);
        check(|image| image.secrets = vec!["NPM_TOKEN".to_owned()], &[Code::SecretInImage]);
        check(
            |image| {
                image.built = None;
                image.needs_network = true;
            },
            &[Code::ImageNotCiBuilt, Code::NetworkRequired],
        );
        assert_eq!(ask("vm", None, &[]).reasons, [Code::ImageUnavailable]);
    }

    fn decided(executor: &str, about: About, decision: Answer) -> OnRecord {
        OnRecord {
            executor: executor.to_owned(),
            about,
            decision,
            by: "ops".to_owned(),
            on: "2026-11-30".to_owned(),
            text: "no flake needs it".to_owned(),
        }
    }

    #[test]
    fn a_missing_decision_blocks_only_the_executor_that_costs_money() {
        let image = image();
        assert_eq!(ask("vm", Some(&image), &[]).decision, Answer::Go);
        let paid = ask("antithesis", Some(&image), &[]);
        assert_eq!(paid.reasons, [Code::AccessDecisionAbsent, Code::CostDecisionAbsent]);
        assert_eq!(paid.decision, Answer::NoGo);
    }

    #[test]
    fn a_decision_on_record_is_shown_and_not_asked_for_again() {
        let image = image();
        let of = |cost| {
            let on_record = [
                decided("antithesis", About::Access, Answer::Go),
                decided("antithesis", About::Cost, cost),
                decided("another", About::Cost, Answer::Go),
            ];
            ask("antithesis", Some(&image), &on_record)
        };
        let refused = of(Answer::NoGo);
        assert_eq!((refused.decision, refused.reasons.len(), refused.on_record.len()), (Answer::NoGo, 0, 2));
        assert_eq!(of(Answer::Go).decision, Answer::Go);
    }

    #[test]
    fn secrets_are_known_by_their_names_and_only_where_they_hold_something() {
        let found = secrets([("PATH", "/bin"), ("NPM_TOKEN", "x"), ("db_password", "y"), ("API_KEY", "")]);
        assert_eq!(found, ["NPM_TOKEN", "db_password"]);
    }
}
