//! Operators and agents: they approve, deny, cancel, ask themselves, break the glass, clean up; and try what they may not.

use crate::daemon::{Answer, Request, Wish};
use crate::executor::Group;
use crate::observe::Seen;
use crate::story::{SessionPlan, name};
use crate::world::{BROKEN, World};
use std::sync::Arc;
use tidegate_core::{ComponentName, Entropy as _, OperationId, SessionId};
use tidegate_governor::{Caller, Operation, Phase};
use tidegate_incidents::{Incident, IncidentKind};
use tidegate_leases::LeaseState;

/// An operator who cleans up after a client that was killed does so within so long: some of what it was in still runs.
const CLEANED_UP_AFTER_MS: u64 = 120;

pub(crate) fn arrive(world: &Arc<World>) {
    for operator in &world.story.operators {
        let operator = Caller::operator(name(operator));
        if world.story.calm {
            comes(world, operator, the_restart);
        } else {
            comes(world, operator, operates);
        }
    }
    if let Some(first) = world.story.operators.first() {
        comes(world, Caller::operator(name(first)), ends_sessions);
    }
    for agent in &world.story.agents {
        comes(world, Caller::principal(name(agent)), approves);
    }
}

fn comes<F: Future<Output = ()> + Send + 'static>(
    world: &Arc<World>,
    caller: Caller,
    does: impl FnOnce(Arc<World>, Caller) -> F,
) {
    world.executor.spawn(Group::WORLD, does(world.clone(), caller));
}

/// Asks the daemon, where there is one. `None`: nobody knows what came of it.
pub(crate) async fn ask(
    world: &Arc<World>,
    caller: &Caller,
    session: Option<&SessionId>,
    request: Request,
) -> Option<Answer> {
    let mut answer = {
        let daemon = world.daemon()?;
        daemon.ask(caller.clone(), session.cloned(), request)
    };
    let answer = answer.recv().await;
    match &answer {
        Some(Answer::Operation(operation)) => told(world, operation),
        Some(Answer::Operations(operations)) => operations.iter().for_each(|it| told(world, it)),
        Some(Answer::No(why) | Answer::Nothing(why)) => {
            world.say(caller.name(), format!("is told no: {why}"))
        }
        _ => {}
    }
    answer
}

fn told(world: &World, operation: &Operation) {
    world.see(Seen::Told { operation: operation.id.clone(), phase: operation.phase });
}

/// Asks for a restart of these.
pub(crate) async fn restart(
    world: &Arc<World>,
    caller: &Caller,
    session: Option<&SessionId>,
    wish: impl FnOnce(OperationId) -> Wish,
) -> Option<Operation> {
    let wish = wish(name(&world.ids.id("op")));
    let (id, scope) = (wish.id.clone(), &wish.scope);
    let names = scope.iter().map(ComponentName::as_str).collect::<Vec<_>>().join(" ");
    let by = wish.command.as_ref().map(|command| format!(", by {command}")).unwrap_or_default();
    let cuts = if wish.abandon { ", whatever is running" } else { "" };
    world.say(caller.name(), format!("asks for {id}, a restart of {names}{by}{cuts}"));
    world.see(Seen::Asked { operation: id.clone(), caller: caller.clone() });
    match ask(world, caller, session, Request::Restart(wish)).await? {
        Answer::Operation(operation) => Some(*operation),
        Answer::Nothing(_) => {
            world.see(Seen::ToldNothing { operation: id });
            None
        }
        _ => None,
    }
}

/// Says yes to an operation, allowed or not.
pub(crate) async fn approve(
    world: &Arc<World>,
    caller: &Caller,
    session: Option<&SessionId>,
    id: OperationId,
) {
    world.say(caller.name(), format!("approves {id}"));
    world.see(Seen::Approving { operation: id.clone(), caller: caller.clone() });
    ask(world, caller, session, Request::Approve { id }).await;
}

async fn operations(world: &Arc<World>, caller: &Caller) -> Vec<Operation> {
    match ask(world, caller, None, Request::Operations).await {
        Some(Answer::Operations(operations)) => operations,
        _ => Vec::new(),
    }
}

/// Of a calm world: one restart of the first component.
async fn the_restart(world: Arc<World>, ann: Caller) {
    world.executor.sleep(world.story.chaos_ms / 4).await;
    let first = world.story.components[0].name.clone();
    restart(&world, &ann, None, |id| Wish::plain(id, vec![first])).await;
}

async fn approves(world: Arc<World>, agent: Caller) {
    let mut rng = world.generator(&format!("agent {}", agent.name()));
    while world.executor.now_ms() < world.story.chaos_ms {
        world.executor.sleep(rng.u64(500..4_000)).await;
        let waiting = operations(&world, &agent).await.into_iter().find(|o| o.phase == Phase::Requested);
        if let Some(operation) = waiting {
            approve(&world, &agent, None, operation.id).await;
        }
    }
}

