//! One emulated machine: its command line, its life, and its end. It dies with this process, however that ends.
//!
//! The command line is the measured one: whatever could let the host's time or order of events into the machine is
//! left out or pinned. Change nothing here without running the experiment again.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tidegate_guest::{BLOCK, EXCHANGE_BYTES, REQUEST_BYTES, Request, Status, read_status, request_block};

use super::files::{Files, PRELOAD};
use super::qmp::{Control, path_of};
use crate::clock::{Progress, now};
use crate::executor::Spent;
use crate::guard::{Guard, MARK_VARIABLE};
use crate::record::Reason;
use crate::verdict::Failure;

/// Nanoseconds per instruction, as a power of two: one.
const SHIFT: u8 = 0;
/// While the processor is idle its clock is moved on to the next timer at once, by another thread of the emulator. One that
/// doesn't record may do so when the processor has halted and its last instructions aren't counted yet, and the clock lands
/// too far by as many (QEMU 7.2: `icount_start_warp_timer` beside `icount_process_data`). One that records holds a lock
/// over both. The recording itself goes nowhere: the seed is the recording.
const RECORDS: [&str; 2] = ["-icount", "rr=record,rrfile=/dev/null"];
/// The emulator remembers addresses that it has looked up in a table, and makes that larger or smaller by how much of it was
/// used in the last tenth of a second of the *host's* clock (QEMU 7.2: `tlb_mmu_resize_locked`). What it still remembers is
/// seen by a kernel that is short of memory: it marks pages as unused and looks later whether they were looked up again. So
/// the emulator is given a clock that is a second later each time it is read; each tenth is over then, and the table
/// follows from what the machine does. Its monotonic clock stays, because its own waiting is measured by it.
const CLOCK: [(&str, &str); 2] = [("FAKETIME", "+0 i1"), ("FAKETIME_DONT_FAKE_MONOTONIC", "1")];
/// Every extension that the emulator knows, because the runtimes need newer ones than the plainest processor has. But for
/// protection keys: a runtime changes its rights around each piece of code that it compiles, and each time the emulator
/// forgets every address that it had looked up.
const PROCESSOR: &str = "max,-pku";
/// Enough for what the whole image runs at once: five language runtimes.
const MEMORY_MIB: u32 = 640;
/// Room for translated code: with the machine's own memory it bounds what one takes of the host's. When it's full the
/// emulator begins anew, which takes time of the host's and none of the machine's.
const TRANSLATED_MIB: u32 = 160;
/// Where a machine's calendar begins.
const DATE: &str = "2026-01-01T00:00:00";
/// No console but the kernel's log, and off instead of hanging when the kernel gives up.
const KERNEL_ARGUMENTS: &str = "console=ttyS0 panic=-1";
/// Between two looks at a machine that is waited for.
const LOOK_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };
/// Clock ticks a second in `/proc/PID/stat`: fixed by the kernel's interface to programs.
const TICKS_PER_SECOND: u64 = 100;
/// Lines of the kernel's log that are shown when a machine fails.
const SHOWN_LINES: usize = 5;

/// What sort of machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) shift: u8,
    pub(super) processor: String,
    pub(super) memory_mib: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self { shift: SHIFT, processor: PROCESSOR.to_owned(), memory_mib: MEMORY_MIB }
    }
}

/// Everything that a machine is started with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start<'a> {
    pub(super) files: &'a Files,
    pub(super) root: &'a Path,
    pub(super) shape: &'a Shape,
    pub(super) seed: u64,
    pub(super) snapshot: Option<&'a File>,
    pub(super) request: Option<&'a Request>,
    /// Whether the machine will be saved. The emulator can't do that to one that records; and the moment of a snapshot is
    /// nobody's to repeat, because all runs begin with one and the same.
    pub(super) saved: bool,
    pub(super) guard: &'a Guard,
}

/// A running machine.
#[derive(Debug)]
pub(super) struct Machine {
    child: Child,
    control: Option<Control>,
    exchange: File,
    log: File,
    complaints: File,
    started: Instant,
    resident_kib: Option<u64>,
    /// Read by the emulator at its start; kept as long as it lives.
    _initramfs: File,
}

/// What a machine left.
#[derive(Debug)]
pub(super) struct Left {
    pub(super) reply: Vec<u8>,
    pub(super) kernel_log: Vec<u8>,
    pub(super) spent: Spent,
}

impl Machine {
    pub(super) fn start(start: &Start<'_>) -> Result<Self, Failure> {
        Self::try_start(start).map_err(|error| failed(format!("failed to start a machine: {error}")))
    }

