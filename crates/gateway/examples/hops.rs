//! What the gateway costs a call, in one run with what it is compared with: the same server directly, and through a `cat`.
//!
//! ```text
//! cargo build --release -p tidegate --bins --example hops
//! target/release/examples/hops target/release/tidegate [SERVER COMMAND…]
//! ```
//! Without a command the server is this program itself, which does nothing but answer: what is measured then is the way,
//! not the work. All variants take turns in each round, because the machine is never quiet; figures are medians of rounds.

#![allow(clippy::print_stdout, reason = "printing is what this program does")]

use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// Rounds; each figure is the median of as many.
const ROUNDS: usize = 7;
/// Calls of one client in a row, in each round.
const CALLS: usize = 1_000;
/// Sessions that call at once, and calls of each.
const SESSIONS: usize = 16;
const CALLS_EACH: usize = 200;
/// Sessions that are open when memory is read.
const MANY_SESSIONS: usize = 64;
/// Boundaries between processes that a call crosses through the gateway and not without it: shim and daemon, both ways.
const BOUNDARIES: f64 = 4.0;

fn main() -> Outcome<()> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.first().map(String::as_str) == Some("answer") {
        return answer();
    }
    if arguments.is_empty() {
        return Err("usage: hops TIDEGATE [SERVER COMMAND…]".into());
    }
    let tidegate = std::fs::canonicalize(arguments.remove(0))?;
    if arguments.is_empty() {
        arguments = vec![std::env::current_exe()?.display().to_string(), "answer".into()];
    }
    let house = House::open(&tidegate, &arguments)?;
    latency(&house)?;
    throughput(&house)?;
    memory(&house)
}

/// A server that does nothing but answer.
fn answer() -> Outcome<()> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut line = String::new();
    while input.read_line(&mut line)? > 0 {
        let message: serde_json::Value = serde_json::from_str(&line)?;
        if let Some(id) = message.get("id") {
            let result = match message["method"].as_str() {
                Some("initialize") => {
                    r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"answer","version":"1"}}"#
                }
                Some("tools/list") => r#"{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}"#,
                _ => r#"{"content":[{"type":"text","text":"Echo: hello"}]}"#,
            };
            output
                .write_all(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n").as_bytes())?;
            output.flush()?;
        }
        line.clear();
    }
    Ok(())
}

/// A daemon in front of one server.
struct House {
    tidegate: PathBuf,
    server: Vec<String>,
    dir: tempfile::TempDir,
    daemon: Child,
}

impl House {
    fn open(tidegate: &Path, server: &[String]) -> Outcome<Self> {
        let dir = tempfile::tempdir()?;
        let config = format!(
            "[state]\nstore = \"file:./state\"\n[[component]]\nname = \"it\"\nstate = \"stateless\"\ncommand = {}\n",
            serde_json::to_string(server)?
        );
        std::fs::write(dir.path().join("tidegate.toml"), config)?;
        let mut daemon =
            Command::new(tidegate).arg("serve").current_dir(dir.path()).stderr(Stdio::piped()).spawn()?;
        let stderr = daemon.stderr.take().ok_or("no stderr")?;
        let mut said = BufReader::new(stderr).lines();
        while !said.next().ok_or("the daemon ended")??.contains("ready ") {}
        std::thread::spawn(move || said.for_each(drop));
        Ok(Self { tidegate: tidegate.into(), server: server.into(), dir, daemon })
    }

