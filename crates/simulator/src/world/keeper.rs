//! Keepers: what holds a server's pipes when its daemon dies, and what there is in the state directory of it: which unsafe
//! calls run, and late answers. What a keeper does with a line, and when it is done, is the relay's `Late`.

use super::World;
use crate::observe::{CallId, Seen, answered_by};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tidegate_relay::{Heard, Late, answered_call};

/// Within so long the daemon puts another keeper in the place of one that was killed.
const REPLACED_AFTER_MS: u64 = 40;

/// A call as its server knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptCall {
    /// The server, by its nonce.
    pub(crate) server: String,
    pub(crate) id: u64,
}

/// What is kept of one server.
#[derive(Default)]
pub(super) struct Kept {
    /// Its unsafe calls, from before the first byte of each to its answer.
    running: BTreeSet<u64>,
    answers: BTreeMap<u64, Vec<u8>>,
    /// Calls that were running when the daemon died, as long as a keeper has held the pipes since.
    owed: BTreeSet<u64>,
    /// Those of them that the server has answered since.
    answered: BTreeMap<u64, CallId>,
}

impl World {
    /// The daemon is about to write an unsafe call to a server.
    pub(crate) fn begins(&self, pid: u32, id: u64) {
        self.with_kept(pid, |kept| kept.running.insert(id));
    }

    /// Of the calls of a server only those are running of which that is said.
    pub(crate) fn ended(&self, pid: u32, is_running: impl Fn(u64) -> bool) {
        self.with_kept(pid, |kept| kept.running.retain(|id| is_running(*id)));
    }

    /// Whether it is sure that no unsafe call runs in a server.
    pub(crate) fn nothing_runs(&self, nonce: &str) -> bool {
        self.inner().kept.get(nonce).is_some_and(|kept| kept.running.is_empty())
    }

    /// The late answer to a call, where one was kept.
    pub(crate) fn late_answer(&self, call: &KeptCall) -> Option<Vec<u8>> {
        let inner = self.inner();
        let kept = inner.kept.get(&call.server)?;
        let answer = kept.answers.get(&call.id).cloned();
        let said = kept.answered.get(&call.id).cloned();
        drop(inner);
        match (&answer, said) {
            (Some(line), _) => {
                answered_by(line).into_iter().for_each(|call| self.see(Seen::LateAnswer { call }))
            }
            (None, Some(call)) => self.see(Seen::LateAnswerLost { call }),
            (None, None) => {}
        }
        answer
    }

    /// Somebody kills the keeper of a server. A daemon that lives puts another one in its place.
    pub(crate) fn kill_keeper(self: &Arc<Self>, choose: &mut fastrand::Rng) {
        let (pid, daemon) = {
            let mut inner = self.inner();
            let kept = inner.servers.iter().filter(|(_, server)| server.has_keeper);
            let pids: Vec<u32> = kept.map(|(pid, _)| *pid).collect();
            if pids.is_empty() {
                return;
            }
            let pid = pids[choose.usize(..pids.len())];
            let Some(server) = inner.servers.get_mut(&pid) else { return };
            server.has_keeper = false;
            (pid, server.daemon)
        };
        self.say("world", format!("the keeper of pid {pid} is killed"));
        self.see(Seen::Mark("keeper killed"));
        match daemon {
            Some(group) => {
                let world = self.clone();
                self.executor.spawn(group, async move {
                    world.executor.sleep(REPLACED_AFTER_MS).await;
                    if let Some(server) = world.inner().servers.get_mut(&pid) {
                        server.has_keeper = true;
                    }
                });
            }
            None => {
                self.with_kept(pid, |kept| kept.owed.clear());
                self.keeper_ends(pid);
            }
        }
    }

    /// Whoever wants nothing more of old servers ends the keepers that hold their pipes.
    pub(crate) fn end_keepers(self: &Arc<Self>) {
        let inner = self.inner();
        let kept = inner.servers.iter().filter(|(_, server)| server.late.is_some());
        let pids: Vec<u32> = kept.map(|(pid, _)| *pid).collect();
        drop(inner);
        for pid in pids {
            self.with_kept(pid, |kept| kept.owed.clear());
            self.keeper_ends(pid);
        }
    }

    /// Somebody has looked what the old servers do, and ends those that do nothing: one that was told to give a call up,
    /// and did, never answers it.
    pub(crate) fn end_idle_servers(&self) {
        let inner = self.inner();
        let idle = inner.servers.iter().filter(|(_, it)| it.late.is_some() && !it.program.is_busy());
        let pids: Vec<u32> = idle.map(|(pid, _)| *pid).collect();
        drop(inner);
        pids.into_iter().for_each(|pid| self.server_exits(pid, "it did nothing any more, and was ended"));
    }

    /// The daemon is gone: whether the server's keeper holds its pipes from now on.
    pub(super) fn keeper_takes_over(&self, pid: u32) -> bool {
        let mut inner = self.inner();
        let super::Inner { servers, kept, .. } = &mut *inner;
        let Some(server) = servers.get_mut(&pid).filter(|server| server.has_keeper) else { return false };
        let kept = kept.entry(server.nonce.clone()).or_default();
        let late = Late::new(kept.running.iter().copied());
        if late.is_over() {
            return false;
        }
        kept.owed.clone_from(&kept.running);
        server.late = Some(late);
        drop(inner);
        self.see(Seen::Mark("server kept by its keeper"));
        true
    }

    /// A server says something, and its daemon is dead.
    pub(super) fn says_late(self: &Arc<Self>, pid: u32, line: &[u8]) {
        let (heard, over) = {
            let mut inner = self.inner();
            let super::Inner { servers, kept, .. } = &mut *inner;
            let Some(server) = servers.get_mut(&pid) else { return };
            let kept = kept.entry(server.nonce.clone()).or_default();
            if let Some(id) = answered_call(line).filter(|id| kept.owed.contains(id)) {
                kept.answered.extend(answered_by(line).map(|call| (id, call)));
            }
            let Some(late) = &mut server.late else { return };
            let heard = late.heard(line);
            if let Heard::Answer(id) = heard {
                kept.answers.insert(id, line.to_vec());
                kept.running.remove(&id);
            }
            (heard, late.is_over())
        };
        if let Heard::Question(declined) = heard {
            self.write_server(pid, &declined, self.step());
        }
        if over {
            self.keeper_ends(pid);
        }
    }

    /// Nobody holds the server's pipes any more.
    fn keeper_ends(self: &Arc<Self>, pid: u32) {
        if let Some(server) = self.inner().servers.get_mut(&pid) {
            (server.late, server.has_keeper) = (None, false);
        }
        self.input_ends(pid);
    }

    fn with_kept<T>(&self, pid: u32, change: impl FnOnce(&mut Kept) -> T) -> Option<T> {
        let mut inner = self.inner();
        let nonce = inner.servers.get(&pid)?.nonce.clone();
        Some(change(inner.kept.entry(nonce).or_default()))
    }
}
