//! kill -9, and ending as told: what was acknowledged is there.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::server::{Home, PROGRAM, file};

#[test]
fn kill_9_in_the_middle_of_100_commits_loses_none_that_was_acknowledged() {
    let home = Home::new();
    drop(home.serve(&[]).with_kernel());
    let (mut acknowledged, mut kills) = (Vec::new(), 0);
    // Killed after every 25th answer, with three others under way, until 100 were acknowledged.
    while acknowledged.len() < 100 {
        let server = home.serve(&[]);
        let number = AtomicUsize::new(0);
        let answered = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let (server, number, answered, round) = (&server, &number, &answered, kills);
                scope.spawn(move || {
                    while number.fetch_add(1, Ordering::Relaxed) < 40 {
                        let count = number.load(Ordering::Relaxed);
                        let name = format!("{round}/{worker}-{count}");
                        // None: the hub is dead, and what was asked may or may not have happened.
                        let Some(done) = server.try_commit(&[file(&name, &name)]) else { return };
                        if done.status == 200 {
                            let id = done.json()["commitOid"].as_str().expect("an id").to_owned();
                            let mut answered = answered.lock().expect("no panic");
                            answered.push((name, id));
                            if answered.len() == 25 {
                                server.kill_now();
                            }
                        }
                    }
                });
            }
        });
        acknowledged.extend(answered.into_inner().expect("no panic"));
        kills += 1;
        server.kill();
    }
    assert!(kills >= 3, "{kills} rounds");
    let server = home.serve(&[]);
    let tree = server.get("/api/kernels/me/k/tree/v1?recursive=true").json();
    let paths: Vec<&str> =
        tree.as_array().expect("a list").iter().filter_map(|file| file["path"].as_str()).collect();
    let history = server.get("/api/kernels/me/k/commits/v1").json();
    let ids: Vec<&str> =
        history.as_array().expect("a list").iter().filter_map(|commit| commit["id"].as_str()).collect();
    for (name, id) in &acknowledged {
        assert!(paths.contains(&name.as_str()), "{name} is lost");
        assert!(ids.contains(&id.as_str()), "the commit {id} is lost");
        assert_eq!(server.get(&format!("/kernels/me/k/resolve/v1/{name}")).body, name.as_bytes());
    }
    drop(server);
    let left = std::fs::read_dir(home.path().join("tmp")).expect("a folder").count();
    assert_eq!(left, 0, "half-written files stay");
    let checked =
        std::process::Command::new(PROGRAM).arg("check").arg(home.path()).output().expect("it starts");
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[test]
fn sigterm_answers_what_is_in_work_and_takes_nothing_new() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    server.large("big.bin", &vec![7; 64 << 20]);
    let mut stream = server.connect();
    std::io::Write::write_all(
        &mut stream,
        b"GET /kernels/me/k/resolve/v1/big.bin HTTP/1.1\r\nHost: x\r\n\r\n",
    )
    .unwrap();
    // It has begun to answer when the first byte is there; far more is to come than any socket holds.
    let mut first = [0];
    std::io::Read::read_exact(&mut stream, &mut first).unwrap();
    server.terminate();
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut stream, &mut rest).unwrap();
    assert!(rest.len() > 64 << 20, "the answer was cut after {} bytes", rest.len());
    assert!(
        std::net::TcpStream::connect(server.url.strip_prefix("http://").unwrap()).is_err(),
        "it still listens"
    );
    // The server waits for the clients' ends of its connections to close, for up to ten seconds.
    drop(stream);
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn one_folder_has_one_server_and_is_nobody_elses() {
    let home = Home::new();
    let _server = home.serve(&[]);
    let second = std::process::Command::new(PROGRAM)
        .arg(home.path())
        .args(["--bind", "127.0.0.1:0"])
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success() && told.contains("in use by another hub process"), "{told}");
    let foreign = tempfile::tempdir().unwrap();
    std::fs::write(foreign.path().join("thesis.txt"), "years of work").unwrap();
    let third = std::process::Command::new(PROGRAM).arg(foreign.path()).output().unwrap();
    let told = String::from_utf8_lossy(&third.stderr);
    assert!(!third.status.success() && told.contains("not the folder of a hub"), "{told}");
    assert_eq!(std::fs::read_dir(foreign.path()).unwrap().count(), 1, "something was left there");
}

