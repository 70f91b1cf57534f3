//! A generation's start: what is launched, the process, and the handshake that verifies it. Never calls a tool.

use super::seat::Seat;
use crate::config::ComponentConfig;
use crate::lines::Line;
use crate::process::{LaunchSpec, Server, Spawner, resolve};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tidegate_core::Generation;
use tidegate_governor::{LaunchIdentity, RecordIdentity};
use tidegate_relay::{
    HandshakeError, InitializeResult, Introduction, Kind, List, ListCache, Message, Pages, RawId,
    ServerFacts, initialize_request, initialized_notification, request_line,
};

/// The most pages of one list. A server that has more pages than this pages in circles.
const MAX_PAGES: usize = 1_000;
/// The most lines that a server says to its client before it has been verified: more are noise.
const MAX_EARLY: usize = 256;
/// Lines of stderr that go into messages and incidents.
pub(super) const STDERR_LINES: usize = 20;

/// What failed, and the end of the server's stderr.
#[derive(Debug)]
pub(super) struct NotStarted {
    pub(super) message: String,
    pub(super) stderr: String,
}

impl NotStarted {
    pub(super) fn because(message: impl std::fmt::Display) -> Self {
        Self { message: message.to_string(), stderr: String::new() }
    }

    /// The same, said of one of several servers.
    pub(super) fn of(self, seat: &Seat) -> Self {
        Self { message: seat.says(&self.message), ..self }
    }
}

/// Finds out what components would be started as. Files are hashed once for as long as they don't change.
#[derive(Clone, Default)]
pub(super) struct Launcher {
    hashes: Arc<Mutex<BTreeMap<Stamp, String>>>,
}

/// A file's content, as far as the file system tells.
type Stamp = (u64, u64, u64, i64, i64);

impl Launcher {
    /// What the component would be started as now: its command resolved, its executable hashed.
    ///
    /// # Errors
    /// What is missing, and where it was looked for.
    pub(super) async fn identify(&self, config: &ComponentConfig) -> Result<LaunchIdentity, String> {
        let (launcher, config) = (self.clone(), config.clone());
        // Hashing an executable may take a while, and other components go on meanwhile.
        let identified = tokio::task::spawn_blocking(move || launcher.look(&config)).await;
        identified.map_err(|e| e.to_string())?
    }

    fn look(&self, config: &ComponentConfig) -> Result<LaunchIdentity, String> {
        let spec = spec_of(config);
        let program = config.command.first().map(String::as_str).unwrap_or_default();
        let executable = resolve(program, spec.cwd.as_deref(), spec.path().as_deref())
            .map_err(|e| format!("{}: {e}", config.name))?;
        let hash =
            self.hash(&executable).map_err(|e| format!("failed to read {}: {e}", executable.display()))?;
        Ok(LaunchIdentity {
            command: program.to_owned(),
            args: config.command.iter().skip(1).cloned().collect(),
            cwd: config.cwd.as_ref().map(|dir| dir.display().to_string()),
            env: config.env.clone(),
            executable: executable.display().to_string(),
            executable_sha256: hash,
            settings: super::settings::digest(config),
        })
    }

    fn hash(&self, path: &Path) -> io::Result<String> {
        let mut file = File::open(path)?;
        let seen = file.metadata()?;
        let stamp = (
            seen.dev(),
            seen.ino(),
            seen.size(),
            seen.mtime() * 1_000_000_000 + seen.mtime_nsec(),
            seen.ctime(),
        );
        let known = || self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(hash) = known().get(&stamp) {
            return Ok(hash.clone());
        }
        let mut sha = Sha256::new();
        let mut chunk = vec![0; 1 << 16];
        loop {
            match file.read(&mut chunk)? {
                0 => break,
                n => sha.update(&chunk[..n]),
            }
        }
        let hash = sha.finalize().iter().fold(String::new(), |mut hex, byte| {
            let _ = write!(hex, "{byte:02x}"); // writing to a String can't fail
            hex
        });
        known().insert(stamp, hash.clone());
        Ok(hash)
    }
}

fn spec_of(config: &ComponentConfig) -> LaunchSpec {
    LaunchSpec { command: config.command.clone(), cwd: config.cwd.clone(), env: config.env.clone() }
}

/// Starts the process of a generation: its identity is durable before its program runs.
pub(super) async fn spawn(
    spawner: &Spawner,
    launch: &LaunchIdentity,
    nonce: &str,
    identity: &dyn RecordIdentity,
) -> Result<Server, NotStarted> {
    let spec = LaunchSpec {
        command: std::iter::once(&launch.command).chain(&launch.args).cloned().collect(),
        cwd: launch.cwd.as_ref().map(PathBuf::from),
        env: launch.env.clone(),
    };
    let spawned = spawner.spawn(&spec, nonce).map_err(NotStarted::because)?;
    identity.record(spawned.identity()).await.map_err(NotStarted::because)?;
    spawned.release().await.map_err(NotStarted::because)
}

