//! A session: a client process with a shim per component, and whoever sits before it, in their manner.

use super::Busy;
use super::operators::{approve, ask, cleans_up, restart};
use super::shim::{Call, Says, Shim};
use crate::chance::happens;
use crate::channel::{Receiver, Sender, channel};
use crate::daemon::{Answer, Request, Wish};
use crate::executor::Group;
use crate::observe::{CallId, Fact, Needed, Outcome, Seen};
use crate::story::{Manner, SessionPlan, name};
use crate::world::World;
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;
use tidegate_core::{ComponentName, Entropy as _, Fence, ProcessIdentity, SessionId, WorkClass};
use tidegate_governor::Caller;
use tidegate_leases::{Lease, LeaseKey, MARGIN};

/// The leases that everybody wants.
const LEASES: [&str; 3] = ["repo/main", "repo/docs", "index"];
/// The shortest time to live that anybody asks for: a renewal lasts at least as long.
const SHORTEST_TTL_MS: u64 = 3_000;

/// A client process.
struct Client {
    process: ProcessIdentity,
    group: Group,
    streams: BTreeMap<ComponentName, Sender<Says>>,
    /// What was sent, and where.
    open: Vec<(ComponentName, CallId)>,
}

struct Person {
    world: Arc<World>,
    plan: SessionPlan,
    rng: fastrand::Rng,
    calls: u32,
    session: SessionId,
    held: BTreeMap<String, (LeaseKey, Fence)>,
    /// What a client of it held that was killed.
    stale: Vec<(LeaseKey, Fence)>,
}

/// Does what it came for, then stays attached.
pub(crate) async fn lives(world: &Arc<World>, plan: SessionPlan, busy: &Busy) {
    let session = SessionId::new(name("local"), name(&plan.session));
    let rng = world.generator(&format!("session {}", plan.name));
    let deeds = plan.deeds;
    let (held, stale) = (BTreeMap::new(), Vec::new());
    let mut person = Person { world: world.clone(), plan, rng, calls: 0, session, held, stale };
    let first = person.rng.u64(..500);
    world.executor.sleep(first).await;
    let mut client = person.starts_client().await;
    for _ in 0..deeds {
        let pause = match person.plan.manner {
            Manner::Silent => person.rng.u64(500..4_000),
            _ => person.rng.u64(10..900),
        };
        world.executor.sleep(pause).await;
        client = person.does_something(client).await;
    }
    busy.ends();
    // Its shims go on for as long as somebody holds their other ends.
    std::future::pending::<()>().await;
    drop(client);
}

impl Person {
    async fn starts_client(&mut self) -> Client {
        let process = self.world.born(&format!("client of {}", self.plan.name));
        let group = self.world.executor.group();
        let (attached, mut welcomed) = channel();
        let mut streams = BTreeMap::new();
        for component in &self.plan.components {
            let (says, hears) = channel();
            let answers = matches!(self.plan.manner, Manner::Steady | Manner::Greedy);
            let shim = Shim::new(
                &self.world,
                component.clone(),
                self.session.name.clone(),
                process.clone(),
                answers,
                attached.clone(),
            );
            self.world.executor.spawn(group, shim.run(hears));
            streams.insert(component.clone(), says);
        }
        drop(attached);
        self.world.say(&self.plan.name, format!("starts a client ({:?})", self.plan.manner));
        if let Some(session) = welcomed.recv().await {
            self.session = session;
        }
        Client { process, group, streams, open: Vec::new() }
    }

    async fn does_something(&mut self, client: Client) -> Client {
        let mut client = client;
        let forgetful = self.plan.manner == Manner::Forgetful;
        match self.rng.u32(..100) {
            0..8 => self.notes().await,
            8..20 => self.wants_a_lease(&mut client).await,
            20..26 => self.looks_after_leases(&client).await,
            26..30 if self.plan.manner == Manner::Greedy => self.steals_a_lease().await,
            26..32 => self.resumes().await,
            32..40 if self.plan.asks => self.wants_a_restart().await,
            40..46 => self.subscribes(&mut client).await,
            46..54 if forgetful => self.cancels(&mut client),
            54..62 if forgetful => {
                self.leaves(client).await;
                let client = self.starts_client().await;
                self.resumes().await;
                if self.rng.bool() {
                    self.gives_back_late().await;
                }
                return client;
            }
            _ if self.is_asked_for_leases() && self.held.is_empty() && self.rng.bool() => {
                self.wants_a_lease(&mut client).await
            }
            _ => self.calls(&mut client).await,
        }
        client
    }

