//! Files as clients write them, and what becomes of each server in them.

use super::*;
use crate::config::{Config, raw};

fn import(text: &str) -> Import {
    Import::parse(Path::new("/home/me/mcp.json"), text).unwrap()
}

fn server(fields: &str) -> Server {
    import(&format!(r#"{{"mcpServers":{{"files":{fields}}}}}"#)).servers.remove(0)
}

/// What is served, read back by the one reader of configurations.
fn served(text: &str) -> Config {
    raw::parse(Path::new("/home/me/mcp.json"), &import(text).as_it_is()).unwrap()
}

#[test]
fn a_client_s_file_is_served_as_it_is_written() {
    let config = served(
        r#"{"theme":"dark","mcpServers":{
            "files":{"command":"npx","args":["-y","@modelcontextprotocol/server-filesystem","/srv"],
                     "env":{"A":"1","B":"two \"words\"\n"},"cwd":"work"},
            "clock":{"type":"stdio","command":"uvx","args":["mcp-server-time"],"env":null}}}"#,
    );
    assert_eq!(config.state_dir, Path::new("/home/me/.tidegate"));
    let [files, clock] = config.components.as_slice() else { panic!("two components: {config:?}") };
    assert_eq!(files.name.as_str(), "files");
    assert_eq!(files.command, ["npx", "-y", "@modelcontextprotocol/server-filesystem", "/srv"]);
    assert_eq!((files.env["A"].as_str(), files.env["B"].as_str()), ("1", "two \"words\"\n"));
    assert_eq!(files.cwd.as_deref(), Some(Path::new("/home/me/work")));
    assert_eq!(
        (clock.command.as_slice(), clock.env.len()),
        (&["uvx".to_owned(), "mcp-server-time".into()][..], 0)
    );
}

