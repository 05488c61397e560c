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
    assert!(!second.status.success() && told.contains("served by another process"), "{told}");
    let foreign = tempfile::tempdir().unwrap();
    std::fs::write(foreign.path().join("thesis.txt"), "years of work").unwrap();
    let third = std::process::Command::new(PROGRAM).arg(foreign.path()).output().unwrap();
    let told = String::from_utf8_lossy(&third.stderr);
    assert!(!third.status.success() && told.contains("no hub's"), "{told}");
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
                && told.contains("there is no") | told.contains("no hub's folder"),
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
    server.get("/kernels/me/k/resolve/v1/a.txt").refused(500, "its log says how");
    assert_eq!(server.get("/api/kernels/me/k/refs").json()["tags"], json!([]));
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
    home.serve(&[]).get("/kernels/me/k/resolve/v1/a.txt").refused(500, "its log says how");
}
