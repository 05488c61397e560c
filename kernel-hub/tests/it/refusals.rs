//! What is refused: wrong tokens, paths that leave, digests that are not those of the content, bodies that are no commits.

use serde_json::{Value, json};

use super::server::{Home, file, ndjson, sha256};

fn link(path: &str, oid: &str, size: usize) -> Value {
    json!({ "key": "lfsFile", "value": { "path": path, "algo": "sha256", "oid": oid, "size": size } })
}

#[test]
fn tokens_open_what_they_say_and_nothing_else() {
    let home = Home::new();
    let reader = home.token(&["reader", "--scope", "read"]);
    let other = home.token(&["other", "--scope", "write", "--org", "you"]);
    let server = home.serve(&[]).with_kernel();
    let commit = |token: Option<&str>| {
        server.ask("POST", "/api/kernels/me/k/commit/v1", &[], token, ndjson(&[file("a", "b")]))
    };
    commit(None).refused(401, "scope `write`");
    commit(Some("kwhub_0")).refused(401, "Invalid credentials");
    commit(Some("")).refused(401, "Invalid credentials");
    commit(Some(&reader)).refused(403, "may not write");
    // Also when the body is not read for it.
    let large = vec![b' '; 1 << 20];
    let refused = server.ask("POST", "/api/kernels/me/k/commit/v1", &[], Some(&reader), large);
    refused.refused(403, "may not write");
    commit(Some(&other)).refused(403, "may not write in `me`");
    let create = |token: &str| {
        let body = json!({ "name": "x", "organization": "me", "type": "kernel" }).to_string();
        server.ask("POST", "/api/repos/create", &[], Some(token), body)
    };
    create(&reader).refused(403, "may not write");
    create(&other).refused(403, "may not write in `me`");
    // A wrong token is refused where none is needed, too: whoever sends one has made a mistake.
    server.ask("GET", "/api/kernels/me/k/refs", &[], Some("kwhub_0"), "").refused(401, "Invalid credentials");
    server.ask("GET", "/api/whoami-v2", &[], Some(&reader), "").is(200);
    server.get("/api/whoami-v2").refused(401, "no token");
    let basic = [("Authorization", "Basic d3JpdGVyOng=")];
    server.ask("GET", "/api/kernels/me/k/refs", &basic, None, "").refused(401, "Invalid credentials");
    assert!(String::from_utf8_lossy(&server.get("/metrics").body).contains("wrong_tokens_total 4\n"));

    // Revoked while the hub runs.
    let mut revoke = std::process::Command::new(super::server::PROGRAM);
    revoke.args(["token", "revoke"]).arg(home.path()).arg("reader");
    assert!(revoke.status().expect("it starts").success());
    server.ask("GET", "/api/whoami-v2", &[], Some(&reader), "").refused(401, "Invalid credentials");
}

#[test]
fn a_closed_hub_shows_nothing_to_strangers() {
    let home = Home::new();
    let yours = home.token(&["yours", "--scope", "read", "--org", "you"]);
    let server = home.serve(&["--anonymous", "none"]).with_kernel();
    for path in [
        "/",
        "/me/k",
        "/metrics",
        "/api/kernels",
        "/api/kernels/me/k",
        "/api/kernels/me/k/refs",
        "/kernels/me/k/resolve/v1/a",
    ] {
        server.get(path).is(401);
    }
    server.get("/healthz").is(200);
    server.ask("GET", "/api/kernels/me/k/refs", &[], Some(&yours), "").refused(403, "may not read in `me`");
    assert_eq!(server.ask("GET", "/api/kernels", &[], Some(&yours), "").json(), json!([]));
    let page = server.ask("GET", "/", &[], Some(&yours), "");
    assert!(!String::from_utf8_lossy(&page.body).contains("me/k"));
    let open = std::process::Command::new(super::server::PROGRAM)
        .arg(home.path().join("else"))
        .args(["--anonymous", "write", "--bind", "0.0.0.0:0"])
        .output()
        .expect("it starts");
    assert!(String::from_utf8_lossy(&open.stderr).contains("requires a loopback address"));
}

#[test]
fn a_page_of_the_web_writes_nothing_where_everybody_may() {
    let home = Home::new();
    let server = home.serve(&["--anonymous", "write"]);
    let body = json!({ "name": "k", "organization": "me", "type": "kernel" }).to_string();
    // What a browser sends without asking first.
    let page = [("Origin", "https://evil.example"), ("Content-Type", "text/plain")];
    server.ask("POST", "/api/repos/create", &page, None, &body).refused(403, "web page");
    server.get("/api/kernels/me/k").is(404);
    server.ask("POST", "/api/repos/create", &page, Some(&home.token), &body).is(200);
    server
        .ask("POST", "/api/kernels/me/k/commit/main", &page, None, ndjson(&[file("a", "b")]))
        .refused(403, "web page");
    server.ask("POST", "/api/kernels/me/k/commit/main", &[], None, ndjson(&[file("a", "b")])).is(200);
    server.ask("GET", "/api/kernels/me/k/refs", &page, None, "").is(200);
}