    fn start(&self, variant: Variant) -> Outcome<Client> {
        let mut command = match variant {
            Variant::Direct => {
                let mut command = Command::new(&self.server[0]);
                command.args(&self.server[1..]);
                command
            }
            Variant::Cat => {
                let mut command = Command::new("sh");
                command.args(["-c", r#"cat | "$@""#, "sh"]).args(&self.server);
                command
            }
            Variant::Gateway => {
                let mut command = Command::new(&self.tidegate);
                command.args(["connect", "it"]);
                command
            }
        };
        Client::start(command.current_dir(self.dir.path()))
    }
}

impl Drop for House {
    fn drop(&mut self) {
        let _ = self.daemon.kill(); // it is gone already
        let _ = self.daemon.wait();
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Variant {
    Direct,
    Cat,
    Gateway,
}

/// One session, over the pipes of a process.
struct Client {
    process: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    line: String,
    last_id: u64,
}

impl Client {
    fn start(command: &mut Command) -> Outcome<Self> {
        let mut process =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let to = process.stdin.take();
        let from = BufReader::new(process.stdout.take().ok_or("no stdout")?);
        let mut client = Self { process, to, from, line: String::new(), last_id: 0 };
        client.ask(
            "initialize",
            r#"{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"hops","version":"1"}}"#,
        )?;
        client.write("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")?;
        Ok(client)
    }

    fn write(&mut self, text: &str) -> Outcome<()> {
        Ok(self.to.as_mut().ok_or("closed")?.write_all(text.as_bytes())?)
    }

    fn ask(&mut self, method: &str, params: &str) -> Outcome<()> {
        self.last_id += 1;
        let id = self.last_id;
        self.write(&format!(
            "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"{method}\",\"params\":{params}}}\n"
        ))?;
        let ours = format!("\"id\":{id}");
        loop {
            self.line.clear();
            if self.from.read_line(&mut self.line)? == 0 {
                return Err("the server has ended".into());
            }
            if self.line.contains(&ours) {
                return if self.line.contains("\"isError\":true") || self.line.contains("\"error\":{") {
                    Err(self.line.clone().into())
                } else {
                    Ok(())
                };
            }
        }
    }

    fn call(&mut self) -> Outcome<()> {
        self.ask("tools/call", r#"{"name":"echo","arguments":{"message":"hello"}}"#)
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.to = None;
        let _ = self.process.kill(); // it may have ended with its input
        let _ = self.process.wait();
    }
}

#[expect(clippy::disallowed_methods, reason = "this program's one clock")]
fn timed(work: impl FnOnce() -> Outcome<()>) -> Outcome<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

fn latency(house: &House) -> Outcome<()> {
    let variants = [Variant::Direct, Variant::Cat, Variant::Gateway];
    let mut clients = Vec::new();
    for variant in variants {
        let mut client = house.start(variant)?;
        for _ in 0..CALLS {
            client.call()?;
        }
        clients.push(client);
    }
    let mut p50s = [Vec::new(), Vec::new(), Vec::new()];
    let mut p99s = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..ROUNDS {
        for (at, client) in clients.iter_mut().enumerate() {
            let mut times = Vec::with_capacity(CALLS);
            for _ in 0..CALLS {
                times.push(timed(|| client.call())?.as_secs_f64() * 1e6);
            }
            p50s[at].push(median(&mut times));
            p99s[at].push(times[CALLS * 99 / 100]);
        }
    }
    let [direct, cat, gateway] = p50s.map(|mut p50s| median(&mut p50s));
    let [direct99, cat99, gateway99] = p99s.map(|mut p99s| median(&mut p99s));
    let (hop, added) = (cat - direct, gateway - direct);
    println!("p50 of a call, µs: direct {direct:.1}, cat {cat:.1}, gateway {gateway:.1}");
    println!("p99 of a call, µs: direct {direct99:.1}, cat {cat99:.1}, gateway {gateway99:.1}");
    println!("gateway / direct: {:.2}", gateway / direct);
    println!("added, per boundary, in cat hops of {hop:.1} µs: {:.2}", added / BOUNDARIES / hop);
    Ok(())
}

fn throughput(house: &House) -> Outcome<()> {
    let variants = [Variant::Direct, Variant::Gateway];
    let mut fleets = Vec::new();
    for variant in variants {
        let clients: Outcome<Vec<Client>> = (0..SESSIONS).map(|_| house.start(variant)).collect();
        fleets.push(clients?);
    }
    let mut rates = [Vec::new(), Vec::new()];
    for round in 0..=ROUNDS {
        for (at, fleet) in fleets.iter_mut().enumerate() {
            let took = timed(|| {
                std::thread::scope(|scope| {
                    let calling: Vec<_> = fleet
                        .iter_mut()
                        .map(|client| scope.spawn(|| (0..CALLS_EACH).try_for_each(|_| client.call())))
                        .collect();
                    calling
                        .into_iter()
                        .try_for_each(|it| it.join().unwrap_or(Err("a client panicked".into())))
                })
            })?;
            if round > 0 {
                rates[at].push((SESSIONS * CALLS_EACH) as f64 / took.as_secs_f64());
            }
        }
    }
    let [direct, gateway] = rates.map(|mut rates| median(&mut rates));
    println!(
        "calls/s at {SESSIONS} sessions: direct {direct:.0} (a server each), gateway {gateway:.0} (one server)"
    );
    println!("gateway / direct: {:.2}", gateway / direct);
    Ok(())
}

fn memory(house: &House) -> Outcome<()> {
    let clients: Outcome<Vec<Client>> = (0..MANY_SESSIONS).map(|_| house.start(Variant::Gateway)).collect();
    let mut clients = clients?;
    clients.iter_mut().try_for_each(|client| (0..20).try_for_each(|_| client.call()))?;
    let mut shims: Vec<f64> =
        clients.iter().map(|client| resident_mib(client.process.id())).collect::<Outcome<_>>()?;
    let median_shim = median(&mut shims);
    println!(
        "resident at {MANY_SESSIONS} sessions, MiB: daemon {:.1}, shim {median_shim:.1} (own pages {:.1})",
        resident_mib(house.daemon.id())?,
        private_mib(clients[0].process.id())?
    );
    Ok(())
}

fn resident_mib(pid: u32) -> Outcome<f64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<f64>()? / 1024.0)
}

fn private_mib(pid: u32) -> Outcome<f64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let kib = |key: &str| -> Option<f64> {
        let line = rollup.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    };
    Ok((kib("Private_Clean:").ok_or("no smaps")? + kib("Private_Dirty:").ok_or("no smaps")?) / 1024.0)
}
