//! Which leases a tool call needs, by the operator's rules, and whether its session holds them. Acquires nothing; who holds
//! what is told from outside.

use crate::classify::glob_matches;
use crate::message::{Message, members};
use std::collections::BTreeMap;
use tidegate_core::planted::is_planted;
use tidegate_core::{HeldLease, Now, SessionId};

/// Where in a call its arguments are, as a JSON pointer.
const ARGUMENTS: &str = "/params/arguments";
/// Where a caller may say under which fence it believes to act.
const FENCE: &str = "/params/_meta/tidegate~1fence";

/// The operator's rules: calls of which tools need which lease.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaseRules(Vec<Rule>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    glob: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// A JSON pointer into the arguments.
    Argument(String),
}

/// A rule that can't be one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LeaseRuleError {
    /// The name of the lease is empty.
    #[error("the lease of {glob:?} has no name; write one like \"files/{{/path}}\"")]
    Empty {
        /// The tools.
        glob: String,
    },
    /// A brace without its other one.
    #[error(
        "the lease {template:?} has a brace without its other one; an argument is written like {{/path}}"
    )]
    Brace {
        /// The lease.
        template: String,
    },
    /// What is in braces is no pointer.
    #[error("{{{pointer}}} is not a JSON pointer into the arguments; it starts with a slash, like {{/path}}")]
    Pointer {
        /// What is there.
        pointer: String,
    },
}

/// A lease that a call needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Needed {
    /// Its name, or the rule for it.
    pub(crate) lease: String,
    /// Whether the call's arguments don't name it. Then nobody holds it, not even who has a lease that is called like the rule.
    pub(crate) unnamed: bool,
}

impl LeaseRules {
    /// Rules of globs on tool names and lease names with arguments in braces: `("write_*", "files/{/path}")`.
    ///
    /// # Errors
    /// [`LeaseRuleError`] names what is wrong.
    pub fn new(rules: impl IntoIterator<Item = (String, String)>) -> Result<Self, LeaseRuleError> {
        let rule = |(glob, template): (String, String)| match parts(&template)? {
            parts if parts.is_empty() => Err(LeaseRuleError::Empty { glob }),
            parts => Ok(Rule { glob, parts }),
        };
        rules.into_iter().map(rule).collect::<Result<_, _>>().map(Self)
    }

    /// Whether no call needs any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The leases that a call needs. One that can't be named, because an argument isn't there, is there twice or is neither
    /// text nor number, is told by its rule.
    fn needed(&self, tool: &str, call: &Message) -> Vec<Needed> {
        let matching = self.0.iter().filter(|rule| glob_matches(&rule.glob, tool));
        let needed = |rule: &Rule| match rule.name_for(call) {
            Some(lease) => Needed { lease, unnamed: false },
            None => Needed { lease: rule.to_string(), unnamed: true },
        };
        matching.map(needed).collect()
    }
}

impl Rule {
    fn name_for(&self, call: &Message) -> Option<String> {
        let mut name = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => name.push_str(text),
                Part::Argument(pointer) => {
                    name.push_str(&scalar(call.line(), &format!("{ARGUMENTS}{pointer}")).ok()??);
                }
            }
        }
        Some(name)
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.parts.iter().try_for_each(|part| match part {
            Part::Text(text) => f.write_str(text),
            Part::Argument(pointer) => write!(f, "{{{pointer}}}"),
        })
    }
}

fn parts(template: &str) -> Result<Vec<Part>, LeaseRuleError> {
    let brace = || LeaseRuleError::Brace { template: template.to_owned() };
    let (mut parts, mut rest) = (Vec::new(), template);
    while !rest.is_empty() {
        let (text, after) = rest.split_at(rest.find(['{', '}']).unwrap_or(rest.len()));
        if !text.is_empty() {
            parts.push(Part::Text(text.to_owned()));
        }
        rest = match after.strip_prefix('{') {
            Some(argument) => {
                let (pointer, after) = argument.split_once('}').ok_or_else(brace)?;
                if !pointer.starts_with('/') {
                    return Err(LeaseRuleError::Pointer { pointer: pointer.to_owned() });
                }
                parts.push(Part::Argument(pointer.to_owned()));
                after
            }
            None if after.is_empty() => after,
            None => return Err(brace()),
        };
    }
    Ok(parts)
}

/// What stands at a pointer may be read in several ways, or is neither text nor number.
struct Unclear;

