//! Waits for several things at once, on whatever polls.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;

/// What all of them came to, by name. Polled in order, so that a simulator sees the same order each time.
pub(crate) async fn all<K: Ord, V, F: Future<Output = (K, V)>>(
    futures: impl Iterator<Item = F>,
) -> BTreeMap<K, V> {
    let mut pending: Vec<Pin<Box<F>>> = futures.map(Box::pin).collect();
    let mut done = BTreeMap::new();
    poll_fn(|context| {
        pending.retain_mut(|future| match future.as_mut().poll(context) {
            Poll::Ready((key, value)) => {
                done.insert(key, value);
                false
            }
            Poll::Pending => true,
        });
        if pending.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    done
}
