//! The daemon's socket: made, put back when somebody has removed it, and taken away at the end. Touches nothing in a
//! directory that isn't this daemon's, whatever has become of the path to it.

use super::context::say;
use super::{Daemon, connection};
use rustix::fs::{AtFlags, Mode, OFlags, fstat, open, stat, statat, unlinkat};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UnixListener;

/// The socket's directory is the state directory; nobody else's processes reach it.
const MODE: u32 = 0o600;
/// How often it is looked whether the socket is still there: whoever cleans up removes it, and then nobody reaches a daemon
/// that holds its lock.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The pause after a connection that could not be accepted.
const OUT_OF_DESCRIPTORS: Duration = Duration::from_millis(100);

/// Where the daemon is reached. The state directory's lock is held, so that nobody else listens there.
pub(super) struct Socket {
    state_dir: PathBuf,
    path: PathBuf,
    /// The state directory itself, wherever it is now.
    dir: OwnedFd,
}

impl Socket {
    /// # Errors
    /// The state directory can't be opened.
    pub(super) fn new(state_dir: &Path, path: PathBuf) -> io::Result<Self> {
        let dir = open(state_dir, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { state_dir: state_dir.to_owned(), path, dir })
    }

    /// Listens, in the place of a socket that an earlier daemon has left.
    ///
    /// # Errors
    /// The system's; and when something that is no socket is in its place.
    pub(super) fn listen(&self) -> io::Result<UnixListener> {
        match std::fs::symlink_metadata(&self.path) {
            Ok(found) if found.file_type().is_socket() => std::fs::remove_file(&self.path)?,
            Ok(_) => {
                return Err(io::Error::other("something that is no socket is in its place; move it away"));
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(&self.path)?;
        std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(MODE))?;
        Ok(listener)
    }

    /// Accepts connections until the daemon ends.
    pub(super) async fn serve(self: Arc<Self>, daemon: Arc<Daemon>, mut listener: UnixListener) {
        loop {
            tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((socket, _)) => drop(tokio::spawn(connection::serve(daemon.clone(), socket))),
                    Err(error) => {
                        // Out of descriptors, most likely: some connection will end.
                        say(&format!("a connection could not be accepted: {error}"));
                        tokio::time::sleep(OUT_OF_DESCRIPTORS).await;
                    }
                },
                () = tokio::time::sleep(LOOK_EVERY) => {
                    if !self.is_gone() {
                        continue;
                    }
                    match self.listen() {
                        Ok(again) => {
                            listener = again;
                            say(&format!("the socket {} was removed, and is there again", self.path.display()));
                        }
                        Err(error) => say(&format!(
                            "the socket {} was removed, and can't be put back: {error}; nobody reaches this daemon",
                            self.path.display()
                        )),
                    }
                }
            }
        }
    }

    /// Whether somebody has removed it from a directory that is still in its place.
    fn is_gone(&self) -> bool {
        let (Ok(own), Ok(there)) = (fstat(&self.dir), stat(&self.state_dir)) else { return false };
        (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino)
            && statat(&self.dir, self.name(), AtFlags::SYMLINK_NOFOLLOW).err() == Some(Errno::NOENT)
    }

    /// Takes it away. What stands at its path in another directory by now is another daemon's.
    pub(super) fn remove(&self) {
        let _ = unlinkat(&self.dir, self.name(), AtFlags::empty()); // the next daemon replaces it anyway
    }

    fn name(&self) -> &OsStr {
        self.path.file_name().unwrap_or_default()
    }
}
