//! Bytes on their way to somebody who takes them when it likes. Written beside everything else that a shim waits for, so
//! that two sides which both write much never wait for each other. Knows nothing about lines.

use std::io;

/// What has not been written yet.
#[derive(Default)]
pub(super) struct Outgoing {
    bytes: Vec<u8>,
    written: usize,
}

/// What a buffer keeps when it is empty; a large message isn't kept room for.
const KEPT_BYTES: usize = 64 << 10;

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

    /// Writes with `write` until nothing waits, or nothing is taken any more.
    ///
    /// # Errors
    /// Those of `write`, but for the one that says that nothing is taken now.
    pub(super) fn write(&mut self, mut write: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        while !self.is_empty() {
            match write(&self.bytes[self.written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => self.written += n,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_BYTES);
        self.written = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_takes_a_part_loses_and_repeats_nothing() {
        let mut outgoing = Outgoing::default();
        let (mut pushed, mut taken) = (Vec::new(), Vec::new());
        for n in 0..100u8 {
            outgoing.push(&[n; 11]);
            pushed.extend([n; 11]);
            let mut room = 7;
            let some = |bytes: &[u8]| {
                let n = bytes.len().min(room);
                room -= n;
                taken.extend_from_slice(&bytes[..n]);
                if n == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(n) }
            };
            outgoing.write(some).unwrap();
        }
        assert_eq!(outgoing.len(), 400);
        let all = |bytes: &[u8]| {
            taken.extend_from_slice(bytes);
            Ok(bytes.len())
        };
        outgoing.write(all).unwrap();
        assert!(outgoing.is_empty());
        assert_eq!(taken, pushed);
    }

    #[test]
    fn what_takes_nothing_for_ever_is_an_error() {
        let mut outgoing = Outgoing::default();
        outgoing.write(|_| Ok(0)).unwrap();
        outgoing.push(b"x");
        assert!(outgoing.write(|_| Ok(0)).is_err());
        assert!(outgoing.write(|_| Err(io::ErrorKind::BrokenPipe.into())).is_err());
    }
}