async fn operates(world: Arc<World>, operator: Caller) {
    let mut rng = world.generator(&format!("operator {}", operator.name()));
    while world.executor.now_ms() < world.story.chaos_ms {
        world.executor.sleep(rng.u64(200..2_500)).await;
        let all = operations(&world, &operator).await;
        let waiting = all.iter().find(|o| o.phase == Phase::Requested).map(|o| o.id.clone());
        match (rng.u32(..12), waiting) {
            (0..6, Some(id)) => approve(&world, &operator, None, id).await,
            (6, Some(id)) => drop(ask(&world, &operator, None, Request::Deny { id }).await),
            (7, _) => {
                if let Some(running) = all.iter().find(|o| !o.phase.is_end()) {
                    let id = running.id.clone();
                    world.say(operator.name(), format!("cancels {id}"));
                    ask(&world, &operator, None, Request::Cancel { id }).await;
                }
            }
            (8..10, _) => {
                let mut scope: Vec<_> = world.story.components.iter().map(|c| c.name.clone()).collect();
                rng.shuffle(&mut scope);
                scope.truncate(rng.usize(1..=scope.len()));
                let break_glass = rng.u32(..4) == 0;
                let abandon = break_glass && rng.bool();
                let command = match rng.u32(..8) {
                    0 => Some(format!("{}-2", scope[0])),
                    1 => Some(format!("{}{BROKEN}", scope[0])),
                    _ => None,
                };
                let wish = |id| Wish { break_glass, abandon, command, ..Wish::plain(id, scope) };
                restart(&world, &operator, None, wish).await;
            }
            (10, _) => looks_at_incidents(&world, &operator, &mut rng).await,
            _ => adopts(&world, &operator).await,
        }
    }
}

async fn looks_at_incidents(world: &Arc<World>, operator: &Caller, rng: &mut fastrand::Rng) {
    let Some(Answer::Incidents(incidents)) = ask(world, operator, None, Request::Incidents).await else {
        return;
    };
    let open: Vec<Incident> = incidents.into_iter().filter(Incident::is_open).collect();
    let Some(incident) = (!open.is_empty()).then(|| &open[rng.usize(..open.len())]) else { return };
    let id = incident.id.clone();
    if incident.kind == IncidentKind::TreeSurvived {
        world.end_idle_servers();
    }
    world.say(operator.name(), format!("looks at {id}: {}", incident.title));
    let request = if rng.bool() { Request::Acknowledge { id } } else { Request::Resolve { id } };
    ask(world, operator, None, request).await;
}

/// Ends sessions, whatever they are in the middle of.
async fn ends_sessions(world: Arc<World>, operator: Caller) {
    let mut rng = world.generator("ended sessions");
    let mut at_ms: Vec<u64> =
        (0..world.story.faults.ended_sessions).map(|_| rng.u64(..world.story.chaos_ms)).collect();
    at_ms.sort_unstable();
    for at_ms in at_ms {
        world.executor.sleep(at_ms.saturating_sub(world.executor.now_ms())).await;
        let Some(plan) = rng.choice(&world.story.sessions) else { return };
        end(&world, &operator, plan).await;
    }
}

/// Somebody cleans up after a client that was killed, in worlds in which sessions are ended.
pub(crate) async fn cleans_up(world: &Arc<World>, plan: &SessionPlan) {
    if let (1.., Some(first)) = (world.story.faults.ended_sessions, world.story.operators.first()) {
        world.executor.sleep(CLEANED_UP_AFTER_MS).await;
        end(world, &Caller::operator(name(first)), plan).await;
    }
}

async fn end(world: &Arc<World>, operator: &Caller, plan: &SessionPlan) {
    // Of two clients that come under one name nobody could say afterwards which one has it.
    if world.story.sessions.iter().filter(|it| it.session == plan.session).count() > 1 {
        return;
    }
    let session = SessionId::new(name("local"), name(&plan.session));
    world.say(operator.name(), format!("ends {session}"));
    world.see(Seen::Ending { session: session.clone() });
    let asked = Request::EndSession { session: session.clone() };
    if let Some(Answer::Done) = ask(world, operator, None, asked).await {
        world.say(operator.name(), format!("has ended {session}"));
        world.see(Seen::Ended { session });
    }
}

/// Hands orphaned leases over to a session that is there.
async fn adopts(world: &Arc<World>, operator: &Caller) {
    let Some(Answer::Leases(leases)) = ask(world, operator, None, Request::Leases).await else { return };
    for lease in leases.into_iter().filter(|lease| lease.state == LeaseState::Orphaned) {
        let to = SessionId::new(name("local"), name("s1"));
        world.say(operator.name(), format!("gives {} to {to}", lease.key));
        world.see(Seen::LeaseGiven { key: lease.key.to_string() });
        ask(world, operator, None, Request::Adopt { key: lease.key, to }).await;
    }
}
