//! What the image's conversation shows of the ten bullets, whatever the interleaving. Pure.
//!
//! A conversation sees what its sessions see, and what is told from disk after its daemon was killed.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tidegate_determinism::Visit;

/// For the whole conversation, in the machine's own time; it takes some twenty seconds of it.
pub(super) const DEADLINE: Duration = Duration::from_secs(300);

/// The stream of the restart's phases, and that of the last look at the components.
const OPERATION: &str = "operation";
const STATUS: &str = "status";
/// A lease when it was acquired, and what is told after the daemon's death: from disk, or by the next daemon.
const LEASE: &str = "lease";
const DURABLE: &str = "durable";
/// Everybody in the conversation.
const SESSIONS: [&str; 3] = ["alice", "bob", "carol"];
/// What one of them had put down.
const NOTED: &str = "carol: Continue; half of it is done";
/// How every visit has to end.
const WELL: &str = "exit 0";
/// The phases that a restart goes through, in order; holders may be named in between.
const PHASES: [&str; 2] = ["Draining", "Completed"];
/// The call that changes something while the restart is asked for, and the one that comes while the gate is closed.
const UNDER_WAY: &str = "trigger-long-running-operation: ";
const HELD: &str = "echo: Echo: through the gate";

/// Records by their stream, in order.
type Streams = BTreeMap<String, Vec<String>>;

/// The order in which answers came, without what was in them.
pub(super) fn order(output: &[String]) -> Vec<String> {
    output.iter().filter_map(|line| Some(record(line)?.0)).collect()
}

/// What of the bullets did not hold, in words.
pub(super) fn broken(visit: &Visit) -> Vec<String> {
    let mut broken = Vec::new();
    match &visit.ended {
        Ok(ended) if ended == WELL => {}
        Ok(ended) => {
            let last = visit.errors.last().map_or("nothing", String::as_str);
            broken.push(format!("the conversation ended with {ended}, and said last: {last}"));
        }
        Err(why) => broken.push(format!("the conversation has no end: {why}")),
    }
    if visit.ended.is_err() {
        return broken;
    }
    let mut streams = Streams::new();
    for (stream, record) in visit.output.iter().filter_map(|line| record(line)) {
        streams.entry(stream).or_default().push(record);
    }
    let none = Vec::new();
    let operation = streams.get(OPERATION).unwrap_or(&none);
    let status = streams.get(STATUS).unwrap_or(&none);
    let answers = |begins: &str| {
        streams.values().flatten().filter(|record| record.starts_with(begins)).collect::<Vec<_>>()
    };
    let mut rule = |bullet: u8, holds: bool, what: &str| {
        if !holds {
            broken.push(format!("bullet {bullet}: {what}"));
        }
    };

    rule(1, operation.first().is_some_and(|phase| phase == "Requested"), "a drain that nobody asked for");
    rule(
        2,
        answers(HELD).len() == 1,
        "the call at the closed gate was not answered once, by the next generation",
    );
    let under_way = answers(UNDER_WAY);
    rule(3, under_way.len() == 1, "the call under way did not get its own answer, once");
    let cut = under_way.iter().any(|record| record.contains("refused: ") || record.contains(": error "));
    rule(4, !cut, "a call that changes something was cut");
    let durable = streams.get(DURABLE).unwrap_or(&none);
    rule(5, durable.iter().any(|line| line == NOTED), "a note that was acknowledged is not on disk");
    let acquired = streams.get(LEASE).unwrap_or(&none);
    let held: Vec<&str> =
        durable.iter().filter_map(|line| line.split_once(" has ")).map(|(_, lease)| lease).collect();
    rule(
        6,
        held.len() == 1 && held == *acquired,
        "a lease is not held once, at the fence that it was acquired with",
    );
    let ended = streams.iter().filter(|(stream, _)| stream.contains('/'));
    let went_on = ended.clone().count() > 0
        && ended.clone().all(|(_, records)| records.last().is_some_and(|last| last == "ended with 0"));
    rule(7, went_on, "a session did not go on to its own end");
    let mut phases = operation.iter().filter(|phase| PHASES.contains(&phase.as_str()));
    let in_order = PHASES.iter().all(|phase| phases.next().is_some_and(|found| found == phase));
    rule(8, in_order, "the restart did not end as completed");
    rule(
        9,
        status.iter().any(|line| line == "files ready generation 1"),
        "a component out of scope was restarted",
    );
    let told = |name: &&str| durable.iter().any(|line| line.starts_with(&format!("{name}: ")));
    let restart = durable.iter().any(|line| line == "the restart is Completed");
    rule(10, restart && SESSIONS.iter().all(told), "disk alone does not tell every session and the restart");
    broken
}

