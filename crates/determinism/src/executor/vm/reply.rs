//! From what a guest left to what an executor gives back. Pure.

use tidegate_guest::{Frame, Kind};

use super::super::{Machine, Run};
use super::qemu::Left;
use crate::record::Reason;
use crate::stream::Recording;
use crate::verdict::Failure;

/// What the guest's reason codes stand for.
const REASONS: [(&str, Reason); 4] = [
    ("TIMEOUT", Reason::Timeout),
    ("START_FAILED", Reason::StartFailed),
    ("SCRIPT_INCOMPLETE", Reason::ScriptIncomplete),
    ("OUTPUT_TOO_LARGE", Reason::OutputTooLarge),
];

/// A run of so many tasks, or why it has none.
pub(super) fn read(left: Left, tasks: usize) -> Result<Run, Failure> {
    let broken = || no_records("the machine's reply is no reply".to_owned());
    let frames = Frame::read_all(&left.reply).ok_or_else(broken)?;
    let mut recordings = vec![Recording::default(); tasks];
    let mut machine = Machine { kernel_log: lines(&left.kernel_log), ..Machine::default() };
    for frame in frames {
        let recording = recordings.get_mut(frame.task as usize).ok_or_else(broken)?;
        match frame.kind {
            Kind::Output => recording.stdout.extend(&frame.bytes),
            Kind::Error => recording.stderr.extend(&frame.bytes),
            Kind::Started => recording.pid = text(&frame).parse().map_err(|_| broken())?,
            Kind::Ended => recording.exit = text(&frame),
            Kind::Failed => return Err(failure(&text(&frame))),
            Kind::Schedule => machine.schedule.push(frame.bytes.clone()),
            Kind::Changed => machine.changed_files.push(frame.bytes.clone()),
        }
        if !matches!(frame.kind, Kind::Schedule | Kind::Changed) {
            machine.trace.push(event(&frame));
        }
    }
    if recordings.iter().any(|recording| recording.exit.is_empty()) {
        return Err(no_records("a task has no end in the machine's reply".to_owned()));
    }
    for (name, records) in [("trace", &machine.trace), ("kernel log", &machine.kernel_log)] {
        if records.is_empty() {
            return Err(no_records(format!("the machine left no {name}")));
        }
    }
    Ok(Run { recordings, machine: Some(machine), spent: left.spent })
}

/// A frame as a line: when, which task, what.
fn event(frame: &Frame) -> Vec<u8> {
    let what = match frame.kind {
        Kind::Output => "stdout",
        Kind::Error => "stderr",
        Kind::Started => "process",
        _ => "end",
    };
    let (seconds, nanoseconds) = (frame.at_ns / 1_000_000_000, frame.at_ns % 1_000_000_000);
    let mut line = format!("{seconds}.{nanoseconds:09} task {} {what} ", frame.task).into_bytes();
    line.extend(&frame.bytes);
    line
}

fn failure(text: &str) -> Failure {
    let (code, detail) = text.split_once(' ').unwrap_or((text, ""));
    let reason =
        REASONS.iter().find(|(known, _)| *known == code).map_or(Reason::NoRecords, |(_, reason)| *reason);
    Failure { reason, detail: detail.to_owned() }
}

fn no_records(detail: String) -> Failure {
    Failure { reason: Reason::NoRecords, detail }
}

fn text(frame: &Frame) -> String {
    String::from_utf8_lossy(&frame.bytes).into_owned()
}

/// Lines without the carriage returns of a console.
fn lines(log: &[u8]) -> Vec<Vec<u8>> {
    log.split_inclusive(|byte| *byte == b'\n')
        .map(|line| line.iter().copied().filter(|byte| *byte != b'\r').collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Spent;

    fn frame(kind: Kind, task: u32, text: &str) -> Frame {
        Frame { kind, task, at_ns: 1_000_000_002, bytes: text.as_bytes().to_vec() }
    }

    fn left(frames: &[Frame]) -> Left {
        Left {
            reply: Frame::write_all(frames),
            kernel_log: b"[    0.0] Linux\r\n".to_vec(),
            spent: Spent::default(),
        }
    }

    #[test]
    fn frames_become_recordings_and_a_trace_in_their_order() {
        let run = read(
            left(&[
                frame(Kind::Started, 0, "81"),
                frame(Kind::Output, 0, "a\n"),
                frame(Kind::Error, 0, "b\n"),
                frame(Kind::Output, 0, "c\n"),
                frame(Kind::Ended, 0, "exit 0"),
                frame(Kind::Schedule, 0, "a ==> b"),
                frame(Kind::Changed, 0, "directory /"),
            ]),
            1,
        )
        .unwrap();
        let recording = &run.recordings[0];
        assert_eq!((recording.pid, recording.exit.as_str()), (81, "exit 0"));
        assert_eq!((recording.stdout.as_slice(), recording.stderr.as_slice()), (&b"a\nc\n"[..], &b"b\n"[..]));
        let machine = run.machine.unwrap();
        assert_eq!(machine.trace.len(), 5);
        assert_eq!(machine.trace[1], b"1.000000002 task 0 stdout a\n");
        assert_eq!(machine.kernel_log, [b"[    0.0] Linux\n"]);
        assert_eq!((machine.schedule.len(), machine.changed_files.len()), (1, 1));
    }

    fn refused(left: Left, expected: Reason, words: &str) {
        let failure = read(left, 1).unwrap_err();
        assert_eq!(failure.reason, expected);
        assert!(failure.detail.contains(words), "{}", failure.detail);
    }

    #[test]
    fn a_reply_without_records_or_with_a_failure_is_no_run() {
        refused(left(&[]), Reason::NoRecords, "no end");
        refused(left(&[frame(Kind::Output, 0, "a")]), Reason::NoRecords, "no end");
        refused(left(&[frame(Kind::Output, 1, "a")]), Reason::NoRecords, "no reply");
        refused(left(&[frame(Kind::Failed, 0, "TIMEOUT it did not end")]), Reason::Timeout, "it did not end");
        let silent = Left { kernel_log: Vec::new(), ..left(&[frame(Kind::Ended, 0, "exit 0")]) };
        refused(silent, Reason::NoRecords, "no kernel log");
        let cut = left(&[frame(Kind::Ended, 0, "exit 0")]);
        refused(Left { reply: cut.reply[..5].to_vec(), ..cut }, Reason::NoRecords, "no reply");
    }
}
