//! The memory that host and guest share: a request at its beginning, the reply behind it.
//!
//! Pure. The header of a reply is written last, so a reply is there as a whole or not at all.

use serde::{Deserialize, Serialize};

use crate::conversation::Step;

/// Devices are read and written in blocks of this size.
pub const BLOCK: usize = 4 << 10;
/// Room for a request: a conversation of ten thousand steps fits many times over.
pub const REQUEST_BYTES: usize = 16 << 20;
/// All of the shared memory. The rest of it is the reply: the output of the tasks, at most 64 MiB, and the schedule.
pub const EXCHANGE_BYTES: usize = 128 << 20;

/// Names the program that a task may run at the place where a snapshot is worth most.
pub const PAUSE_VARIABLE: &str = "TIDEGATE_PAUSE";
/// That program, as a task sees it.
pub const PAUSE: &str = "/dev/tidegate-pause";

/// What the guest says of itself at the beginning of its reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It waits for a request that it has not had.
    Waiting,
    /// A task has paused it, and it waits for the next request.
    Paused,
    /// There is a reply of this length.
    Replied(usize),
}

const REQUEST_MAGIC: [u8; 8] = *b"TGREQ\x00\x001";
const REPLY_MAGIC: [u8; 8] = *b"TGREP\x00\x001";
const WAITING_MAGIC: [u8; 8] = *b"TGWAIT\x001";
const PAUSED_MAGIC: [u8; 8] = *b"TGPAUS\x001";

/// Everything that the guest is asked to do.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Tells a request from the one before it: what a task that has paused goes on with is the next one.
    pub number: u32,
    /// Tells each task of [`PAUSE`] in its environment: running that program pauses the machine until the next request.
    pub pauses: bool,
    /// One after the other.
    pub tasks: Vec<Task>,
    /// The longest that one task may take, in the machine's own time.
    pub deadline_ms: u64,
    /// Takes new random numbers from the processor first: for a machine restored from a snapshot.
    pub reseed: bool,
    /// Records which thread ran when.
    pub schedule: bool,
    /// Sets the wall clock first, in seconds since 1970.
    pub wall_clock: Option<u64>,
    /// Turns the randomisation of addresses on or off first.
    pub aslr: Option<bool>,
    /// Processes started and ended before the first task.
    pub pid_offset: u32,
}

/// One command.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Task {
    /// Where it runs.
    pub place: Place,
    /// The command and its arguments; in [`Place::Guest`] the arguments alone.
    pub argv: Vec<String>,
    /// All of its environment.
    pub environment: Vec<(String, String)>,
    /// Its working directory.
    pub directory: String,
    /// Whose process it is.
    pub user: u32,
    /// And in which group.
    pub group: u32,
    /// The client's side of its conversation; without one its input is empty.
    pub conversation: Option<Vec<Step>>,
}

/// Where a task runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// In the subject's root.
    Subject,
    /// Outside of it: the guest's own binary, which holds the controls.
    Guest,
}

/// What a frame tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A task wrote this to its standard output.
    Output = 1,
    /// A task wrote this to its standard error.
    Error = 2,
    /// A task began; its process number, in digits.
    Started = 3,
    /// A task ended, and so: `exit 0`, `signal 9`.
    Ended = 4,
    /// A task has no result: a reason code, a space, and words.
    Failed = 5,
    /// A line of the kernel's record of who ran when.
    Schedule = 6,
    /// A file that the tasks left changed.
    Changed = 7,
}

impl Kind {
    const ALL: [Self; 7] =
        [Self::Output, Self::Error, Self::Started, Self::Ended, Self::Failed, Self::Schedule, Self::Changed];
}

/// One thing that the guest saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it tells.
    pub kind: Kind,
    /// Of which task; of none in particular where the kind has none.
    pub task: u32,
    /// The machine's time since it started.
    pub at_ns: u64,
    /// The rest of it.
    pub bytes: Vec<u8>,
}

impl Frame {
    /// Appends the frame's bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let length = u32::try_from(self.bytes.len()).unwrap_or(u32::MAX);
        out.push(self.kind as u8);
        out.extend(self.task.to_le_bytes());
        out.extend(self.at_ns.to_le_bytes());
        out.extend(length.to_le_bytes());
        out.extend(&self.bytes[..length as usize]);
    }

    /// The bytes of several frames.
    pub fn write_all(frames: &[Self]) -> Vec<u8> {
        let mut out = Vec::new();
        frames.iter().for_each(|frame| frame.write(&mut out));
        out
    }

    /// The frames that `bytes` are; `None` when they aren't whole frames.
    pub fn read_all(mut bytes: &[u8]) -> Option<Vec<Self>> {
        let mut frames = Vec::new();
        while !bytes.is_empty() {
            let (kind, rest) = bytes.split_first()?;
            let kind = *Kind::ALL.iter().find(|known| **known as u8 == *kind)?;
            let (task, rest) = rest.split_first_chunk()?;
            let (at_ns, rest) = rest.split_first_chunk()?;
            let (length, rest) = rest.split_first_chunk()?;
            let (content, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            frames.push(Self {
                kind,
                task: u32::from_le_bytes(*task),
                at_ns: u64::from_le_bytes(*at_ns),
                bytes: content.to_vec(),
            });
            bytes = rest;
        }
        Some(frames)
    }
}

