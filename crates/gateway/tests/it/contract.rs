//! The public JSON: every document of every command has the fields, the spellings and the version that scripts rely on.

use serde_json::{Value, json};
use tidegate_suite::harness::{Client, Plan, Rig, eventually};

/// What a script may rely on of one field.
#[derive(Debug, Clone, Copy)]
enum Is {
    Text,
    Number,
    Flag,
    List,
    Object,
    /// RFC 3339 in UTC.
    Time,
    /// `"EPOCH.REVISION"`.
    Fence,
    OneOf(&'static [&'static str]),
    /// This, or null.
    Maybe(&'static Is),
}

use Is::{Fence, Flag, List, Maybe, Number, Object, OneOf, Text, Time};

const CLASS: Is = OneOf(&["read-only", "idempotent", "mutating"]);
const PHASE: Is = OneOf(&[
    "Requested",
    "Approved",
    "Draining",
    "Checkpointing",
    "Stopping",
    "Starting",
    "Verifying",
    "Completed",
    "Denied",
    "Expired",
    "Cancelled",
    "Refused",
    "RolledBack",
    "Failed",
]);
const OPERATION: &[(&str, Is)] = &[
    ("id", Text),
    ("phase", PHASE),
    ("scope", List),
    ("reason", Text),
    ("requested_by", Text),
    ("approvals", List),
    ("holders", List),
    ("incident", Maybe(&Text)),
    ("generations", Object),
];
const HOLDER: &[(&str, Is)] =
    &[("session", Text), ("tool", Text), ("class", CLASS), ("age_ms", Number), ("detached", Flag)];
const APPROVAL: &[(&str, Is)] = &[("principal", Text), ("at", Time)];
const GENERATIONS: &[(&str, Is)] = &[("before", Number), ("after", Maybe(&Number))];
const COMPONENT: &[(&str, Is)] = &[
    ("name", Text),
    ("state", OneOf(&["starting", "ready", "draining", "stopping", "verifying", "unavailable"])),
    ("generation", Number),
    ("pid", Maybe(&Number)),
    ("in_flight", Number),
    ("held", Number),
    ("restarts", Number),
    ("last_stderr", Text),
];
const SESSION: &[(&str, Is)] =
    &[("name", Text), ("principal", Text), ("streams", Number), ("attached", Flag)];
const LEASE: &[(&str, Is)] = &[
    ("key", Text),
    ("session", Text),
    ("fence", Fence),
    ("class", CLASS),
    ("expires_in_ms", Number),
    ("state", OneOf(&["held", "expired", "orphaned", "released"])),
];
const INCIDENT: &[(&str, Is)] = &[
    ("id", Text),
    ("kind", Text),
    ("state", OneOf(&["open", "acknowledged", "resolved"])),
    ("severity", OneOf(&["info", "warning", "critical"])),
    ("count", Number),
    ("first_seen", Time),
    ("last_seen", Time),
    ("who_is_next", OneOf(&["operator", "session", "nobody"])),
    ("next_action", Object),
    ("next_prompt", Text),
    ("evidence", Object),
];
const NEXT_ACTION: &[(&str, Is)] = &[
    (
        "kind",
        OneOf(&[
            "Continue",
            "RetryCall",
            "VerifyThenRetry",
            "WaitForRestart",
            "RequestApproval",
            "ReacquireLease",
            "RefreshTools",
            "StateReset",
            "ContactOperator",
        ]),
    ),
    ("prompt", Text),
];

