//! Servers as the text of a `tidegate.toml`. What is left out is in it as a comment, by name and with the reason.

use super::{Component, Fate, Import, Server};
use std::fmt::Write as _;
use toml::Value;

/// What whoever edits the file next should add.
const OPERATOR: &str = "\
# Whoever may approve a restart; `tidegate token` makes a token and its hash.
# [[operator]]
# name = \"ops\"
# token_sha256 = \"…\"
";
/// What nobody but the operator knows about a server.
const KNOWLEDGE: &str = "\
# What you know about it; without your word every call counts as mutating, and a restart as losing its state:
# state = \"external\"               # or \"stateless\"
# tools = { \"read_*\" = \"read-only\" }
";

/// The configuration of every server of an import, in its order.
pub(super) fn configuration(import: &Import, store: &str) -> String {
    let mut text = format!(
        "# The servers of {}.\n\n[state]\nstore = {}\n\n{OPERATOR}",
        one_line(&import.path.display().to_string()),
        quoted(store)
    );
    for server in &import.servers {
        text.push('\n');
        match &server.fate {
            Fate::Component(component) => table(&mut text, server, component),
            Fate::Shim(_) => comment(&mut text, &format!("{} goes through Tidegate already.", server.name)),
            Fate::Left(why) => comment(&mut text, &format!("{} is left out: {why}.", server.name)),
        }
    }
    text
}

fn table(text: &mut String, server: &Server, component: &Component) {
    for note in &server.notes {
        comment(text, &format!("{}: {note}.", server.name));
    }
    let command: Vec<_> = component.command.iter().map(|word| quoted(word)).collect();
    // Writing to a String can't fail.
    let _ = writeln!(
        text,
        "[[component]]\nname = {}\ncommand = [{}]",
        quoted(component.name.as_str()),
        command.join(", ")
    );
    if let Some(cwd) = &component.cwd {
        let _ = writeln!(text, "cwd = {}", quoted(&cwd.display().to_string()));
    }
    if !component.env.is_empty() {
        let env: Vec<_> = component
            .env
            .iter()
            .map(|(name, value)| format!("{} = {}", quoted(name), quoted(value)))
            .collect();
        let _ = writeln!(text, "env = {{ {} }}", env.join(", "));
    }
    text.push_str(KNOWLEDGE);
}

/// Text as a TOML string.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn comment(text: &mut String, said: &str) {
    let _ = writeln!(text, "# {}", one_line(said));
}

/// What a comment can't have, a name in the file may.
fn one_line(text: &str) -> String {
    text.replace(|c: char| c.is_control(), " ")
}
