//! One etcd on loopback, started here and gone with its handle, and a client for it.

use super::grpc::{Connection, Stream};
use super::protobuf::{Field, Message, field};
use crate::stopwatch::Stopwatch;
use anyhow::{Context as _, bail};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// How long etcd may take to elect itself.
const START: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(50);

/// A running etcd. Killed when dropped.
#[derive(Debug)]
pub(crate) struct Etcd {
    process: Child,
    clients: SocketAddr,
}

impl Etcd {
    /// Starts one whose data lie in `dir`, and waits until it commits.
    pub(crate) fn start(dir: &Path) -> anyhow::Result<Self> {
        let [clients, peers] = [free_address()?, free_address()?];
        let (client_url, peer_url) = (format!("http://{clients}"), format!("http://{peers}"));
        let process = Command::new("etcd")
            .args(["--log-level", "error", "--data-dir"])
            .arg(dir)
            .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &format!("default={peer_url}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("start etcd (Debian's etcd-server: cargo xtask setup)")?;
        let mut etcd = Self { process, clients };
        let watch = Stopwatch::start();
        loop {
            if etcd.client().and_then(|mut client| client.put_if("ready", 0, b"")).is_ok() {
                return Ok(etcd);
            }
            if let Some(status) = etcd.process.try_wait()? {
                bail!("etcd ended at once: {status}");
            }
            if watch.elapsed() > START {
                bail!("etcd isn't ready after {START:?}");
            }
            std::thread::park_timeout(PAUSE);
        }
    }

    /// Its version, as it says itself.
    pub(crate) fn version() -> Option<String> {
        let output = Command::new("etcd").arg("--version").output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Some(text.lines().next()?.trim_start_matches("etcd Version: ").to_owned())
    }

    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        Ok(Client { connection: Connection::open(self.clients)? })
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Client {
    connection: Connection,
}

/// A lease that is kept alive.
#[derive(Debug)]
pub(crate) struct KeptAlive {
    client: Client,
    stream: Stream,
    lease: i64,
}

impl Client {
    /// Writes `value`, provided the key was last changed by `revision` (0: is absent); answers the new revision.
    pub(crate) fn put_if(&mut self, key: &str, revision: i64, value: &[u8]) -> anyhow::Result<i64> {
        const TARGET_MOD: i64 = 2;
        let condition = Message::default().number(2, TARGET_MOD).bytes(3, key.as_bytes()).number(6, revision);
        let put = Message::default().bytes(1, key.as_bytes()).bytes(2, value);
        let success = Message::default().message(2, put);
        let txn = Message::default().message(1, condition).message(2, success).into_bytes();
        let answer = self.connection.call("/etcdserverpb.KV/Txn", &txn)?;
        if field(&answer, 2) != Some(Field::Number(1)) {
            bail!("{key} was changed by somebody else");
        }
        match field(&answer, 1) {
            Some(Field::Bytes(header)) => match field(header, 3) {
                Some(Field::Number(revision)) => Ok(revision),
                _ => bail!("an answer without a revision"),
            },
            _ => bail!("an answer without a header"),
        }
    }

    /// Is granted a lease, to be kept alive.
    pub(crate) fn grant(mut self, ttl_s: i64) -> anyhow::Result<KeptAlive> {
        let request = Message::default().number(1, ttl_s).into_bytes();
        let answer = self.connection.call("/etcdserverpb.Lease/LeaseGrant", &request)?;
        let Some(Field::Number(lease)) = field(&answer, 2) else { bail!("no lease was granted") };
        let stream = self.connection.begin("/etcdserverpb.Lease/LeaseKeepAlive")?;
        Ok(KeptAlive { client: self, stream, lease })
    }
}

impl KeptAlive {
    pub(crate) fn keep(&mut self) -> anyhow::Result<()> {
        let request = Message::default().number(1, self.lease).into_bytes();
        let answer = self.client.connection.ask(&mut self.stream, &request)?;
        match field(&answer, 3) {
            Some(Field::Number(ttl)) if ttl > 0 => Ok(()),
            _ => bail!("the lease is gone"),
        }
    }
}

/// An address on loopback that nobody listens on.
fn free_address() -> anyhow::Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