#[test]
fn whatever_text_a_client_has_reads_back_as_it_was() {
    for odd in
        ["", " ", "\u{7f}\u{1b}[2J", "a'b\"c\\d", "'''\"\"\"", "tab\tnew\r\nline", "漢 é 🦀", "#no comment"]
    {
        let args = serde_json::json!([odd]);
        let text =
            format!(r#"{{"mcpServers":{{"a":{{"command":"x","args":{args},"env":{{"K":{}}}}}}}}}"#, args[0]);
        let config = served(&text);
        assert_eq!(config.components[0].command[1], odd);
        assert_eq!(config.components[0].env["K"], odd);
    }
}

#[test]
fn the_tables_of_other_clients_are_read_too() {
    for table in ["mcpServers", "servers", "context_servers"] {
        assert_eq!(
            import(&format!(r#"{{"inputs":[],"{table}":{{"a":{{"command":"x"}}}}}}"#)).components().count(),
            1
        );
    }
}

#[test]
fn a_server_that_cannot_be_served_says_why() {
    #[track_caller]
    fn check(fields: &str, expected: &str) {
        let Fate::Left(why) = server(fields).fate else { panic!("{fields} is served") };
        assert!(why.contains(expected), "{expected:?} is not in {why:?}");
    }
    check(r#"{"type":"http","url":"https://example.org/mcp"}"#, "over HTTP, which is not available yet");
    check(
        r#"{"type":"sse","url":"https://example.org/mcp","headers":{"Authorization":"Bearer x"}}"#,
        "over HTTP",
    );
    check(r#"{"serverUrl":"https://example.org/mcp"}"#, "over HTTP");
    check(r#"{"httpUrl":"https://example.org/mcp"}"#, "over HTTP");
    check(r#"{"command":"x","disabled":true}"#, "disabled");
    check(r#"{"command":"x","enabled":false}"#, "disabled");
    check(r#"{"args":["x"]}"#, "neither a command nor a url");
    check(r#"{"command":["x"]}"#, "its command is no text");
    check(r#"{"command":""}"#, "its command is no text");
    check(r#"{"command":"x","args":"-y"}"#, "its args are no list of texts");
    check(r#"{"command":"x","args":[1]}"#, "its args are no list of texts");
    check(r#"{"command":"x","env":["A=1"]}"#, "its env is no object");
    check(r#"{"command":"x","env":{"A":{}}}"#, "its env A is no text");
    check(
        r#"{"command":"x","args":["${workspaceFolder}"]}"#,
        "\"${workspaceFolder}\", which only the client can fill in",
    );
    check(r#"{"command":"x","cwd":"${workspaceFolder}"}"#, "only the client can fill in");
    check(r#"{"command":"x","env":{"A":"${input:a}"}}"#, "its env A refers to");
    check(r#""npx""#, "it is no object");
}

#[test]
fn a_server_that_goes_through_tidegate_is_never_put_behind_it_again() {
    let shim = server(r#"{"command":"/usr/bin/tidegate","args":["connect","files"]}"#);
    assert_eq!(shim.fate, Fate::Shim(["/usr/bin/tidegate", "connect", "files"].map(str::to_owned).into()));
    assert!(matches!(server(r#"{"command":"tidegate","args":["status"]}"#).fate, Fate::Component(_)));
}

#[test]
fn what_the_owner_should_know_is_told_and_no_secret_with_it() {
    #[track_caller]
    fn check(fields: &str, expected: &[&str]) {
        let server = server(fields);
        assert!(matches!(server.fate, Fate::Component(_)), "{server:?}");
        assert_eq!(server.notes.len(), expected.len(), "{server:?}");
        for (note, expected) in server.notes.iter().zip(expected) {
            assert!(note.contains(expected), "{expected:?} is not in {note:?}");
            assert!(!note.contains("hunter2"), "{note:?}");
        }
    }
    check(r#"{"command":"x","env":{"PORT":8080,"DEBUG":true}}"#, &[]);
    check(r#"{"command":"x","env":{"GITHUB_TOKEN":"hunter2"}}"#, &["GITHUB_TOKEN looks like a secret"]);
    check(r#"{"command":"x","env":{"OPENAI_API_KEY":"hunter2"}}"#, &["OPENAI_API_KEY looks like a secret"]);
    check(
        r#"{"command":"x","env":{"TOKEN":"${TOKEN}"}}"#,
        &["TOKEN is inherited from the daemon's environment"],
    );
    check(r#"{"command":"x","env":{"TOKEN":"${env:TOKEN}"}}"#, &["TOKEN is inherited"]);
    check(r#"{"command":"x","args":["--api-key=hunter2"]}"#, &["an argument looks like a secret"]);
    check(
        r#"{"command":"x","autoApprove":["hunter2"],"timeout":3}"#,
        &["not carried over, it is the client's own: `autoApprove`, `timeout`"],
    );
}

#[test]
fn names_become_names_of_components_and_stay_apart() {
    let import = import(
        r#"{"mcpServers":{"My Server":{"command":"x"},"My/Server":{"command":"y"},"-":{"command":"z"},"My-Server":{"command":"w"}}}"#,
    );
    let names: Vec<_> = import.components().map(|(_, component)| component.name.as_str()).collect();
    assert_eq!(names, ["My-Server", "My-Server-2", "My-Server-3"]);
    assert_eq!(import.servers[0].notes, ["it is called My-Server here"]);
    assert_eq!(import.left().collect::<Vec<_>>(), [("-", "its name has no letter or digit")]);
}

#[test]
fn a_file_without_servers_says_what_it_has_instead() {
    #[track_caller]
    fn check(text: &str, expected: &str) {
        let said = Import::parse(Path::new("/home/me/mcp.json"), text).unwrap_err().to_string();
        assert!(said.starts_with("/home/me/mcp.json ") && said.contains(expected), "{said}");
    }
    check("{", "is no JSON");
    check("{ // comments\n}", "comments and trailing commas are none either");
    check("[]", "is no JSON: invalid type: sequence, expected an object");
    check("{}", "it has nothing");
    check(r#"{"mcpservers":{}}"#, "it has `mcpservers`");
    check(r#"{"mcpServers":[]}"#, "expected an object");
    check(r#"{"mcpServers":{"a":{"command":"x"},"a":{"command":"y"}}}"#, "two servers named \"a\"");
}

#[test]
fn a_configuration_has_everything_and_says_what_is_left_to_do() {
    let text = r#"{"mcpServers":{
        "files":{"command":"npx","args":["-y","server"],"env":{"API_KEY":"k"}},
        "remote\n[state]":{"url":"https://example.org"}}}"#;
    insta::assert_snapshot!(import(text).configuration(), @r#"
    # The servers of /home/me/mcp.json.

    [state]
    store = "file:./state"

    # Whoever may approve a restart; `tidegate token` makes a token and its hash.
    # [[operator]]
    # name = "ops"
    # token_sha256 = "…"

    # files: API_KEY looks like a secret: keep the file to yourself (chmod 600), or take it out and set it in the daemon's environment, which servers inherit.
    [[component]]
    name = "files"
    command = ["npx", "-y", "server"]
    env = { "API_KEY" = "k" }
    # What you know about it; without your word every call counts as mutating, and a restart as losing its state:
    # state = "external"               # or "stateless"
    # tools = { "read_*" = "read-only" }

    # remote [state] is left out: it is reached over HTTP, which is not available yet: leave it in the client's own configuration.
    "#);
}