    /// Whether it works with a component that asks for leases.
    fn is_asked_for_leases(&self) -> bool {
        let mut plans = self.world.story.components.iter().filter(|it| it.leased);
        plans.any(|it| self.plan.components.contains(&it.name))
    }

    async fn calls(&mut self, client: &mut Client) {
        let at_once = if self.plan.manner == Manner::Greedy { self.rng.u32(1..=4) } else { 1 };
        for _ in 0..at_once {
            let (method, tool) = match self.rng.u32(..100) {
                0..4 => ("tools/list", ""),
                4..44 => ("tools/call", "read"),
                44..64 => ("tools/call", "put"),
                64..94 => ("tools/call", "write"),
                _ => ("tools/call", "extra"),
            };
            let mut answer = self.sends(client, method, tool, json!({}));
            if self.plan.manner == Manner::Steady {
                answer.recv().await;
            }
        }
    }

    fn sends(
        &mut self,
        client: &mut Client,
        method: &str,
        tool: &str,
        mut params: serde_json::Value,
    ) -> Receiver<Outcome> {
        self.calls += 1;
        let nonce = format!("{}.{}", self.plan.name, self.calls);
        let call = CallId::from(nonce.as_str());
        let to = self.rng.usize(..client.streams.len());
        let (answer, answered) = channel();
        let Some((component, says)) = client.streams.iter().nth(to) else { return answered };
        let (component, says) = (component.clone(), says.clone());
        let class = match method {
            "tools/call" => World::class_of(tool),
            "tools/list" => WorkClass::ReadOnly,
            method => World::class_of(method),
        };
        let replays = self.world.story.components.iter().any(|c| c.name == component && c.replay);
        let by_protocol = class == WorkClass::Idempotent && method != "tools/call";
        if method != "tools/list" {
            params["arguments"] = json!({ "nonce": nonce });
        }
        if !tool.is_empty() {
            params["name"] = json!(tool);
        }
        let plan = self.world.story.components.iter().find(|c| c.name == component);
        let asks = tool == "write" && plan.is_some_and(|plan| plan.leased);
        let lease = asks.then(|| self.names_a_lease());
        if let Some(Needed { key, fence }) = &lease {
            params["arguments"]["lease"] = json!(key);
            if let Some(fence) = fence {
                params["_meta"] = json!({ "tidegate/fence": fence.to_string() });
            }
        }
        self.world.see(Seen::Sent {
            call: call.clone(),
            session: self.session.clone(),
            component: component.clone(),
            class,
            tool: if tool.is_empty() { method.to_owned() } else { tool.to_owned() },
            replay: class == WorkClass::Idempotent && (by_protocol || replays),
            lease,
        });
        let what = if tool.is_empty() { method } else { tool };
        self.world.say(&self.plan.name, format!("calls {what} on {component} ({call})"));
        says.send(Says::Call(Call { id: call.clone(), method: method.to_owned(), params, answer }));
        client.open.push((component, call));
        answered
    }

    /// The lease in whose name it writes: mostly one that it holds, or has held; often under the fence that it knows.
    fn names_a_lease(&mut self) -> Needed {
        let known: Vec<&(LeaseKey, Fence)> = self.held.values().chain(&self.stale).collect();
        if known.is_empty() || happens(&mut self.rng, 100) {
            return Needed { key: LEASES[self.rng.usize(..LEASES.len())].to_owned(), fence: None };
        }
        let (key, fence) = known[self.rng.usize(..known.len())];
        Needed { key: key.to_string(), fence: self.rng.bool().then_some(*fence) }
    }

    async fn subscribes(&mut self, client: &mut Client) {
        let uri = format!("file:///{}", self.rng.u32(..3));
        let mut answer = self.sends(client, "resources/subscribe", "", json!({ "uri": uri.clone() }));
        let Some((component, _)) = client.open.last().cloned() else { return };
        if let Some(Outcome::Answered(_)) = answer.recv().await {
            self.world.say(&self.plan.name, format!("is subscribed to {uri} of {component}"));
            let fact = Fact::Subscription(component, uri);
            self.world.see(Seen::Kept { session: self.session.clone(), fact });
        }
    }

