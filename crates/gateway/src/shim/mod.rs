//! `tidegate connect`: the stdio server that a client starts. It outlives the daemon: it holds what was never forwarded,
//! redials, and presents the same session again. It never ends while its client's input is open.

mod afresh;
mod book;
mod connection;
mod control;
mod dial;
mod lost;
mod outgoing;
mod stdio;
mod stream;
mod tools;

use crate::cli::{ConnectArgs, Global};
use crate::config::{Config, nearest};
use crate::exit::{CliError, CliResult, Outcome};
use crate::wire::Attach;
use afresh::Charge;
use tidegate_core::{ComponentName, Entropy as _, ProcessIdentity};
use tidegate_host::{OsEntropy, parent_identity};

pub(crate) use afresh::stream_main;

/// Runs the shim until its client is gone.
pub(crate) fn run(global: &Global, args: &ConnectArgs) -> CliResult {
    let config = global.load()?;
    let token = global.token()?;
    let (session, steal) = (args.session.clone(), args.steal);
    let attach = Attach { session, steal, client: client(), ..Attach::default() };
    if let Some(component) = &args.component {
        known(&config, component)?;
    }
    if let Some(component) = args.component.clone() {
        let (socket, hold) = (config.socket(), config.policy.hold);
        let charge = Charge { socket, token, attach, component, hold };
        let _ = charge.begin_afresh(); // what it saves is memory, and no reason not to serve
        charge.carry_out();
        return Ok(Outcome::Done);
    }
    let dialer = dial::Dialer::new(config.socket(), token, attach);
    let runtime = crate::daemon::runtime().map_err(CliError::cannot)?;
    runtime.block_on(control::run(dialer, &config));
    // The task that reads standard input may be inside read(2), which nothing can interrupt.
    runtime.shutdown_background();
    Ok(Outcome::Done)
}

/// The client: whoever started this process. Evidence for the daemon, so it's fine not to have it.
fn client() -> Option<ProcessIdentity> {
    parent_identity(&OsEntropy.id("client")).ok()
}

fn known(config: &Config, component: &ComponentName) -> Result<(), CliError> {
    if config.component(component).is_some() {
        return Ok(());
    }
    let names = || config.components.iter().map(|c| c.name.as_str());
    let hint = match nearest(component.as_str(), names()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("it has: {}", names().collect::<Vec<_>>().join(", ")),
    };
    Err(CliError::cannot(format!("{} has no component `{component}`; {hint}", config.path.display())))
}
