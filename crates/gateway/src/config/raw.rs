//! From text to a checked [`Config`]. Every refusal names the line and says what to write instead.

use super::keys::{first_bad_key, key_at};
use super::{ComponentConfig, Config, ConfigError, Credential, PolicyConfig, ServerState, ToolRule};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tidegate_core::{PrincipalName, WorkClass};
use tidegate_relay::{LeaseRules, Sharing};
use toml::Spanned;
use toml::de::DeTable;

/// A drain that may wait longer than a day is a drain that nobody watches.
const MAX_DURATION: Duration = Duration::from_secs(86_400);
/// SDKs give a request up after 60 s; a hold must end before that.
const MAX_HOLD: Duration = Duration::from_secs(59);
/// More components than this in one daemon is a mistake in a generated file.
const MAX_COMPONENTS: usize = 256;

/// The longest name of a per-session component, in bytes: the names of its servers' records are longer.
pub(crate) const MAX_OWN_NAME_BYTES: usize = 64;

const DRAIN_DEADLINE: Duration = Duration::from_secs(60);
const HOLD: Duration = Duration::from_secs(45);
const REQUEST_TTL: Duration = Duration::from_secs(15 * 60);
/// `npx` may have to unpack a server first.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Between EOF and SIGTERM, and again between SIGTERM and SIGKILL.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
struct RawConfig {
    state: RawState,
    #[serde(default)]
    policy: RawPolicy,
    #[serde(default)]
    operator: Vec<RawCredential>,
    #[serde(default)]
    principal: Vec<RawCredential>,
    #[serde(default)]
    component: Vec<RawComponent>,
}

#[derive(Deserialize)]
struct RawState {
    store: Spanned<String>,
}

#[derive(Deserialize, Default)]
struct RawPolicy {
    approvals: Option<Spanned<u32>>,
    approvers: Option<Vec<Spanned<String>>>,
    operator_approvals: Option<u32>,
    drain_deadline: Option<Spanned<String>>,
    hold: Option<Spanned<String>>,
    request_ttl: Option<Spanned<String>>,
}

#[derive(Deserialize)]
struct RawCredential {
    name: Spanned<String>,
    token_sha256: Spanned<String>,
}

#[derive(Deserialize)]
struct RawComponent {
    name: Spanned<String>,
    command: Spanned<Vec<String>>,
    #[serde(default)]
    env: BTreeMap<Spanned<String>, String>,
    cwd: Option<PathBuf>,
    start_timeout: Option<Spanned<String>>,
    stop_grace: Option<Spanned<String>>,
    call_timeout: Option<Spanned<String>>,
    sharing: Option<Spanned<String>>,
    state: Option<Spanned<String>>,
    #[serde(default)]
    trust_annotations: bool,
    #[serde(default)]
    tools: BTreeMap<String, Spanned<RawTool>>,
    #[serde(default)]
    leases: BTreeMap<String, Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawTool {
    Class(String),
    Table {
        class: String,
        #[serde(default)]
        replay: bool,
    },
}

/// A message and the offset it is about.
struct Fault {
    at: usize,
    message: String,
}

fn fault<T>(spanned: &Spanned<T>, message: impl Display) -> Fault {
    Fault { at: spanned.span().start, message: message.to_string() }
}

/// Checks the text of a configuration file.
///
/// # Errors
/// [`ConfigError::Invalid`] with the line of the first thing that is wrong.
pub(crate) fn parse(path: &Path, text: &str) -> Result<Config, ConfigError> {
    let invalid = |fault: Fault| ConfigError::Invalid {
        path: path.to_owned(),
        line: text.as_bytes().iter().take(fault.at).filter(|b| **b == b'\n').count() + 1,
        message: fault.message,
    };
    let syntax =
        |e: &toml::de::Error| Fault { at: e.span().map_or(0, |s| s.start), message: e.message().to_owned() };
    let table = DeTable::parse(text).map_err(|e| invalid(syntax(&e)))?;
    if let Some((at, message)) = first_bad_key(table.get_ref()) {
        return Err(invalid(Fault { at, message }));
    }
    // Which value it is about is said once, here, for each of them.
    let named = |fault: Fault| match key_at(table.get_ref(), fault.at) {
        Some(key) if !fault.message.contains(key) => {
            invalid(Fault { message: format!("`{key}`: {}", fault.message), ..fault })
        }
        _ => invalid(fault),
    };
    let raw: RawConfig = toml::from_str(text).map_err(|e| named(syntax(&e)))?;
    checked(path, raw).map_err(named)
}

fn checked(path: &Path, raw: RawConfig) -> Result<Config, Fault> {
    let base = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let store = raw.state.store.get_ref();
    let dir = match store.strip_prefix("file:") {
        Some("") => {
            return Err(fault(&raw.state.store, "store names no directory; write \"file:DIRECTORY\""));
        }
        Some(dir) => dir,
        None => {
            let text = format!("store {store:?} is not available yet; write \"file:DIRECTORY\"");
            return Err(fault(&raw.state.store, text));
        }
    };
    let operators = raw.operator.iter().map(credential).collect::<Result<Vec<_>, _>>()?;
    let principals = raw.principal.iter().map(credential).collect::<Result<Vec<_>, _>>()?;
    unique(raw.operator.iter().chain(&raw.principal).map(|c| &c.name), "a principal")?;
    one_token_each(raw.operator.iter().chain(&raw.principal))?;
    unique(raw.component.iter().map(|c| &c.name), "a component")?;
    if raw.component.len() > MAX_COMPONENTS {
        return Err(fault(
            &raw.component[MAX_COMPONENTS].name,
            format!("more than {MAX_COMPONENTS} components; split them over several daemons"),
        ));
    }
    let policy = policy(&raw.policy, &principals)?;
    let is_own = |c: &&RawComponent| c.sharing.as_ref().is_some_and(|s| s.get_ref() == "per-session");
    for own in raw.component.iter().filter(is_own).map(|c| format!("{}@", c.name.get_ref())) {
        if let Some(taken) = raw.component.iter().find(|c| c.name.get_ref().starts_with(&own)) {
            let text =
                format!("names that begin with {own:?} are those of a per-session component's servers");
            return Err(fault(&taken.name, format!("{text}; choose another")));
        }
    }
    let components = raw.component.iter().map(|c| component(base, c)).collect::<Result<Vec<_>, _>>()?;
    Ok(Config {
        path: path.to_owned(),
        state_dir: base.join(dir).components().collect(),
        policy,
        operators,
        principals,
        components,
    })
}

fn unique<'a>(names: impl Iterator<Item = &'a Spanned<String>>, what: &str) -> Result<(), Fault> {
    let mut seen = std::collections::BTreeSet::new();
    for name in names {
        if !seen.insert(name.get_ref()) {
            return Err(fault(
                name,
                format!("{what} named {:?} is there twice; give one another name", name.get_ref()),
            ));
        }
    }
    Ok(())
}

