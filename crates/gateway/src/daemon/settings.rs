//! How each component is configured now. It changes by an operation only: what the file says is a proposal until then.

use crate::config::{ComponentConfig, Config};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tidegate_core::ComponentName;
use tidegate_governor::{Component, LaunchIdentity};

/// What is in force for one component, and what was before its last change: the way back.
struct Served {
    now: ComponentConfig,
    before: Option<ComponentConfig>,
}

/// The configurations in force.
pub(super) struct Settings {
    file: PathBuf,
    served: Mutex<BTreeMap<ComponentName, Served>>,
    /// What never changes while the daemon runs.
    fixed: String,
    state_dir: PathBuf,
}

/// How a file differs from what is in force.
#[derive(Debug, Default)]
pub(super) struct Differences {
    /// Components that it has otherwise.
    pub(super) changed: Vec<ComponentName>,
    /// What it says and a running daemon can't take up, in sentences.
    pub(super) notes: Vec<String>,
}

impl Settings {
    pub(super) fn new(config: &Config) -> Self {
        let served = |component: &ComponentConfig| Served { now: component.clone(), before: None };
        let served = config.components.iter().map(|c| (c.name.clone(), served(c))).collect();
        Self {
            file: config.path.clone(),
            served: Mutex::new(served),
            fixed: fixed(config),
            state_dir: config.state_dir.clone(),
        }
    }

    fn served(&self) -> MutexGuard<'_, BTreeMap<ComponentName, Served>> {
        self.served.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is in force.
    pub(super) fn get(&self, name: &ComponentName) -> Option<ComponentConfig> {
        self.served().get(name).map(|served| served.now.clone())
    }

    /// What the file says now.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub(super) async fn on_file(&self) -> Result<Config, String> {
        let file = self.file.clone();
        let loaded =
            tokio::task::spawn_blocking(move || Config::load(&file).map_err(|e| e.to_string())).await;
        loaded.map_err(|e| e.to_string())?
    }

    /// Compares a file with what is in force.
    pub(super) fn compare(&self, file: &Config) -> Differences {
        let served = self.served();
        let mut found = Differences::default();
        let taken_over = "`tidegate serve --takeover` takes it up";
        for component in &file.components {
            match served.get(&component.name) {
                Some(served) if is_same(&served.now, component) => {}
                Some(served) if served.now.sharing != component.sharing => {
                    found.notes.push(format!("the sharing of {} has changed; {taken_over}", component.name));
                }
                Some(_) => found.changed.push(component.name.clone()),
                None => found.notes.push(format!("{} is new; {taken_over}", component.name)),
            }
        }
        for name in served.keys().filter(|name| file.component(name).is_none()) {
            found.notes.push(format!("{name} is not configured any more and serves on; {taken_over}"));
        }
        if fixed(file) != self.fixed {
            let text = "the policy or the credentials have changed; they are read when a daemon starts";
            found.notes.push(format!("{text}: {taken_over}"));
        }
        if file.state_dir != self.state_dir {
            let (now, then) = (self.state_dir.display(), file.state_dir.display());
            found.notes.push(format!(
                "the state directory was {now} and is {then} now: nobody who reads the configuration reaches this daemon any more; end \
                 it with SIGTERM, move the directory, and start another"
            ));
        }
        found
    }

    /// Puts in force the configuration that a launch belongs to: the present one, the one before, or the file's. Gives it
    /// where it is another one than before.
    ///
    /// # Errors
    /// When none of them is what was approved.
    pub(super) async fn adopt(
        &self,
        name: &ComponentName,
        launch: &LaunchIdentity,
    ) -> Result<Option<ComponentConfig>, String> {
        let Some((now, before)) = self.served().get(name).map(|s| (s.now.clone(), s.before.clone())) else {
            return Err(format!("there is no component {name}"));
        };
        if is_of(&now, launch) {
            return Ok(None);
        }
        let before = before.filter(|before| is_of(before, launch));
        let adopted = match before {
            Some(before) => Some(before),
            None => self.on_file().await.ok().and_then(|file| file.component(name).cloned()),
        };
        match adopted.filter(|adopted| is_of(adopted, launch)) {
            Some(adopted) => {
                let served = Served { now: adopted.clone(), before: Some(now) };
                self.served().insert(name.clone(), served);
                Ok(Some(adopted))
            }
            // Another command than any configuration's: the operation says so itself.
            None if digest(&now) == launch.settings => Ok(None),
            None => Err(format!("the configuration of {name} is not what was approved; ask for it again")),
        }
    }
}

