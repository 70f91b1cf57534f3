//! What is taken out of evidence before it is stored, and what stays.

use tidegate_incidents::{redact, redact_field};

/// What goes in, what comes out; and once more over what came out, which changes nothing.
#[track_caller]
fn check(text: &str, expected: &str) {
    let once = redact(text);
    assert_eq!(once, expected, "of {text:?}");
    assert_eq!(redact(&once), once, "a second time, of {text:?}");
}

#[test]
fn headers_that_authenticate_lose_their_value() {
    check("Authorization: Bearer abc.def-123", "Authorization: [redacted]");
    check("authorization: basic dXNlcjpwYXNz", "authorization: [redacted]");
    check("AUTHORIZATION:Digest username=\"a\"", "AUTHORIZATION:[redacted]\"a\"");
    check("Authorization: Token a b c\nHost: example.org", "Authorization: [redacted]\nHost: example.org");
    check(
        "Proxy-Authorization: Basic Zm9vOmJhcg==\r\nAccept: */*",
        "Proxy-Authorization: [redacted]\r\nAccept: */*",
    );
    check("Cookie: sid=1; theme=dark", "Cookie: [redacted]");
    check("Set-Cookie: sid=abcdef; HttpOnly", "Set-Cookie: [redacted]");
    check("X-Api-Key: 12345", "X-Api-Key: [redacted]");
    check(
        "curl -H 'Authorization: Bearer s3cr3t' http://host/x",
        "curl -H 'Authorization: [redacted]' http://host/x",
    );
    check(r#"{"Authorization":"Bearer s3cr3t","a":1}"#, r#"{"Authorization":"[redacted]","a":1}"#);
    check(r#"{"headers":{"cookie": "a=b"}}"#, r#"{"headers":{"cookie": "[redacted]"}}"#);
}

#[test]
fn credentials_after_a_scheme_go_wherever_they_stand() {
    check("sent Bearer abc123 to the server", "sent Bearer [redacted] to the server");
    check("used Basic dXNlcjpwYXNz once", "used Basic [redacted] once");
    check("bearer", "bearer");
    check("a basic error", "a basic error");
}

#[test]
fn names_that_mean_a_secret_lose_their_value() {
    check("password=hunter2", "password=[redacted]");
    check("PASSWORD = hunter2 and more", "PASSWORD = [redacted] and more");
    check("password: hunter2, user: bob", "password: [redacted], user: bob");
    check("passwd:hunter2;x=1", "passwd:[redacted];x=1");
    check("PGPASSWORD=x", "PGPASSWORD=[redacted]");
    check("DB_PASS=x", "DB_PASS=[redacted]");
    check("dbPassword: 'hunter two'", "dbPassword: '[redacted]'");
    check("api_key=abc", "api_key=[redacted]");
    check("apiKey => \"abc\"", "apiKey => \"[redacted]\"");
    check("API-KEY: abc", "API-KEY: [redacted]");
    check("apikey=abc", "apikey=[redacted]");
    check("client_secret=abc&x=1", "client_secret=[redacted]&x=1");
    check("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPx", "aws_secret_access_key = [redacted]");
    check("privateKey: abc", "privateKey: [redacted]");
    check("GITHUB_TOKEN=abc", "GITHUB_TOKEN=[redacted]");
    check("TIDEGATE_TOKEN=abc", "TIDEGATE_TOKEN=[redacted]");
    check("refresh_token=abc&state=5", "refresh_token=[redacted]&state=5");
    check("credentials: abc", "credentials: [redacted]");
    check("passphrase=\"correct horse battery staple\" ok", "passphrase=\"[redacted]\" ok");
    check("password=\"unfinished", "password=\"[redacted]");
    check("https://host/cb?token=abc&x=1#f", "https://host/cb?token=[redacted]&x=1#f");
}

#[test]
fn secrets_in_json_and_in_json_within_json_go_to_their_closing_quote() {
    check(r#"{"password": "hunter two", "user": "bob"}"#, r#"{"password": "[redacted]", "user": "bob"}"#);
    check(r#"{"password":"a\"b","user":"bob"}"#, r#"{"password":"[redacted]","user":"bob"}"#);
    check(r#"{"token":12345}"#, r#"{"token":[redacted]}"#);
    check(r#"{\"password\":\"hunter two\",\"a\":1}"#, r#"{\"password\":\"[redacted]\",\"a\":1}"#);
    check("{'api_key': 'abc'}", "{'api_key': '[redacted]'}");
}

#[test]
fn flags_that_mean_a_secret_lose_their_value() {
    check("serve --token abc --port 80", "serve --token [redacted] --port 80");
    check("serve --password=abc", "serve --password=[redacted]");
    check("serve --api-key 'a b' x", "serve --api-key '[redacted]' x");
    check("serve --client-secret\tabc", "serve --client-secret\t[redacted]");
    check("serve --token", "serve --token");
    check("serve --token --secret abc", "serve --token --secret [redacted]");
}

#[test]
fn addresses_lose_their_user() {
    check("postgres://bob:hunter2@db:5432/x", "postgres://[redacted]@db:5432/x");
    check("https://abc@example.org/x", "https://[redacted]@example.org/x");
    check("redis://:p@ss@cache", "redis://[redacted]@cache");
    check("https://example.org/a@b", "https://example.org/a@b");
    check("url=\"amqp://u:p@mq\" next", "url=\"amqp://[redacted]@mq\" next");
}

#[test]
fn tokens_of_well_known_forms_go_wherever_they_stand() {
    let jwt = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1g";
    check(&format!("got {jwt} back"), "got [redacted] back");
    check(&format!("({jwt})"), "([redacted])");
    check("eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.", "[redacted]");
    check("ghp_0123456789abcdefABCD", "[redacted]");
    check("key sk-proj-0123456789abcdef.", "key [redacted]");
    check("xoxb-1234567890-abc", "[redacted]");
    check("AKIAIOSFODNN7EXAMPLE", "[redacted]");
    check("glpat-0123456789abcdefghij", "[redacted]");
    check("npm_0123456789abcdefghijABCD", "[redacted]");
    check("a Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4MTIz= b", "a [redacted] b");
}

#[test]
fn pem_blocks_go_whole_even_when_their_end_is_missing() {
    let key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAAK\n-----END RSA PRIVATE KEY-----";
    check(&format!("before\n{key}\nafter"), "before\n[redacted]\nafter");
    check("-----BEGIN PRIVATE KEY-----\nMIIEow\nIBAAK", "[redacted]");
    check("-----BEGIN OPENSSH PRIVATE KEY-----\\nb3Bl\\n-----END OPENSSH PRIVATE KEY-----!", "[redacted]!");
    check("----- BEGIN -----", "----- BEGIN -----");
}

#[test]
fn home_directories_are_not_told() {
    check("/home/alice/app/x.log", "~/app/x.log");
    check("/home/alice", "~");
    check("cd /home/bob-2.x && ls", "cd ~ && ls");
    check("file:///home/alice/x", "file://~/x");
    check("HOME=/home/alice", "HOME=~");
    check("/data/home/alice/x", "/data~/x");
    check("\"/Users/alice/x\"", "\"~/x\"");
    check("/root/.ssh/id", "~/.ssh/id");
    check("/root", "~");
    check("at /root:3", "at ~:3");
    check("/rootfs/x", "/rootfs/x");
    check("/srv/root/x", "/srv/root/x");
    check("/home/", "/home/");
}

#[test]
fn what_is_no_secret_stays() {
    let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    for text in [
        "",
        "the server ended with exit status 1",
        "total_tokens=15 max_tokens: 100",
        "progressToken: 7",
        "no password given",
        "the token is missing",
        "key=value",
        "keyboard: qwerty",
        "monkey: 1",
        "session=local/s1 operation=op-0123456789abcdefghjk",
        "123e4567-e89b-12d3-a456-426614174000",
        "2024-05-01T10:00:00.000Z",
        "Error: listen EADDRINUSE :::3000",
        "größe=5 — naïve ✓",
        digest,
    ] {
        check(text, text);
    }
}

#[test]
fn a_field_whose_name_means_a_secret_goes_whole() {
    assert_eq!(redact_field("TOKEN", "abc def"), "[redacted]");
    assert_eq!(redact_field("Authorization", "Bearer x"), "[redacted]");
    assert_eq!(redact_field("stderr", "password=x"), "password=[redacted]");
    assert_eq!(redact_field("tool", "write_file"), "write_file");
}

const SECRET: &str = "Zq7Zq7Zq7Zq7Zq7Zq7Zq7Zq7Zq7Zq7Zq7Zq7";

proptest::proptest! {
    #![proptest_config(proptest::test_runner::Config { failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_planted_secret_never_survives_whatever_stands_around_it(
        before in "\\PC{0,20}",
        sentence in proptest::sample::select(vec![
            "@", "password=@", "api_key: @", "\"token\": \"@\"", "--client-secret @", "Bearer @",
            "Authorization: @", "https://@@host/", "https://u:@@host/", "/home/@/x", "-----BEGIN KEY-----\n@",
        ]),
        after in "\\PC{0,20}",
    ) {
        let text = format!("{before} {} {after}", sentence.replacen('@', SECRET, 1));
        let redacted = redact(&text);
        proptest::prop_assert!(!redacted.contains(SECRET), "{text:?} → {redacted:?}");
    }
}