/// A token that is two principals' would be the first one's only, and the second one's name would mean nothing.
fn one_token_each<'a>(credentials: impl Iterator<Item = &'a RawCredential>) -> Result<(), Fault> {
    let mut seen = BTreeMap::new();
    for raw in credentials {
        let (name, hash) = (raw.name.get_ref(), raw.token_sha256.get_ref().to_ascii_lowercase());
        if let Some(other) = seen.insert(hash, name) {
            let text = format!("{name:?} has the token of {other:?}");
            return Err(fault(&raw.token_sha256, format!("{text}; `tidegate token` makes one of its own")));
        }
    }
    Ok(())
}

fn credential(raw: &RawCredential) -> Result<Credential, Fault> {
    let name: PrincipalName = raw.name.get_ref().parse().map_err(|e| fault(&raw.name, e))?;
    if [PrincipalName::local().as_str(), "operator", "signal"].contains(&name.as_str()) {
        return Err(fault(&raw.name, format!("the name {name} is Tidegate's own; choose another")));
    }
    let hash = raw.token_sha256.get_ref().to_ascii_lowercase();
    if hash.len() != 64 || !hash.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(fault(
            &raw.token_sha256,
            "token_sha256 is 64 hexadecimal digits; `tidegate token` makes a token and its hash",
        ));
    }
    Ok(Credential { name, token_sha256: hash })
}

fn policy(raw: &RawPolicy, principals: &[Credential]) -> Result<PolicyConfig, Fault> {
    let approvals = match &raw.approvals {
        Some(n) if *n.get_ref() == 0 => {
            return Err(fault(n, "approvals = 0 would let an agent restart a server alone; the least is 1"));
        }
        Some(n) => *n.get_ref(),
        None => 1,
    };
    let mut approvers = Vec::new();
    for name in raw.approvers.iter().flatten() {
        let parsed: PrincipalName = name.get_ref().parse().map_err(|e| fault(name, e))?;
        if parsed.as_str() != "operator" && !principals.iter().any(|p| p.name == parsed) {
            let known = principals.iter().map(|p| p.name.as_str()).chain(["operator"]);
            let hint = super::nearest(parsed.as_str(), known).map_or_else(
                || "add a [[principal]] of that name".to_owned(),
                |n| format!("did you mean {n:?}?"),
            );
            return Err(fault(name, format!("approvers names {parsed:?}, which is no principal; {hint}")));
        }
        approvers.push(parsed);
    }
    if raw.approvers.is_none() {
        approvers.extend("operator".parse());
    }
    Ok(PolicyConfig {
        approvals,
        approvers,
        operator_approvals: raw.operator_approvals.unwrap_or(0),
        drain_deadline: duration(raw.drain_deadline.as_ref(), DRAIN_DEADLINE, MAX_DURATION)?,
        hold: duration(raw.hold.as_ref(), HOLD, MAX_HOLD)?,
        request_ttl: some_time(raw.request_ttl.as_ref(), REQUEST_TTL, MAX_DURATION)?,
    })
}

