//! Seven servers of the MCP project: how each is started, a call of it, and what its answer has in it.

use serde_json::{Value, json};
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use tempfile::TempDir;
use tidegate_suite::harness::{Plan, SdkClient, outside};

pub(super) const ALL: [&str; 7] =
    ["everything", "filesystem", "memory", "sequential-thinking", "git", "time", "fetch"];

/// What the page says that `fetch` reads.
const PAGE: &str = "the tide is out";

/// A server, and a call whose answer is known.
#[derive(Debug, Clone)]
pub(super) struct Outside {
    pub(super) name: &'static str,
    pub(super) command: Vec<String>,
    pub(super) tool: &'static str,
    pub(super) arguments: Value,
    pub(super) answer: &'static str,
}

/// What the servers work on: files, a repository, a graph, a page on the loopback interface.
pub(super) struct House {
    dir: TempDir,
    page: String,
}

impl House {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        std::fs::create_dir(root.join("files")).unwrap();
        std::fs::write(root.join("files/tide.txt"), "the tide is in").unwrap();
        let entity =
            json!({ "type": "entity", "name": "tide", "entityType": "water", "observations": ["it turns"] });
        std::fs::write(root.join("graph.jsonl"), entity.to_string()).unwrap();
        repository(&root.join("repository"));
        Self { page: page(), dir }
    }

    /// The plan of a rig that serves these.
    pub(super) fn plan(servers: &[Outside]) -> Plan {
        servers.iter().fold(Plan::new(), |plan, server| {
            let command: Vec<&str> = server.command.iter().map(String::as_str).collect();
            plan.component(server.name, &command, "state = \"external\"")
        })
    }

    pub(super) fn servers(&self, names: &[&str]) -> Vec<Outside> {
        names.iter().map(|name| self.server(name)).collect()
    }

    fn server(&self, name: &str) -> Outside {
        let path = |below: &str| self.dir.path().join(below).to_str().unwrap().to_owned();
        let node = |arguments: &[String]| {
            let mut command = outside::node_server(&format!("server-{name}"));
            command.extend_from_slice(arguments);
            command
        };
        let python = |arguments: &[&str]| {
            let program = outside::python_program(&format!("mcp-server-{name}"));
            let words = arguments.iter().map(|word| (*word).to_owned());
            std::iter::once(program.to_str().unwrap().to_owned()).chain(words).collect::<Vec<_>>()
        };
        let of = |name, command, tool, arguments, answer| Outside { name, command, tool, arguments, answer };
        match name {
            "everything" => {
                let message = json!({ "message": "the tide turns" });
                of("everything", SdkClient::server_everything(), "echo", message, "Echo: the tide turns")
            }
            "filesystem" => {
                let file = json!({ "path": path("files/tide.txt") });
                of("filesystem", node(&[path("files")]), "read_text_file", file, "the tide is in")
            }
            "memory" => {
                let graph = format!("MEMORY_FILE_PATH={}", path("graph.jsonl"));
                let mut command = vec!["env".to_owned(), graph];
                command.extend(node(&[]));
                of("memory", command, "read_graph", json!({}), "it turns")
            }
            "sequential-thinking" => {
                let thought = json!({
                    "thought": "first out, then in", "thoughtNumber": 1, "totalThoughts": 1, "nextThoughtNeeded": false,
                });
                of("sequential-thinking", node(&[]), "sequentialthinking", thought, "thoughtHistoryLength")
            }
            "git" => {
                let log = json!({ "repo_path": path("repository"), "max_count": 1 });
                of("git", python(&[]), "git_log", log, "the first tide")
            }
            "time" => {
                let noon =
                    json!({ "source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo" });
                of("time", python(&["--local-timezone", "UTC"]), "convert_time", noon, "21:00")
            }
            "fetch" => {
                let page = json!({ "url": self.page, "raw": true });
                of("fetch", python(&["--ignore-robots-txt", "--allow-private-ips"]), "fetch", page, PAGE)
            }
            _ => panic!("there is no server {name}"),
        }
    }
}

/// A repository with one commit, of nobody's identity and at no particular time.
fn repository(dir: &Path) {
    std::fs::create_dir(dir).unwrap();
    std::fs::write(dir.join("tide.txt"), "in").unwrap();
    let identity = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost"];
    for words in
        [&["init", "--quiet"][..], &["add", "."], &["commit", "--quiet", "--message", "the first tide"]]
    {
        let done = Command::new("git").args(identity).args(words).current_dir(dir).output().unwrap();
        assert!(done.status.success(), "git {words:?}: {done:?}");
    }
}

/// A page for as long as the test runs; gives its address.
fn page() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = format!("http://{}/tide", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { continue };
            // One read has the whole request of a client that sends no body.
            let _ = stream.read(&mut [0; 4096]);
            let length = PAGE.len();
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{PAGE}"
            );
        }
    });
    address
}
