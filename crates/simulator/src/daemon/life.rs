//! The life of the component's server: installed, settled when it ends, proved dead, and started again when it ended by
//! itself. Never starts anything while an operation has the component.

use super::actor::{Actor, Up};
use super::component::{Msg, Proof};
use super::context::of_component;
use super::revive::{NotRevived, Revived, revive};
use crate::channel::{Sender, channel};
use crate::observe::Seen;
use crate::world::Said;
use tidegate_core::ProcessIdentity;
use tidegate_governor::{ComponentState, Next, Verified};
use tidegate_incidents::{IncidentKind, Report, Severity};
use tidegate_relay::{Effect, ServerFacts, Unavailable};

/// The pause before what was given up is looked at again.
const AFTER_GIVING_UP_MS: u64 = 5_000;
/// After so many failures in a row sessions are told, instead of waiting for the next try.
const FAILURES_UNTIL_TOLD: u32 = 3;
/// When a component is looked at whose next try has no time.
const LATER_MS: u64 = 3_600_000;

impl Actor {
    /// A verified server serves from now on, as soon as the gate allows.
    pub(super) async fn install(&mut self, server: ProcessIdentity, facts: ServerFacts) -> Verified {
        let (pid, own) = (server.pid, self.own.clone());
        let generation = facts.generation;
        self.up = Some(Up {
            server,
            generation,
            unwritten: Vec::new(),
            told_dead: false,
            ending: false,
            proofs: Vec::new(),
            crashed: false,
        });
        self.unavailable = None;
        let mut verified = Verified {
            tools: facts.lists.tools().len(),
            version: facts.initialize.server_version.clone(),
            ..Verified::default()
        };
        self.ctx.world.see(Seen::Serving { component: self.plan.name.clone() });
        let effects = self.relay.server_ready(facts, &self.ctx.now());
        for effect in &effects {
            if let Effect::ToolsChanged { added, removed } = effect {
                verified.added.clone_from(added);
                verified.removed.clone_from(removed);
            }
        }
        let ear = {
            let own = own.clone();
            Box::new(move |said| own.tell(Msg::Server { pid, said }))
        };
        if !self.ctx.world.listen(pid, ear) {
            own.tell(Msg::Server { pid, said: Said::End });
        }
        self.perform(effects).await;
        verified
    }

    /// The server has exited: nothing more is to be had from it.
    pub(super) async fn server_ended(&mut self) {
        let Some(up) = &mut self.up else { return };
        if !std::mem::replace(&mut up.ending, true) {
            up.crashed = true;
            self.end_server(false);
        }
        self.settle_dead().await;
    }

    /// What the server left is settled. Everything that it said has been read: it came through the same mailbox.
    async fn settle_dead(&mut self) {
        let Some(up) = self.up.as_mut() else { return };
        if !std::mem::replace(&mut up.told_dead, true) {
            self.pages.clear();
            for line in std::mem::take(&mut up.unwritten).into_iter().rev() {
                self.relay.never_written(&line);
            }
            let effects = self.relay.server_died(&self.ctx.now());
            self.perform(effects).await;
        }
    }

    fn end_server(&self, governed: bool) {
        let Some(pid) = self.up.as_ref().map(|up| up.server.pid) else { return };
        let (world, own) = (self.ctx.world.clone(), self.own.clone());
        self.ctx.world.executor.spawn(self.ctx.group, async move {
            let proof = world.stop_server(pid, governed).await;
            own.tell(Msg::Proved { pid, proof });
        });
    }

    pub(super) fn stop(&mut self, governed: bool, proof: Sender<Proof>) {
        match &mut self.up {
            Some(up) => {
                up.proofs.push(proof);
                if !std::mem::replace(&mut up.ending, true) {
                    self.end_server(governed);
                }
            }
            None => drop(proof.send(Ok(()))), // who asked has given up
        }
    }