    fn try_start(start: &Start<'_>) -> io::Result<Self> {
        let exchange = in_memory("exchange", &[])?;
        exchange.set_len(EXCHANGE_BYTES as u64)?;
        if let Some(request) = start.request {
            write_request(&exchange, request)?;
        }
        let initramfs = in_memory("initramfs", &start.files.initramfs)?;
        let (log, complaints) = (in_memory("log", &[])?, in_memory("complaints", &[])?);
        let speaks = start.saved || start.snapshot.is_some();
        let channel = || if speaks { Stdio::piped() } else { Stdio::null() };
        let started = now();
        let mut child = Command::new(start.files.emulator)
            .args(arguments(start, speaks, [&exchange, &log, &initramfs])?)
            .env(MARK_VARIABLE, start.guard.mark())
            .env(PRELOAD, &start.files.clock)
            .envs(CLOCK)
            .stdin(channel())
            .stdout(channel())
            .stderr(complaints.try_clone()?)
            .process_group(0)
            .spawn()?;
        let channel = child.stdin.take().zip(child.stdout.take());
        // From here on the process is ended by the value's end.
        let mut machine = Self {
            child,
            control: None,
            exchange,
            log,
            complaints,
            started,
            resident_kib: None,
            _initramfs: initramfs,
        };
        if let Some((input, output)) = channel {
            let mut control = Control::new(input, output).map_err(|error| machine.why(error))?;
            if let Some(snapshot) = start.snapshot {
                control.load(snapshot).map_err(|error| machine.why(error))?;
            }
            machine.control = Some(control);
        }
        Ok(machine)
    }

    /// Waits until the guest says `status`, and writes a snapshot; false when the machine ends without having said so.
    pub(super) fn save_at(
        mut self,
        status: Status,
        snapshot: &File,
        limit: Duration,
        progress: &mut Progress<'_>,
    ) -> Result<bool, Failure> {
        if self.wait(Some(status), limit, progress)? {
            return self.replied().map(|_| false);
        }
        let saved = self.control.as_mut().map_or(Ok(()), |control| control.save(snapshot));
        saved.map_err(|error| {
            let (why, shown) = (self.why(error), last_lines(&content(&self.log)));
            failed(format!("failed to save a machine: {why}; the end of its log: {shown}"))
        })?;
        self.wait(None, limit, progress)?;
        Ok(true)
    }

    /// Waits for the machine's own end, and takes what it left.
    pub(super) fn finish(mut self, limit: Duration, progress: &mut Progress<'_>) -> Result<Left, Failure> {
        self.wait(None, limit, progress)?;
        let cpu = cpu_of(self.child.id()).unwrap_or_default();
        let spent = Spent { wall: now().duration_since(self.started), cpu, resident_kib: self.resident_kib };
        let mut reply = vec![0; self.replied()?];
        self.exchange
            .read_exact_at(&mut reply, (REQUEST_BYTES + BLOCK) as u64)
            .map_err(|error| failed(format!("failed to read what a machine left: {error}")))?;
        Ok(Left { reply, kernel_log: content(&self.log), spent })
    }

    /// The length of the reply of a machine that has ended.
    fn replied(&mut self) -> Result<usize, Failure> {
        if let Some(Status::Replied(length)) = self.status() {
            return Ok(length);
        }
        let why = self.why(io::Error::other("it turned off and left no reply"));
        let shown = last_lines(&content(&self.log));
        let detail = format!("the machine failed: {why}; the end of its log: {shown}");
        Err(Failure { reason: Reason::NoRecords, detail })
    }

    /// Waits for the end of the emulator (true), or for the guest to be at `status` (false).
    fn wait(
        &mut self,
        status: Option<Status>,
        limit: Duration,
        progress: &mut Progress<'_>,
    ) -> Result<bool, Failure> {
        let ends = i32::try_from(self.child.id())
            .ok()
            .and_then(Pid::from_raw)
            .ok_or_else(|| failed("the emulator has no process number".to_owned()))
            .and_then(|pid| {
                pidfd_open(pid, PidfdFlags::empty())
                    .map_err(|error| failed(format!("failed to watch the emulator: {error}")))
            })?;
        loop {
            progress.tick();
            let mut fds = [PollFd::from_borrowed_fd(ends.as_fd(), PollFlags::IN)];
            if matches!(poll(&mut fds, Some(&LOOK_EVERY)), Ok(1..)) {
                return Ok(true);
            }
            self.resident_kib = resident_of(self.child.id()).or(self.resident_kib);
            if status.is_some() && self.status() == status {
                return Ok(false);
            }
            if now().duration_since(self.started) > limit {
                return Err(Failure {
                    reason: Reason::Timeout,
                    detail: format!(
                        "the machine did not end within {} s; the end of its log: {}",
                        limit.as_secs(),
                        last_lines(&content(&self.log))
                    ),
                });
            }
        }
    }