fn component(base: &Path, raw: &RawComponent) -> Result<ComponentConfig, Fault> {
    let name = raw.name.get_ref().parse().map_err(|e| fault(&raw.name, e))?;
    if raw.command.get_ref().first().is_none_or(String::is_empty) {
        return Err(fault(
            &raw.command,
            "command is a list that starts with a program, like [\"npx\", \"-y\", \"some-server\"]",
        ));
    }
    let sharing = match raw.sharing.as_ref().map(|s| (s, s.get_ref().as_str())) {
        None | Some((_, "shared")) => Sharing::Shared,
        Some((_, "per-session")) => Sharing::PerSession,
        Some((at, _)) => return Err(fault(at, "sharing is \"shared\" or \"per-session\"")),
    };
    if sharing == Sharing::PerSession && raw.name.get_ref().len() > MAX_OWN_NAME_BYTES {
        let text = "the servers of a per-session component have names of their own";
        return Err(fault(&raw.name, format!("{text}: its own has at most {MAX_OWN_NAME_BYTES} bytes")));
    }
    let state = match raw.state.as_ref().map(|s| (s, s.get_ref().as_str())) {
        None | Some((_, "in-process")) => ServerState::InProcess,
        Some((_, "external")) => ServerState::External,
        Some((_, "stateless")) => ServerState::Stateless,
        Some((at, _)) => return Err(fault(at, "state is \"stateless\", \"external\" or \"in-process\"")),
    };
    Ok(ComponentConfig {
        name,
        command: raw.command.get_ref().clone(),
        env: raw.env.iter().map(variable).collect::<Result<_, _>>()?,
        cwd: raw.cwd.as_ref().map(|dir| base.join(dir)),
        start_timeout: some_time(raw.start_timeout.as_ref(), START_TIMEOUT, MAX_DURATION)?,
        stop_grace: duration(raw.stop_grace.as_ref(), STOP_GRACE, MAX_DURATION)?,
        call_timeout: raw
            .call_timeout
            .as_ref()
            .map(|d| some_time(Some(d), MAX_DURATION, MAX_DURATION))
            .transpose()?,
        sharing,
        state,
        trust_annotations: raw.trust_annotations,
        tools: raw.tools.iter().map(|(pattern, rule)| tool(pattern, rule)).collect::<Result<_, _>>()?,
        leases: leases(&raw.leases)?,
    })
}

/// One of `env`, if the kernel can tell its name from its value.
fn variable((name, value): (&Spanned<String>, &String)) -> Result<(String, String), Fault> {
    let text = name.get_ref();
    if text.is_empty() || text.contains(['=', '\0']) {
        return Err(fault(
            name,
            format!("{text:?} is no name of a variable: it is empty, or has = or a zero in it"),
        ));
    }
    if value.contains('\0') {
        return Err(fault(name, format!("the value of {text} has a zero in it, which no variable can have")));
    }
    Ok((text.clone(), value.clone()))
}

fn tool(pattern: &str, raw: &Spanned<RawTool>) -> Result<ToolRule, Fault> {
    let (class, replay) = match raw.get_ref() {
        RawTool::Class(class) => (class, false),
        RawTool::Table { class, replay } => (class, *replay),
    };
    let class: WorkClass = class.parse().map_err(|e| fault(raw, e))?;
    if replay && class == WorkClass::Mutating {
        return Err(fault(
            raw,
            format!("{pattern:?}: a mutating tool is never sent again; drop `replay` or make it idempotent"),
        ));
    }
    Ok(ToolRule { pattern: pattern.to_owned(), class, replay })
}

fn leases(raw: &BTreeMap<String, Spanned<String>>) -> Result<LeaseRules, Fault> {
    let rule = |(glob, lease): (&String, &Spanned<String>)| (glob.clone(), lease.get_ref().clone());
    for (glob, lease) in raw {
        LeaseRules::new([rule((glob, lease))]).map_err(|e| fault(lease, e))?;
    }
    Ok(LeaseRules::new(raw.iter().map(rule)).unwrap_or_default()) // each was looked at
}

/// A duration without which nothing could ever be in time.
fn some_time(raw: Option<&Spanned<String>>, default: Duration, max: Duration) -> Result<Duration, Fault> {
    match (duration(raw, default, max)?, raw) {
        (Duration::ZERO, Some(raw)) => Err(fault(
            raw,
            "0 leaves no time at all, so that nothing could be done in it; leave the key out for the default",
        )),
        (duration, _) => Ok(duration),
    }
}

fn duration(raw: Option<&Spanned<String>>, default: Duration, max: Duration) -> Result<Duration, Fault> {
    let Some(raw) = raw else { return Ok(default) };
    let text = raw.get_ref();
    let parsed = text.parse::<jiff::SignedDuration>().ok().and_then(|d| Duration::try_from(d).ok());
    match parsed {
        Some(d) if d <= max => Ok(d),
        Some(_) => Err(fault(
            raw,
            format!("{text:?} is longer than {} s, the most that is allowed here", max.as_secs()),
        )),
        None => Err(fault(raw, format!("{text:?} is not a duration; write \"250ms\", \"60s\" or \"15m\""))),
    }
}
