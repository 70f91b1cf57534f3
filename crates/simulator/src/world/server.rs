//! A server's process: started, spoken to, stopped, dying by itself, and left behind by its daemon. What it does with a
//! call is its program's.

use super::World;
use super::keeper::Kept;
use super::program::Program;
use crate::chance::happens;
use crate::executor::Group;
use crate::observe::Seen;
use std::sync::Arc;
use tidegate_core::planted::is_planted;
use tidegate_core::{ComponentName, Generation, ProcessIdentity, WorkClass};
use tidegate_governor::LaunchIdentity;
use tidegate_relay::Late;

/// How long a server has between the end of its input and a signal that it can't ignore.
const STOP_GRACE_MS: u64 = 500;
/// How long a tree that doesn't go away is looked at before that is reported.
const LAST_LOOK_MS: u64 = 1_000;
/// The end of a command that starts nothing that serves.
pub(crate) const BROKEN: &str = "-broken";
/// Between two looks at a process.
const GLANCE_MS: u64 = 50;

/// Something that a server's daemon hears of it.
#[derive(Debug)]
pub(crate) enum Said {
    /// A line.
    Line(Vec<u8>),
    /// Nothing more: it has exited, or closed its output.
    End,
}

/// Who reads what a server writes.
pub(crate) type Ear = Box<dyn Fn(Said) + Send>;

/// How a server takes the wish that it should end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Habit {
    /// Ends at the end of its input.
    Obedient,
    /// Has to be killed.
    Stubborn,
    /// Doesn't even die when it is killed, as long as things go wrong.
    Undying,
}

pub(super) struct Server {
    component: ComponentName,
    generation: Generation,
    /// What its environment, its keeper and its record have in common.
    pub(super) nonce: String,
    /// Whose pipes it has; none once that daemon is gone.
    pub(super) daemon: Option<Group>,
    /// A keeper holds its pipes too.
    pub(super) has_keeper: bool,
    /// What its keeper waits for, once the daemon is gone.
    pub(super) late: Option<Late>,
    /// Its program runs: it isn't the launcher any more.
    running: bool,
    habit: Habit,
    /// It was started by a command that never passes its verification.
    broken: bool,
    /// It leaves a child behind when it ends while things go wrong.
    leaves_child: bool,
    /// Its main process has ended, and until then a child of it is there.
    child_until_ms: Option<u64>,
    ear: Option<Ear>,
    pub(super) program: Program,
}

impl World {
    /// Starts the launcher of a server: a process with an identity that has not run the server's program.
    pub(crate) fn launcher(
        &self,
        component: &ComponentName,
        generation: Generation,
        daemon: Group,
        nonce: &str,
    ) -> ProcessIdentity {
        let identity = self.born(nonce);
        let mut rng = self.generator(&format!("habit {component} {generation}"));
        let habit = match happens(&mut rng, self.story.faults.stubborn) {
            false => Habit::Obedient,
            true if rng.bool() => Habit::Stubborn,
            true => Habit::Undying,
        };
        let server = Server {
            component: component.clone(),
            generation,
            nonce: nonce.to_owned(),
            daemon: Some(daemon),
            has_keeper: true,
            late: None,
            running: false,
            habit,
            broken: false,
            leaves_child: happens(&mut rng, self.story.faults.children),
            child_until_ms: None,
            ear: None,
            program: Program::default(),
        };
        let mut inner = self.inner();
        inner.servers.insert(identity.pid, server);
        inner.kept.insert(nonce.to_owned(), Kept::default());
        drop(inner);
        identity
    }

    /// The launcher becomes the server.
    pub(crate) fn run_program(&self, pid: u32, launch: &LaunchIdentity) {
        let (component, generation) = {
            let mut inner = self.inner();
            let Some(server) = inner.servers.get_mut(&pid) else { return };
            server.running = true;
            server.broken = launch.command.ends_with(BROKEN);
            (server.component.clone(), server.generation)
        };
        self.say(&component, format!("generation {generation} runs (pid {pid})"));
        self.see(Seen::Started { component, generation, pid, launch: launch.clone() });
    }

