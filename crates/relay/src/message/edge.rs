//! The id of a message that can't be read whole: too long, too deep, or ambiguous. A guess that is right for what real
//! peers send, and used only to tell the right caller that its message was refused.

use crate::RawId;

/// The id of a JSON-RPC message of which only the beginning and the end are there: a top-level `"id"` near the
/// beginning, or the last member of the object.
#[must_use]
pub fn salvage_id(head: &[u8], tail: &[u8]) -> Option<RawId> {
    id_in_head(head).or_else(|| id_at_end(tail))
}

fn id_in_head(head: &[u8]) -> Option<RawId> {
    let (mut depth, mut at) = (0_usize, 0);
    while at < head.len() {
        match head[at] {
            b'"' => {
                let end = at + string_len(&head[at..])?;
                if depth == 1 && &head[at..end] == b"\"id\"" {
                    let value = trim_start(&head[end..]).strip_prefix(b":").map(trim_start)?;
                    return scalar(value).map(|(id, _)| id);
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
