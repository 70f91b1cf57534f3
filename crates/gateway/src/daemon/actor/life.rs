//! The life of the component's server: installed, read, settled when it ends, proved dead, and started again when it ended
//! by itself. Never starts anything while an operation has the component.

use super::inlet::Inlet;
use super::{Actor, IDLE, Up};
use crate::daemon::acquaintance::reset_note;
use crate::daemon::component::Msg;
use crate::daemon::component::Proof;
use crate::daemon::context::{grumble, of_component, say_of};
use crate::daemon::liveness::{Doubt, Liveness};
use crate::daemon::revive::{NotRevived, Revived, revive};
use crate::daemon::start::STDERR_LINES;
use crate::lines::Line;
use crate::process::{Server, StopError, StopReport};
use std::time::Duration;
use tidegate_core::IncidentId;
use tidegate_governor::{ComponentState, Next, Verified};
use tidegate_host::OsEntropy;
use tidegate_incidents::{IncidentKind, Report, Severity};
use tidegate_relay::{Effect, ServerFacts, Unavailable};
use tokio::sync::oneshot;

/// How long the output of a server that has exited is read on: what it wrote is in the pipe, and only a process that
/// outlives it keeps the pipe open.
const LAST_WORDS: Duration = Duration::from_millis(500);
/// The pause before what was given up is looked at again: a failed operation has just tried twice, and an old tree was waited
/// for as long as a drain.
const AFTER_GIVING_UP: Duration = Duration::from_secs(5);
/// After so many failures in a row sessions are told, instead of waiting for the next try.
const FAILURES_UNTIL_TOLD: u32 = 3;

impl Actor {
    /// A verified server serves from now on, as soon as the gate allows.
    pub(super) async fn install(&mut self, server: Server, facts: ServerFacts) -> Verified {
        let Server { stdin, stdout, handle } = server;
        let (generation, pid) = (facts.generation, handle.identity().pid);
        let inlet = Inlet::new(stdin, handle.clone());
        self.up = Some(Up {
            stdout,
            handle,
            inlet: Some(inlet),
            generation: facts.generation,
            reading: true,
            told_dead: false,
            ending: None,
            proofs: Vec::new(),
            crashed: false,
            liveness: Liveness::heard(&self.ctx.now()),
        });
        self.unavailable = None;
        let mut verified = Verified {
            tools: facts.lists.tools().len(),
            version: facts.initialize.server_version.clone(),
            previous_version: self.version.clone(),
            ..Verified::default()
        };
        self.version.clone_from(&verified.version);
        let effects = self.relay.server_ready(facts, &self.ctx.now());
        for effect in &effects {
            if let Effect::ToolsChanged { added, removed } = effect {
                verified.added.clone_from(added);
                verified.removed.clone_from(removed);
            }
        }
        self.perform(effects).await;
        say_of(
            &[("component", &self.config.name)],
            &format!("{}: generation {generation} is ready, pid {pid}, {} tools", self.seat, verified.tools),
        );
        verified
    }

    pub(super) async fn server_said(&mut self, line: std::io::Result<Option<Line>>) {
        let now = self.ctx.now();
        if let Some(up) = &mut self.up {
            up.liveness = Liveness::heard(&now);
        }
        let effects = match line {
            Ok(Some(Line::Whole(line))) => self.relay.server_line(line, &now),
            Ok(Some(Line::TooLong { bytes, head, tail })) => self.relay.server_line_too_long(
                &head,
                &tail,
                usize::try_from(bytes).unwrap_or(usize::MAX),
                &now,
            ),
            Ok(Some(Line::Torn { .. })) => Vec::new(),
            Ok(None) | Err(_) => {
                if let Some(up) = &mut self.up {
                    up.reading = false;
                }
                return self.server_ended().await;
            }
        };
        self.perform(effects).await;
        // Only now: until then its keeper finds the answer in the pipe if this daemon dies, and knows that it is waited for.
        if let Some(up) = &self.up {
            up.handle.calls().ended(|id| self.relay.is_flying(id));
        }
    }

    /// Looks into the silence of a server that has nothing to do; ends one that answers nothing.
    pub(super) async fn look_for_life(&mut self) {
        let now = self.ctx.now();
        let gate = self.relay.gate();
        let busy = self.hands_off || gate.in_flight() > 0 || !gate.is_open() || !self.relay.is_ready();
        let Some(up) = self.up.as_mut().filter(|up| up.ending.is_none()) else { return };
        let (liveness, doubt) = up.liveness.look(busy, &now);
        up.liveness = liveness;
        let method = match doubt {
            None => return,
            Some(Doubt::Ping) => "ping",
            Some(Doubt::List) => "tools/list",
            Some(Doubt::Gone) => {
                let (name, seat) = (&self.config.name, &self.seat);
                let text =
                    format!("{seat} answers nothing, with nothing to do: it is ended and started again");
                say_of(&[("component", name)], &text);
                return self.server_ended().await;
            }
        };
        let asked = self.relay.own_request("", method, "{}");
        self.perform(asked).await;
    }

