//! Takes secrets and home paths out of text. Pure: one pass from left to right, in time that grows with the text.
//!
//! It errs on the side of taking out too much: evidence that lost a harmless word can still be read, a stored password
//! can't be taken back. Never sees more than [`MAX_INPUT_BYTES`](crate::MAX_INPUT_BYTES) of a text.

use crate::secret::{is_secret_header, is_secret_name, is_token};

/// What stands in place of a secret.
pub(crate) const REDACTED: &str = "[redacted]";

/// What stands in place of a home directory.
const HOME: &str = "~";

/// Takes secrets and home paths out of text.
///
/// Taken out are: PEM blocks; the user part of addresses; values of headers that authenticate; values of names that
/// mean a secret (`password=…`, `"api_key": "…"`, `--token …`); JSON web tokens; tokens of well-known forms; long runs of
/// mixed letters and digits. Home directories become `~`. Digests and ids in lower case stay: evidence needs them.
///
/// ```
/// use tidegate_incidents::redact;
/// assert_eq!(redact("DB_PASSWORD=hunter2 /home/alice/app.log"), "DB_PASSWORD=[redacted] ~/app.log");
/// ```
#[must_use]
pub fn redact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    let mut starts_word = true;
    while let Some(c) = rest.chars().next() {
        let found = match c {
            '-' | ':' | '/' => pem(rest).or_else(|| userinfo(rest)).or_else(|| home(rest)),
            _ => None,
        };
        let found = found.or_else(|| if starts_word { root(rest).or_else(|| word(rest)) } else { None });
        let (kept, taken) = match found {
            Some(Found { keep, take, instead }) => {
                out.push_str(&rest[..keep]);
                out.push_str(instead);
                (keep, take)
            }
            None => {
                out.push(c);
                (c.len_utf8(), 0)
            }
        };
        starts_word = !rest[..kept + taken].ends_with(is_word);
        rest = &rest[kept + taken..];
    }
    out
}

/// As [`redact`], for the value of something that has a name: all of it goes when the name means a secret.
#[must_use]
pub fn redact_field(name: &str, value: &str) -> String {
    if is_secret_name(name) || is_secret_header(name) { REDACTED.to_owned() } else { redact(value) }
}

/// A piece of text to be replaced: `take` bytes after `keep` bytes that stay.
struct Found {
    keep: usize,
    take: usize,
    instead: &'static str,
}

fn take(keep: usize, take: usize) -> Option<Found> {
    Some(Found { keep, take, instead: REDACTED })
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '+')
}

fn run(text: &str, of: impl Fn(char) -> bool) -> usize {
    text.find(|c| !of(c)).unwrap_or(text.len())
}

/// A PEM block to its end, or to the end of the text when that was cut off.
fn pem(rest: &str) -> Option<Found> {
    let label = rest.strip_prefix("-----BEGIN ")?;
    let label = &label[..label.find("-----")?];
    let end = format!("-----END {label}-----");
    take(0, rest.find(&end).map_or(rest.len(), |at| at + end.len()))
}

/// The user part of an address, `://USER:PASSWORD@`.
fn userinfo(rest: &str) -> Option<Found> {
    const SLASHES: &str = "://";
    let authority = rest.strip_prefix(SLASHES)?;
    let authority =
        &authority[..run(authority, |c| !c.is_whitespace() && !matches!(c, '/' | '?' | '#' | '"' | '\''))];
    let user = authority.rfind('@')?;
    take(SLASHES.len(), user)
}

/// The home directory of somebody, wherever homes are mounted.
fn home(rest: &str) -> Option<Found> {
    let parent = ["/home/", "/Users/"].into_iter().find(|p| rest.starts_with(p))?;
    let user = run(&rest[parent.len()..], |c| is_word(c) || !c.is_ascii());
    (user > 0).then_some(Found { keep: 0, take: parent.len() + user, instead: HOME })
}

