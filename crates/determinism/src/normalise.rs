//! The one rule that rewrites records before they are compared: addresses become ordinals, and hits are counted.
//!
//! Must never touch numbers or times: a rule that hides those hides the divergence that is being looked for.

use std::collections::BTreeMap;

use crate::stream::Streams;

/// What user-space addresses begin with where the kernel randomises them: program and heap, then mappings and stack.
#[cfg(not(target_arch = "aarch64"))]
const LEADING_DIGITS: &[&[u8]] = &[b"55", b"56", b"7e", b"7f"];
#[cfg(target_arch = "aarch64")]
const LEADING_DIGITS: &[&[u8]] = &[b"aaa", b"ffff"];
/// Digits of a user-space address without leading zeros.
const ADDRESS_DIGITS: usize = 12;
/// Leading zeros of an address printed at its full width.
const PADDING: &[u8] = b"0000";

pub(crate) const RULE: &str = "addresses";
pub(crate) const RULE_DESCRIPTION: &str = "0x and the twelve digits of a randomised user-space address become the ordinal of the address's first use in \
     its stream";

/// Rewrites every stream by itself and returns the number of addresses replaced.
pub(crate) fn normalise(streams: &mut Streams) -> u64 {
    let mut hits = 0;
    for events in streams.values_mut() {
        let mut ordinals = BTreeMap::new();
        for event in events {
            *event = rewrite(event, &mut ordinals, &mut hits);
        }
    }
    hits
}

fn rewrite(event: &[u8], ordinals: &mut BTreeMap<Vec<u8>, usize>, hits: &mut u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(event.len());
    let mut rest = event;
    while let Some(&byte) = rest.first() {
        let inside_a_word = out.last().is_some_and(u8::is_ascii_alphanumeric);
        match address(rest) {
            Some((digits, length)) if !inside_a_word => {
                let next = ordinals.len();
                let ordinal = *ordinals.entry(digits).or_insert(next);
                out.extend(format!("<address {ordinal}>").bytes());
                *hits += 1;
                rest = &rest[length..];
            }
            _ => {
                out.push(byte);
                rest = &rest[1..];
            }
        }
    }
    out
}

/// The address that the text begins with: its digits, and the bytes it takes.
fn address(text: &[u8]) -> Option<(Vec<u8>, usize)> {
    let digits = text.strip_prefix(b"0x")?;
    let width = digits.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let followed_by_a_word = digits.get(width).is_some_and(u8::is_ascii_alphanumeric);
    let all = digits[..width].to_ascii_lowercase();
    let significant = match width.checked_sub(ADDRESS_DIGITS)? {
        0 => &all[..],
        padding if padding == PADDING.len() => all.strip_prefix(PADDING)?,
        _ => return None,
    };
    let is_address = LEADING_DIGITS.iter().any(|lead| significant.starts_with(lead));
    (is_address && !followed_by_a_word).then(|| (significant.to_vec(), width + 2))
}

#[cfg(all(test, not(target_arch = "aarch64")))]
mod tests {
    use super::*;

    fn check(input: &str, expected: &str, expected_hits: u64) {
        let mut streams = Streams::from([("stdout".to_owned(), vec![input.as_bytes().to_vec()])]);
        let hits = normalise(&mut streams);
        assert_eq!(String::from_utf8_lossy(&streams["stdout"][0]), expected);
        assert_eq!(hits, expected_hits, "{input}");
    }

    #[test]
    fn only_randomised_addresses_are_replaced_and_each_one_is_counted() {
        check("at 0x7ffd1c2b3a40", "at <address 0>", 1);
        check("0x55d0c0a01000 0x7F12aabbccdd 0x55D0C0A01000", "<address 0> <address 1> <address 0>", 3);
        check("0x00007ffd1c2b3a40", "<address 0>", 1);
        check("crc 0xdeadbeef, mask 0xffffffffffff", "crc 0xdeadbeef, mask 0xffffffffffff", 0);
        check("0x7ffd1c2b3a401", "0x7ffd1c2b3a401", 0);
        check("0x7ffd1c2b3a40z", "0x7ffd1c2b3a40z", 0);
        check("a0x7ffd1c2b3a40", "a0x7ffd1c2b3a40", 0);
        check("7ffd1c2b3a40", "7ffd1c2b3a40", 0);
        check("1764473912 12.5ms pid 4711", "1764473912 12.5ms pid 4711", 0);
        check("0x", "0x", 0);
    }

    #[test]
    fn ordinals_count_within_a_stream_so_that_streams_stay_independent() {
        let events = |text: &str| vec![text.as_bytes().to_vec()];
        let mut streams = Streams::from([
            ("stderr".to_owned(), events("0x7f0000000001")),
            ("stdout".to_owned(), events("0x7f0000000002")),
        ]);
        assert_eq!(normalise(&mut streams), 2);
        assert_eq!(streams["stderr"], streams["stdout"]);
    }
}
