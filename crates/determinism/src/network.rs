//! Did a subject fail because it has no network? Pure.
//!
//! Asked only of an executor without one. Must never take a mention of the network for a failure: a subject that ends well
//! did not need it.

use crate::stream::Recording;

/// How a subject ends that has what it needs.
const WELL: &str = "exit 0";
/// What the C library, Go, node, bun, deno and curl say of a network that isn't there.
const COMPLAINTS: [&str; 8] = [
    "network is unreachable",
    "temporary failure in name resolution",
    "name or service not known",
    "could not resolve host",
    "no such host",
    "eai_again",
    "enetunreach",
    "failed to lookup address information",
];

/// The line by which the subject said so, where it failed for want of a network.
pub(crate) fn missed(recording: &Recording) -> Option<String> {
    if recording.exit == WELL {
        return None;
    }
    let complains = |line: &&str| {
        let line = line.to_lowercase();
        COMPLAINTS.iter().any(|complaint| line.contains(complaint))
    };
    [&recording.stderr, &recording.stdout].into_iter().find_map(|output| {
        String::from_utf8_lossy(output).lines().find(complains).map(|line| line.trim().to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(exit: &str, stdout: &str, stderr: &str, expected: Option<&str>) {
        let recording = Recording {
            exit: exit.to_owned(),
            stdout: stdout.into(),
            stderr: stderr.into(),
            ..Recording::default()
        };
        assert_eq!(missed(&recording).as_deref(), expected);
    }

    #[test]
    fn a_subject_needs_a_network_when_it_fails_and_says_so() {
        let go = "dial tcp 10.0.0.1:443: connect: network is unreachable";
        check("exit 1", "starting\n", &format!("first\n  {go}\n"), Some(go));
        check("exit 0", "", &format!("{go}\n"), None);
        check("exit 1", "", "no such file\n", None);
        let node = "Error: getaddrinfo EAI_AGAIN registry.example";
        check("exit 1", &format!("{node}\n"), "", Some(node));
        check(
            "exit 6",
            "",
            "curl: (6) Could not resolve host: example\n",
            Some("curl: (6) Could not resolve host: example"),
        );
        check("signal 9", "", "", None);
    }
}