    /// The server has exited, or closed its output: nothing more is to be had from it.
    pub(super) async fn server_ended(&mut self) {
        let grace = self.config.stop_grace;
        let Some(up) = &mut self.up else { return };
        if up.ending.is_none() {
            up.crashed = true;
            let handle = up.handle.clone();
            up.ending = Some(tokio::spawn(async move { handle.stop(grace).await }));
        }
        self.settle_dead().await;
    }

    /// Everything that it said has been read, then the relay settles what it left.
    async fn settle_dead(&mut self) {
        let until = tokio::time::Instant::now() + LAST_WORDS;
        while let Some(up) = self.up.as_mut().filter(|up| up.reading && !up.told_dead) {
            match tokio::time::timeout_at(until, up.stdout.next()).await {
                Ok(Ok(Some(Line::Whole(line)))) => {
                    let effects = self.relay.server_line(line, &self.ctx.now());
                    self.perform(effects).await;
                }
                Ok(Ok(Some(_))) => {}
                Ok(Ok(None) | Err(_)) | Err(_) => up.reading = false,
            }
        }
        let Some(up) = self.up.as_mut() else { return };
        up.reading = false;
        if std::mem::replace(&mut up.told_dead, true) {
            return;
        }
        self.pages.clear();
        self.stale.clear();
        // What its pipe never took was never written, and is the next generation's. No more can be added.
        let Some(inlet) = up.inlet.take() else { return };
        let unwritten = tokio::time::timeout(LAST_WORDS, inlet.close()).await;
        for line in unwritten.ok().and_then(Result::ok).into_iter().flatten().rev() {
            self.relay.never_written(&line);
        }
        let effects = self.relay.server_died(&self.ctx.now());
        self.perform(effects).await;
    }

    pub(super) fn stop(&mut self, proof: oneshot::Sender<Proof>) {
        let grace = self.config.stop_grace;
        match &mut self.up {
            Some(up) => {
                up.proofs.push(proof);
                let handle = up.handle.clone();
                up.ending.get_or_insert_with(|| tokio::spawn(async move { handle.stop(grace).await }));
            }
            None => drop(proof.send(Ok(None))), // who asked has given up
        }
    }

    /// The proof of the server's death, or that there is none.
    pub(super) async fn ended(&mut self, proof: Result<StopReport, StopError>) {
        self.settle_dead().await;
        let Some(up) = self.up.take() else { return };
        self.last_stderr = up.handle.final_stderr(STDERR_LINES).await;
        let (name, seat) = (self.config.name.clone(), self.seat.clone());
        match &proof {
            Ok(report) => {
                self.relay.server_proved_dead();
                if report.unclean {
                    let title = format!("{seat} did not end by itself and had to be signalled");
                    let steps = report.steps.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
                    let mut unclean = Report::new(
                        IncidentKind::UncleanStop,
                        of_component(&seat.record),
                        Severity::Info,
                        title,
                    );
                    unclean.scope = Some(name.clone());
                    unclean.next_prompt = Some(format!(
                        "Nothing of {seat} runs any more and nobody has to do anything now: it was signalled only because it didn't end \
                         within its stop_grace after its input had ended. If it needs longer, set a longer stop_grace; else report it to \
                         its author. Then resolve this."
                    ));
                    self.ctx
                        .report(&unclean.evidence("steps", steps).evidence("stderr", &self.last_stderr))
                        .await;
                }
                // An operation records the death itself; outside of one it is recorded here.
                if up.proofs.is_empty() && !self.hands_off {
                    let stopped = self
                        .ctx
                        .components
                        .stopped(&seat.record, up.generation, ComponentState::Starting)
                        .await;
                    grumble("a server's death could not be recorded", stopped);
                }
            }
            Err(error) => {
                let incident = self.survived(error).await;
                if up.proofs.is_empty() {
                    self.unavailable = Some(incident.clone());
                    if !self.hands_off {
                        self.ctx.unavailable(&seat, up.generation, incident.as_ref()).await;
                        self.revive_after(AFTER_GIVING_UP);
                    }
                    let why = Unavailable { incident, message: error.to_string() };
                    let effects = self.relay.server_unavailable(why, &self.ctx.now());
                    self.perform(effects).await;
                }
            }
        }
        let proved = proof.is_ok();
        let crashed = up.crashed && up.proofs.is_empty();
        let exit = up.handle.exited();
        for waiting in up.proofs {
            let nonce = &up.handle.identity().nonce;
            let answer = proof.as_ref().map(|_| Some(nonce.clone())).map_err(ToString::to_string);
            let _ = waiting.send(answer); // who asked has given up
        }
        if crashed && proved {
            let how = exit.map_or_else(|| "closed its output".to_owned(), |exit| exit.to_string());
            self.try_again(format!("{seat} {how}")).await;
        }
    }

