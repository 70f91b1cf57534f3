//! Who belongs to a server's tree: a plain function of what one pass over `/proc` has shown.
//!
//! A stranger that got a reused number must never be taken for a member, and a member that nobody can vouch for must
//! never be taken for a stranger.

use std::collections::BTreeSet;
use tidegate_core::ProcessIdentity;
use tidegate_host::ProcTable;

/// One incarnation of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Member {
    pub(super) pid: u32,
    pub(super) start_ticks: u64,
}

/// What runs of a tree.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Members {
    /// Surely of the tree.
    pub(super) ours: BTreeSet<Member>,
    /// In a group with the tree's number, and nothing else is known: its leader is gone.
    pub(super) doubtful: BTreeSet<Member>,
    /// Whether a process of `ours` is in the tree's group, so that the group's number is surely the tree's.
    pub(super) group_is_ours: bool,
}

impl Members {
    /// Whether nothing is left.
    pub(super) fn is_empty(&self) -> bool {
        self.ours.is_empty() && self.doubtful.is_empty()
    }

    /// Everybody's pid.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.ours.union(&self.doubtful).map(|member| member.pid).collect()
    }
}

/// Sorts the running processes of `table`.
///
/// Ours are the leader, its group while the leader's incarnation is there, whatever carries the nonce, whatever was
/// ours before (`known`), and their descendants. `me` is never among them.
pub(super) fn members(
    table: &ProcTable,
    carriers: &BTreeSet<u32>,
    known: &BTreeSet<Member>,
    leader: &ProcessIdentity,
    me: u32,
) -> Members {
    let at_leader = table.get(&leader.pid);
    let leader_is_there = at_leader.is_some_and(|s| s.start_ticks == leader.start_ticks);
    // A number isn't given to a new process while a group has it: the old group was empty.
    let number_reused = at_leader.is_some() && !leader_is_there;

    let running = || table.values().filter(|s| s.is_running() && s.pid != me);
    let mut ours: BTreeSet<u32> = running()
        .filter(|s| {
            carriers.contains(&s.pid)
                || known.contains(&Member { pid: s.pid, start_ticks: s.start_ticks })
                || (leader_is_there && (s.pid == leader.pid || s.group == leader.pid))
        })
        .map(|s| s.pid)
        .collect();
    loop {
        let before = ours.len();
        let children: Vec<u32> = running().filter(|s| ours.contains(&s.parent)).map(|s| s.pid).collect();
        ours.extend(children);
        if ours.len() == before {
            break;
        }
    }

    let mut found = Members::default();
    for s in running() {
        let member = Member { pid: s.pid, start_ticks: s.start_ticks };
        let in_group = s.group == leader.pid && !number_reused;
        if ours.contains(&s.pid) {
            found.ours.insert(member);
            found.group_is_ours |= in_group;
        } else if in_group {
            found.doubtful.insert(member);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::BootId;
    use tidegate_host::ProcStat;

    /// `(pid, parent, group, start, state)`; the leader is 100, started at 1 000; we are 1.
    type Row = (u32, u32, u32, u64, char);

    fn check(rows: &[Row], carriers: &[u32], known: &[(u32, u64)], ours: &[u32], doubtful: &[u32]) {
        let table = rows
            .iter()
            .map(|&(pid, parent, group, start_ticks, state)| {
                (pid, ProcStat { pid, state, parent, group, session: 1, threads: 1, start_ticks })
            })
            .collect();
        let leader =
            ProcessIdentity { boot: BootId(1), pid_ns: 1, pid: 100, start_ticks: 1_000, nonce: "n".into() };
        let known = known.iter().map(|&(pid, start_ticks)| Member { pid, start_ticks }).collect();
        let found = members(&table, &carriers.iter().copied().collect(), &known, &leader, 1);
        let pids = |set: &BTreeSet<Member>| set.iter().map(|m| m.pid).collect::<Vec<_>>();
        assert_eq!(
            (pids(&found.ours), pids(&found.doubtful)),
            (ours.to_vec(), doubtful.to_vec()),
            "{rows:?}"
        );
    }

    const ME: Row = (1, 0, 1, 1, 'S');

    #[test]
    fn a_group_is_ours_while_its_leader_is_there() {
        check(&[ME, (100, 1, 100, 1_000, 'S'), (101, 100, 100, 1_001, 'S')], &[], &[], &[100, 101], &[]);
        check(&[ME, (100, 1, 100, 1_000, 'Z'), (101, 1, 100, 1_001, 'S')], &[], &[], &[101], &[]);
    }

    #[test]
    fn a_group_without_its_leader_is_doubtful_unless_something_vouches_for_the_member() {
        let orphan = (101, 1, 100, 1_001, 'S');
        check(&[ME, orphan], &[], &[], &[], &[101]);
        check(&[ME, orphan], &[101], &[], &[101], &[]);
        check(&[ME, orphan], &[], &[(101, 1_001)], &[101], &[]);
        check(&[ME, orphan], &[], &[(101, 999)], &[], &[101]);
    }

    #[test]
    fn a_stranger_with_the_leaders_number_and_its_group_are_not_ours() {
        check(&[ME, (100, 50, 100, 9_000, 'S'), (101, 100, 100, 9_001, 'S')], &[], &[], &[], &[]);
    }

    #[test]
    fn who_left_the_group_is_found_by_nonce_or_descent() {
        check(&[ME, (300, 1, 300, 1_002, 'S'), (301, 300, 301, 1_003, 'S')], &[300], &[], &[300, 301], &[]);
        check(&[ME, (100, 1, 100, 1_000, 'S'), (300, 100, 300, 1_002, 'S')], &[], &[], &[100, 300], &[]);
    }

    #[test]
    fn zombies_and_ourselves_are_nobody() {
        check(&[ME, (100, 1, 100, 1_000, 'Z'), (101, 1, 100, 1_001, 'Z')], &[1], &[], &[], &[]);
    }
}
