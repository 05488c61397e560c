//! Answers in which huggingface_hub's own tests found this hub to differ from the Hub.

use serde_json::{Value, json};

use super::server::{Home, Server, file, ndjson};

fn modes(server: &Server, files: &[(&str, u64)]) -> Vec<Value> {
    let files: Vec<Value> =
        files.iter().map(|(path, size)| json!({ "path": path, "size": size, "sample": "aGk=" })).collect();
    let answer = server.post("/api/kernels/me/k/preupload/v1", &json!({ "files": files })).json();
    answer["files"].as_array().expect("a list").iter().map(|file| file["uploadMode"].clone()).collect()
}

#[test]
fn a_new_kernel_has_gitattributes_and_they_decide() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    let names = server.get("/api/kernels/me/k/tree/main").json();
    assert_eq!(names[0]["path"], ".gitattributes");
    let asked = [("a/_k.so", 2), ("x.safetensors", 2), ("a.py", 2)];
    assert_eq!(modes(&server, &asked), ["lfs", "lfs", "regular"]);
    server.commit(&[file(".gitattributes", "*.so filter=lfs\n/a/*.so -filter\n*.py filter=lfs\n")]).is(200);
    assert_eq!(modes(&server, &asked), ["regular", "regular", "lfs"]);
    server.commit(&[json!({ "key": "deletedFile", "value": { "path": ".gitattributes" } })]).is(200);
    assert_eq!(modes(&server, &asked), ["regular"; 3]);
}

#[test]
fn files_are_listed_with_their_last_commits_and_sizes() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    server.commit(&[file("a/one.txt", "1"), file("a/b/two.txt", "2"), file("three.txt", "3")]).is(200);
    let head = || server.get("/api/kernels/me/k/revision/v1").json()["sha"].clone();
    let first = head();
    server.commit(&[file("a/b/two.txt", "22")]).is(200);
    server.large("x.so", &[7; 1000]);
    let tree = server.get("/api/kernels/me/k/tree/v1?expand=true&recursive=true").json();
    let commit = |path: &str| {
        let entry = tree.as_array().expect("a list").iter().find(|entry| entry["path"] == path);
        entry.expect("an entry")["lastCommit"].clone()
    };
    let begun = server.get("/api/kernels/me/k/revision/main").json()["sha"].clone();
    assert_eq!(
        (&commit(".gitattributes")["id"], &commit(".gitattributes")["title"]),
        (&begun, &json!("initial commit"))
    );
    assert_eq!((&commit("a/one.txt")["id"], &commit("three.txt")["id"]), (&first, &first));
    assert!(commit("a")["id"] == commit("a/b/two.txt")["id"] && commit("a")["id"] != first);
    assert_eq!((&commit("x.so")["id"], commit("x.so")["date"].is_string()), (&head(), true));
    assert!(server.get("/api/kernels/me/k/tree/v1").json()[0].get("lastCommit").is_none());
    let body = json!({ "paths": ["a"], "expand": true });
    let info = server.post("/api/kernels/me/k/paths-info/v1", &body).json();
    assert_eq!(info[0]["lastCommit"], commit("a"));
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let info =
        server.ask("POST", "/api/kernels/me/k/paths-info/v1", &form, None, "paths=x.so&expand=True").json();
    assert_eq!(info[0]["lastCommit"], commit("x.so"));

    let siblings = server.get("/api/kernels/me/k/revision/v1?blobs=true").json()["siblings"].clone();
    let of = |path: &str| {
        siblings.as_array().expect("a list").iter().find(|one| one["rfilename"] == path).cloned()
    };
    let (large, small) = (of("x.so").expect("a file"), of("three.txt").expect("a file"));
    assert_eq!(large["size"], 1000);
    assert_eq!(large["lfs"]["sha256"], super::server::sha256(&[7; 1000]));
    assert_eq!((&large["lfs"]["size"], large["lfs"]["pointerSize"].is_u64()), (&json!(1000), true));
    // `printf 3 | git hash-object --stdin`
    assert_eq!(
        (&small["size"], &small["blobId"]),
        (&json!(1), &json!("e440e5c842586965a7fb77deda2eca68612b1f53"))
    );
    assert!(small.get("lfs").is_none());
    assert!(server.get("/api/kernels/me/k").json()["siblings"][0].get("size").is_none());
}

