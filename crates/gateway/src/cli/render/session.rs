//! Sessions, their checkpoints, and what each is to do.

use super::text::{ago, cell, each, labelled, section, table, when};
use serde_json::Value;
use tidegate_core::WallTime;

/// Sessions as a table.
pub(super) fn session_table(list: &Value, now: WallTime) -> String {
    let row = |session: &Value| {
        let state = match (session["ended"].is_null(), session["attached"] == true) {
            (false, _) => "ended",
            (true, true) => "connected",
            (true, false) => "away",
        };
        [
            cell(&session["name"]),
            cell(&session["principal"]),
            state.to_owned(),
            cell(&session["streams"]),
            ago(&session["updated_at"], now),
            cell(&session["next_action"]["kind"]),
        ]
    };
    table(["NAME", "PRINCIPAL", "STATE", "STREAMS", "UPDATED", "NEXT ACTION"], each(list).map(row))
}

/// `sessions`, and what `sessions end` says: with the calls that may have taken effect, and whose answer nobody has.
pub(in crate::cli) fn sessions(doc: &Value, now: WallTime) -> String {
    let text = section("Sessions", &session_table(&doc["sessions"], now));
    let row = |(session, call): (&Value, &Value)| {
        let [tool, component, class, state] =
            ["tool", "component", "class", "state"].map(|it| cell(&call[it]));
        [cell(&session["name"]), tool, component, class, state]
    };
    let calls = each(&doc["sessions"]).flat_map(|it| each(&it["unanswered"]).map(move |call| (it, call)));
    match table(["SESSION", "TOOL", "COMPONENT", "CLASS", "STATE"], calls.map(row)) {
        calls if calls.is_empty() => text,
        calls => format!("{text}\n{}", section("Calls without an answer", &calls)),
    }
}

/// `checkpoints list`.
pub(in crate::cli) fn checkpoints(doc: &Value, now: WallTime) -> String {
    let row = |checkpoint: &Value| {
        [
            cell(&checkpoint["session"]),
            cell(&checkpoint["principal"]),
            ago(&checkpoint["updated_at"], now),
            cell(&checkpoint["next_action"]["kind"]),
        ]
    };
    let rows = each(&doc["checkpoints"]).map(row);
    section("Checkpoints", &table(["SESSION", "PRINCIPAL", "UPDATED", "NEXT ACTION"], rows))
}

/// One session: the next action first, then its facts.
pub(in crate::cli) fn resume(doc: &Value, now: WallTime) -> String {
    let first = cell(&doc["next_action"]["prompt"]);
    let mut text = format!("{}: {first}\n", cell(&doc["session"]));
    let facts = &doc["facts"];
    for pending in each(&facts["pending"]).map(|pending| cell(&pending["prompt"])).filter(|it| *it != first) {
        text += &labelled("then", &pending);
    }
    for (component, generation) in facts["generations"].as_object().into_iter().flatten() {
        text += &labelled("generation", &format!("{component}: {} when this was recorded", cell(generation)));
    }
    for lease in each(&facts["leases"]) {
        text += &labelled("lease", &cell(lease));
    }
    for call in each(&facts["calls"]) {
        let (tool, component) = (cell(&call["tool"]), cell(&call["component"]));
        let (class, state) = (cell(&call["class"]), cell(&call["state"]));
        text += &labelled("call", &format!("{tool} on {component} ({class}): {state}"));
    }
    for note in each(&facts["notes"]) {
        text += &labelled("note", &format!("{} ({})", cell(&note["text"]), ago(&note["at"], now)));
    }
    if !facts["ended"].is_null() {
        text += &labelled("ended", &when(&facts["ended"]["at"], now));
    }
    text
}
