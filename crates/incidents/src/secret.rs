//! What a secret looks like: names that mean one, headers that carry one, and words that are one.

/// Endings of a part of a name that mean a secret (`PGPASSWORD`, `accesstoken`).
const SECRET_ENDINGS: &[&str] = &[
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "secrets",
    "token",
    "apikey",
    "credential",
    "credentials",
];

/// Whole parts of a name that mean a secret; too short to be looked for in longer ones.
const SECRET_PARTS: &[&str] = &["pwd", "pass", "pw", "creds", "otp"];

/// Pairs of neighbouring parts that mean one together.
const SECRET_PAIRS: &[(&str, &str)] = &[
    ("api", "key"),
    ("access", "key"),
    ("private", "key"),
    ("secret", "key"),
    ("signing", "key"),
    ("encryption", "key"),
    ("master", "key"),
    ("account", "key"),
    ("shared", "key"),
    ("auth", "key"),
    ("connection", "string"),
];

/// Names of tokens that are none: counters and the like of the protocol.
const NOT_SECRET: &[&str] = &["progresstoken", "progress_token"];

/// Headers whose value authenticates.
const SECRET_HEADERS: &[&str] =
    &["authorization", "proxy-authorization", "cookie", "set-cookie", "x-api-key", "x-auth-token"];

/// Beginnings of well-known tokens and how many characters must follow at least.
const TOKEN_FORMS: &[(&str, usize)] = &[
    ("ghp_", 16),
    ("gho_", 16),
    ("ghu_", 16),
    ("ghs_", 16),
    ("ghr_", 16),
    ("github_pat_", 16),
    ("glpat-", 16),
    ("sk-", 16),
    ("sk_live_", 8),
    ("sk_test_", 8),
    ("rk_live_", 8),
    ("pk_live_", 8),
    ("xoxb-", 8),
    ("xoxp-", 8),
    ("xoxa-", 8),
    ("xapp-", 8),
    ("AKIA", 16),
    ("ASIA", 16),
    ("AIza", 20),
    ("npm_", 16),
    ("pypi-", 16),
    ("hf_", 16),
    ("ya29.", 16),
    ("dop_v1_", 16),
    ("SG.", 16),
    ("AGE-SECRET-KEY-", 16),
];

/// The shortest run of mixed letters and digits that is taken for a secret. Ids and digests in one case are not mixed.
const MIN_MIXED_BYTES: usize = 32;

/// Whether a value under this name is a secret. Understands `snake_case`, `kebab-case`, `dotted.names` and `camelCase`.
pub(crate) fn is_secret_name(name: &str) -> bool {
    if NOT_SECRET.contains(&name.to_ascii_lowercase().as_str()) {
        return false;
    }
    let parts = parts(name);
    let means_secret = |part: &String| {
        SECRET_PARTS.contains(&part.as_str()) || SECRET_ENDINGS.iter().any(|ending| part.ends_with(ending))
    };
    parts.iter().any(means_secret)
        || parts.windows(2).any(|w| SECRET_PAIRS.contains(&(w[0].as_str(), w[1].as_str())))
}

/// Whether this is a header that authenticates.
pub(crate) fn is_secret_header(name: &str) -> bool {
    SECRET_HEADERS.iter().any(|h| h.eq_ignore_ascii_case(name))
}

/// Whether this word is a secret, whatever it stands beside.
pub(crate) fn is_token(word: &str) -> bool {
    let known =
        |(form, more): &(&str, usize)| word.strip_prefix(form).is_some_and(|rest| rest.len() >= *more);
    TOKEN_FORMS.iter().any(known) || is_jwt(word) || is_mixed(word)
}

/// Three (or, unsigned, two) base64url parts of which the first is a JSON object.
fn is_jwt(word: &str) -> bool {
    let parts: Vec<&str> = word.split('.').collect();
    let base64url =
        |p: &&str| p.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'='));
    word.starts_with("eyJ")
        && matches!(parts.len(), 2..=5)
        && parts[1].len() >= 8
        && parts.iter().all(base64url)
}

fn is_mixed(word: &str) -> bool {
    let longest = word.split('.').map(str::len).max().unwrap_or(0);
    let has = |f: fn(&u8) -> bool| word.as_bytes().iter().any(f);
    longest >= MIN_MIXED_BYTES
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_digit)
}

/// The lower-case parts of a name.
fn parts(name: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let mut before = ' ';
    for c in name.chars() {
        let hump = c.is_ascii_uppercase() && before.is_ascii_lowercase();
        if (hump || !c.is_ascii_alphanumeric()) && parts.last().is_some_and(|p| !p.is_empty()) {
            parts.push(String::new());
        }
        if let (true, Some(part)) = (c.is_ascii_alphanumeric(), parts.last_mut()) {
            part.push(c.to_ascii_lowercase());
        }
        before = c;
    }
    parts
}