#[test]
fn a_first_start_that_was_killed_is_no_end() {
    // Before it said whose folder it is, with what `token new` and a file system leave there; and right behind it.
    for names in [&["lock", "tokens.new", "tokens.lock", "tmp/0123", "lost+found/x"][..], &["format", "lock"]]
    {
        let home = Home::new();
        for name in names {
            let path = home.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, if *name == "format" { "kernelwright-hub 1\n" } else { "" }).unwrap();
        }
        let server = home.serve(&[]).with_kernel();
        server.commit(&[file("a", "b")]).is(200);
        assert_eq!(std::fs::read_dir(home.path().join("tmp")).unwrap().count(), 0);
    }
}

#[test]
fn a_folder_without_a_hub_is_not_checked_and_not_made() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [&["check"][..], &["token", "revoke"]] {
        let mut command = std::process::Command::new(PROGRAM);
        command.args(arguments).arg(dir.path().join("typo"));
        if arguments.len() == 2 {
            command.arg("ci");
        }
        let output = command.output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.code() == Some(1)
                && told.contains("not found") | told.contains("not the folder of a hub"),
            "{told}"
        );
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn damage_is_found() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    server.commit(&[file("a.txt", "what it says")]).is(200);
    drop(server);
    let blob = home.path().join("blobs/sha256");
    let digest = super::server::sha256(b"what it says");
    let blob = blob.join(&digest[..2]).join(&digest[2..]);
    std::fs::write(&blob, "what it sayz").unwrap();
    let checked = std::process::Command::new(PROGRAM).arg("check").arg(home.path()).output().unwrap();
    let told = String::from_utf8_lossy(&checked.stdout);
    assert!(!checked.status.success() && told.contains("a.txt") && told.contains("digest"), "{told}");
    std::fs::remove_file(&blob).unwrap();
    let server = home.serve(&[]);
    server.get("/kernels/me/k/resolve/v1/a.txt").refused(500, "see its log");
    assert_eq!(server.get("/api/kernels/me/k/refs").json()["tags"], json!([]));
}

/// The blob with this content, and one that was damaged in place of it: of the same size.
fn damage(home: &Home, content: &[u8]) -> std::path::PathBuf {
    let digest = super::server::sha256(content);
    let path = home.path().join("blobs/sha256").join(&digest[..2]).join(&digest[2..]);
    let mut other = std::fs::read(&path).unwrap();
    other[0] ^= 1;
    std::fs::write(&path, other).unwrap();
    path
}

#[test]
fn a_damaged_file_is_not_served_and_the_right_one_mends_it() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    let (small, large) = ("what it says", vec![7_u8; 300_000]);
    server.commit(&[file("a.txt", small)]).is(200);
    server.large("x.so", &large);
    let read = |path: &str| server.get(&format!("/kernels/me/k/resolve/v1/{path}"));
    let oid = |path: &str| {
        let body = json!({ "files": [{ "path": path, "size": 3, "sample": "" }] });
        server.post("/api/kernels/me/k/preupload/v1", &body).json()["files"][0]["oid"].clone()
    };
    for (path, content) in [("a.txt", small.as_bytes()), ("x.so", &large)] {
        read(path).is(200);
        assert!(oid(path).is_string());
        let blob = damage(&home, content);
        for range in [&[][..], &[("Range", "bytes=5-9")]] {
            let answer = server.ask("GET", &format!("/kernels/me/k/resolve/v1/{path}"), range, None, "");
            answer.refused(500, "is damaged (see its log); upload the file again");
        }
        // A client does not send what it is told is there.
        assert!(oid(path).is_null());
        if path == "x.so" {
            server.large(path, &large);
        } else {
            server.commit(&[file(path, small)]).is(200);
        }
        assert_eq!(std::fs::read(blob).unwrap(), content);
        assert_eq!(read(path).body, content);
    }
}