    async fn survived(&self, error: &StopError) -> Option<IncidentId> {
        let (name, seat) = (&self.config.name, &self.seat);
        let title = format!("processes of {seat} are still there after it was stopped: {error}");
        let mut report =
            Report::new(IncidentKind::TreeSurvived, of_component(&seat.record), Severity::Critical, title);
        report.scope = Some(name.clone());
        self.ctx.report(&report.evidence("stderr", &self.last_stderr)).await
    }

    /// Takes restarts of its own back, or allows them again.
    pub(super) async fn hands(&mut self, off: bool) {
        self.hands_off = off;
        if off {
            if let Some(reviving) = self.reviving.take() {
                reviving.abort();
                let _ = reviving.await; // whatever it had started is on record, and stopped by whoever has the component now
            }
        } else if self.up.is_none() && self.reviving.is_none() {
            // What was given up is tried again after a while, all the same: whoever repairs it needn't tell anybody.
            let given_up = self.unavailable.is_some();
            self.revive_after(if given_up { AFTER_GIVING_UP } else { Duration::ZERO });
        }
    }

    pub(super) fn revive_after(&mut self, delay: Duration) {
        let introduction = self.wanted().cloned();
        let revived = revive(self.ctx.clone(), self.seat.clone(), self.config.clone(), introduction, delay);
        self.reviving = Some(tokio::spawn(revived));
    }

    pub(super) async fn revived(&mut self, revived: Result<Revived, NotRevived>) {
        match revived {
            Ok(Revived { server, facts }) => {
                let (verified, _) = oneshot::channel();
                let losers = self.ctx.renewed(&self.seat, &self.config, facts.generation).await;
                self.told(Msg::Ready { server, facts, verified }).await;
                if let Some(reset) = self.config.reset() {
                    self.told(Msg::Tell { line: reset_note(&reset), to: Some(losers) }).await;
                }
            }
            // An operation starts it, or its client's first word.
            Err(NotRevived::Owned | NotRevived::NobodyThere) => {}
            Err(NotRevived::Survived { incident, message }) => {
                self.unavailable = Some(incident.clone());
                if !self.hands_off {
                    self.revive_after(AFTER_GIVING_UP);
                }
                let effects =
                    self.relay.server_unavailable(Unavailable { incident, message }, &self.ctx.now());
                self.perform(effects).await;
            }
            Err(NotRevived::Failed { message, stderr }) => {
                self.last_stderr.clone_from(&stderr);
                self.try_again(message).await;
            }
        }
    }

    /// It ended by itself, or did not start: an incident, and another try when it is time.
    async fn try_again(&mut self, message: String) {
        let name = self.config.name.clone();
        let (supervision, next) = self.supervision.failed(&self.ctx.now(), &OsEntropy);
        self.supervision = supervision;
        let (severity, after_ms) = match next {
            Next::Probe { after_ms } => (Severity::Critical, after_ms),
            Next::Restart { after_ms } => (Severity::Warning, after_ms),
            _ => (Severity::Critical, IDLE.as_secs() * 1_000),
        };
        let mut report = Report::new(
            IncidentKind::ComponentCrashed,
            of_component(&self.seat.record),
            severity,
            message.as_str(),
        );
        report.scope = Some(name.clone());
        report.next_prompt = Some(format!(
            "{message}. It is started again by itself, in {:.1} s this time. If this goes on, read what it said (the evidence) and \
             repair it; `tidegate restart request {name} --reason …` starts it at once.",
            Duration::from_millis(after_ms).as_secs_f32()
        ));
        let incident = match self.unavailable.clone() {
            // Somebody knows already.
            Some(known) => known,
            None => self.ctx.report(&report.evidence("stderr", &self.last_stderr)).await,
        };
        if matches!(next, Next::Probe { .. })
            || self.supervision.failures() >= FAILURES_UNTIL_TOLD
            || self.unavailable.is_some()
        {
            let message = match self.last_stderr.trim() {
                "" => message,
                said => format!("{message}; it said: {said}"),
            };
            let why = Unavailable { incident, message };
            let effects = self.relay.server_unavailable(why, &self.ctx.now());
            self.perform(effects).await;
        }
        if !self.hands_off {
            self.revive_after(Duration::from_millis(after_ms));
        }
    }
}