    fn cancels(&mut self, client: &mut Client) {
        let Some((_, call)) = client.open.pop() else { return };
        self.world.say(&self.plan.name, format!("cancels {call}"));
        self.world.see(Seen::GivenUp { call: call.clone() });
        for says in client.streams.values() {
            says.send(Says::Cancel(call.clone()));
        }
    }

    /// The client dies, with whatever is open; another one comes some time later.
    async fn leaves(&mut self, client: Client) {
        self.world.say(&self.plan.name, "its client is killed");
        for (_, call) in client.open {
            self.world.see(Seen::GivenUp { call: call.clone() });
            self.world.see(Seen::Left { call });
        }
        for component in client.streams.keys() {
            let (session, component) = (self.session.clone(), component.clone());
            self.world.see(Seen::Connected { session, component, up: false });
        }
        self.world.see(Seen::ClientDied { pid: client.process.pid });
        self.world.executor.kill(client.group);
        self.world.dies(&client.process);
        self.stale.extend(std::mem::take(&mut self.held).into_values());
        let away = self.rng.u64(50..9_000);
        let mut haste = self.world.generator(&format!("haste of {}", client.process.pid));
        if happens(&mut haste, self.world.story.faults.hasty_clients) {
            self.world.see(Seen::Mark("client back at once"));
            return;
        }
        cleans_up(&self.world, &self.plan).await;
        self.world.executor.sleep(away).await;
    }

    async fn asks_daemon(&self, request: Request) -> Option<Answer> {
        ask(&self.world, &Caller::local(), Some(&self.session), request).await
    }

    async fn notes(&mut self) {
        let id = self.world.ids.id("note");
        if let Some(Answer::Done) =
            self.asks_daemon(Request::Note { id: id.clone(), text: "half done".to_owned() }).await
        {
            self.world.see(Seen::Kept { session: self.session.clone(), fact: Fact::Note(id) });
        }
    }

    async fn resumes(&mut self) {
        if let Some(Answer::Resumed(resume)) = self.asks_daemon(Request::Resume).await {
            let (action, prompt) = (resume.next_action.kind().to_owned(), resume.next_action.prompt());
            self.world.say(&self.plan.name, format!("is told: {action}"));
            self.world.see(Seen::Resumed { session: self.session.clone(), action, prompt });
        }
    }

    /// Asks for a restart, and tries to let it through: itself, and as a shell beside it would.
    async fn wants_a_restart(&mut self) {
        let all = &self.world.story.components;
        let scope = vec![all[self.rng.usize(..all.len())].name.clone()];
        if self.world.story.calm {
            return;
        }
        let local = Caller::local();
        let break_glass = happens(&mut self.rng, 100);
        let wish = |id| Wish { break_glass, ..Wish::plain(id, scope) };
        let operation = restart(&self.world, &local, Some(&self.session), wish).await;
        let Some(operation) = operation else { return };
        approve(&self.world, &local, Some(&self.session), operation.id.clone()).await;
        if self.plan.manner == Manner::Posing {
            let other = SessionId::new(name("local"), name(&self.plan.session));
            approve(&self.world, &local, Some(&other), operation.id.clone()).await;
        }
        approve(&self.world, &local, None, operation.id).await;
    }

    async fn wants_a_lease(&mut self, client: &mut Client) {
        let key = LEASES[self.rng.usize(..LEASES.len())];
        let class = if self.rng.bool() { WorkClass::Mutating } else { WorkClass::Idempotent };
        let ttl_ms = self.rng.u64(SHORTEST_TTL_MS..8_000);
        let sent_ms = self.world.executor.now_ms();
        // Whoever sets a limit may run into it while nobody can ask them.
        let max_ttl_ms = happens(&mut self.rng, 300).then_some(ttl_ms + 1_000);
        let request = Request::Acquire { key: name(key), class, ttl_ms, max_ttl_ms };
        let Some(Answer::Acquired(acquired)) = self.asks_daemon(request).await else { return };
        self.world.say(&self.plan.name, format!("holds {key} ({class}) under {}", acquired.fence));
        self.holds(client, true, acquired.key.clone(), acquired.fence, (sent_ms, ttl_ms));
        self.world.see(Seen::Kept { session: self.session.clone(), fact: Fact::Lease(key.to_owned()) });
        if self.plan.manner == Manner::Steady {
            self.sends(client, "tools/call", "write", json!({})).recv().await;
            self.gives_back(key).await;
        }
    }

