//! Bytes on their way to somebody who takes them when it likes. Written beside everything else that a shim waits for, so
//! that two sides which both write much never wait for each other. Knows nothing about lines.

use std::io;
use tokio::io::{AsyncWrite, AsyncWriteExt as _};

/// What has not been written yet.
#[derive(Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    written: usize,
}

impl Outgoing {
    /// Adds bytes behind those that wait.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// How many bytes wait.
    pub(super) fn len(&self) -> usize {
        self.bytes.len() - self.written
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes some of what waits; says whether that was all. Never ends while nothing waits.
    ///
    /// # Cancel safety
    /// As safe as the writer's own `write`, which is safe for sockets and for standard output.
    ///
    /// # Errors
    /// Those of the writer.
    pub(super) async fn write_some(&mut self, writer: &mut (impl AsyncWrite + Unpin)) -> io::Result<bool> {
        if self.is_empty() {
            return std::future::pending().await;
        }
        match writer.write(&self.bytes[self.written..]).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            n => self.written += n,
        }
        let all = self.is_empty();
        if all {
            *self = Self::default();
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt as _;

    #[tokio::test]
    async fn a_write_that_is_given_up_loses_and_repeats_nothing() {
        let (mut writer, mut reader) = tokio::io::duplex(7);
        let mut outgoing = Outgoing::default();
        let (mut pushed, mut read) = (Vec::new(), Vec::new());
        for n in 0..100u8 {
            outgoing.push(&[n; 11]);
            pushed.extend([n; 11]);
            let given_up = std::time::Duration::ZERO;
            let _ = tokio::time::timeout(given_up, outgoing.write_some(&mut writer)).await;
            let mut some = [0; 3];
            reader.read_exact(&mut some).await.unwrap();
            read.extend(some);
        }
        let rest = tokio::spawn(async move {
            let mut rest = Vec::new();
            reader.read_to_end(&mut rest).await.unwrap();
            rest
        });
        while !outgoing.write_some(&mut writer).await.unwrap() {}
        drop(writer);
        read.extend(rest.await.unwrap());
        assert_eq!(read, pushed);
        assert_eq!(outgoing.len(), 0);
    }
}
