//! Limits: how much, how many, how long.

use std::io::{Read as _, Write as _};

use serde_json::json;

use super::server::{Home, file, sha256};

#[test]
fn bodies_are_no_larger_than_they_may_be() {
    let home = Home::new();
    let server =
        home.serve(&["--commit-bytes", "20000", "--commit-files", "5", "--file-bytes", "1000"]).with_kernel();
    server.commit(&[file("a", &"x".repeat(30_000))]).refused(413, "longer than 20000");
    let files: Vec<_> = (0..6).map(|number| file(&number.to_string(), "x")).collect();
    server.commit(&files).refused(413, "more than 5 files");
    server.commit(&files[..5]).is(200);
    // Without a length, what is too much is seen as it comes.
    let mut raw = format!(
        "POST /api/kernels/me/k/commit/v1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nTransfer-Encoding: chunked\r\n\r\n",
        home.token
    )
    .into_bytes();
    for _ in 0..10 {
        raw.extend_from_slice(b"1000\r\n");
        raw.extend_from_slice(&[b'x'; 4096]);
        raw.extend_from_slice(b"\r\n");
    }
    let answer = server.raw(&raw);
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
    let object = json!({ "oid": sha256(b"x"), "size": 1001 });
    let batch = json!({ "operation": "upload", "transfers": ["basic"], "objects": [object] });
    let answer = server.post("/kernels/me/k.git/info/lfs/objects/batch", &batch).json();
    assert_eq!(answer["objects"][0]["error"]["code"], 413);
    assert!(answer["objects"][0].get("actions").is_none());
}

/// Memory of this process that is not of a file, at its highest or now, in bytes.
fn resident(server: &super::server::Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") * 1024
}

#[test]
fn commits_side_by_side_stay_on_the_disk() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    let size = 24 << 20;
    let before = resident(&server);
    std::thread::scope(|scope| {
        for number in 0..8_u8 {
            let (server, home) = (&server, &home);
            scope.spawn(move || {
                // Base64 of zeros and of one other byte.
                let content = format!(
                    "{}{}",
                    "AAAA".repeat(size / 3),
                    ["AQ==", "AAE=", "AAAA"][usize::from(number) % 3]
                );
                let value =
                    json!({ "path": format!("{number}.bin"), "content": content, "encoding": "base64" });
                let body = super::server::ndjson(&[json!({ "key": "file", "value": value })]);
                let path = "/api/kernels/me/k/commit/v1";
                server.ask("POST", path, &[], Some(&home.token), body).is(200);
            });
        }
    });
    let grown = resident(&server) - before;
    assert!(grown < 64 << 20, "{grown} bytes for 8 commits of {size}");
    let got = server.get("/kernels/me/k/resolve/v1/1.bin").body;
    assert_eq!((got.len(), &got[got.len() - 2..]), (size + 2, &[0, 1][..]));
    assert!(got[..size].iter().all(|byte| *byte == 0));
    let tree = server.get("/api/kernels/me/k/tree/v1").json();
    // `(head -c 25165824 /dev/zero; printf '\0\1') | git hash-object --stdin`
    let oid = tree.as_array().expect("a list").iter().find(|file| file["path"] == "1.bin").expect("a file");
    assert_eq!(oid["oid"], "69221885974b2e67733683686135c0472a48d878");
    // Text as JSON writes it, and what is not base64 far from its beginning.
    let text = "a \"line\" \\ \u{1F980}\n".repeat(10_000);
    server.commit(&[file("long.txt", &text)]).is(200);
    assert_eq!(server.get("/kernels/me/k/resolve/v1/long.txt").body, text.as_bytes());
    for (content, words) in [("AAAA".repeat(9000) + "!AAA", "not valid"), ("A".repeat(9001), "not valid")] {
        let value = json!({ "path": "x", "content": content, "encoding": "base64" });
        server.commit(&[json!({ "key": "file", "value": value })]).refused(400, words);
    }
    assert_eq!(std::fs::read_dir(home.path().join("tmp")).expect("a folder").count(), 0);
}

