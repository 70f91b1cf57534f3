//! What `docs/clients.md` tells people to put into their clients' configurations, read back as data.

use super::binary::workspace;
use serde_json::Value;

/// The page.
const PAGE: &str = "docs/clients.md";
/// How clients call the table of their servers.
const TABLES: [&str; 4] = ["mcpServers", "servers", "context_servers", "mcp_servers"];

/// One server of one snippet.
#[derive(Debug, Clone)]
pub struct Snippet {
    /// The client whose it is.
    pub client: String,
    /// The snippet as it stands there.
    pub text: String,
    /// The server's name.
    pub server: String,
    /// What is started.
    pub command: String,
    /// With which arguments.
    pub args: Vec<String>,
}

/// Every server of every snippet.
///
/// # Panics
/// When a snippet is no JSON or TOML, or has no servers.
#[must_use]
pub fn snippets() -> Vec<Snippet> {
    let page = std::fs::read_to_string(workspace().join(PAGE)).unwrap();
    let mut found = Vec::new();
    for part in page.split("\n## ").skip(1) {
        let client = part.lines().next().unwrap_or_default();
        for fence in ["json", "toml"] {
            for block in part.split(&format!("```{fence}\n")).skip(1) {
                let text = block.split("```").next().unwrap_or_default();
                found.extend(servers(client, fence, text));
            }
        }
    }
    assert!(!found.is_empty(), "there are no snippets in {PAGE}");
    found
}

fn servers(client: &str, fence: &str, text: &str) -> Vec<Snippet> {
    let parsed: Value = match fence {
        "toml" => toml::from_str(text).unwrap_or_else(|e| panic!("{client}: {e} in {text}")),
        _ => serde_json::from_str(text).unwrap_or_else(|e| panic!("{client}: {e} in {text}")),
    };
    let table = TABLES.iter().find_map(|name| parsed[name].as_object());
    let table = table.unwrap_or_else(|| panic!("{client}: no servers in {text}"));
    let one = |(server, fields): (&String, &Value)| Snippet {
        client: client.to_owned(),
        text: text.to_owned(),
        server: server.clone(),
        command: fields["command"].as_str().unwrap().to_owned(),
        args: fields["args"].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect(),
    };
    table.iter().map(one).collect()
}
