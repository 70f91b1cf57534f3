//! Something of an old server may still be at work: nothing is stopped that nothing can take the place of.

use crate::support::finish;
use crate::world::{World, name};
use tidegate_governor::{ComponentState, Phase};
use tidegate_incidents::IncidentKind;

#[test]
fn nothing_is_stopped_while_an_old_server_of_any_component_may_be_at_work() {
    let world = World::of(&["files", "mail"]);
    world.state().left.insert(name("mail"), "of local/s1: processes [7] are still running".to_owned());
    let id = world.approved("op-1");
    let refused = finish(world.governor().run(&id, &world)).unwrap();
    assert_eq!((refused.phase, refused.failures.len()), (Phase::Refused, 0));
    assert_eq!(world.state().stops, 0);
    assert!(world.state().gates.is_empty());
    assert_eq!([world.component("files").state, world.component("mail").state], [ComponentState::Ready; 2]);
    let [incident] = &world.open_incidents()[..] else { panic!("one incident") };
    assert_eq!((incident.kind, refused.incident.as_ref()), (IncidentKind::DrainRefused, Some(&incident.id)));
    assert!(incident.next_prompt.contains("mail: of local/s1: processes [7]"), "{}", incident.next_prompt);

    world.state().left.clear();
    let id = world.approved("op-2");
    assert_eq!(finish(world.governor().run(&id, &world)).unwrap().phase, Phase::Completed);
}
