//! Cutting what one run wrote into causal streams. Pure; must never drop or reorder a byte within a stream.

use std::collections::BTreeMap;

use serde_json::Value;

/// Events by the name of their stream.
pub(crate) type Streams = BTreeMap<String, Vec<Vec<u8>>>;

/// The order of answers within standard output, compared apart from the answers themselves.
pub(crate) const ORDER: &str = "order/stdout";

/// A name that is longer than this is data.
const MAX_LABEL_BYTES: usize = 40;

/// What one run did, as it was seen.
#[derive(Debug, Clone, Default)]
pub(crate) struct Recording {
    pub(crate) pid: u32,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) exit: String,
}

impl Recording {
    /// Records that the subject itself wrote, by channel; the exit status isn't one.
    pub(crate) fn written(&self) -> [(&'static str, u64); 2] {
        [("stdout", lines(&self.stdout).count() as u64), ("stderr", lines(&self.stderr).count() as u64)]
    }

    /// The causal streams: standard output per JSON-RPC id where it is JSON-RPC, and per label where its records carry
    /// one (`{"stream": "node", …}`), standard error, exit status; and the
    /// order in which the streams of standard output alternated. Two descriptors have no common order natively.
    pub(crate) fn streams(&self) -> Streams {
        let mut streams = Streams::new();
        let mut order = Vec::new();
        for line in lines(&self.stdout) {
            let name = stream_of(line);
            order.push(name.clone().into_bytes());
            streams.entry(name).or_default().push(line.to_vec());
        }
        if streams.keys().any(|name| name != "stdout") {
            streams.insert(ORDER.to_owned(), order);
        }
        if !self.stderr.is_empty() {
            streams.insert("stderr".to_owned(), lines(&self.stderr).map(<[u8]>::to_vec).collect());
        }
        streams.insert("exit".to_owned(), vec![self.exit.clone().into_bytes()]);
        streams
    }
}

/// Lines with their ends, so that a missing last line end is seen.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n')
}

fn stream_of(line: &[u8]) -> String {
    let Ok(Value::Object(message)) = serde_json::from_slice::<Value>(line) else {
        return "stdout".to_owned();
    };
    if let Some(label) = message.get("stream").and_then(Value::as_str).filter(|label| is_label(label)) {
        return format!("stdout/{label}");
    }
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return "stdout".to_owned();
    }
    match (message.get("id"), message.contains_key("method")) {
        (Some(id), false) => format!("stdout/answer/{id}"),
        (Some(_), true) => "stdout/requests".to_owned(),
        (None, _) => "stdout/notifications".to_owned(),
    }
}

/// What a subject may call a stream of its own: one that is easily read, and never mistaken for one of ours.
fn is_label(label: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let ours = ["answer", "requests", "notifications"];
    (1..=MAX_LABEL_BYTES).contains(&label.len()) && label.bytes().all(plain) && !ours.contains(&label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stdout: &str, expected: &[(&str, usize)]) {
        let recording =
            Recording { stdout: stdout.into(), exit: "exit 0".to_owned(), ..Recording::default() };
        let streams = recording.streams();
        let found: Vec<(&str, usize)> =
            streams.iter().map(|(name, events)| (name.as_str(), events.len())).collect();
        assert_eq!(found, expected, "{stdout:?}");
    }

    #[test]
    fn standard_output_is_one_stream_per_answer_where_it_is_json_rpc() {
        check("", &[("exit", 1)]);
        check("a\nb", &[("exit", 1), ("stdout", 2)]);
        check(
            "{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n{\"jsonrpc\":\"2.0\",\"id\":\"2\",\"error\":{}}\n",
            &[("exit", 1), ("order/stdout", 2), ("stdout/answer/\"2\"", 1), ("stdout/answer/2", 1)],
        );
        check(
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n{\"jsonrpc\":\"2.0\",\"method\":\"n\"}\nnoise\n{\"id\":1}\n",
            &[
                ("exit", 1),
                ("order/stdout", 4),
                ("stdout", 2),
                ("stdout/notifications", 1),
                ("stdout/requests", 1),
            ],
        );
    }

    #[test]
    fn a_record_with_a_label_belongs_to_a_stream_of_its_own() {
        check(
            "{\"stream\":\"node\",\"record\":1}\n{\"stream\":\"bun\"}\n{\"stream\":\"node\"}\n",
            &[("exit", 1), ("order/stdout", 3), ("stdout/bun", 1), ("stdout/node", 2)],
        );
        for label in ["", "answer", "Node", "a/b", "\u{0}", &"a".repeat(41)] {
            let line = serde_json::json!({ "stream": label }).to_string();
            check(&line, &[("exit", 1), ("stdout", 1)]);
        }
    }

    #[test]
    fn a_missing_last_line_end_makes_another_record() {
        let of = |stdout: &str| Recording { stdout: stdout.into(), ..Recording::default() }.streams();
        assert_ne!(of("a\n"), of("a"));
    }
}
