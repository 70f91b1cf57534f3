//! What a drain finds in the servers of its scope, put together by session: one draft for each whom the stop concerns,
//! connected or not. Writes nothing.

use crate::{Actions, CallFact, CallState, Checkpoint, Draft};
use std::collections::{BTreeMap, BTreeSet};
use tidegate_core::{ComponentName, Generation, NextAction, OpenCall, SessionId};

/// A server as it is just before it is stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Its component.
    pub component: ComponentName,
    /// Which generation it is.
    pub generation: Generation,
    /// Who is connected to it.
    pub sessions: Vec<SessionId>,
    /// What has no answer yet, and how far it got.
    pub calls: Vec<(OpenCall, CallState)>,
}

/// The drafts of all sessions that the stop of these servers concerns. `acquainted` are those that have to do with the
/// scope, connected or not: who isn't connected comes back to another server as well. `reset` is what sessions lose with a
/// component's process.
#[must_use]
pub fn survey(
    scope: &[ComponentName],
    served: Vec<Served>,
    acquainted: Vec<Checkpoint>,
    reset: impl Fn(&ComponentName) -> Option<NextAction>,
) -> Vec<Draft> {
    let covers: BTreeSet<ComponentName> = scope.iter().cloned().collect();
    let fresh = |session: &SessionId| Draft { covers: covers.clone(), ..Draft::new(session.clone()) };
    let mut drafts: BTreeMap<SessionId, Draft> = BTreeMap::new();
    for Served { component, generation, sessions, calls } in served {
        for session in sessions {
            let draft = drafts.entry(session).or_insert_with_key(fresh);
            draft.generations.insert(component.clone(), generation);
            draft.actions.add.extend(reset(&component));
        }
        for (call, state) in calls {
            let fact = CallFact::of(&call, state);
            drafts.entry(call.session).or_insert_with_key(fresh).calls.push(fact);
        }
    }
    for known in acquainted {
        let concerned = scope.iter().filter(|name| known.generations.contains_key(*name));
        let actions = Actions::add(concerned.filter_map(&reset));
        let draft = || Draft { actions, ..fresh(&known.session) };
        drafts.entry(known.session.clone()).or_insert_with(draft);
    }
    drafts.into_values().collect()
}

/// The drafts of those sessions of `acquainted` that knew an older generation of a component than the one that serves now,
/// and that no operation has started. `reset` is what they lose with the process; who came before the first start has lost
/// nothing.
#[must_use]
pub fn renewed(
    acquainted: Vec<Checkpoint>,
    component: &ComponentName,
    generation: Generation,
    reset: &NextAction,
) -> Vec<Draft> {
    let draft = |known: Checkpoint| {
        let knew = known.generations.get(component).copied().filter(|knew| *knew < generation)?;
        let mut draft = Draft::new(known.session);
        draft.generations.insert(component.clone(), generation);
        draft.actions.add.extend((knew > Generation::default()).then(|| reset.clone()));
        Some(draft)
    };
    acquainted.into_iter().filter_map(draft).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::{BootId, Now, WallTime, WorkClass};

    #[test]
    fn a_renewed_server_concerns_who_knew_an_older_one_and_takes_something_from_who_knew_any() {
        let files: ComponentName = "files".parse().unwrap();
        let known = |(name, generation): (&str, Option<u64>)| {
            let session = format!("local/{name}").parse().unwrap();
            let mut known = Checkpoint::new(session, &Now { boot: BootId(1), boot_ms: 1, wall: WallTime(0) });
            known.generations = generation.map(|it| (files.clone(), Generation(it))).into_iter().collect();
            known
        };
        let sessions = [("early", Some(0)), ("older", Some(2)), ("same", Some(3)), ("stranger", None)];
        let reset = NextAction::StateReset { component: files.clone() };
        let drafts = renewed(sessions.map(known).into(), &files, Generation(3), &reset);
        let told: Vec<_> = drafts.iter().map(|it| (it.session.name.as_str(), it.actions.add.len())).collect();
        assert_eq!(told, [("early", 0), ("older", 1)]);
        assert!(drafts.iter().all(|it| it.generations == [(files.clone(), Generation(3))].into()));
    }

    #[test]
    fn a_stop_concerns_who_is_connected_whose_calls_are_in_flight_and_who_will_come_back() {
        let (files, mail): (ComponentName, ComponentName) =
            ("files".parse().unwrap(), "mail".parse().unwrap());
        let session = |name: &str| -> SessionId { format!("local/{name}").parse().unwrap() };
        let call = OpenCall {
            session: session("gone"),
            component: files.clone(),
            tool: "write".to_owned(),
            class: WorkClass::Mutating,
            id: OpenCall::id(Generation(3), 7),
        };
        let served = Served {
            component: files.clone(),
            generation: Generation(3),
            sessions: vec![session("here")],
            calls: vec![(call.clone(), CallState::Detached)],
        };
        let mut away =
            Checkpoint::new(session("away"), &Now { boot: BootId(1), boot_ms: 1, wall: WallTime(0) });
        away.generations = [(files.clone(), Generation(2)), (mail, Generation(1))].into();
        let reset = |name: &ComponentName| Some(NextAction::StateReset { component: name.clone() });
        let drafts = survey(std::slice::from_ref(&files), vec![served], vec![away], reset);
        let named = |name: &str| drafts.iter().find(|it| it.session == session(name)).unwrap();
        assert_eq!(drafts.len(), 3);
        assert!(drafts.iter().all(|it| it.covers == [files.clone()].into()));
        assert_eq!(named("here").generations, [(files.clone(), Generation(3))].into());
        assert_eq!(named("gone").calls, [CallFact::of(&call, CallState::Detached)]);
        let lost = vec![NextAction::StateReset { component: files }];
        assert_eq!(named("here").actions.add, lost);
        assert_eq!(named("away").actions.add, lost, "of mail nothing is stopped");
        assert!(named("gone").actions.add.is_empty() && named("away").generations.is_empty());
    }
}