    /// Reads what the server writes from now on; `false` when it has ended.
    pub(crate) fn listen(&self, pid: u32, ear: Ear) -> bool {
        let mut inner = self.inner();
        match inner.servers.get_mut(&pid) {
            Some(server) if server.child_until_ms.is_none() => {
                server.ear = Some(ear);
                true
            }
            _ => false,
        }
    }

    /// Writes a line to the server, decided in the step `decided`; `false` when it has ended and its pipe takes nothing.
    pub(crate) fn write_server(self: &Arc<Self>, pid: u32, line: &[u8], decided: u64) -> bool {
        let about = {
            let inner = self.inner();
            let serves = inner.servers.get(&pid).filter(|server| server.child_until_ms.is_none());
            serves.map(|server| (server.component.clone(), server.generation))
        };
        let Some((component, generation)) = about else { return false };
        self.program_reads(pid, &component, generation, line, decided);
        true
    }

    /// What the server writes, to whoever reads it.
    pub(super) fn server_says(self: &Arc<Self>, pid: u32, line: String) {
        let inner = self.inner();
        if let Some(ear) = inner.servers.get(&pid).and_then(|server| server.ear.as_ref()) {
            return ear(Said::Line(line.into_bytes()));
        }
        drop(inner);
        self.says_late(pid, line.as_bytes());
    }

    pub(super) fn with_program<T>(&self, pid: u32, look: impl FnOnce(&mut Program) -> T) -> Option<T> {
        self.inner().servers.get_mut(&pid).map(|server| look(&mut server.program))
    }

    /// The server's main process is gone, however that came about; and everything of it, unless it leaves a child.
    pub(crate) fn server_exits(&self, pid: u32, how: &str) {
        let lasts_ms = self.generator(&format!("child {pid}")).u64(500..8_000);
        let until_ms = self.executor.now_ms() + lasts_ms;
        let left = {
            let mut inner = self.inner();
            let chaos = inner.chaos;
            match inner.servers.get_mut(&pid) {
                Some(server) if server.child_until_ms.is_some() => return,
                Some(server) if server.running && server.leaves_child && chaos => {
                    server.child_until_ms = Some(until_ms);
                    server.program = Program::default();
                    Some((server.component.clone(), server.generation, server.ear.take()))
                }
                _ => None,
            }
        };
        let Some((component, generation, ear)) = left else { return self.tree_ends(pid, how) };
        self.say(&component, format!("generation {generation} ends, and leaves a child behind: {how}"));
        self.see(Seen::Crashed { component });
        self.see(Seen::Mark("child left behind"));
        if let Some(ear) = ear {
            ear(Said::End);
        }
    }

    /// Nothing of the server is left.
    fn tree_ends(&self, pid: u32, how: &str) {
        let gone = {
            let mut inner = self.inner();
            inner.alive.remove(&pid);
            inner.servers.remove(&pid)
        };
        let Some(server) = gone else { return };
        if server.running {
            self.say(&server.component, format!("generation {} ends: {how}", server.generation));
            self.see(Seen::Died { component: server.component, pid });
        }
        if let Some(ear) = server.ear {
            ear(Said::End);
        }
    }

    /// Looks whether anything of a server is left. A child that was left behind ends by itself.
    pub(crate) fn is_tree_there(&self, pid: u32) -> bool {
        let now_ms = self.executor.now_ms();
        let is_over = {
            let inner = self.inner();
            let until_ms = inner.servers.get(&pid).and_then(|server| server.child_until_ms);
            until_ms.is_some_and(|until_ms| until_ms <= now_ms || !inner.chaos)
        };
        if is_over {
            self.tree_ends(pid, "its last child has ended");
        }
        self.is_alive(pid)
    }

