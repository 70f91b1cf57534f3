//! Whether a line may go to the server: its shim has to know of the request in it, and the store of an unsafe one, first.
//! Follows the relay's effects in their order; it does none of them.

use tidegate_core::WorkClass;
use tidegate_core::planted::is_planted;

/// What came of the effects so far. One for each list of effects.
#[derive(Debug)]
pub struct Writing {
    /// The shim knows of the request whose line comes next.
    told: bool,
    is_unsafe: bool,
    /// The store knows that something unsafe may run.
    marked: bool,
    /// The id with which that line is written.
    upstream: Option<u64>,
    unwritten: Vec<Vec<u8>>,
}

impl Default for Writing {
    fn default() -> Self {
        Self { told: true, is_unsafe: false, marked: true, upstream: None, unwritten: Vec::new() }
    }
}

impl Writing {
    /// [`Effect::MarkForwarding`](crate::Effect::MarkForwarding) was done; `told`: and it succeeded.
    pub fn forwarding(&mut self, class: WorkClass, upstream: Option<u64>, told: bool) {
        (self.is_unsafe, self.upstream, self.told) = (class.is_unsafe(), upstream, told);
    }

    /// [`Effect::UnsafePossible`](crate::Effect::UnsafePossible) was done; `durable`: and it succeeded.
    pub fn unsafe_possible(&mut self, durable: bool) {
        self.marked = durable;
    }

    /// The line of [`Effect::WriteServer`](crate::Effect::WriteServer), where it may be written, and the id of the unsafe
    /// call in it, where there is one.
    pub fn line(&mut self, line: Vec<u8>) -> Option<(Vec<u8>, Option<u64>)> {
        let is_unsafe = std::mem::take(&mut self.is_unsafe);
        let told = std::mem::replace(&mut self.told, true);
        let upstream = self.upstream.take().filter(|_| is_unsafe && !is_planted("a-call-begins-unseen"));
        if told && (self.marked || !is_unsafe) {
            return Some((line, upstream));
        }
        self.unwritten.push(line);
        None
    }

    /// A line that could not be written after all.
    pub fn not_written(&mut self, line: Vec<u8>) {
        self.unwritten.push(line);
    }

    /// All that was not written, in the order in which [`Relay::never_written`](crate::Relay::never_written) is to be told.
    pub fn unwritten(self) -> impl Iterator<Item = Vec<u8>> {
        self.unwritten.into_iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_waits_for_its_shim_and_an_unsafe_one_for_the_store_too() {
        let mut writing = Writing::default();
        let mut write = |class: Option<(WorkClass, bool)>, durable: Option<bool>| {
            class.into_iter().for_each(|(class, told)| writing.forwarding(class, Some(4), told));
            durable.into_iter().for_each(|durable| writing.unsafe_possible(durable));
            writing.line(b"x".to_vec()).map(|(_, call)| call)
        };
        assert_eq!(write(None, None), Some(None), "a notification");
        assert_eq!(write(Some((WorkClass::ReadOnly, true)), None), Some(None));
        assert_eq!(write(Some((WorkClass::ReadOnly, false)), None), None);
        assert_eq!(write(Some((WorkClass::Mutating, true)), Some(true)), Some(Some(4)));
        assert_eq!(write(Some((WorkClass::Mutating, true)), Some(false)), None);
        assert_eq!(write(Some((WorkClass::Idempotent, true)), None), None, "the mark is still not made");
        assert_eq!(write(Some((WorkClass::ReadOnly, true)), None), Some(None));
        writing.not_written(b"y".to_vec());
        assert_eq!(writing.unwritten().collect::<Vec<_>>(), [b"y", b"x", b"x", b"x"]);
    }
}
