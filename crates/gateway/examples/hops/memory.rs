//! How much memory a daemon and its shims have.

use crate::house::{Client, House, Variant};
use crate::{Outcome, median};

/// Sessions that are open when memory is read.
const SESSIONS: usize = 64;

pub(crate) fn memory(house: &House) -> Outcome<()> {
    let clients: Outcome<Vec<Client>> = (0..SESSIONS).map(|_| house.start(&Variant::Gateway)).collect();
    let mut clients = clients?;
    clients.iter_mut().try_for_each(|client| (0..20).try_for_each(|_| client.call()))?;
    let of_shims = |keys: &[&str]| -> Outcome<f64> {
        let mut shims =
            clients.iter().map(|client| mib(client.pid(), keys)).collect::<Outcome<Vec<f64>>>()?;
        Ok(median(&mut shims))
    };
    println!(
        "resident at {SESSIONS} sessions, MiB: daemon {:.1}, shim {:.1} (its share {:.1}, its own pages {:.1})",
        mib(house.daemon_pid(), &["Rss:"])?,
        of_shims(&["Rss:"])?,
        of_shims(&["Pss:"])?,
        of_shims(&["Private_Clean:", "Private_Dirty:"])?
    );
    Ok(())
}

fn mib(pid: u32, keys: &[&str]) -> Outcome<f64> {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup"))?;
    let kib = |key: &&str| -> Option<f64> {
        let line = rollup.lines().find_map(|line| line.strip_prefix(key))?;
        line.trim().trim_end_matches(" kB").parse().ok()
    };
    Ok(keys.iter().map(kib).sum::<Option<f64>>().ok_or("no smaps")? / 1024.0)
}