#[test]
fn every_answer_has_the_name_of_its_request() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    let (one, two) = (server.get("/healthz"), server.get("/api/kernels/me/gone"));
    for answer in [&one, &two] {
        assert_eq!(answer.header("x-request-id").len(), 20);
    }
    assert_ne!(one.header("x-request-id"), two.header("x-request-id"));
    let named = |id: &str| server.ask("GET", "/healthz", &[("X-Amzn-Trace-Id", id)], None, "");
    assert_eq!(named("c2fbf01f-be06-44ae").header("x-request-id"), "c2fbf01f-be06-44ae");
    for id in ["a b", "<x>", &"x".repeat(101)] {
        assert_eq!(named(id).header("x-request-id").len(), 20, "{id}");
    }
}

#[test]
fn names_in_another_case_lead_to_the_kernel() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    server.commit(&[file("a.txt", "hi")]).is(200);
    let raw = |method: &str, path: &str| {
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            home.token
        );
        server.raw(head.as_bytes())
    };
    for (method, from, to) in [
        ("GET", "/kernels/Me/K/resolve/v1/a.txt", "/kernels/me/k/resolve/v1/a.txt"),
        ("HEAD", "/ME/k/resolve/v1/a.txt?x=1", "/me/k/resolve/v1/a.txt?x=1"),
        ("POST", "/api/kernels/me/K/commit/v1", "/api/kernels/me/k/commit/v1"),
        ("POST", "/kernels/me/K.git/info/lfs/objects/batch", "/kernels/me/k.git/info/lfs/objects/batch"),
    ] {
        let answer = raw(method, from);
        assert!(
            answer.starts_with("HTTP/1.1 307 ") && answer.contains(&format!("location: {to}\r\n")),
            "{answer}"
        );
    }
    assert_eq!(server.get("/kernels/Me/K/resolve/v1/a.txt").body, b"hi");
    let body = json!({ "name": "K", "organization": "ME", "type": "kernel" });
    server.post("/api/repos/create", &body).refused(409, "`me/k`");
    let gone = server.get("/api/kernels/me/other/refs");
    assert_eq!((gone.status, gone.header("x-error-code")), (404, "RepoNotFound"));
}

#[test]
fn a_folder_is_deleted_by_either_name() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    server.commit(&[file("a/b", "1"), file("a/c/d", "2"), file("ab", "3")]).is(200);
    server.commit(&[json!({ "key": "deletedFile", "value": { "path": "a" } })]).is(200);
    let names = server.get("/api/kernels/me/k/tree/v1?recursive=true").json();
    let names: Vec<&Value> = names.as_array().expect("a list").iter().map(|entry| &entry["path"]).collect();
    assert_eq!(names, [".gitattributes", "ab"]);
    server.commit(&[json!({ "key": "deletedFile", "value": { "path": "a" } })]).refused(404, "doesn't exist");
}

#[test]
fn revisions_that_cannot_be_are_not_there() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    for path in ["revision/refs%2Fpr%2F1", "tree/a%20b", "commits/refs%2Fpr%2F1", "revision/%2e%2e"] {
        let answer = server.get(&format!("/api/kernels/me/k/{path}"));
        assert_eq!((answer.status, answer.header("x-error-code")), (404, "RevisionNotFound"), "{path}");
    }
    let answer = server.get("/kernels/me/k/resolve/refs%2Fpr%2F1/a");
    assert_eq!((answer.status, answer.header("x-error-code")), (404, "RevisionNotFound"));
    let body = ndjson(&[file("a", "b")]);
    let answer = server.ask("POST", "/api/kernels/me/k/commit/refs%2Fpr%2F1", &[], Some(&home.token), body);
    assert_eq!((answer.status, answer.header("x-error-code")), (404, "RevisionNotFound"));
}

#[test]
fn commits_come_in_pages() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    for number in 0..6 {
        server.commit(&[file("a", &number.to_string())]).is(200);
    }
    let (mut pages, mut next) =
        (Vec::new(), Some("/api/kernels/me/k/commits/v1?limit=3&expand%5B%5D=formatted".to_owned()));
    while let Some(path) = next {
        let answer = server.get(&path);
        pages.push(answer.json().as_array().expect("a list").len());
        assert_eq!(answer.json()[0]["formatted"]["message"], "<p></p>");
        let link = answer.header("link").to_owned();
        next = link
            .strip_prefix('<')
            .map(|link| link.strip_suffix(">; rel=\"next\"").expect("a link").to_owned());
    }
    assert_eq!(pages, [3, 3, 1]);
    let all = server.get("/api/kernels/me/k/commits/v1");
    assert_eq!((all.json().as_array().map(Vec::len), all.header("link")), (Some(7), ""));
}
