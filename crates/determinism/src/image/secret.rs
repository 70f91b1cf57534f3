//! Files that are in an image by mistake: their names say that they hold a secret. Names only; nothing is read.

/// The ends of paths where tools keep what nobody else may have.
const PLACES: [&[&str]; 10] = [
    &[".ssh", "id_rsa"],
    &[".ssh", "id_ecdsa"],
    &[".ssh", "id_ed25519"],
    &[".aws", "credentials"],
    &[".docker", "config.json"],
    &[".git-credentials"],
    &[".netrc"],
    &[".pypirc"],
    &[".kube", "config"],
    &[".config", "gcloud", "application_default_credentials.json"],
];

/// Whether a file at this place is there to hold a secret.
pub(super) fn is_place_of_one(parts: &[&[u8]]) -> bool {
    PLACES.iter().any(|place| {
        let place: Vec<&[u8]> = place.iter().map(|part| part.as_bytes()).collect();
        parts.ends_with(&place)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &str, expected: bool) {
        let parts: Vec<&[u8]> = path.split('/').map(str::as_bytes).collect();
        assert_eq!(is_place_of_one(&parts), expected, "{path}");
    }

    #[test]
    fn a_place_of_secrets_is_known_by_the_end_of_its_path() {
        check("root/.ssh/id_ed25519", true);
        check("home/node/.aws/credentials", true);
        check(".netrc", true);
        check("root/.ssh/id_ed25519.pub", false);
        check("root/.ssh/known_hosts", false);
        check("etc/ssh/id_rsa", false);
        check("usr/share/doc/netrc", false);
    }
}
