//! Which session a client gets: the table.

use crate::fixture::{World, process, session, wait};
use std::collections::BTreeMap;
use tidegate_checkpoints::{Attach, Known, MAX_SUFFIX, Resolution, Wanted, may_resume, resolve_name};
use tidegate_core::{Liveness, ProcessIdentity, SessionName};
use tidegate_store::{Fault, Txn};

fn name(name: &str) -> SessionName {
    name.parse().unwrap()
}

fn held(pid: u32, liveness: Liveness) -> Known {
    Known { client: Some(process(pid)), liveness, attached: true, ended: false }
}

fn without_process(attached: bool) -> Known {
    Known { client: None, liveness: Liveness::Unknown, attached, ended: false }
}

fn ended() -> Known {
    Known { client: None, liveness: Liveness::Unknown, attached: false, ended: true }
}

fn asks(pid: u32, asked: &str) -> Wanted {
    Wanted::own("local".parse().unwrap(), Some(name(asked)), Some(process(pid)))
}

#[track_caller]
fn check(known: &[(&str, Known)], wanted: &Wanted, expected: &str) {
    let known = known.iter().map(|(n, k)| (name(n), k.clone())).collect::<BTreeMap<_, _>>();
    let got = match resolve_name(&known, wanted, &name("s-fresh")) {
        Ok(resolution) => format!("{resolution:?}"),
        Err(refusal) => refusal.to_string(),
    };
    assert!(got.contains(expected), "{got}");
}

#[test]
fn a_name_is_the_session_of_its_client_and_after_its_death_of_the_next() {
    use Liveness::{Alive, Dead, Unknown};
    check(&[], &asks(1, "work"), "Fresh(\"work\")");
    check(&[("work", held(1, Alive))], &asks(1, "work"), "Same(\"work\")");
    check(&[("work", held(2, Dead))], &asks(1, "work"), "Same(\"work\")");
    check(&[("work", held(2, Alive))], &asks(1, "work"), "name: \"work.2\"");
    check(&[("work", held(2, Unknown))], &asks(1, "work"), "name: \"work.2\"");
    check(&[("work", ended())], &asks(1, "work"), "Fresh(\"work\")");
    check(&[("work", without_process(true))], &asks(1, "work"), "name: \"work.2\"");
    check(&[("work", without_process(false))], &asks(1, "work"), "Same(\"work\")");
}

#[test]
fn a_reused_pid_is_another_process() {
    let reused = |change: fn(&mut ProcessIdentity)| {
        let mut wanted = asks(1, "work");
        change(wanted.client.as_mut().unwrap());
        wanted
    };
    let known = [("work", held(1, Liveness::Unknown))];
    check(&known, &reused(|p| p.start_ticks += 1), "Suffixed");
    check(&known, &reused(|p| p.boot.0 += 1), "Suffixed");
    check(&known, &reused(|p| p.pid_ns += 1), "Suffixed");
    check(&known, &reused(|p| p.nonce = "n".to_owned()), "Same");
}

#[test]
fn further_clients_get_the_first_number_that_is_free_by_the_same_rule() {
    use Liveness::{Alive, Dead};
    let mine = [("work", held(2, Alive)), ("work.2", held(3, Alive)), ("work.3", held(1, Alive))];
    check(&mine, &asks(1, "work"), "name: \"work.3\"");
    let dead = [("work", held(2, Alive)), ("work.2", held(3, Dead)), ("work.3", held(4, Alive))];
    check(&dead, &asks(1, "work"), "name: \"work.2\"");
    let mut all: Vec<(String, Known)> = vec![("work".to_owned(), held(2, Alive))];
    all.extend((2..=MAX_SUFFIX).map(|n| (format!("work.{n}"), held(2, Alive))));
    let all: Vec<(&str, Known)> = all.iter().map(|(n, k)| (n.as_str(), k.clone())).collect();
    check(&all, &asks(1, "work"), "use `--session` with another name");
    let long = "x".repeat(128);
    check(&[(&long, held(2, Alive))], &asks(1, &long), "use `--session` with another name");
}

