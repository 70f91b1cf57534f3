//! The hand-over to the commercial service, prepared and linted: the context of its config image, a test template and the
//! parameters of a run, as files.
//!
//! It writes files below one directory and reads them back. Must never open a connection, start a program, name an
//! address or hold a credential: whoever hands this over does so by hand, after a decision is on record.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::go_no_go::{Code, PLATFORM, secrets};
use crate::script::{Script, Step};

/// Where the service looks for test templates in each container.
const TEMPLATES: &str = "/opt/antithesis/test/v1";
/// The name of the one template.
const TEMPLATE: &str = "conversation";
/// Prefixes of commands that drive a test; a template needs one of these.
const DRIVERS: [&str; 4] = ["parallel_driver_", "singleton_driver_", "serial_driver_", "anytime_"];
/// Prefixes of the other commands, and of what is ignored.
const OTHERS: [&str; 4] = ["first_", "eventually_", "finally_", "helper_"];
const COMPOSE: &str = "docker-compose.yaml";
/// The longest run that a first look needs, in minutes.
const MINUTES: u32 = 30;

/// What is handed over.
#[derive(Debug, Clone)]
pub(crate) struct HandOver<'a> {
    /// The image as `NAME@sha256:…`.
    pub(crate) image: &'a str,
    pub(crate) argv: &'a [String],
    pub(crate) environment: &'a BTreeMap<String, String>,
    pub(crate) script: Option<&'a Script>,
}

