//! Speaking to the emulator while the machine stands still: taking a snapshot of it, and starting it from one.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Error, Write};
use std::os::fd::AsRawFd;
use std::process::{ChildStdin, ChildStdout};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

/// Between two looks at how far a snapshot has got.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };
/// The emulator answers within milliseconds, and within seconds on a machine that is busy with other things.
const ANSWERS_WITHIN: Timespec = Timespec { tv_sec: 60, tv_nsec: 0 };
/// A snapshot takes less than a second; one that takes longer than this many looks never ends.
const MAX_LOOKS: usize = 15_000;
/// A machine that records counts its instructions from nothing when it has been restored, and takes a step that has this bit
/// for one backwards (QEMU 7.2, `replay_advance_current_icount`): a snapshot is of a count without it.
const BACKWARDS: u64 = 1 << 31;
/// As fast as the machine's disk: the emulator's own default is made for networks.
const BYTES_PER_SECOND: u64 = 4 << 30;

/// The emulator's control channel.
#[derive(Debug)]
pub(super) struct Control {
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Control {
    pub(super) fn new(input: ChildStdin, output: ChildStdout) -> io::Result<Self> {
        let mut control = Self { input, output: BufReader::new(output) };
        control.message()?;
        control.command("qmp_capabilities", json!({}))?;
        // Memory that is shared with the host stays out of a snapshot: the root, which doesn't change, and the
        // exchange, which is another one for each run.
        let shared = json!({ "capability": "x-ignore-shared", "state": true });
        control.command("migrate-set-capabilities", json!({ "capabilities": [shared] }))?;
        Ok(control)
    }

    /// Stops the machine, writes it to a file, and ends the emulator.
    pub(super) fn save(&mut self, file: &File) -> io::Result<()> {
        self.stop()?;
        self.command("migrate-set-parameters", json!({ "max-bandwidth": BYTES_PER_SECOND }))?;
        self.command("migrate", json!({ "uri": format!("exec:cat > {}", path_of(file)) }))?;
        self.until_complete()?;
        self.command("quit", json!({}))?;
        Ok(())
    }

    /// Stops the machine, which waits for its next request, at a count that one that records can begin with.
    fn stop(&mut self) -> io::Result<()> {
        for _ in 0..MAX_LOOKS {
            self.command("stop", json!({}))?;
            let counted = self.command("query-replay", json!({}))?["icount"].as_u64();
            let counted =
                counted.ok_or_else(|| Error::other("the emulator does not say what it has executed"))?;
            if counted & BACKWARDS == 0 {
                return Ok(());
            }
            self.command("cont", json!({}))?;
            look_later()?;
        }
        Err(Error::other("the machine executes too little to be saved"))
    }

    /// Loads a machine from a file; it runs on from there.
    pub(super) fn load(&mut self, file: &File) -> io::Result<()> {
        self.command("migrate-incoming", json!({ "uri": format!("exec:cat {}", path_of(file)) }))?;
        self.until_complete()?;
        // It was saved as it stood still; and until it does so again, being told to go on is forgotten.
        for _ in 0..MAX_LOOKS {
            let state = self.command("query-status", json!({}))?;
            if state["status"] == "paused" {
                return self.command("cont", json!({})).map(drop);
            }
            look_later()?;
        }
        Err(Error::other("the machine does not stand still"))
    }

    fn until_complete(&mut self) -> io::Result<()> {
        for _ in 0..MAX_LOOKS {
            let state = self.command("query-migrate", json!({}))?;
            match state["status"].as_str() {
                Some("completed") => return Ok(()),
                Some("failed" | "cancelled") => {
                    return Err(Error::other(format!("the snapshot failed: {state}")));
                }
                _ => look_later()?,
            }
        }
        Err(Error::other("the snapshot did not come to an end"))
    }

    fn command(&mut self, name: &str, arguments: Value) -> io::Result<Value> {
        writeln!(self.input, "{}", json!({ "execute": name, "arguments": arguments }))?;
        self.input.flush()?;
        loop {
            let mut message = self.message()?;
            if let Some(error) = message.get("error") {
                return Err(Error::other(format!("{name}: {error}")));
            }
            if let Some(answer) = message.get_mut("return") {
                return Ok(answer.take());
            }
        }
    }

    fn message(&mut self) -> io::Result<Value> {
        if self.output.buffer().is_empty() {
            let mut ready = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
            if poll(&mut ready, Some(&ANSWERS_WITHIN))? == 0 {
                return Err(Error::other("the emulator does not answer"));
            }
        }
        let mut line = String::new();
        if self.output.read_line(&mut line)? == 0 {
            return Err(Error::other("the emulator has ended"));
        }
        serde_json::from_str(&line).map_err(Error::other)
    }
}

fn look_later() -> io::Result<()> {
    poll(&mut [], Some(&LOOK_EVERY))?;
    Ok(())
}

/// A file of this process as another process opens it: no name is left when this process is gone.
pub(super) fn path_of(file: &File) -> String {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}