#[test]
fn whoever_has_a_number_keeps_it_whatever_becomes_free() {
    use Liveness::{Alive, Dead};
    let kept = "Suffixed { wanted: \"work\", name: \"work.3\" }";
    let died = [("work", held(2, Dead)), ("work.2", held(3, Dead)), ("work.3", held(1, Alive))];
    check(&died, &asks(1, "work"), kept);
    check(&died, &asks(4, "work"), "Same(\"work\")");
    check(&died, &Wanted { steal: true, ..asks(1, "work") }, "Same(\"work\")");
    check(&[("work", ended()), ("work.3", held(1, Alive))], &asks(1, "work"), kept);
    check(&[("work", held(1, Alive)), ("work.3", held(1, Alive))], &asks(1, "work"), "Same(\"work\")");
    check(&[("work", held(2, Dead)), ("work.3", ended())], &asks(1, "work"), "Same(\"work\")");
}

#[test]
fn without_a_name_a_client_gets_its_own_session_or_a_new_one() {
    let unnamed = |pid| Wanted { name: None, ..asks(pid, "x") };
    let known = [("play", ended()), ("work", held(1, Liveness::Alive))];
    check(&known, &unnamed(1), "Same(\"work\")");
    check(&known, &unnamed(2), "Fresh(\"s-fresh\")");
    check(&[("work", without_process(false))], &Wanted { client: None, ..unnamed(1) }, "Fresh(\"s-fresh\")");
}

#[test]
fn stealing_needs_the_word_and_for_others_an_operator() {
    let steal = Wanted { steal: true, ..asks(1, "work") };
    let known = [("work", held(2, Liveness::Alive))];
    check(&known, &steal, "Stolen(\"work\")");
    check(&[("work", held(2, Liveness::Dead))], &steal, "Same(\"work\")");
    let foreign = Wanted { caller: "reviewer".parse().unwrap(), ..steal };
    check(&known, &foreign, "session local/work belongs to another principal");
    let operator = Wanted { operator: true, ..foreign };
    check(&known, &operator, "Stolen(\"work\")");
    check(&known, &Wanted { steal: false, ..operator.clone() }, "belongs to another principal");
    // Once it is the operator's client that has it, that client comes back to it; anybody else's doesn't.
    let taken = [("work", held(1, Liveness::Alive))];
    check(&taken, &operator, "Same(\"work\")");
    check(&taken, &Wanted { steal: false, ..operator.clone() }, "Same(\"work\")");
    let agent = Wanted { operator: false, steal: false, ..operator.clone() };
    check(&taken, &agent, "belongs to another principal");
    check(&[("work", ended())], &operator, "there is no session local/work to take over");
    check(&[], &operator, "there is no session local/work to take over");
    check(&known, &Wanted { name: None, ..operator }, "which session of local is to be taken over?");
}

#[test]
fn only_ones_own_dead_sessions_can_be_resumed_by_another_client() {
    let may = |caller: &str, known: &Known| may_resume(&caller.parse().unwrap(), &session("work"), known);
    assert!(may("local", &held(1, Liveness::Dead)).is_ok());
    assert!(may("local", &ended()).is_ok());
    assert!(may("local", &held(1, Liveness::Unknown)).is_err());
    assert!(may("reviewer", &held(1, Liveness::Dead)).is_err());
}

#[test]
fn a_client_is_one_session_when_the_one_before_it_dies_between_its_connections() {
    let world = World::new();
    let before = world.attach(1, "work", "a1").unwrap();
    let first = world.attach(2, "work", "b1").unwrap();
    world.probe.dies(1);
    let second = world.attach(2, "work", "b2").unwrap();
    assert_eq!(first.session.name, name("work.2"));
    assert_eq!(second.session, first.session);
    assert_eq!(world.attach(3, "work", "c1").unwrap().session, before.session);
}