    /// Whether anything of any server is left.
    pub(crate) fn any_server(&self) -> bool {
        let pids: Vec<u32> = self.inner().servers.keys().copied().collect();
        pids.into_iter().filter(|pid| self.is_tree_there(*pid)).count() > 0
    }

    /// Whether the server will never pass its verification.
    pub(crate) fn is_broken(&self, pid: u32) -> bool {
        self.inner().servers.get(&pid).is_some_and(|server| server.broken)
    }

    /// Whether the server's main process is there.
    pub(crate) fn serves(&self, pid: u32) -> bool {
        self.inner().servers.get(&pid).is_some_and(|server| server.child_until_ms.is_none())
    }

    /// Makes a server end, whatever it takes, and proves it. `governed`: for an operation.
    pub(crate) async fn stop_server(&self, pid: u32, governed: bool) -> Result<(), String> {
        let Some(habit) = self.begin_stop(pid, governed) else { return Ok(()) };
        if habit == Habit::Obedient {
            self.executor.sleep(10).await;
            self.server_exits(pid, "its input was closed");
            if is_planted("a-tree-is-its-main-process") || !self.is_tree_there(pid) {
                return Ok(());
            }
        }
        self.executor.sleep(STOP_GRACE_MS).await;
        let until_ms = self.executor.now_ms() + LAST_LOOK_MS;
        while self.is_tree_there(pid) {
            if habit != Habit::Undying || !self.is_chaos() {
                self.tree_ends(pid, "it was killed");
            } else if self.executor.now_ms() >= until_ms {
                return Err(format!("pid {pid} is still there"));
            } else {
                self.executor.sleep(GLANCE_MS).await;
            }
        }
        Ok(())
    }

    fn begin_stop(&self, pid: u32, governed: bool) -> Option<Habit> {
        let (habit, seen) = {
            let inner = self.inner();
            let server = inner.servers.get(&pid)?;
            let seen = server.running.then(|| Seen::Stopping {
                component: server.component.clone(),
                generation: server.generation,
                governed,
                orphaned: server.daemon.is_none(),
                executing: server.program.executing(),
            });
            (server.habit, seen)
        };
        if let Some(seen) = seen {
            self.see(seen);
        }
        Some(habit)
    }

    /// The daemon is gone, and its ends of all pipes with it. Launchers end; servers whose keepers don't hold their pipes do
    /// when they have come to the end of what they are doing, or when they feel like it.
    pub(crate) fn pipes_close(self: &Arc<Self>, daemon: Group) {
        let orphans: Vec<(u32, bool)> = {
            let mut inner = self.inner();
            let of_it = inner.servers.iter_mut().filter(|(_, server)| server.daemon == Some(daemon));
            of_it
                .map(|(pid, server)| {
                    server.daemon = None;
                    server.ear = None;
                    (*pid, server.running)
                })
                .collect()
        };
        for (pid, running) in orphans {
            if !running {
                self.server_exits(pid, "its launcher lost its pipe");
            } else if !self.keeper_takes_over(pid) {
                self.input_ends(pid);
            }
        }
    }

    /// A server comes to the end of its input, and nobody is there to end it.
    pub(super) fn input_ends(self: &Arc<Self>, pid: u32) {
        let Some(habit) = self.inner().servers.get(&pid).map(|server| server.habit) else { return };
        let world = self.clone();
        self.executor.spawn(Group::WORLD, async move {
            let patience = if habit == Habit::Obedient { 0 } else { 4_000 };
            world.executor.sleep(20 + patience).await;
            while world.with_program(pid, |program| program.is_busy()) == Some(true) {
                world.executor.sleep(GLANCE_MS).await;
            }
            world.server_exits(pid, "it has lost its daemon");
        });
    }

    /// The class of a tool, as the operator's policy has it.
    pub(crate) fn class_of(tool: &str) -> WorkClass {
        match tool {
            "read" => WorkClass::ReadOnly,
            "put" | "resources/subscribe" | "logging/setLevel" => WorkClass::Idempotent,
            _ => WorkClass::Mutating,
        }
    }
}