    /// Takes itself for the holder, for a ttl from when it asked.
    fn holds(
        &mut self,
        client: &Client,
        granted: bool,
        key: LeaseKey,
        fence: Fence,
        (sent_ms, ttl_ms): (u64, u64),
    ) {
        self.world.see(Seen::LeaseHeld {
            granted,
            session: self.session.clone(),
            key: key.to_string(),
            fence,
            until_ms: sent_ms + ttl_ms - ttl_ms / u64::from(MARGIN),
            pid: client.process.pid,
        });
        self.held.insert(key.to_string(), (key, fence));
    }

    async fn gives_back(&mut self, key: &str) {
        let Some((key, fence)) = self.held.remove(key) else { return };
        let (session, fact) = (self.session.clone(), Fact::Lease(key.to_string()));
        self.world.see(Seen::LeaseLeft { session: session.clone(), key: key.to_string() });
        self.world.see(Seen::LeaseGiven { key: key.to_string() });
        self.world.see(Seen::Dropped { session, fact });
        self.releases(key, fence).await;
    }

    async fn releases(&self, key: LeaseKey, fence: Fence) {
        let released = self.asks_daemon(Request::Release { key: key.clone(), fence }).await;
        if matches!(released, Some(Answer::Done)) {
            self.world.see(Seen::Released { key: key.to_string(), fence });
        }
    }

    /// Remembers a lease that a client of it held which is long dead.
    async fn gives_back_late(&mut self) {
        let Some((key, fence)) = self.stale.pop() else { return };
        self.world.say(&self.plan.name, format!("gives {key} back, far too late, under {fence}"));
        self.world.see(Seen::Mark("released late"));
        self.world.see(Seen::GivenLate { key: key.to_string() });
        // It is still the session's where nobody could adopt or end it: then this ends it, and the fact with it.
        let (session, fact) = (self.session.clone(), Fact::Lease(key.to_string()));
        self.world.see(Seen::Dropped { session, fact });
        self.releases(key, fence).await;
    }

    /// Tries to release a lease that is another's.
    async fn steals_a_lease(&mut self) {
        let Some(Answer::Leases(leases)) = ask(&self.world, &Caller::local(), None, Request::Leases).await
        else {
            return;
        };
        let other = |lease: &Lease| lease.is_live() && lease.owner.session != self.session;
        let Some(lease) = leases.into_iter().find(other) else { return };
        self.world.say(&self.plan.name, format!("tries to release {} of {}", lease.key, lease.owner.session));
        self.world.see(Seen::Mark("tried to release another's lease"));
        self.releases(lease.key, lease.fence).await;
    }

    async fn looks_after_leases(&mut self, client: &Client) {
        let held: Vec<(LeaseKey, Fence)> = self.held.values().cloned().collect();
        for (key, fence) in held {
            if self.plan.manner != Manner::Forgetful && self.rng.u32(..3) == 0 {
                self.gives_back(key.as_str()).await;
                continue;
            }
            let (sent_ms, sent) = (self.world.executor.now_ms(), self.world.now());
            match self.asks_daemon(Request::Renew { key: key.clone(), fence }).await {
                Some(Answer::Renewed(expires)) => {
                    // The end of its `max_ttl` may cut a renewal short.
                    let left_ms = u64::try_from(expires.remaining(&sent).as_millis()).unwrap_or(u64::MAX);
                    self.holds(client, false, key, fence, (sent_ms, left_ms));
                }
                Some(Answer::RefusedLease(error)) if error.is_lost() => {
                    self.world.say(&self.plan.name, format!("has lost a lease: {error}"));
                    self.held.remove(key.as_str());
                    let session = self.session.clone();
                    self.world.see(Seen::LeaseLeft { session, key: key.to_string() });
                }
                _ => {}
            }
        }
    }
}
