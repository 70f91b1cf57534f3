//! What the doctor says of clients, daemons, journals and commands, from data alone.

use super::clients;
use super::daemon::answered;
use super::finding::{Finding, Verdict, table};
use super::runtimes::unpinned;
use super::state::journal;
use super::*;
use crate::cli::render::plain;

const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A home directory with one client's file, and a configuration with the component `files`.
struct House {
    dir: tempfile::TempDir,
    config: Config,
}

impl House {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("tidegate.toml");
        let text = format!(
            "[state]\nstore = \"file:./state\"\n[[operator]]\nname = \"ops\"\ntoken_sha256 = \"{HASH}\"\n\
             [[component]]\nname = \"files\"\ncommand = [\"npx\", \"server\", \"/srv\"]\n"
        );
        std::fs::write(&path, text).unwrap();
        let config = Config::load(&path).unwrap();
        Self { dir, config }
    }

    fn path(&self) -> &str {
        self.config.path.to_str().unwrap()
    }

    /// What is said of a client whose servers are these; paths are shortened.
    fn says(&self, servers: &str) -> Vec<Finding> {
        std::fs::write(self.dir.path().join(".claude.json"), servers).unwrap();
        let places = Places {
            home: Some(self.dir.path().to_owned()),
            here: self.dir.path().join("nowhere"),
            config: None,
        };
        let findings = clients::look(&places, Some(&self.config));
        let short = |text: String| text.replace(self.dir.path().to_str().unwrap(), "~");
        findings
            .into_iter()
            .map(|it| Finding { said: short(it.said), next: it.next.map(short), ..it })
            .collect()
    }
}

#[test]
fn a_client_that_goes_through_tidegate_is_as_it_should_be() {
    let house = House::new();
    let servers = format!(
        r#"{{"mcpServers":{{"files":{{"command":"tidegate","args":["connect","files","--config","{0}"]}},
            "gate":{{"command":"tidegate","args":["connect","--control","--config={0}"]}}}}}}"#,
        house.path()
    );
    let said = "Claude Code, ~/.claude.json: files, the governance tools through Tidegate";
    assert_eq!(house.says(&servers), [Finding::ok("client", said)]);
}