#[test]
fn a_connection_that_is_attached_already_is_told_which_session_it_got() {
    let world = World::new();
    let again = |pid, asked: Option<&str>, stream: &str| {
        let wanted = Wanted { name: asked.map(name), ..asks(pid, "work") };
        let attach = Attach::new(wanted, stream, None);
        let first = wait(world.sessions.attach(&attach)).unwrap();
        let second = wait(world.sessions.attach(&attach)).unwrap();
        assert_eq!((&second.session, &second.cut), (&first.session, &Vec::new()));
        second.resolution
    };
    assert_eq!(again(1, Some("work"), "a"), Resolution::Same(name("work")));
    let suffixed = Resolution::Suffixed { wanted: name("work"), name: name("work.2") };
    assert_eq!(again(2, Some("work"), "b"), suffixed);
    assert!(matches!(again(3, None, "c"), Resolution::Same(_)));
}

#[test]
fn a_session_that_ended_begins_anew_and_its_versions_go_on() {
    let world = World::new();
    let work = session("work");
    let get = || wait(world.sessions.get(&work)).unwrap().unwrap();
    world.attach(1, "work", "c1").unwrap();
    wait(world.sessions.note(&work, "half way")).unwrap();
    wait(world.sessions.end(&work, &"local".parse().unwrap(), false, "done")).unwrap();
    let ended = get();
    world.attach(2, "work", "c2").unwrap();
    let anew = get();
    assert!(anew.ended.is_none() && anew.notes.is_empty());
    assert_eq!(anew.version, ended.version + 1);
}

/// Two connections of a client, and what is asked of its session meets a store that can't say whether it was written.
fn unsure(fault: Fault) -> World {
    let world = World::new();
    world.attach(1, "work", "c1").unwrap();
    world.attach(1, "work", "c2").unwrap();
    let mut once = Some(fault);
    world.store.set_faults(move |_: &Txn| once.take().unwrap_or(Fault::None));
    world
}

#[test]
fn whoever_ends_a_session_is_told_whom_to_cut_off_however_often_they_ask() {
    for fault in [Fault::None, Fault::UncertainApplied, Fault::UncertainLost] {
        let world = unsure(fault.clone());
        let end = || wait(world.sessions.end(&session("work"), &"local".parse().unwrap(), false, "done"));
        assert_eq!(end().unwrap(), ["c1", "c2"], "{fault:?}");
        assert_eq!(end().unwrap(), ["c1", "c2"], "{fault:?}: the first answer may not have arrived");
        world.attach(2, "work", "c3").unwrap();
        assert_eq!(end().unwrap(), ["c3"], "{fault:?}: the session that began anew");
    }
}

#[test]
fn whoever_comes_for_a_dead_client_is_told_whom_to_cut_off_however_often_they_ask() {
    for fault in [Fault::None, Fault::UncertainApplied, Fault::UncertainLost] {
        let world = unsure(fault.clone());
        world.probe.dies(1);
        for _ in 0..2 {
            assert_eq!(world.attach(2, "work", "c3").unwrap().cut, ["c1", "c2"], "{fault:?}");
        }
        let second = world.attach(2, "work", "c4").unwrap();
        assert_eq!(second.cut, ["c1", "c2"], "{fault:?}: it may come before those are cut off");
    }
}

#[test]
fn two_clients_that_ask_for_one_name_at_once_get_two_sessions() {
    for _ in 0..20 {
        let world = World::new();
        let together = std::sync::Barrier::new(4);
        let mut names: Vec<String> = std::thread::scope(|scope| {
            let clients: Vec<_> = (1..=4)
                .map(|pid| {
                    let (world, together) = (&world, &together);
                    scope.spawn(move || {
                        together.wait();
                        world.attach(pid, "work", &format!("c{pid}")).unwrap().session.name.to_string()
                    })
                })
                .collect();
            clients.into_iter().map(|c| c.join().unwrap()).collect()
        });
        names.sort();
        assert_eq!(names, ["work", "work.2", "work.3", "work.4"]);
        assert_eq!(wait(world.sessions.list()).unwrap().len(), 4);
    }
}