/// A line's stream and record; `None` for a line of the daemon's own.
fn record(line: &str) -> Option<(String, String)> {
    let value: Value = serde_json::from_str(line).ok()?;
    Some((value.get("stream")?.as_str()?.to_owned(), value.get("record")?.as_str()?.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A conversation in which everything held, to be changed.
    const GOOD: [(&str, &str); 14] = [
        ("operation", "Requested"),
        ("operation", "Draining"),
        ("bob/everything", "trigger-long-running-operation: Long running operation completed."),
        ("alice/everything", "echo: Echo: through the gate"),
        ("operation", "Completed"),
        ("status", "files ready generation 1"),
        ("lease", "files/note: held, fence 1.24"),
        ("durable", "alice: Continue; no note"),
        ("durable", "bob: Continue; no note"),
        ("durable", "carol: Continue; half of it is done"),
        ("durable", "carol has files/note: held, fence 1.24"),
        ("durable", "the restart is Completed"),
        ("alice/everything", "ended with 0"),
        ("bob/everything", "ended with 0"),
    ];

    fn visit(lines: &[(&str, &str)]) -> Visit {
        let line = |(stream, record): &(&str, &str)| {
            serde_json::json!({ "stream": stream, "record": record }).to_string()
        };
        Visit {
            seed: 1,
            shift: 0,
            output: lines.iter().map(line).collect(),
            errors: vec!["a word".to_owned()],
            ended: Ok("exit 0".to_owned()),
            interleaving: String::new(),
            cpu_s: 1.0,
            resident_mib: None,
        }
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Vec<(&str, &str)>), expected: &[&str]) {
        let mut lines = GOOD.to_vec();
        change(&mut lines);
        let found = broken(&visit(&lines));
        assert_eq!(found.len(), expected.len(), "{found:?}");
        for (found, expected) in found.iter().zip(expected) {
            assert!(found.starts_with(expected), "{found}");
        }
    }

    #[test]
    fn each_bullet_that_the_conversation_sees_can_be_broken() {
        check(|_| (), &[]);
        check(|lines| _ = lines.remove(0), &["bullet 1"]);
        check(|lines| lines[3].1 = "echo: refused: draining", &["bullet 2"]);
        check(|lines| lines.push(("bob/everything", "ended with 0")), &[]);
        check(|lines| lines.insert(3, GOOD[2]), &["bullet 3"]);
        check(|lines| lines[2].1 = "trigger-long-running-operation: refused: outcome unknown", &["bullet 4"]);
        check(|lines| lines[9].1 = "carol: Continue; no note", &["bullet 5"]);
        check(|lines| lines[10].1 = "carol has files/note: expired, fence 1.24", &["bullet 6"]);
        check(|lines| lines.push(("durable", "bob has files/note: held, fence 1.25")), &["bullet 6"]);
        check(|lines| lines[13].1 = "ended with 1", &["bullet 7"]);
        check(|lines| lines[4].1 = "Refused", &["bullet 8"]);
        check(|lines| lines[5].1 = "files ready generation 2", &["bullet 9"]);
        check(|lines| _ = lines.remove(8), &["bullet 10"]);
        check(|lines| lines[11].1 = "the restart is Draining", &["bullet 10"]);
    }

    #[test]
    fn a_conversation_that_fails_says_what_it_said_last_and_one_without_end_why() {
        let failed = Visit { ended: Ok("exit 1".to_owned()), ..visit(&GOOD) };
        assert_eq!(broken(&failed), ["the conversation ended with exit 1, and said last: a word"]);
        let endless = Visit { ended: Err("it did not end".to_owned()), ..visit(&[]) };
        assert_eq!(broken(&endless), ["the conversation has no end: it did not end"]);
    }

    #[test]
    fn the_order_of_answers_is_that_of_their_streams() {
        assert_eq!(order(&visit(&GOOD[..3]).output), ["operation", "operation", "bob/everything"]);
        assert_eq!(order(&["no record".to_owned()]), Vec::<String>::new());
    }
}