#[test]
fn addresses_of_the_hub_itself_are_addresses() {
    for text in ["hub.example.org", "https://", "ftp://x", "https:///x", "https://a b", "http://x/?y", ""] {
        let output = std::process::Command::new(super::server::PROGRAM)
            .args(["nowhere", "--public-url", text])
            .output()
            .expect("it starts");
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && told.contains("https://HOST"), "{text}: {told}");
    }
    let home = Home::new();
    let server = home.serve(&["--public-url", "https://hub.example.org/"]);
    let body = json!({ "name": "k", "organization": "me", "type": "kernel" });
    let made = server.post("/api/repos/create", &body).json();
    assert_eq!(made["url"], "https://hub.example.org/kernels/me/k");
}

#[test]
fn paths_never_leave_their_kernel() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    std::fs::write(home.path().join("secret"), "hunter2").expect("a file");
    let before = std::fs::read_dir(home.path()).expect("a folder").count();
    for path in [
        "../secret",
        "/etc/passwd",
        "a/../../x",
        "a\\b",
        "a\u{0}b",
        "a//b",
        "./a",
        "",
        "a/",
        ".git/config",
        "a\nb",
    ] {
        server.commit(&[file(path, "x")]).refused(400, "line 2");
        server.commit(&[link(path, &sha256(b"x"), 1)]).refused(400, "line 2");
        server.commit(&[json!({ "key": "deletedFile", "value": { "path": path } })]).refused(400, "line 2");
    }
    server.commit(&[file(&"x/".repeat(600), "x")]).refused(400, "line 2");
    // As bytes: a client would tidy them up.
    for target in [
        "/kernels/me/k/resolve/v1/../../../../../../secret",
        "/kernels/me/k/resolve/v1/%2e%2e/%2e%2e/%2e%2e/secret",
        "/kernels/me/k/resolve/v1/..%2f..%2f..%2fsecret",
        "/kernels/me/k/resolve/..%2f..%2f/secret",
        "/kernels/../../secret",
        "/kernels/me%2f..%2f../k/resolve/v1/a",
        "/kernels/me/k/resolve/v1//etc/passwd",
        "/kernels/me/k/resolve/v1/a%00",
        "/api/kernels/me/k/tree/v1/%2e%2e",
        "/lfs/../../secret",
    ] {
        let answer =
            server.raw(format!("GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").as_bytes());
        let status = answer.split(' ').nth(1).unwrap_or_default();
        assert!(matches!(status, "400" | "404" | "405") && !answer.contains("hunter2"), "{target}: {answer}");
    }
    for name in ["../x", "a/../b", "x y", "", "refs/heads/../../x"] {
        let body = json!({ "tag": name });
        server.post("/api/kernels/me/k/tag/v1", &body).refused(400, "branch or tag");
    }
    for (org, name) in [("..", "x"), ("me", ".."), ("me", "a/b"), ("api", "x"), ("me", "")] {
        let body = json!({ "name": name, "organization": org, "type": "kernel" });
        server.post("/api/repos/create", &body).is(400);
    }
    assert_eq!(std::fs::read_dir(home.path()).expect("a folder").count(), before);
}

#[test]
fn digests_must_be_those_of_what_was_sent() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    let content = b"not what it says";
    let said = sha256(b"what it says");
    let batch = |oid: &str, size: usize| {
        let object = json!({ "oid": oid, "size": size });
        let body = json!({ "operation": "upload", "transfers": ["basic"], "objects": [object] });
        server.post("/kernels/me/k.git/info/lfs/objects/batch", &body)
    };
    let href = |oid: &str, size: usize| {
        let answer = batch(oid, size).json();
        answer["objects"][0]["actions"]["upload"]["href"].as_str().expect("an address").to_owned()
    };
    let put = |href: &str, content: &[u8]| server.ask("PUT", href, &[], None, content);
    // Other content, fewer and more bytes than promised.
    put(&href(&said, content.len()), content).refused(400, "hash mismatch");
    put(&href(&said, content.len() + 1), content).refused(400, "announced");
    put(&href(&said, 3), content).refused(400, "announced");
    server.commit(&[link("x.so", &said, content.len())]).refused(400, "was not sent");
    // An address for another digest, size, kernel or time.
    let good = href(&said, 12);
    for (from, to) in [
        (said.as_str(), sha256(content)),
        ("size=12", "size=16".to_owned()),
        ("repo=me/k", "repo=me/j".to_owned()),
        ("until=", "until=9".to_owned()),
        ("signature=", "signature=00".to_owned()),
    ] {
        put(&good.replacen(from, &to, 1), b"what it says").refused(403, "not signed");
    }
    put(&format!("/lfs/{said}"), b"what it says").refused(403, "not signed");
    put(&good, b"what it says").is(200);
    server.commit(&[link("x.so", &said, 11)]).refused(400, "not the size in the commit");
    server.commit(&[link("x.so", &said, 12)]).is(200);
    batch("ABC", 3).refused(400, "SHA-256");
    batch(&"A".repeat(64), 3).refused(400, "SHA-256");

    // Who knows a digest of another kernel need not have the content.
    let body = json!({ "name": "thief", "organization": "me", "type": "kernel" });
    server.post("/api/repos/create", &body).is(200);
    let steal = ndjson(&[link("x.so", &said, 12)]);
    let token = Some(home.token.as_str());
    server.ask("POST", "/api/kernels/me/thief/commit/main", &[], token, steal).refused(400, "was not sent");
    // What failed left nothing.
    assert_eq!(std::fs::read_dir(home.path().join("tmp")).expect("a folder").count(), 0);
}

