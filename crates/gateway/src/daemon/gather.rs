//! What is known of the sessions in the scope of a restart, for their checkpoints. It changes nothing.

use super::component::Msg;
use super::context::Context;
use super::site::Site;
use std::collections::{BTreeMap, BTreeSet};
use tidegate_checkpoints::{Actions, CallFact, CallState, Draft};
use tidegate_core::{ComponentName, SessionId};

/// The facts of every session that has to do with these components, whose gates are closed.
pub(super) async fn drafts(ctx: &Context, sites: Vec<&Site>, scope: &[ComponentName]) -> Vec<Draft> {
    let covers: BTreeSet<ComponentName> = scope.iter().cloned().collect();
    let mut drafts: BTreeMap<SessionId, Draft> = BTreeMap::new();
    for handle in sites.into_iter().flat_map(Site::handles) {
        let Some(seen) = handle.ask(|seen| Msg::Look { seen }).await else { continue };
        for session in &seen.sessions {
            let draft = drafts.entry(session.clone()).or_insert_with(|| Draft::new(session.clone()));
            draft.covers.clone_from(&covers);
            draft.generations.insert(handle.name.clone(), seen.generation);
            draft.actions.add.extend(ctx.reset(&handle.name));
        }
        for call in seen.calls {
            let draft =
                drafts.entry(call.session.clone()).or_insert_with(|| Draft::new(call.session.clone()));
            draft.covers.clone_from(&covers);
            draft.calls.push(CallFact {
                id: format!("{}-{}", seen.generation, call.number),
                component: handle.name.clone(),
                tool: call.tool.to_string(),
                class: call.class,
                state: match call.state {
                    tidegate_relay::CallState::Queued => CallState::Queued,
                    tidegate_relay::CallState::Written => CallState::Written,
                    tidegate_relay::CallState::Detached => CallState::Detached,
                },
            });
        }
    }
    // Who isn't connected now comes back to another server as well.
    for known in ctx.acquainted(scope).await {
        let concerned = scope.iter().filter(|name| known.generations.contains_key(*name));
        let draft = Draft::new(known.session.clone());
        drafts.entry(known.session).or_insert_with(|| Draft {
            actions: Actions::add(concerned.filter_map(|name| ctx.reset(name))),
            covers: covers.clone(),
            ..draft
        });
    }
    drafts.into_values().collect()
}
