//! What keepers of earlier daemons have left: who may still be working, and late answers. Only looks and waits.

use super::context::Context;
use crate::world::{KeptCall, World};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tidegate_core::{BoxFuture, ProcessIdentity};
use tidegate_governor::{OldServer, settle_old_server};

/// How often it is looked whether the unsafe calls of an old server have ended.
const LOOK_EVERY_MS: u64 = 100;
/// How long anybody waits for a late answer, beyond what an old server is waited for.
const PROOF_MARGIN_MS: u64 = 15_000;

/// Servers of earlier daemons of which it isn't known yet what became of them, by their nonces.
#[derive(Default)]
pub(super) struct Estate(Mutex<BTreeSet<String>>);

impl Estate {
    fn open(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// This server of an earlier daemon may still be working.
    pub(super) fn expect(&self, nonce: &str) {
        self.open().insert(nonce.to_owned());
    }

    /// What became of this server is known: its late answers are all there, or none will come.
    fn settled(&self, nonce: &str) {
        self.open().remove(nonce);
    }

    fn is_open(&self, nonce: &str) -> bool {
        self.open().contains(nonce)
    }
}

struct Old<'a> {
    world: &'a Arc<World>,
    process: &'a ProcessIdentity,
    governed: bool,
}

impl OldServer for Old<'_> {
    fn nothing_runs(&self) -> bool {
        self.world.nothing_runs(&self.process.nonce)
    }

    fn left(&self) -> BoxFuture<'_, Result<Option<String>, String>> {
        Box::pin(async {
            self.world.executor.sleep(LOOK_EVERY_MS).await;
            let pid = self.process.pid;
            Ok(self.world.is_tree_there(pid).then(|| format!("processes [{pid}]")))
        })
    }

    fn end(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(self.world.stop_server(self.process.pid, self.governed))
    }
}

impl Context {
    /// Waits for, or ends, what an earlier daemon's server has left, as is right; `careful`: something unsafe may run in it.
    pub(super) async fn prove_old_server_gone(
        &self,
        process: &ProcessIdentity,
        careful: bool,
        governed: bool,
    ) -> Result<(), String> {
        let old = Old { world: &self.world, process, governed };
        let deadline = self.now().deadline(self.world.story.policy().drain_deadline);
        let proved = settle_old_server(&old, careful, &*self.world.clock, deadline).await;
        self.estate.settled(&process.nonce);
        proved
    }

    /// The late answer to a call, waiting as long as one may come.
    pub(super) async fn late_answer(&self, call: &KeptCall) -> Option<Vec<u8>> {
        let executor = &self.world.executor;
        let until_ms = executor.now_ms() + self.world.story.rules.drain_deadline_ms + PROOF_MARGIN_MS;
        while self.estate.is_open(&call.server) && executor.now_ms() < until_ms {
            executor.sleep(LOOK_EVERY_MS).await;
        }
        self.world.late_answer(call)
    }
}