    /// The proof of the server's death, or that there is none.
    pub(super) async fn ended(&mut self, proof: Proof) {
        self.settle_dead().await;
        let Some(up) = self.up.take() else { return };
        let name = self.plan.name.clone();
        match &proof {
            Ok(()) => {
                self.relay.server_proved_dead();
                // An operation records the death itself; outside of one it is recorded here.
                if up.proofs.is_empty() && !self.hands_off {
                    let stopped =
                        self.ctx.components.stopped(&name, up.generation, ComponentState::Starting).await;
                    self.ctx.grumble("a server's death could not be recorded", stopped);
                }
            }
            Err(error) => {
                let title = format!("processes of {name} are still there after it was stopped: {error}");
                let mut report =
                    Report::new(IncidentKind::TreeSurvived, of_component(&name), Severity::Critical, title);
                report.scope = Some(name.clone());
                let incident = self.ctx.report(&report).await;
                if up.proofs.is_empty() {
                    self.unavailable = Some(incident.clone());
                    if !self.hands_off {
                        self.ctx.unavailable(&name, up.generation, incident.as_ref()).await;
                        self.ctx.world.see(Seen::Survived { component: name.clone() });
                        self.revive_after(AFTER_GIVING_UP_MS);
                    }
                    let why = Unavailable { incident, message: error.clone() };
                    let effects = self.relay.server_unavailable(why, &self.ctx.now());
                    self.perform(effects).await;
                }
            }
        }
        let crashed = up.crashed && up.proofs.is_empty();
        for waiting in up.proofs {
            waiting.send(proof.clone());
        }
        if crashed && proof.is_ok() {
            self.try_again(format!("{name} ended by itself")).await;
        }
    }

    /// Takes restarts of its own back, or allows them again.
    pub(super) fn hands(&mut self, off: bool) {
        self.hands_off = off;
        if off {
            if let Some((_, task)) = self.reviving.take() {
                // Whatever it had started is on record, and stopped by whoever has the component now.
                self.ctx.world.executor.abort(task);
            }
        } else if self.up.is_none() && self.reviving.is_none() {
            // What was given up is tried again after a while, all the same: whoever repairs it needn't tell anybody.
            self.revive_after(if self.unavailable.is_some() { AFTER_GIVING_UP_MS } else { 0 });
        }
    }

    fn revive_after(&mut self, delay_ms: u64) {
        self.attempts += 1;
        let (ctx, name, own, attempt) =
            (self.ctx.clone(), self.plan.name.clone(), self.own.clone(), self.attempts);
        let task = self.ctx.world.executor.spawn(self.ctx.group, async move {
            let revived = revive(&ctx, &name, delay_ms).await;
            own.tell(Msg::Revived { attempt, revived });
        });
        self.reviving = Some((attempt, task));
    }

    pub(super) async fn revived(&mut self, revived: Result<Revived, NotRevived>) {
        match revived {
            Ok(Revived { server, facts }) => {
                let (verified, _) = channel();
                self.ctx.renewed(&self.plan, facts.generation).await;
                Box::pin(self.told(Msg::Ready { server, facts, verified })).await;
            }
            Err(NotRevived::Owned) => {}
            Err(NotRevived::Survived { incident, message }) => {
                self.unavailable = Some(incident.clone());
                if !self.hands_off {
                    self.ctx.world.see(Seen::Survived { component: self.plan.name.clone() });
                    self.revive_after(AFTER_GIVING_UP_MS);
                }
                let effects =
                    self.relay.server_unavailable(Unavailable { incident, message }, &self.ctx.now());
                self.perform(effects).await;
            }
            Err(NotRevived::Failed { message }) => self.try_again(message).await,
        }
    }

    /// It ended by itself, or did not start: an incident, and another try when it is time.
    async fn try_again(&mut self, message: String) {
        let (supervision, next) = self.supervision.failed(&self.ctx.now(), &*self.ctx.world.ids);
        self.supervision = supervision;
        let (severity, after_ms) = match next {
            Next::Probe { after_ms } => (Severity::Critical, after_ms),
            Next::Restart { after_ms } => (Severity::Warning, after_ms),
            _ => (Severity::Critical, LATER_MS),
        };
        let name = &self.plan.name;
        let mut report =
            Report::new(IncidentKind::ComponentCrashed, of_component(name), severity, message.as_str());
        report.scope = Some(name.clone());
        report.next_prompt = Some(format!("{message}. It is started again by itself, in {after_ms} ms."));
        let incident = match self.unavailable.clone() {
            // Somebody knows already.
            Some(known) => known,
            None => self.ctx.report(&report).await,
        };
        if matches!(next, Next::Probe { .. })
            || self.supervision.failures() >= FAILURES_UNTIL_TOLD
            || self.unavailable.is_some()
        {
            let why = Unavailable { incident, message };
            let effects = self.relay.server_unavailable(why, &self.ctx.now());
            self.perform(effects).await;
        }
        if !self.hands_off {
            self.revive_after(after_ms);
        }
    }
}
