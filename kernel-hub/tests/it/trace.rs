//! The log of what the hub does: events of each target are in it, and no secret is.

use std::process::Command;

use serde_json::json;

use super::server::{Home, PROGRAM, sha256};

#[test]
fn the_log_has_storage_auth_and_connections_and_no_secrets() {
    let home = Home::new();
    let reader = home.token(&["reader", "--scope", "read"]);
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("hub.log");
    let path = log.to_str().expect("UTF-8");
    let server = home.serve(&["-vv", "--log-file", path]).with_kernel();
    server.large("x.so", b"\0large");
    server.get("/kernels/me/k/resolve/v1/x.so?secret=inquery").is(200);
    // A token that another hub has given, and this hub's own ones in the wrong places.
    server.ask("GET", "/api/whoami-v2", &[], Some("hf_ofanotherhub"), "").is(401);
    let body = json!({ "name": "other", "organization": "me", "type": "kernel" }).to_string();
    server.ask("POST", "/api/repos/create", &[], Some(&reader), body).is(403);
    let misplaced = format!("/api/kernels/me/{}", home.token);
    server.ask("GET", &misplaced, &[], Some("hf_ofanotherhub"), "").is(401);
    let xet = server.ask("GET", "/api/kernels/me/k/xet-write-token/v1", &[], Some(&home.token), "").json();
    let xet = xet["accessToken"].as_str().expect("a token").to_owned();
    // Signed for one content, sent another one.
    let object = json!({ "oid": sha256(b"good"), "size": 4 });
    let batch = json!({ "operation": "upload", "transfers": ["basic"], "objects": [object] });
    let answer = server.post("/kernels/me/k.git/info/lfs/objects/batch", &batch).json();
    let href = answer["objects"][0]["actions"]["upload"]["href"].as_str().expect("an address").to_owned();
    server.ask("PUT", &href, &[], None, b"evil").refused(400, "hash mismatch");
    let signature = href.rsplit_once("signature=").expect("a signature").1.to_owned();
    server.raw(b"GARBAGE\r\n\r\n");
    server.terminate();
    server.wait();
    let swept = Command::new(PROGRAM).arg("gc").arg(home.path()).args(["-v", "--log-file", path]).status();
    assert!(swept.expect("the program starts").success());

    let text = std::fs::read_to_string(&log).expect("a log");
    for expected in [
        "INFO hub: kernelwright-hub ",
        "INFO storage: me/k: created by writer",
        "INFO storage: me/k: Branch v1 created at ",
        "DEBUG storage: blob ",
        &format!("INFO storage: me/k: large file {} stored, 6 bytes", sha256(b"\0large")),
        "to v1 by writer, 2 files",
        &format!("WARN storage: me/k: digest mismatch: the upload announced {}", sha256(b"good")),
        "INFO storage: gc: Remove, ",
        "DEBUG auth: POST /api/repos/create: token `writer`",
        "INFO auth: GET /api/whoami-v2: unknown token",
        "INFO auth: refused: reader may not write in this hub",
        "INFO auth: GET /api/kernels/me/***: unknown token",
        "INFO connection: 127.0.0.1: ",
    ] {
        assert!(text.contains(expected), "`{expected}` is not in\n{text}");
    }
    let secrets = [&home.token, &reader, &signature, &xet];
    let secrets = secrets.into_iter().map(String::as_str);
    for secret in secrets.chain(["hf_ofanotherhub", "inquery", "Bearer", "uthorization", "signature="]) {
        assert!(!text.contains(secret), "`{secret}` is in\n{text}");
    }
}

#[test]
fn the_log_is_off_unless_it_is_asked_for() {
    let home = Home::new();
    let list = |level: Option<&str>, arguments: &[&str]| {
        let mut command = Command::new(PROGRAM);
        command.arg("gc").arg(home.path()).arg("--dry-run").args(arguments);
        command.env_remove("KERNELWRIGHT_LOG").env_remove("KERNELWRIGHT_LOG_FILE");
        let output = command.envs(level.map(|level| ("KERNELWRIGHT_LOG", level))).output();
        let output = output.expect("the program starts");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    // The folder of a hub comes with its first start.
    home.serve(&[]).kill();
    assert_eq!(list(None, &[]), (Some(0), String::new()));
    assert_eq!(list(Some("auth=debug"), &[]), (Some(0), String::new()));
    let (code, text) = list(Some("storage=info"), &[]);
    assert!(code == Some(0) && text.contains("INFO storage: gc: DryRun, "), "{text}");
    let (_, text) = list(None, &["-v"]);
    assert!(text.contains("INFO storage: gc: DryRun, "), "{text}");
    let (code, text) = list(Some("auth=loud"), &[]);
    assert!(
        code == Some(2) && text.starts_with("error: KERNELWRIGHT_LOG is not a valid log filter"),
        "{text}"
    );
    let (code, text) = list(None, &["--log-file", "/nowhere/hub.log"]);
    assert!(code == Some(2) && text.starts_with("error: failed to open the log file /nowhere/"), "{text}");
}