/// The part of a configuration that is read when a daemon starts, and never again.
fn fixed(config: &Config) -> String {
    let Config { policy, operators, principals, .. } = config;
    format!("{policy:?} {operators:?} {principals:?}")
}

fn is_same(a: &ComponentConfig, b: &ComponentConfig) -> bool {
    (&a.command, &a.env, &a.cwd) == (&b.command, &b.env, &b.cwd) && digest(a) == digest(b)
}

/// Whether a launch is what this configuration says.
fn is_of(config: &ComponentConfig, launch: &LaunchIdentity) -> bool {
    let cwd = config.cwd.as_ref().map(|dir| dir.display().to_string());
    let command = std::iter::once(&launch.command).chain(&launch.args);
    config.command.iter().eq(command)
        && (&config.env, &cwd) == (&launch.env, &launch.cwd)
        && digest(config) == launch.settings
}

/// SHA-256, in hex, of everything in a component's configuration that isn't about which program runs: an approval is for
/// that as well.
pub(super) fn digest(config: &ComponentConfig) -> String {
    let rest = ComponentConfig { command: Vec::new(), env: BTreeMap::new(), cwd: None, ..config.clone() };
    let hash = Sha256::digest(format!("{rest:?}"));
    hash.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}"); // writing to a String can't fail
        hex
    })
}

/// The configuration with the command that is in force: an upgrade's, until the configuration names another one.
pub(super) fn effective(config: &ComponentConfig, record: &Component) -> ComponentConfig {
    let command = match &record.replaced {
        Some(replaced) => replaced.over(&config.command).to_vec(),
        None => config.command.clone(),
    };
    ComponentConfig { command, ..config.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn config(component: &str) -> Config {
        let text = format!("[state]\nstore = \"file:./s\"\n[[component]]\nname = \"files\"\n{component}");
        crate::config::parse(Path::new("/etc/tidegate.toml"), &text).unwrap()
    }

    fn changed(before: &str, after: &str) -> usize {
        Settings::new(&config(before)).compare(&config(after)).changed.len()
    }

    #[test]
    fn whatever_is_said_of_a_component_differently_is_a_change() {
        let base = "command = [\"a\"]";
        assert_eq!(changed(base, base), 0);
        for other in [
            "command = [\"b\"]",
            "command = [\"a\", \"x\"]",
            "command = [\"a\"]\nenv = { A = \"1\" }",
            "command = [\"a\"]\ncwd = \"/\"",
            "command = [\"a\"]\ntrust_annotations = true",
            "command = [\"a\"]\nstop_grace = \"1s\"",
            "command = [\"a\"]\n[component.tools]\n\"write\" = \"read-only\"",
        ] {
            assert_eq!(changed(base, other), 1, "{other}");
        }
    }

    #[test]
    fn another_state_directory_is_nothing_that_a_takeover_takes_up() {
        let base = config("command = [\"a\"]");
        let mut other = base.clone();
        other.state_dir = "/srv/elsewhere".into();
        let notes = Settings::new(&base).compare(&other).notes;
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("/srv/elsewhere") && notes[0].contains("SIGTERM"), "{notes:?}");
        assert!(!notes[0].contains("--takeover"), "{notes:?}");
    }

    #[test]
    fn what_a_running_daemon_can_not_take_up_is_said() {
        let base = config("command = [\"a\"]");
        let mut other = base.clone();
        other.policy.approvals = 2;
        let mut new = other.components[0].clone();
        new.name = "mail".parse().unwrap();
        other.components = vec![new];
        let notes = Settings::new(&base).compare(&other).notes;
        assert_eq!(notes.len(), 3, "{notes:?}");
    }
}