#[test]
fn bodies_that_are_no_commits_change_nothing() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    server.commit(&[file("a", "1")]).is(200);
    let head =
        |server: &super::server::Server| server.get("/api/kernels/me/k/revision/v1").json()["sha"].clone();
    let before = head(&server);
    let send = |body: &[u8]| server.ask("POST", "/api/kernels/me/k/commit/v1", &[], Some(&home.token), body);
    let good = ndjson(&[file("b", "2")]).into_bytes();
    for body in [&b"{"[..], b"[]", b"\xff\xfe\x00", b"null\n", b"{\"key\":\"file\",\"value\":{}}", b"\n\n\n"]
    {
        send(body).is(400);
    }
    // Every beginning of a good body is refused, but for its last line end.
    for end in (0..good.len() - 1).step_by(7) {
        assert_eq!(send(&good[..end.max(1)]).status, 400, "{end}");
    }
    // One bad line spoils the whole.
    server.commit(&[file("b", "2"), file("../c", "3")]).refused(400, "line 3");
    server
        .commit(&[file("b", "2"), json!({ "key": "deletedFile", "value": { "path": "gone" } })])
        .refused(404, "doesn't exist");
    server.commit(&[file("a/b", "2")]).refused(400, "is a file");
    assert_eq!(head(&server), before);
    assert_eq!(server.get("/api/kernels/me/k/tree/v1").json().as_array().map(Vec::len), Some(2));
    // Later than what it builds on.
    let header = json!({ "key": "header", "value": { "summary": "s", "parentCommit": "0".repeat(40) } });
    let late = format!("{header}\n{}\n", file("b", "2"));
    send(late.as_bytes()).refused(412, "a commit has happened since");
}

#[test]
fn other_types_and_methods_are_told_apart_from_what_is_not_there() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    server.get("/api/datasets/me/k/refs").refused(404, "kernels only");
    server.get("/api/nothing").refused(404, "nothing at this address");
    server.ask("PUT", "/api/kernels/me/k/refs", &[], Some(&home.token), "x").is(405);
    let gone = server.get("/api/kernels/me/gone/refs");
    assert_eq!((gone.status, gone.header("x-error-code")), (404, "RepoNotFound"));
    let gone = server.get("/kernels/me/k/resolve/v1/gone");
    assert_eq!((gone.status, gone.header("x-error-code")), (404, "EntryNotFound"));
    assert_eq!(gone.header("x-repo-commit").len(), 40);
    let gone = server.get("/api/kernels/me/k/revision/v7");
    assert_eq!((gone.status, gone.header("x-error-code")), (404, "RevisionNotFound"));
    let private = json!({ "name": "x", "organization": "me", "type": "kernel", "visibility": "private" });
    server.post("/api/repos/create", &private).refused(400, "no private kernels");
    let token = Some(home.token.as_str());
    server
        .ask("DELETE", "/api/kernels/me/k/branch/main", &[], token, "")
        .refused(400, "Cannot delete refs/heads/main");
}

#[test]
fn refusals_of_branches_have_the_words_that_huggingface_hub_expects() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    let branch = |name: &str| format!("/api/kernels/me/k/branch/{name}");
    server.post(&branch("v1"), &json!({})).refused(409, "Reference refs/heads/v1 already exists");
    server.post(&branch("main"), &json!({})).refused(409, "Reference refs/heads/main already exists");
    let deleted = server.ask("DELETE", &branch("main"), &[], Some(&home.token), "");
    deleted.refused(400, "Cannot delete refs/heads/main");
    let tag = json!({ "tag": "t1" });
    server.post("/api/kernels/me/k/tag/main", &tag).is(200);
    server.post("/api/kernels/me/k/tag/main", &tag).refused(409, "Reference refs/tags/t1 already exists");
}