    fn status(&self) -> Option<Status> {
        let mut header = [0; 16];
        self.exchange.read_exact_at(&mut header, REQUEST_BYTES as u64).ok()?;
        read_status(&header)
    }

    /// An error with what the emulator said about it.
    fn why(&mut self, error: io::Error) -> io::Error {
        let said = content(&self.complaints);
        let said = String::from_utf8_lossy(&said);
        let ended = match self.child.try_wait() {
            Ok(Some(status)) => format!("the emulator ended with {status}"),
            _ => "the emulator runs".to_owned(),
        };
        io::Error::other(format!("{error} ({ended}) {}", said.trim()).trim_end().to_owned())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Both fail only when it has ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a command line says of a machine of this shape: a snapshot serves only a machine that was started so.
pub(super) fn command_line(shape: &Shape) -> Vec<String> {
    let Shape { shift, processor, memory_mib } = shape;
    let words = [
        "-machine q35,nvdimm=on -smp 1 -nodefaults -no-user-config",
        &format!("-accel tcg,thread=single,tb-size={TRANSLATED_MIB}"),
        "-display none -monitor none -no-reboot",
        &format!("-cpu {processor} -m {memory_mib}M,slots=2,maxmem=4G"),
        &format!("-rtc base={DATE},clock=vm -icount shift={shift},sleep=off,align=off"),
        "-device nvdimm,id=exchange,memdev=exchange-memory",
        "-device nvdimm,id=root,memdev=root-memory,unarmed=on",
        "-append",
    ];
    words.join(" ").split(' ').chain([KERNEL_ARGUMENTS]).map(str::to_owned).collect()
}

fn arguments(start: &Start<'_>, speaks: bool, files: [&File; 3]) -> io::Result<Vec<String>> {
    let [exchange, log, initramfs] = files;
    let root_bytes = fs::metadata(start.root)?.len();
    let (kernel, root) = (start.files.kernel.display(), start.root.display());
    let mut words = command_line(start.shape);
    // Paths may hold spaces; the emulator itself takes a doubled comma for a comma.
    let root = root.to_string().replace(',', ",,");
    words.extend(["-seed".to_owned(), start.seed.to_string()]);
    words.extend(["-kernel".to_owned(), kernel.to_string(), "-initrd".to_owned(), path_of(initramfs)]);
    words.extend(["-serial".to_owned(), format!("file:{}", path_of(log))]);
    words.extend([
        "-object".to_owned(),
        format!(
            "memory-backend-file,id=exchange-memory,mem-path={},size={EXCHANGE_BYTES},share=on",
            path_of(exchange)
        ),
        "-object".to_owned(),
        format!("memory-backend-file,id=root-memory,mem-path={root},size={root_bytes},share=on,readonly=on"),
    ]);
    if !start.saved {
        words.extend(RECORDS.map(str::to_owned));
    }
    if speaks {
        words.extend(["-qmp".to_owned(), "stdio".to_owned()]);
    }
    if start.snapshot.is_some() {
        words.extend(["-incoming".to_owned(), "defer".to_owned()]);
    }
    Ok(words)
}

/// A file without a name, so that nothing is left of it.
fn in_memory(name: &str, content: &[u8]) -> io::Result<File> {
    let file = File::from(memfd_create(name, MemfdFlags::CLOEXEC)?);
    file.write_all_at(content, 0)?;
    Ok(file)
}

fn write_request(exchange: &File, request: &Request) -> io::Result<()> {
    let block = request_block(request).ok_or_else(|| io::Error::other("the request is too large"))?;
    exchange.write_all_at(&block, 0)
}

fn content(file: &File) -> Vec<u8> {
    let mut bytes = Vec::new();
    // A file without a name is opened anew: its own place is wherever the last reader left it.
    let _ = File::open(path_of(file)).and_then(|mut file| file.read_to_end(&mut bytes));
    bytes
}

fn last_lines(log: &[u8]) -> String {
    let text = String::from_utf8_lossy(log);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(SHOWN_LINES)..].join(" | ")
}

fn resident_of(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok())
}

/// What a process that isn't reaped yet has used.
fn cpu_of(process: u32) -> Option<Duration> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // Fields 14 and 15, counted after the name in parentheses, which may hold anything.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut times = fields.split_whitespace().skip(11).map(str::parse::<u64>);
    let ticks = times.next()?.ok()? + times.next()?.ok()?;
    Some(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
}

fn failed(detail: String) -> Failure {
    Failure { reason: Reason::StartFailed, detail }
}