/// Something that would make the service refuse the hand-over, or run something else than was meant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Finding {
    /// The code of a go/no-go record, where there is one for it.
    pub(crate) code: Option<Code>,
    pub(crate) text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.code {
            Some(code) => write!(f, "{}: {}", code.name(), self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// The compose file. JSON is YAML, so that what was written can be read back without a parser of its own.
#[derive(Debug, Serialize, Deserialize)]
struct Compose {
    services: BTreeMap<String, Service>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Service {
    image: String,
    platform: String,
    container_name: String,
    hostname: String,
    entrypoint: Vec<String>,
    environment: BTreeMap<String, String>,
    volumes: Vec<String>,
    /// No container needs another one, or the outside.
    network_mode: String,
}

/// Writes the hand-over below a directory.
pub(crate) fn prepare(directory: &Path, hand_over: &HandOver<'_>) -> io::Result<()> {
    let template = directory.join("config/test").join(TEMPLATE);
    fs::create_dir_all(&template)?;
    let services = BTreeMap::from([("subject".to_owned(), service(hand_over))]);
    let compose = serde_json::to_string_pretty(&Compose { services })?;
    fs::write(
        directory.join("config").join(COMPOSE),
        format!(
            "# JSON is YAML. The image is named by its digest; nothing of this was sent anywhere.\n{compose}\n"
        ),
    )?;
    fs::write(
        directory.join("config/Containerfile"),
        format!("FROM scratch\nCOPY {COMPOSE} /{COMPOSE}\nCOPY test /test\n"),
    )?;
    executable(&directory.join("config/test/start"), START)?;
    executable(&template.join("singleton_driver_conversation"), &driver(hand_over))?;
    fs::write(template.join("helper_input.jsonl"), input(hand_over.script))?;
    let parameters = serde_json::to_string_pretty(&parameters(hand_over))?;
    fs::write(directory.join("parameters.json"), parameters + "\n")
}

/// Says that the setup is complete, then waits: the template's commands start the subject.
const START: &str = r#"#!/bin/sh
set -eu
printf '%s\n' '{"antithesis_setup": {"status": "complete", "details": {}}}' >> "${ANTITHESIS_OUTPUT_DIR:-/tmp}/sdk.jsonl"
exec tail -f /dev/null
"#;

fn service(hand_over: &HandOver<'_>) -> Service {
    Service {
        image: hand_over.image.to_owned(),
        platform: PLATFORM.to_owned(),
        container_name: "subject".to_owned(),
        hostname: "subject".to_owned(),
        entrypoint: vec!["/test/start".to_owned()],
        environment: hand_over.environment.clone(),
        volumes: vec![
            "./test/start:/test/start:ro".to_owned(),
            format!("./test/{TEMPLATE}:{TEMPLATES}/{TEMPLATE}:ro"),
        ],
        network_mode: "none".to_owned(),
    }
}

/// The conversation as one command: the subject is started, fed, and must end well.
fn driver(hand_over: &HandOver<'_>) -> String {
    let words: Vec<String> = hand_over.argv.iter().map(|word| crate::args::quote(word)).collect();
    format!("#!/bin/sh\nset -eu\nexec {} < {TEMPLATES}/{TEMPLATE}/helper_input.jsonl\n", words.join(" "))
}

/// What the client says, line by line; the service decides when each line arrives.
fn input(script: Option<&Script>) -> String {
    script.map_or(&[][..], |script| &script.steps).iter().fold(String::new(), |text, step| match step {
        Step::Send(value) => format!("{text}{value}\n"),
        Step::SendLine(line) => format!("{text}{line}\n"),
        Step::Expect(_) => text,
    })
}

fn parameters(hand_over: &HandOver<'_>) -> serde_json::Value {
    serde_json::json!({
        "antithesis.description": "Tidegate's determinism subject: prepared, never launched by this project",
        "antithesis.duration": MINUTES.to_string(),
        "antithesis.images": hand_over.image,
        "antithesis.config_image": "to be filled in by whoever builds config/",
        "antithesis.report.recipients": "to be filled in by whoever decides",
    })
}

fn executable(path: &Path, text: &str) -> io::Result<()> {
    fs::write(path, text)?;
    fs::set_permissions(path, PermissionsExt::from_mode(0o755))
}

/// Reads a hand-over back and says what is wrong with it.
pub(crate) fn lint(directory: &Path) -> io::Result<Vec<Finding>> {
    let text = fs::read_to_string(directory.join("config").join(COMPOSE))?;
    let json: String = text.lines().filter(|line| !line.starts_with('#')).collect();
    let mut findings = match serde_json::from_str::<Compose>(&json) {
        Ok(compose) if compose.services.is_empty() => vec![finding(None, "it starts no container")],
        Ok(compose) => compose.services.iter().flat_map(|(name, service)| about(name, service)).collect(),
        Err(error) => vec![finding(None, format!("{COMPOSE} can't be read: {error}"))],
    };
    findings.extend(template(&directory.join("config/test").join(TEMPLATE))?);
    if !is_executable(&directory.join("config/test/start")) {
        findings.push(finding(None, "test/start is not executable"));
    }
    Ok(findings)
}

fn about(name: &str, service: &Service) -> Vec<Finding> {
    let mut findings = Vec::new();
    let named_by_digest = service.image.split_once("@sha256:").is_some_and(|(_, digest)| {
        digest.len() == 64 && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    });
    if !named_by_digest {
        let text = format!("{name}: {} is not named by a digest", service.image);
        findings.push(finding(Some(Code::TagNotDigest), text));
    }
    if service.platform != PLATFORM {
        let text = format!("{name}: {} instead of {PLATFORM}", service.platform);
        findings.push(finding(Some(Code::PlatformUnsupported), text));
    }
    if service.network_mode != "none" {
        findings.push(finding(Some(Code::NetworkRequired), format!("{name}: it has a network")));
    }
    let environment = service.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for secret in secrets(environment) {
        findings.push(finding(Some(Code::SecretInImage), format!("{name}: {secret} looks like a secret")));
    }
    if !service.volumes.iter().any(|volume| volume.contains(TEMPLATES)) {
        findings.push(finding(None, format!("{name}: no test template below {TEMPLATES}")));
    }
    findings
}

fn template(directory: &Path) -> io::Result<Vec<Finding>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    let has = |prefixes: &[&str], name: &str| prefixes.iter().any(|prefix| name.starts_with(prefix));
    let mut findings = Vec::new();
    if !names.iter().any(|name| has(&DRIVERS, name)) {
        findings.push(finding(None, "the test template has no driver"));
    }
    for name in &names {
        if !has(&DRIVERS, name) && !has(&OTHERS, name) {
            findings.push(finding(None, format!("{name}: no prefix that the service knows")));
        } else if !name.starts_with("helper_") && !is_executable(&directory.join(name)) {
            findings.push(finding(None, format!("{name} is not executable")));
        }
    }
    Ok(findings)
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

fn finding(code: Option<Code>, text: impl Into<String>) -> Finding {
    Finding { code, text: text.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(image: &str, environment: &[(&str, &str)]) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let environment = environment.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let argv = ["node", "it's a server.js"].map(str::to_owned);
        let hand_over = HandOver { image, argv: &argv, environment: &environment, script: None };
        prepare(directory.path(), &hand_over).unwrap();
        directory
    }

    fn digest() -> String {
        format!("tidegate@sha256:{}", "a".repeat(64))
    }

    fn check(directory: &tempfile::TempDir, expected: &[&str]) {
        let found: Vec<String> =
            lint(directory.path()).unwrap().into_iter().map(|one| one.to_string()).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn what_is_prepared_passes_its_own_lint_and_names_the_image_by_digest() {
        let directory = prepared(&digest(), &[("LANG", "C.UTF-8")]);
        check(&directory, &[]);
        let config = directory.path().join("config");
        let driver = config.join("test/conversation/singleton_driver_conversation");
        let driver = fs::read_to_string(driver).unwrap();
        assert!(driver.contains(r"exec node 'it'\''s a server.js' < /opt/antithesis/test/v1/"), "{driver}");
        let parameters = fs::read_to_string(directory.path().join("parameters.json")).unwrap();
        assert!(parameters.contains(&digest()), "{parameters}");
    }

    #[test]
    fn the_lint_finds_what_the_service_would_refuse() {
        let tagged = prepared("tidegate:latest", &[]);
        check(&tagged, &["TAG_NOT_DIGEST: subject: tidegate:latest is not named by a digest"]);
        let secret = prepared(&digest(), &[("NPM_TOKEN", "x")]);
        check(&secret, &["SECRET_IN_IMAGE: subject: NPM_TOKEN looks like a secret"]);
        let compose = tagged.path().join("config").join(COMPOSE);
        let text = fs::read_to_string(&compose).unwrap();
        let text = text.replace("tidegate:latest", &digest()).replace("linux/amd64", "linux/arm64");
        fs::write(&compose, text.replace("\"none\"", "\"host\"")).unwrap();
        check(
            &tagged,
            &[
                "PLATFORM_UNSUPPORTED: subject: linux/arm64 instead of linux/amd64",
                "NETWORK_REQUIRED: subject: it has a network",
            ],
        );
    }

    #[test]
    fn the_lint_reads_what_is_there_and_not_what_was_meant() {
        let directory = prepared(&digest(), &[]);
        let template = directory.path().join("config/test/conversation");
        fs::rename(template.join("singleton_driver_conversation"), template.join("conversation")).unwrap();
        fs::set_permissions(directory.path().join("config/test/start"), PermissionsExt::from_mode(0o644))
            .unwrap();
        check(
            &directory,
            &[
                "the test template has no driver",
                "conversation: no prefix that the service knows",
                "test/start is not executable",
            ],
        );
        fs::write(directory.path().join("config").join(COMPOSE), "services: {}\n").unwrap();
        assert!(lint(directory.path()).unwrap()[0].text.starts_with("docker-compose.yaml can't be read"));
    }
}