#[test]
fn what_cannot_work_or_goes_around_the_gateway_is_told_with_what_to_do() {
    let house = House::new();
    let check = |server: String, verdict: Verdict, said: &str, next: &str| {
        let findings = house.says(&format!(r#"{{"mcpServers":{{"it":{server}}}}}"#));
        let found = findings.iter().find(|it| it.verdict != Verdict::Ok);
        let found = found.unwrap_or_else(|| panic!("nothing is wrong with {server}: {findings:?}"));
        assert_eq!(found.verdict, verdict, "{found:?}");
        assert!(found.said.contains(said), "{said:?} is not in {found:?}");
        assert!(found.next.as_deref().unwrap_or_default().contains(next), "{next:?} is not in {found:?}");
    };
    let connect = |args: &str| format!(r#"{{"command":"tidegate","args":["connect",{args}]}}"#);
    check(connect(r#""files""#), Verdict::Failed, "it names no configuration", "add \"--config\"");
    check(
        connect(r#""files","--config","tidegate.toml""#),
        Verdict::Failed,
        "names tidegate.toml",
        "full path",
    );
    check(
        connect(r#""files","--config","/nowhere/t.toml""#),
        Verdict::Failed,
        "not there",
        "change the path",
    );
    let ours = format!(r#""fles","--session","s1","--config","{}""#, house.path());
    check(connect(&ours), Verdict::Failed, "connects to fles, which is no component", "did it mean files?");
    check(
        r#"{"command":"/nowhere/tidegate","args":["connect","files"]}"#.to_owned(),
        Verdict::Failed,
        "starts /nowhere/tidegate, which is not there",
        "command -v tidegate",
    );
    check(
        r#"{"command":"npx","args":["server","/srv"],"env":{"TOKEN":"hunter2"}}"#.to_owned(),
        Verdict::Warning,
        "it starts files for itself, around the gateway",
        "tidegate connect files --config ~/tidegate.toml",
    );
}

#[test]
fn a_client_s_file_that_cannot_be_read_is_told_and_one_without_servers_is_not() {
    let house = House::new();
    let findings = house.says("{ // mine\n}");
    assert_eq!((findings.len(), findings[0].verdict), (1, Verdict::Warning), "{findings:?}");
    assert_eq!(house.says(r#"{"theme":"dark"}"#)[0].verdict, Verdict::Ok);
}

#[test]
fn a_command_that_fetches_the_newest_version_is_told_by_its_package() {
    #[track_caller]
    fn check(command: &str, expected: Option<&str>) {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        assert_eq!(unpinned(&words), expected, "{command}");
    }
    check("npx -y @scope/server /srv", Some("@scope/server"));
    check("npx -y @scope/server@1.2.3 /srv", None);
    check("npx server", Some("server"));
    check("npx server@1", None);
    check("npx -p package command", Some("package"));
    check("npx ./local", None);
    check("uvx mcp-server-time", Some("mcp-server-time"));
    check("uvx mcp-server-time==1.0", None);
    check("uvx --from package@1.0 command", None);
    check("/usr/bin/uvx mcp-server-time", Some("mcp-server-time"));
    check("pipx run server", Some("server"));
    check("node server.js", None);
    check("npx -y", None);
}

#[test]
fn a_daemon_s_status_is_turned_into_what_somebody_has_to_do() {
    let status = json!({
        "components": [
            { "name": "files", "state": "ready", "incident": null, "skipped_lines": 3 },
            { "name": "search", "state": "unavailable", "incident": "inc-1" },
        ],
        "sessions": [{}], "incidents": [{}],
    });
    let findings = answered(&status);
    let told: Vec<_> = findings.iter().map(|it| (it.verdict, it.next.as_deref().unwrap_or("-"))).collect();
    assert_eq!(told[0], (Verdict::Ok, "-"));
    assert_eq!(told[1].0, Verdict::Warning);
    assert!(findings[1].said.starts_with("files wrote 3 lines"), "{findings:?}");
    assert_eq!(told[2], (Verdict::Failed, "tidegate incidents show inc-1"));
    assert_eq!(told[3], (Verdict::Warning, "tidegate status"));
}

#[test]
fn a_journal_is_whole_absent_or_told_as_damaged() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(journal(dir.path(), &tidegate_store::check(dir.path())).verdict, Verdict::Ok);
    let state = dir.path().join("state");
    drop(tidegate_store::FileStore::open(&state, tidegate_store::OpenOptions::new().create(true)).unwrap());
    assert_eq!(journal(&state, &tidegate_store::check(&state)).verdict, Verdict::Ok);
    std::fs::remove_file(state.join("journal")).unwrap();
    let gone = journal(&state, &tidegate_store::check(&state));
    assert_eq!(gone.verdict, Verdict::Failed, "{gone:?}");
    assert!(gone.said.contains("is gone"), "{gone:?}");
    std::fs::write(dir.path().join("journal"), "no journal").unwrap();
    let damaged = journal(dir.path(), &tidegate_store::check(dir.path()));
    assert_eq!(damaged.verdict, Verdict::Failed);
    assert!(damaged.next.unwrap().contains("backup"));
}

#[test]
fn findings_are_read_as_a_list_with_what_to_do_and_a_sum() {
    let findings = [
        Finding::ok("machine", "it is there"),
        Finding::warning("daemon", "none is running", "tidegate serve"),
        Finding::failed("runtime", "npx: command not found", "install it"),
    ];
    insta::assert_snapshot!(plain(&table(&json!({ "findings": findings }))), @r"
    ok       machine        it is there
    warning  daemon         none is running
                            next: tidegate serve
    failed   runtime        npx: command not found
                            next: install it

    1 to repair, 1 to look at.
    ");
}