/// The text or number at a JSON pointer; `None` when nothing is there. Every key on the way must be there once: the server
/// might believe the other one.
fn scalar(json: &str, pointer: &str) -> Result<Option<String>, Unclear> {
    let mut json = json.to_owned();
    for token in pointer.split('/').skip(1) {
        let key = token.replace("~1", "/").replace("~0", "~");
        let all = members(&json).map_err(|_| Unclear)?;
        let mut found = all.into_iter().filter(|member| member.key == key);
        let Some(value) = found.next().map(|member| member.value.to_owned()) else { return Ok(None) };
        if found.next().is_some() {
            return Err(Unclear);
        }
        if value == "null" {
            return Ok(None);
        }
        json = value;
    }
    match serde_json::from_str(&json) {
        Ok(serde_json::Value::String(text)) => Ok(Some(text)),
        Ok(serde_json::Value::Number(_)) => Ok(Some(json)),
        _ => Err(Unclear),
    }
}

/// Who holds what, by the name of the lease.
pub(crate) type HeldLeases = BTreeMap<String, HeldLease>;

/// The first lease that a call of `session` needs and doesn't hold; `None` when it may go on.
pub(crate) fn missing(
    rules: &LeaseRules,
    held: &HeldLeases,
    session: &SessionId,
    tool: &str,
    call: &Message,
    now: &Now,
) -> Option<Needed> {
    let needed = rules.needed(tool, call);
    if needed.is_empty() {
        return None;
    }
    let any = is_planted("anybodys-lease-will-do");
    let is_its = |it: &&HeldLease| it.session == *session || any;
    let lasts = |it: &&HeldLease| it.until_ms.is_none_or(|until_ms| now.boot_ms < until_ms);
    let holds = |it: &Needed| {
        let lease = held.get(&it.lease).filter(|_| !it.unnamed);
        lease.filter(is_its).filter(lasts)
    };
    if let Some(missing) = needed.iter().find(|it| holds(it).is_none()) {
        return Some(missing.clone());
    }
    // A caller that names its fence must mean the grant that is in force, of one of its leases.
    let any = is_planted("an-old-fence-is-believed");
    let in_force = match scalar(call.line(), FENCE) {
        Ok(None) => true,
        Ok(Some(believed)) => {
            needed.iter().filter_map(holds).any(|it| it.fence.to_string() == believed || any)
        }
        Err(Unclear) => false,
    };
    if in_force { None } else { needed.into_iter().next() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(template: &str, arguments: &str) -> String {
        let rules = match LeaseRules::new([("write_*".to_owned(), template.to_owned())]) {
            Ok(rules) => rules,
            Err(error) => return error.to_string(),
        };
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"write_file","arguments":{arguments}}}}}"#
        );
        let call = Message::parse(line.into_bytes()).unwrap();
        assert!(rules.needed("read_file", &call).is_empty());
        let told = |it: Needed| if it.unnamed { format!("no {}", it.lease) } else { it.lease };
        rules.needed("write_file", &call).into_iter().map(told).collect::<Vec<_>>().join("+")
    }

    #[test]
    fn the_name_of_a_lease_is_made_of_the_arguments() {
        let check = |template: &str, arguments: &str, expected: &str| {
            assert_eq!(name(template, arguments), expected, "{template} {arguments}");
        };
        check("files/{/path}", r#"{"path":"/srv/a b"}"#, "files//srv/a b");
        check("files/{/path}", r#"{"\u0070ath":"caf\u00e9"}"#, "files/café");
        check("{/a}-{/b/c}!", r#"{"b":{"c":12},"a":"x"}"#, "x-12!");
        check("{/a~1b~0}", r#"{"a/b~":"x"}"#, "x");
        check("repo", "{}", "repo");
        check("files/{/path}", r#"{"path":"{/path}"}"#, "files/{/path}");
        // Nobody holds what can't be named.
        check("files/{/path}", "{}", "no files/{/path}");
        check("files/{/path}", r#"{"path":"a","path":"b"}"#, "no files/{/path}");
        check("files/{/path}", r#"{"path":["a"]}"#, "no files/{/path}");
        check("files/{/path}", "[]", "no files/{/path}");
    }

    #[test]
    fn a_rule_that_can_not_be_one_says_what_to_write() {
        let check = |template: &str, expected: &str| {
            let said = name(template, "{}");
            assert!(said.contains(expected), "{template}: {said}");
        };
        check("", "has no name");
        check("a{/b", "brace");
        check("a}b", "brace");
        check("a{b}", "not a JSON pointer");
    }
}