/// A request as it stands at the beginning of the shared memory; `None` when there is no room for it.
pub fn request_block(request: &Request) -> Option<Vec<u8>> {
    let json = serde_json::to_vec(request).ok()?;
    let mut block = header(REQUEST_MAGIC, json.len());
    block.extend(json);
    (block.len() <= REQUEST_BYTES).then_some(block)
}

/// How long the request is that this header announces; `None` when there is none yet.
pub fn request_length(header: &[u8]) -> Option<usize> {
    length(REQUEST_MAGIC, header).filter(|length| *length <= REQUEST_BYTES - HEADER_BYTES)
}

/// The request that a block holds.
pub fn read_request(block: &[u8]) -> Option<Request> {
    let length = request_length(block)?;
    serde_json::from_slice(block.get(HEADER_BYTES..HEADER_BYTES + length)?).ok()
}

/// How many bytes of the shared memory hold the request of this length.
pub fn request_extent(length: usize) -> usize {
    HEADER_BYTES + length
}

/// The header that says so.
pub fn status_header(status: Status) -> Vec<u8> {
    match status {
        Status::Waiting => header(WAITING_MAGIC, 0),
        Status::Paused => header(PAUSED_MAGIC, 0),
        Status::Replied(length) => header(REPLY_MAGIC, length),
    }
}

/// What a header says; `None` when it's none, or announces more than there is room for.
pub fn read_status(header: &[u8]) -> Option<Status> {
    let fits =
        |length: &usize| length.checked_add(REQUEST_BYTES + BLOCK).is_some_and(|end| end <= EXCHANGE_BYTES);
    let replied = || length(REPLY_MAGIC, header).filter(fits).map(Status::Replied);
    let says = |magic, status| length(magic, header).map(|_| status);
    replied().or_else(|| says(WAITING_MAGIC, Status::Waiting)).or_else(|| says(PAUSED_MAGIC, Status::Paused))
}

/// Magic and length.
const HEADER_BYTES: usize = 16;

fn header(magic: [u8; 8], length: usize) -> Vec<u8> {
    let mut header = magic.to_vec();
    header.extend((length as u64).to_le_bytes());
    header
}

fn length(magic: [u8; 8], header: &[u8]) -> Option<usize> {
    let (found, rest) = header.split_first_chunk::<8>()?;
    let (length, _) = rest.split_first_chunk::<8>()?;
    (*found == magic).then(|| usize::try_from(u64::from_le_bytes(*length)).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames() -> Vec<Frame> {
        Kind::ALL
            .iter()
            .zip(0..)
            .map(|(kind, task)| Frame { kind: *kind, task, at_ns: u64::MAX, bytes: vec![7; task as usize] })
            .collect()
    }

    #[test]
    fn frames_are_read_as_they_were_written_and_a_part_of_one_is_none() {
        let bytes = Frame::write_all(&frames());
        assert_eq!(Frame::read_all(&bytes), Some(frames()));
        assert_eq!(Frame::read_all(&bytes[..bytes.len() - 1]), None);
        assert_eq!(Frame::read_all(&[99; 40]), None);
        assert_eq!(Frame::read_all(&[]), Some(Vec::new()));
    }

    #[test]
    fn a_header_announces_only_what_has_room() {
        for status in [Status::Waiting, Status::Paused, Status::Replied(17)] {
            assert_eq!(read_status(&status_header(status)), Some(status));
            assert_eq!(request_length(&status_header(status)), None);
        }
        for length in [EXCHANGE_BYTES, usize::MAX] {
            assert_eq!(read_status(&status_header(Status::Replied(length))), None);
        }
        assert_eq!(read_status(&[0; 64]), None);
        let request = Request { deadline_ms: 5, reseed: true, ..Request::default() };
        let block = request_block(&request).unwrap();
        assert_eq!(read_request(&block), Some(request.clone()));
        assert_eq!(read_request(&block[..block.len() - 1]), None);
        assert_eq!(request_extent(request_length(&block).unwrap()), block.len());
        let long = Request {
            tasks: vec![Task {
                place: Place::Guest,
                argv: vec!["x".repeat(REQUEST_BYTES)],
                environment: Vec::new(),
                directory: "/".to_owned(),
                user: 0,
                group: 0,
                conversation: None,
            }],
            ..request
        };
        assert_eq!(request_block(&long), None);
    }
}