/// Shakes hands with a started server and reads its lists, all within `limit`. A session's own server is told what its
/// client says of itself; what it says meanwhile that is no answer is read again afterwards.
pub(super) async fn handshake(
    server: &mut Server,
    generation: Generation,
    limit: Duration,
    introduction: Option<&Introduction>,
) -> Result<ServerFacts, NotStarted> {
    let mut shaking = Shaking { server, early: introduction.map(|_| Vec::new()), number: 0 };
    let shaken = tokio::time::timeout(limit, shaking.shake(generation, introduction)).await;
    let early = shaking.early.unwrap_or_default();
    server.stdout.give_back(early);
    let message = match shaken {
        Ok(Ok(facts)) => return Ok(facts),
        Ok(Err(message)) => message,
        Err(_) => format!("it did not finish its handshake within {} s (start_timeout)", limit.as_secs_f32()),
    };
    let message = match server.handle.junk_lines() {
        0 => message,
        junk => format!("{message}; lines of its standard output that were no messages: {junk}"),
    };
    Err(NotStarted { message, stderr: server.handle.stderr_tail(STDERR_LINES) })
}

/// A handshake under way.
struct Shaking<'a> {
    server: &'a mut Server,
    /// Lines for the client, where the server is its own.
    early: Option<Vec<Vec<u8>>>,
    number: u64,
}

impl Shaking<'_> {
    async fn shake(
        &mut self,
        generation: Generation,
        introduction: Option<&Introduction>,
    ) -> Result<ServerFacts, String> {
        let id = own_id(0);
        let request = match introduction {
            Some(introduction) => introduction.request(&id),
            None => initialize_request(&id, env!("CARGO_PKG_VERSION")),
        };
        self.write(&request).await?;
        let initialize = loop {
            let message = self.answer().await?;
            match InitializeResult::from_answer(message.line().as_bytes(), &id) {
                Ok(result) => break result,
                Err(HandshakeError::NotTheAnswer | HandshakeError::Message(_)) => {}
                Err(error) => return Err(error.to_string()),
            }
        };
        self.write(&initialized_notification()).await?;
        let mut lists = ListCache::default();
        for list in List::ALL {
            if initialize.offers(list)
                && let Some(result) = self.read_list(list).await?
            {
                lists.set(list, result);
            }
        }
        Ok(ServerFacts { generation, initialize, lists })
    }

    /// One whole list; `None` when the server has no such method after all.
    async fn read_list(&mut self, list: List) -> Result<Option<String>, String> {
        let mut pages = Pages::new(list);
        let mut params = "{}".to_owned();
        for _ in 0..MAX_PAGES {
            self.number += 1;
            let id = own_id(self.number);
            self.write(&request_line(&id, list.method(), &params)).await?;
            let answer = loop {
                let message = self.answer().await?;
                match message.kind() {
                    Kind::Response { id: answered, is_error } if *answered == id => {
                        break if *is_error { None } else { message.result().map(str::to_owned) };
                    }
                    _ => {}
                }
            };
            let Some(result) = answer else { return Ok(None) };
            match pages.add(&result).map_err(|e| e.to_string())? {
                Some(cursor) => params = format!(r#"{{"cursor":{cursor}}}"#),
                None => return Ok(Some(pages.finish())),
            }
        }
        Err(format!("its answers to {} do not end: {MAX_PAGES} pages", list.method()))
    }

    async fn write(&mut self, line: &[u8]) -> Result<(), String> {
        match self.server.stdin.write_line(line).await {
            Ok(()) => Ok(()),
            Err(_) => Err(self.how_it_ended().await), // it doesn't read: what matters is why
        }
    }

    async fn how_it_ended(&self) -> String {
        let exit = tokio::time::timeout(Duration::from_secs(1), self.server.handle.exit()).await;
        let how = exit.map_or_else(|_| "closed its pipes".to_owned(), |exit| exit.to_string());
        format!("it ended during its handshake: {how}")
    }

    /// The next answer. A question is kept for the client, or answered here as far as a gateway can.
    async fn answer(&mut self) -> Result<Message, String> {
        loop {
            let line = match self.server.stdout.next().await {
                Ok(Some(Line::Whole(line))) => line,
                Ok(Some(Line::TooLong { .. })) => {
                    self.server.handle.count_junk();
                    continue;
                }
                Ok(Some(Line::Torn { .. })) => continue, // the end follows, and says why
                Ok(None) | Err(_) => return Err(self.how_it_ended().await),
            };
            let Ok(message) = Message::parse(line) else {
                self.server.handle.count_junk();
                continue;
            };
            let answer = match (message.kind(), &mut self.early) {
                (Kind::Response { .. }, _) => return Ok(message),
                (Kind::Request { id, method }, _) if method == "ping" => {
                    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#)
                }
                (_, Some(early)) if early.len() < MAX_EARLY => {
                    early.push(message.line().into());
                    continue;
                }
                (Kind::Request { id, .. }, _) => format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32601,"message":"not available during the handshake"}}}}"#
                ),
                (Kind::Notification { .. }, _) => continue,
            };
            self.write(answer.as_bytes()).await?;
        }
    }
}

/// Ids of the handshake: text, so that they are none of the relay's numbers.
fn own_id(number: u64) -> RawId {
    // A short quoted text is always an id.
    RawId::new(&format!("\"tidegate-{number}\"")).unwrap_or_else(|| RawId::number(number))
}