#[test]
fn an_answer_before_the_body_says_that_the_connection_ends() {
    let home = Home::new();
    let server = home.serve(&["--commit-bytes", "20000", "--commit-files", "5"]).with_kernel();
    // An answer is there before any of the body is: a client must not ask again on that connection.
    for (path, token, status) in [
        ("/api/kernels/me/k/commit/v1", home.token.as_str(), 413),
        ("/api/kernels/me/k/commit/v1", "kwhub_0", 401),
        ("/api/validate-yaml", home.token.as_str(), 200),
    ] {
        for length in ["Content-Length: 16777216", "Content-Length: 16777216\r\nExpect: 100-continue"] {
            let mut stream = server.connect();
            let head = format!(
                "POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{length}\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).expect("a head");
            let mut text = String::new();
            stream.read_to_string(&mut text).expect("an answer, and its end");
            assert!(text.starts_with(&format!("HTTP/1.1 {status} ")), "{text}");
            assert!(text.contains("\r\nconnection: close\r\n"), "{text}");
            // The body is taken all the same: it is more than the system holds, so a reset would be seen.
            stream.write_all(&vec![b'x'; 16 << 20]).expect("a body");
        }
    }
    // After a body that was read, a refusal is no reason to end it.
    let files: Vec<_> = (0..6).map(|number| file(&number.to_string(), "x")).collect();
    for answer in [server.commit(&files), server.commit(&files[..5]), server.get("/healthz")] {
        assert_eq!(answer.headers.get("connection"), None, "{}", answer.status);
    }
}

#[test]
fn heads_that_are_no_http_are_refused() {
    let server = Home::new().serve(&[]);
    for head in [
        "GET\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
    ] {
        let answer = server.raw(head.as_bytes());
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400 "), "{head:?}: {answer}");
    }
    let smuggled = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello";
    assert!(server.raw(smuggled.as_bytes()).starts_with("HTTP/1.1 400 "));
    let long = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
    assert!(server.raw(long.as_bytes()).starts_with("HTTP/1.1 431 "));
    let host = "GET / HTTP/1.1\r\nHost: a/../b\"\r\nConnection: close\r\n\r\n";
    assert!(server.raw(host.as_bytes()).starts_with("HTTP/1.1 400 "));
    server.get("/healthz").is(200);
}

#[test]
fn slow_clients_are_let_go() {
    let home = Home::new();
    let server = home.serve(&["--head-timeout", "1", "--stall-timeout", "1"]).with_kernel();
    // A head that does not end; a body that does not come. Both end because the hub closes, which is waited for.
    let mut head = server.connect();
    head.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n").expect("a head");
    let mut text = String::new();
    let _closed = head.read_to_string(&mut text);
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 408 "), "{text}");
    let mut body = server.connect();
    let line = format!(
        "POST /api/kernels/me/k/commit/v1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 100\r\n\r\n",
        home.token
    );
    body.write_all(line.as_bytes()).expect("a head");
    let mut text = String::new();
    let _closed = body.read_to_string(&mut text);
    assert!(!text.contains("200 OK"), "{text}");
    assert!(String::from_utf8_lossy(&server.get("/metrics").body).contains("stalled_total 1\n"));
    server.commit(&[file("a", "b")]).is(200);
}

#[test]
fn one_connection_too_many_waits_for_its_turn() {
    let home = Home::new();
    let server = home.serve(&["--connections", "2"]);
    let first = server.connect();
    let second = server.connect();
    let mut third = server.connect();
    third.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").expect("a request");
    drop((first, second));
    let mut text = String::new();
    third.read_to_string(&mut text).expect("an answer");
    assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
}

/// A hub whose log goes into a pipe, and its address.
fn logging(home: &Home) -> (std::process::Child, String) {
    let mut child = std::process::Command::new(super::server::PROGRAM)
        .arg(home.path())
        .args(["--bind", "127.0.0.1:0"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the hub starts");
    let mut line = String::new();
    let out = child.stdout.take().expect("a pipe");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line).expect("a line");
    (child, line.trim_end().to_owned())
}

#[test]
fn a_log_that_nobody_reads_any_more_stops_nothing() {
    let home = Home::new();
    let (mut child, url) = logging(&home);
    drop(child.stderr.take());
    let agent: ureq::Agent = ureq::Agent::config_builder().proxy(None).build().new_agent();
    let metrics = format!("{url}/metrics");
    for _ in 0..3 {
        let text = agent.get(&metrics).call().expect("an answer").body_mut().read_to_string().expect("text");
        // What a panic would leave behind.
        assert!(text.contains("requests_in_flight 1\n") && text.contains("connections 1\n"), "{text}");
    }
    child.kill().expect("it runs");
    child.wait().expect("it ends");
}

#[test]
fn a_log_has_who_did_what_and_no_secret() {
    let home = Home::new();
    let (child, url) = logging(&home);
    let agent: ureq::Agent =
        ureq::Agent::config_builder().proxy(None).http_status_as_error(false).build().new_agent();
    let url = format!("{url}/api/repos/create?signature=s3cret");
    let request = agent.post(&url).header("Authorization", format!("Bearer {}", home.token));
    let body = json!({ "name": "k", "organization": "me", "type": "kernel" }).to_string();
    assert_eq!(request.send(&body).expect("an answer").status(), 200);
    let wrong = agent.get(&url).header("Authorization", "Bearer hunter2").call().expect("an answer");
    assert_eq!(wrong.status(), 401);
    // The server waits for the client's end of the connection to close, for up to ten seconds.
    drop(wrong);
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().expect("kill").success());
    drop(agent);
    let output = child.wait_with_output().expect("an end");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(!log.contains(&home.token) && !log.contains("hunter2") && !log.contains("s3cret"), "{log}");
    let lines: Vec<serde_json::Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
        .collect();
    let made = lines.iter().find(|line| line["path"] == "/api/repos/create").expect("a line");
    assert_eq!(
        (&made["who"], &made["status"], &made["method"]),
        (&json!("writer"), &json!(200), &json!("POST"))
    );
    assert!(lines.iter().any(|line| line["who"] == "refused" && line["status"] == 401));
}
