//! Every way to get a configuration wrong, and what is said to it.

use super::*;

const HASH: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn base() -> String {
    "[state]\nstore = \"file:./state\"\n".to_owned()
}

#[track_caller]
fn refuses(rest: &str, line: usize, expected: &str) {
    let text = base() + rest;
    let error = parse(Path::new("/etc/t/tidegate.toml"), &text).expect_err(rest).to_string();
    assert!(error.starts_with(&format!("/etc/t/tidegate.toml:{line}: ")), "{error}");
    assert!(error.contains(expected), "{error}");
}

#[test]
fn unknown_keys_name_key_line_and_nearest_known_key() {
    refuses("[policy]\naprovals = 2\n", 4, "unknown key `aprovals` in [policy]; did you mean `approvals`?");
    refuses("[[component]]\nname = \"a\"\ncomand = [\"x\"]\n", 5, "did you mean `command`?");
    refuses("[statee]\n", 3, "did you mean `state`?");
    refuses("[[operator]]\nzzz = 1\n", 4, "known keys: name, token_sha256");
}

#[test]
fn keys_of_later_work_are_refused_by_name() {
    refuses("[http]\nlisten = \"127.0.0.1:1\"\n", 3, "`http` in the configuration is not available yet");
}

#[test]
fn the_servers_of_a_per_session_component_have_names_that_no_other_component_has() {
    let own = |name: &str| {
        format!("[[component]]\nname = \"{name}\"\ncommand = [\"x\"]\nsharing = \"per-session\"\n")
    };
    refuses(&own(&"x".repeat(65)), 4, "at most 64 bytes");
    let beside = format!("{}[[component]]\nname = \"a@b\"\ncommand = [\"x\"]\n", own("a"));
    refuses(&beside, 8, "\"a@\"");
    refuses(&own("a").replace("per-session", "per-user"), 6, "\"shared\" or \"per-session\"");
}

#[test]
fn values_that_cannot_be_meant_are_refused_with_what_to_write() {
    refuses("[policy]\napprovals = 0\n", 4, "the least is 1");
    refuses("[policy]\nhold = \"61s\"\n", 4, "longer than 59 s");
    refuses("[policy]\nhold = \"soon\"\n", 4, "not a duration");
    refuses("[policy]\napprovers = [\"opertor\"]\n", 4, "did you mean \"operator\"?");
    refuses("[[operator]]\nname = \"ops\"\ntoken_sha256 = \"abc\"\n", 5, "64 hexadecimal digits");
    refuses(&format!("[[operator]]\nname = \"local\"\ntoken_sha256 = \"{HASH}\"\n"), 4, "Tidegate's own");
    let same = format!(
        "[[operator]]\nname = \"ops\"\ntoken_sha256 = \"{HASH}\"\n[[principal]]\nname = \"bot\"\ntoken_sha256 = \"{}\"\n",
        HASH.to_uppercase()
    );
    refuses(&same, 8, "\"bot\" has the token of \"ops\"");
    refuses("[[component]]\nname = \"a\"\ncommand = []\n", 5, "starts with a program");
    for env in ["\"A=B\" = \"x\"", "\"\" = \"x\"", "A = \"\\u0000\""] {
        let component = format!("[[component]]\nname = \"a\"\ncommand = [\"x\"]\n[component.env]\n{env}\n");
        refuses(&component, 7, "variable");
    }
    refuses(
        "[[component]]\nname = \"a\"\ncommand = [\"x\"]\n[[component]]\nname = \"a\"\ncommand = [\"y\"]\n",
        7,
        "there twice",
    );
    refuses(
        "[[component]]\nname = \"a\"\ncommand = [\"x\"]\n[component.tools]\nw = { class = \"mutating\", replay = true }\n",
        7,
        "never sent again",
    );
    refuses(
        "[[component]]\nname = \"a\"\ncommand = [\"x\"]\n[component.tools]\nw = \"writing\"\n",
        7,
        "read-only, idempotent or mutating",
    );
    for key in ["start_timeout", "call_timeout"] {
        let text = format!("[[component]]\nname = \"a\"\ncommand = [\"x\"]\n{key} = \"0s\"\n");
        refuses(&text, 6, "leaves no time at all");
    }
    refuses("[policy]\nrequest_ttl = \"0s\"\n", 4, "leaves no time at all");
    refuses(
        "[[component]]\nname = \"a\"\ncommand = [\"x\"]\n[component.leases]\n\"w\" = \"f/{path}\"\n",
        7,
        "starts with a slash, like {/path}",
    );
    refuses("[policy\n", 3, "");
}

#[test]
fn a_value_that_is_refused_is_told_with_its_key() {
    refuses("[policy]\nhold = \"soon\"\n", 4, "`hold`: \"soon\" is not a duration");
    refuses("[policy]\ndrain_deadline = \"2 days\"\n", 4, "`drain_deadline`: ");
    refuses("[policy]\nrequest_ttl = \"0s\"\n", 4, "`request_ttl`: 0 leaves no time");
    refuses("[policy]\noperator_approvals = \"two\"\n", 4, "`operator_approvals`: invalid type");
    refuses("[policy]\napprovers = [\n  \"operator\",\n  7,\n]\n", 6, "`approvers`: invalid type");
    for (line, key) in [
        ("stop_grace = \"soon\"", "stop_grace"),
        ("call_timeout = \"0s\"", "call_timeout"),
        ("trust_annotations = \"yes\"", "trust_annotations"),
        ("cwd = 7", "cwd"),
        ("[component.tools]\nw = \"writing\"", "w"),
        ("[component.leases]\n\"w*\" = \"f/{path}\"", "w*"),
        ("[component.env]\nA = 7", "A"),
    ] {
        let text = format!("[[component]]\nname = \"a\"\ncommand = [\"x\"]\n{line}\n");
        refuses(&text, 5 + line.lines().count(), key);
    }
}

#[test]
fn a_whole_configuration_reads_as_written_with_paths_beside_the_file() {
    let text = base()
        + &format!(
            "[policy]\nhold = \"30s\"\napprovers = [\"operator\", \"reviewer\"]\n\
             [[operator]]\nname = \"ops\"\ntoken_sha256 = \"{}\"\n[[principal]]\nname = \"reviewer\"\ntoken_sha256 = \"{}\"\n\
             [[component]]\nname = \"files\"\ncommand = [\"srv\", \"/x\"]\nstate = \"external\"\ntrust_annotations = true\n\
             [component.tools]\n\"read_*\" = \"read-only\"\nput = {{ class = \"idempotent\", replay = true }}\n",
            HASH.to_uppercase(),
            HASH.replacen('0', "f", 1)
        );
    let config = parse(Path::new("/etc/t/tidegate.toml"), &text).unwrap();
    assert_eq!(config.state_dir, Path::new("/etc/t/./state"));
    assert_eq!(config.policy.hold, Duration::from_secs(30));
    assert_eq!(config.policy.drain_deadline, Duration::from_secs(60));
    assert_eq!(config.operators[0].token_sha256, HASH);
    let files = config.component(&"files".parse().unwrap()).unwrap();
    assert_eq!(files.state, ServerState::External);
    assert!(files.tools.contains(&ToolRule {
        pattern: "put".into(),
        class: WorkClass::Idempotent,
        replay: true
    }));
}
