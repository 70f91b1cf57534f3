//! The id of a message that can't be read whole: too long, too deep, or ambiguous. A guess that is right for what real
//! peers send, and used only to tell the right caller that its message was refused.

use crate::RawId;

/// The id of a JSON-RPC message of which only the beginning and the end are there: a top-level `"id"` near the
/// beginning, or the last member of the object.
#[must_use]
pub fn salvage_id(head: &[u8], tail: &[u8]) -> Option<RawId> {
    id_in_head(head).or_else(|| id_at_end(tail))
}

/// The id that a line answers which looks like an answer and can't be read: it names a request and has, or began to have,
/// a result or an error.
pub(crate) fn broken_answer_to(line: &[u8]) -> Option<RawId> {
    let has = |key| top_member(line, key).is_some();
    (has("jsonrpc") && (has("result") || has("error"))).then(|| salvage_id(line, line)).flatten()
}

fn id_in_head(head: &[u8]) -> Option<RawId> {
    top_member(head, "id").and_then(scalar).map(|(id, _)| id)
}

/// What follows a key of the outermost object, as far as the text goes.
fn top_member<'a>(text: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        match text[at] {
            b'"' => {
                let end = at + string_len(&text[at..])?;
                if depth == 1
                    && &text[at + 1..end - 1] == key.as_bytes()
                    && let Some(value) = trim_start(&text[end..]).strip_prefix(b":")
                {
                    return Some(trim_start(value));
                }
                at = end;
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    None
}

fn id_at_end(tail: &[u8]) -> Option<RawId> {
    let key = b"\"id\":";
    let at = tail.windows(key.len()).rposition(|window| window == key)?;
    let (id, rest) = scalar(trim_start(&tail[at + key.len()..]))?;
    (rest.trim_ascii() == b"}").then_some(id)
}

/// A complete string or number at the beginning, and what follows it.
fn scalar(text: &[u8]) -> Option<(RawId, &[u8])> {
    let len = if text.first() == Some(&b'"') {
        string_len(text)?
    } else {
        text.iter().position(|b| !(b.is_ascii_digit() || b"+-.eE".contains(b)))?
    };
    let id = std::str::from_utf8(&text[..len]).ok().and_then(RawId::new)?;
    Some((id, &text[len..]))
}

/// The length of the string at the beginning, quotes included; `None` when it doesn't end.
fn string_len(text: &[u8]) -> Option<usize> {
    let mut escaped = false;
    for (at, byte) in text.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn trim_start(text: &[u8]) -> &[u8] {
    text.trim_ascii_start()
}