/// The home directory of root.
fn root(rest: &str) -> Option<Found> {
    let after = rest.strip_prefix("/root")?;
    let ends = after.chars().next().is_none_or(|c| !is_word(c));
    ends.then_some(Found { keep: 0, take: "/root".len(), instead: HOME })
}

/// A word that is a token, or a name whose value is a secret.
fn word(rest: &str) -> Option<Found> {
    let dashes = run(rest, |c| c == '-');
    let name = &rest[dashes..];
    let name = &name[..run(name, is_word)];
    if name.is_empty() {
        return None;
    }
    let keep = dashes + name.len();
    let after = &rest[keep..];
    let padding = run(after, |c| c == '=');
    if is_token(name) {
        return take(0, keep + padding);
    }
    if is_secret_header(name) {
        let at = assigned(after)?;
        return value(keep + at, &after[at..], |c| !matches!(c, '\n' | '\r' | '"' | '\''));
    }
    if let Some(looks_right) = scheme(name) {
        let at = spaced(after)?;
        let credential = run(&after[at..], |c| is_word(c) || matches!(c, '/' | '=' | '~'));
        return if looks_right(&after[at..at + credential]) { take(keep + at, credential) } else { None };
    }
    if !is_secret_name(name) {
        return None;
    }
    let flag = || spaced(after).filter(|at| dashes == 2 && !after[*at..].starts_with("--"));
    let at = assigned(after).or_else(flag)?;
    value(keep + at, &after[at..], |c| {
        !c.is_whitespace() && !matches!(c, ',' | ';' | '&' | '"' | '\'' | ')' | '}' | '<' | '>')
    })
}

/// For the name of an authentication scheme: whether the next word looks like its credential and not like prose.
fn scheme(name: &str) -> Option<fn(&str) -> bool> {
    if name.eq_ignore_ascii_case("bearer") {
        Some(|word| !word.is_empty())
    } else if name.eq_ignore_ascii_case("basic") {
        Some(|word| word.bytes().any(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'='))
    } else {
        None
    }
}

/// How far it is from the end of a name to its value: over a closing quote, `=`, `:` or `=>`, and blanks.
fn assigned(after: &str) -> Option<usize> {
    let quote = run(after, |c| matches!(c, '"' | '\'' | '\\'));
    let blank = run(&after[quote..], |c| c == ' ' || c == '\t');
    let sign = &after[quote + blank..];
    let sign_len = ["=>", ":=", "=", ":"].into_iter().find(|s| sign.starts_with(s))?.len();
    let at = quote + blank + sign_len;
    let at = at + run(&after[at..], |c| c == ' ' || c == '\t');
    (at < after.len()).then_some(at)
}

/// How far it is from the end of a word to the next one on the same line.
fn spaced(after: &str) -> Option<usize> {
    let blank = run(after, |c| c == ' ' || c == '\t');
    (blank > 0 && blank < after.len()).then_some(blank)
}

/// A value that begins `keep` bytes in: what is between its quotes, or else as far as `plain` goes.
fn value(keep: usize, text: &str, plain: impl Fn(char) -> bool) -> Option<Found> {
    match quoted(text) {
        Some((open, inside)) => take(keep + open, inside),
        None => Some(run(text, plain)).filter(|len| *len > 0).and_then(|len| take(keep, len)),
    }
}

/// The length of a value's opening quote and of what is inside; escaped quotes don't end it, and where the closing one is
/// missing it ends with the text. An opening quote that is escaped itself (JSON in JSON) is closed by one like it.
fn quoted(text: &str) -> Option<(usize, usize)> {
    let escape = run(text, |c| c == '\\');
    let quote = text[escape..].chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let open = escape + quote.len_utf8();
    let mut escaped = 0;
    for (at, c) in text[open..].char_indices() {
        if c == quote && escaped <= escape {
            return Some((open, at - escaped));
        }
        escaped = if c == '\\' { escaped + 1 } else { 0 };
    }
    Some((open, text.len() - open))
}