impl Is {
    fn holds(self, value: &Value) -> bool {
        match self {
            Text => value.is_string(),
            Number => value.is_u64(),
            Flag => value.is_boolean(),
            List => value.is_array(),
            Object => value.is_object(),
            Time => value.as_str().is_some_and(is_time),
            Fence => value.as_str().and_then(|text| text.split_once('.')).is_some_and(|(epoch, revision)| {
                epoch.parse::<u64>().is_ok() && revision.parse::<u64>().is_ok()
            }),
            OneOf(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            Maybe(is) => value.is_null() || is.holds(value),
        }
    }
}

/// `2026-03-01T03:00:00.000Z`, digit by digit.
fn is_time(text: &str) -> bool {
    let shape = "0000-00-00T00:00:00.000Z";
    text.len() == shape.len()
        && text.chars().zip(shape.chars()).all(|(c, s)| if s == '0' { c.is_ascii_digit() } else { c == s })
}

#[track_caller]
fn is(value: &Value, fields: &[(&str, Is)]) {
    for (name, is) in fields {
        let field = value.get(name).unwrap_or_else(|| panic!("there is no {name} in {value:#}"));
        assert!(is.holds(field), "{name} is {field}, which is not {is:?}");
    }
}

#[track_caller]
fn all(list: &Value, fields: &[(&str, Is)]) {
    let items = list.as_array().unwrap_or_else(|| panic!("{list} is no list"));
    assert!(!items.is_empty(), "an empty list shows nothing");
    for item in items {
        is(item, fields);
    }
}

#[track_caller]
fn versioned(document: Value) -> Value {
    assert_eq!(document["version"], 1, "{document:#}");
    document
}

#[track_caller]
fn operation(op: &Value) {
    is(op, OPERATION);
    assert!(op["scope"].as_array().unwrap().iter().all(Value::is_string), "{op}");
    for generation in op["generations"].as_object().unwrap().values() {
        is(generation, GENERATIONS);
    }
    op["approvals"].as_array().unwrap().iter().for_each(|it| is(it, APPROVAL));
    op["holders"].as_array().unwrap().iter().for_each(|it| is(it, HOLDER));
}

/// Every time has the one shape and every duration is in milliseconds, wherever in a document it is.
fn every_time_is_rfc_3339(document: &Value) {
    match document {
        Value::Object(fields) => {
            for (name, value) in fields {
                if ["at", "since", "first_seen", "last_seen", "began"].contains(&name.as_str())
                    || name.ends_with("_at")
                {
                    assert!(Maybe(&Time).holds(value), "{name}: {value}");
                }
                if name.ends_with("_ms") {
                    assert!(Maybe(&Number).holds(value), "{name}: {value}");
                }
                every_time_is_rfc_3339(value);
            }
        }
        Value::Array(items) => items.iter().for_each(every_time_is_rfc_3339),
        _ => {}
    }
}

/// A call of `client` that stays in flight until its latch is opened.
fn busy(rig: &Rig, client: &mut Client) {
    let server = rig.server("files").clone();
    client.call("append", json!({ "text": "busy", "until_file": server.latch("busy").path() }));
    server.arrives("busy");
}

#[test]
fn every_restart_command_answers_with_the_operation() {
    let rig = Plan::new().policy("drain_deadline = \"2s\"").fault("files", &[]).start();
    let mut client = rig.connect("files", "s1");
    busy(&rig, &mut client);
    let shown = |document: Value| -> Value {
        let document = versioned(document);
        operation(&document["operation"]);
        every_time_is_rfc_3339(&document);
        document["operation"].clone()
    };

    let request = ["restart", "request", "files", "--reason", "stale"];
    let denied = shown(rig.local(&request).done());
    assert_eq!(
        (&denied["phase"], &denied["reason"], &denied["requested_by"], &denied["scope"]),
        (&json!("Requested"), &json!("stale"), &json!("local"), &json!(["files"]))
    );
    let denied = shown(rig.ops(&["restart", "deny", denied["id"].as_str().unwrap()]).done());
    assert_eq!(denied["phase"], "Denied");

    let cancelled = shown(rig.local(&request).done());
    let cancelled = shown(rig.local(&["restart", "cancel", cancelled["id"].as_str().unwrap()]).done());
    assert_eq!(cancelled["phase"], "Cancelled");

    let refused = shown(rig.local(&request).done());
    let id = refused["id"].as_str().unwrap();
    let approved = shown(rig.ops(&["restart", "approve", id]).done());
    assert_eq!(approved["approvals"][0]["principal"], "ops");
    let waited = rig.local(&["restart", "wait", id]);
    assert_eq!(waited.code, 1, "{waited:?}");
    let refused = shown(waited.document().clone());
    assert_eq!(refused["phase"], "Refused");
    all(&refused["holders"], HOLDER);
    assert_eq!(refused["holders"][0]["session"], "s1");
    assert!(refused["incident"].is_string(), "{refused}");
    assert_eq!(shown(rig.local(&["restart", "show", id]).done()), refused);

    rig.server("files").latch("busy").open();
    let completed = rig.restarts(&["files"]);
    operation(&completed);
    assert_eq!(completed["generations"]["files"], json!({ "before": 1, "after": 2 }));

    let list = versioned(rig.local(&["restart", "list"]).done());
    all(&list["operations"], OPERATION);
}

#[test]
fn restart_wait_tells_each_holder_on_stderr_and_the_document_alone_on_stdout() {
    let rig = Plan::new().policy("drain_deadline = \"2s\"").fault("files", &[]).start();
    let mut client = rig.connect("files", "s1");
    busy(&rig, &mut client);
    let id = rig.request("ops", &["files"]);
    let waited = rig.local(&["restart", "wait", &id]);
    assert_eq!(waited.document()["operation"]["phase"], "Refused");
    let line = waited.stderr.lines().find(|line| line.starts_with("waiting for "));
    let line = line.unwrap_or_else(|| panic!("no holder is told: {}", waited.stderr));
    for word in ["s1", "append", "files", "(mutating)", "running for", "until the deadline"] {
        assert!(line.contains(word), "{word:?} is not in: {line}");
    }
}

#[test]
fn status_and_the_lists_have_every_field() {
    let rig = Plan::new().policy("drain_deadline = \"1s\"").fault("files", &[]).start();
    let mut client = rig.connect("files", "s1");
    let key = "repo/main";
    let acquired = versioned(rig.local(&["leases", "acquire", key, "--session", "s1"]).done());
    is(&acquired["lease"], LEASE);
    let fence = acquired["lease"]["fence"].as_str().unwrap();
    for command in ["renew", "release"] {
        let same = rig.local(&["leases", command, key, "--session", "s1", "--fence", fence]).done();
        is(&versioned(same)["lease"], LEASE);
    }
    rig.local(&["leases", "acquire", key, "--session", "s1"]).done();
    is(&versioned(rig.local(&["leases", "show", key]).done())["lease"], LEASE);
    let adopted = rig.ops(&["leases", "adopt", key, "--session", "s1"]).done();
    is(&versioned(adopted)["lease"], LEASE);
    all(&versioned(rig.local(&["leases", "list"]).done())["leases"], LEASE);

    busy(&rig, &mut client);
    let refused = rig.request("ops", &["files"]);
    assert_eq!(rig.ended(&refused)["phase"], "Refused");
    rig.asks(&["files"]);

    let status = versioned(rig.status());
    all(&status["components"], COMPONENT);
    all(&status["sessions"], SESSION);
    all(&status["leases"], LEASE);
    all(&status["operations"], OPERATION);
    all(&status["incidents"], INCIDENT);
    every_time_is_rfc_3339(&status);
    assert_eq!(status["components"][0]["in_flight"], 1);

    let sessions = versioned(rig.local(&["sessions"]).done());
    all(&sessions["sessions"], SESSION);
    let checkpoints = versioned(rig.local(&["checkpoints", "list"]).done());
    all(&checkpoints["checkpoints"], &[("session", Text), ("updated_at", Time), ("next_action", Object)]);
    for command in [["sessions", "show", "s1"], ["checkpoints", "show", "s1"], ["resume", "--session", "s1"]]
    {
        let resume = versioned(rig.local(&command).done());
        is(&resume, &[("session", Text), ("facts", Object), ("next_action", Object)]);
        is(&resume["next_action"], NEXT_ACTION);
        every_time_is_rfc_3339(&resume);
    }

    let id = status["incidents"][0]["id"].as_str().unwrap();
    assert_eq!(status["components"][0]["incident"], id);
    for (by, command, state) in [
        (None, vec!["incidents", "list"], "open"),
        (None, vec!["incidents", "show", id], "open"),
        (None, vec!["incidents", "ack", id], "acknowledged"),
        (Some("ops"), vec!["incidents", "resolve", id], "resolved"),
    ] {
        let answer = by.map_or_else(|| rig.local(&command), |by| rig.by(by, &command));
        let incidents = versioned(answer.done())["incidents"].clone();
        all(&incidents, INCIDENT);
        is(&incidents[0]["next_action"], NEXT_ACTION);
        every_time_is_rfc_3339(&incidents);
        assert_eq!((&incidents[0]["id"], &incidents[0]["state"]), (&json!(id), &json!(state)));
    }
    rig.server("files").latch("busy").open();
    let ended = versioned(rig.ops(&["sessions", "end", "s1"]).done());
    all(&ended["sessions"], SESSION);
}

#[test]
fn a_server_that_does_not_start_is_unavailable_with_its_incident_and_its_last_words() {
    let rig = Plan::new().fault("files", &["--die-at", "start", "--die-message", "no database"]).start();
    eventually("files is given up for a while", || rig.component("files")["state"] == "unavailable");
    let component = rig.component("files");
    is(&component, COMPONENT);
    assert_eq!(component["last_stderr"], "no database");
    let incidents = rig.open_incidents();
    assert_eq!(component["incident"], incidents[0]["id"]);
    assert_eq!(incidents[0]["kind"], "component_crashed");
    // The same after an operation has tried.
    let id = rig.request("ops", &["files"]);
    assert_eq!(rig.ended(&id)["phase"], "Failed");
    assert_eq!(rig.component("files")["state"], "unavailable");
    assert_eq!(rig.component("files")["last_stderr"], "no database");
}

#[test]
fn token_and_store_answer_with_their_documents() {
    let rig = Plan::new().fault("files", &[]).start();
    let token = versioned(rig.local(&["token"]).done());
    is(&token, &[("token", Text), ("token_sha256", Text)]);
    let store = [("format", Number), ("epoch", Number), ("revision", Number), ("records", Number)];
    for command in ["check", "compact"] {
        is(&versioned(rig.local(&["store", command]).done())["store"], &store);
    }
    let busy = rig.local(&["store", "adopt"]);
    assert!(busy.no().contains("holds the lock"), "{busy:?}");
}

#[test]
fn with_json_a_command_that_does_not_answer_says_why_in_a_document_too() {
    let rig = Plan::new().fault("files", &[]).start();
    let id = rig.asks(&["files"]);
    let (mut _holder, mut _other) = (rig.control("s1"), rig.control("s2"));
    rig.local(&["leases", "acquire", "repo/main", "--session", "s1"]).done();
    let check = |args: &[&str], exit_code: i32, refusal: Option<&str>| {
        let output = rig.local(args);
        let document = versioned(output.document());
        let message = document["error"]["message"].as_str().unwrap_or_else(|| panic!("{output:?}"));
        assert!(output.stderr.trim_end().ends_with(&format!("tidegate: {message}")), "{output:?}");
        assert_eq!(
            (output.code, &document["error"]["exit_code"]),
            (exit_code, &json!(exit_code)),
            "{args:?}"
        );
        assert_eq!(document["refusal"]["kind"].as_str(), refusal, "{args:?}: {document:#}");
    };
    let request = ["restart", "request", "files", "--reason", "x"];
    check(&[&request[..], &["--break-glass"]].concat(), 1, Some("restart_refused"));
    check(&["restart", "approve", &id], 1, Some("restart_refused"));
    check(&["restart", "deny", &id], 1, Some("restart_refused"));
    check(&["leases", "acquire", "repo/main", "--session", "s2"], 1, Some("lease_required"));
    check(
        &["leases", "release", "repo/main", "--session", "s1", "--fence", "1.1"],
        1,
        Some("lease_required"),
    );
    check(&["leases", "adopt", "repo/main", "--session", "s2"], 1, None);
    check(&["sessions", "end", "s1"], 1, None);
    check(&["store", "adopt"], 1, None);
    check(&["restart", "show", "op-nothing"], 2, None);
    check(&["incidents", "show", "inc-nothing"], 2, None);
    check(&["resume", "--session", "nobody"], 2, None);
    check(&["status", "--token-file", "/nowhere/token"], 2, None);
    check(&["import", "/nowhere/mcp.json"], 2, None);
    check(&["session", "token", "s1"], 2, None);
    check(&["serve"], 2, None);
    // What a client reads is the protocol, and nothing else.
    let shim = rig.local(&["connect", "fiels"]);
    assert_eq!((shim.code, shim.stdout.as_str()), (2, ""), "{shim:?}");
}

#[test]
fn a_lease_that_is_not_ones_own_is_refused_by_kind_with_what_to_do() {
    let rig = Plan::new().fault("files", &[]).start();
    let (mut holder, mut other) = (rig.control("s1"), rig.control("s2"));
    let lease = holder.tool("lease_acquire", json!({ "key": "repo/main", "class": "read-only" }));
    let fence = lease["structuredContent"]["lease"]["fence"].clone();
    let mut check = |tool: &str, arguments: Value, retryable: bool| {
        let call = other.call(tool, arguments);
        let answer = other.answer(&call);
        let refusal = &answer["result"]["_meta"]["tidegate/refusal"];
        let said = &answer["result"]["content"];
        assert_eq!(
            (&said[0]["text"], &said[1]["text"]),
            (&refusal["next_action"]["prompt"], &refusal["reason"]),
            "{tool}: what to do comes first, then why"
        );
        assert_eq!(
            (&refusal["kind"], &refusal["retryable"], &refusal["next_action"]["kind"]),
            (&json!("lease_required"), &json!(retryable), &json!("ReacquireLease")),
            "{tool}: {refusal}"
        );
        assert_eq!(refusal["retry_after_ms"].is_u64(), retryable, "{tool}: {refusal}");
    };
    check("lease_acquire", json!({ "key": "repo/main" }), true);
    check("lease_renew", json!({ "key": "repo/main", "fence": fence }), false);
    check("lease_renew", json!({ "key": "repo/main", "fence": "1.1" }), false);
    check("lease_release", json!({ "key": "repo/main", "fence": "1.1" }), false);
    holder.tool("lease_release", json!({ "key": "repo/main", "fence": fence }));
    check("lease_renew", json!({ "key": "repo/main", "fence": fence }), false);
}