fn gc(home: &Home, options: &[&str]) -> (Option<i32>, String) {
    let output =
        std::process::Command::new(PROGRAM).arg("gc").arg(home.path()).args(options).output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&told).into_owned())
}

#[test]
fn gc_frees_what_no_commit_names_and_nothing_else() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    let gone = vec![1_u8; 100_000];
    server
        .post("/api/repos/create", &json!({ "name": "brief", "organization": "me", "type": "kernel" }))
        .is(200);
    let lines = super::server::ndjson(&[file("gone.txt", &"x".repeat(5000))]);
    server.ask("POST", "/api/kernels/me/brief/commit/main", &[], Some(&home.token), lines).is(200);
    server.large("kept.so", &[2; 1000]);
    let before = server.get("/api/kernels/me/k/revision/v1").json()["sha"].as_str().unwrap().to_owned();
    server.commit(&[json!({ "key": "deletedFile", "value": { "path": "kept.so" } })]).is(200);
    // Sent and never committed.
    let object = json!({ "oid": super::server::sha256(&gone), "size": gone.len() });
    let batch = json!({ "operation": "upload", "transfers": ["basic"], "objects": [object] });
    let href = |server: &super::server::Server| {
        let answer = server.post("/kernels/me/k.git/info/lfs/objects/batch", &batch).json();
        answer["objects"][0]["actions"]["upload"]["href"].as_str().map(str::to_owned)
    };
    server.ask("PUT", &href(&server).unwrap(), &[], None, &gone).is(200);
    let body = json!({ "name": "brief", "organization": "me", "type": "kernel" }).to_string();
    server.ask("DELETE", "/api/repos/delete", &[], Some(&home.token), body).is(200);
    let (code, told) = gc(&home, &[]);
    assert!(code == Some(1) && told.contains("in use by another hub process; stop it first"), "{told}");
    drop(server);
    let (code, would) = gc(&home, &["--dry-run"]);
    assert!(code == Some(0) && would.starts_with("would free "), "{would}");
    let (code, did) = gc(&home, &[]);
    assert!(code == Some(0) && did == would.replace("would free", "freed"), "{would}{did}");
    let bytes: u64 = did.split(' ').nth(1).unwrap().parse().unwrap();
    assert!((105_000..107_000).contains(&bytes), "{did}");
    assert!(gc(&home, &[]).1.starts_with("freed 0 bytes in 0 files"));
    let server = home.serve(&[]);
    // An older commit stays as it was; what is gone is asked for again.
    assert_eq!(server.get(&format!("/kernels/me/k/resolve/{before}/kept.so")).body, [2; 1000]);
    assert!(href(&server).is_some());
    drop(server);
    // Where a commit cannot be read, what it names is not known.
    std::fs::write(home.path().join("kernels/me/k/commits").join(&before), "{}").unwrap();
    let (code, told) = gc(&home, &[]);
    assert!(code == Some(1) && told.contains("nothing was removed") && told.contains(&before), "{told}");
}

#[test]
fn a_commit_that_was_changed_is_found_and_not_believed() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    server.commit(&[file("a.txt", "x")]).is(200);
    let id = server.get("/api/kernels/me/k/revision/v1").json()["sha"].as_str().unwrap().to_owned();
    drop(server);
    let path = home.path().join("kernels/me/k/commits").join(&id);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("a change", "a chance")).unwrap();
    let checked = std::process::Command::new(PROGRAM).arg("check").arg(home.path()).output().unwrap();
    let told = String::from_utf8_lossy(&checked.stdout);
    assert!(!checked.status.success() && told.contains(&id) && told.contains("digest"), "{told}");
    home.serve(&[]).get("/kernels/me/k/resolve/v1/a.txt").refused(500, "see its log");
}
