//! The ten bullets, in words for somebody who has never seen the project; `docs/bullets.md` has the precise ones.

/// Number, title and meaning.
pub(crate) const BULLETS: [(u8, &str, &str); 10] = [
    (
        1,
        "no unilateral restart",
        "no agent stops a server without another, credentialed party's approval, whichever door it tries",
    ),
    (
        2,
        "new work stops during drain",
        "nothing new reaches a server between the beginning of a drain and the reopening: it is held or refused with a next action",
    ),
    (
        3,
        "active safe work finishes",
        "work that was admitted before and ends in time gets its own answer, once; the drain never cancels it",
    ),
    (
        4,
        "unsafe mutation blocks restart",
        "a server isn't stopped while a call that changes something is, or may be, executing",
    ),
    (
        5,
        "durable checkpoints",
        "before a stop, every session concerned has a record on stable storage; a kill at any instant loses nothing acknowledged",
    ),
    (
        6,
        "no silent orphans",
        "after a restart each lease is carried over, released, expired, adopted or orphaned with an incident, and never held twice",
    ),
    (
        7,
        "resume or next action",
        "at its next contact every session goes on or is told the one thing to do next",
    ),
    (
        8,
        "failed drain leaves work",
        "a drain that fails has one open incident that says what to do and who is next",
    ),
    (9, "scoped", "whoever isn't concerned notices nothing: no refusal, no cancellation, no slower answers"),
    (
        10,
        "no chat reconstruction",
        "a fresh process can tell each session its facts and each restart its phase, from storage alone",
    ),
];
