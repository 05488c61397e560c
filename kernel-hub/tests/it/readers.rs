//! Reading: many at a time, by part, and while others write.

use serde_json::json;

use super::server::{Home, file};

/// 2 MiB that nowhere look like another part of them (xorshift64): what comes from a wrong place is seen.
fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..2 << 17).flat_map(|_| next()).collect()
}

#[test]
fn sixty_four_readers_get_what_was_written() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    let contents: Vec<Vec<u8>> = (1..5_u64).map(noise).collect();
    for (index, content) in contents.iter().enumerate() {
        server.large(&format!("{index}.bin"), content);
    }
    std::thread::scope(|scope| {
        for reader in 0..64 {
            let (server, contents) = (&server, &contents);
            scope.spawn(move || {
                let index = reader % contents.len();
                let got = server.get(&format!("/kernels/me/k/resolve/v1/{index}.bin"));
                assert_eq!(got.status, 200);
                assert!(got.body == contents[index], "reader {reader} got something else");
            });
        }
    });
}

#[test]
fn heads_ranges_and_tags_are_those_of_http() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    let content: Vec<u8> = (0..1_000_000_u32).map(|at| (at % 251) as u8).collect();
    server.large("x.so", &content);
    server.commit(&[file("a.py", "answer = 42\n")]).is(200);
    let large = "/kernels/me/k/resolve/v1/x.so";
    let digest = super::server::sha256(&content);

    let head = server.ask("HEAD", large, &[], None, "");
    head.is(200);
    assert_eq!((head.header("content-length"), head.body.len()), ("1000000", 0));
    assert_eq!(head.header("x-linked-size"), "1000000");
    assert_eq!(head.header("x-linked-etag"), format!("\"{digest}\""));
    assert_eq!(head.header("etag"), format!("\"{digest}\""));
    let refs = server.get("/api/kernels/me/k/refs").json();
    let commit = refs["branches"][1]["targetCommit"].as_str().expect("a commit");
    assert_eq!(head.header("x-repo-commit"), commit);
    assert_eq!(refs["branches"][1]["ref"], "refs/heads/v1");

    let small = server.ask("HEAD", "/kernels/me/k/resolve/v1/a.py", &[], None, "");
    // `printf 'answer = 42\n' | git hash-object --stdin`
    assert_eq!(small.header("etag"), "\"662527ea762b74e18fda3a356f91132eac324b2b\"");
    assert_eq!(small.header("x-linked-etag"), "");

    let range = |range: &str| server.ask("GET", large, &[("Range", range)], None, "");
    for (asked, from, to) in
        [("bytes=0-9", 0, 10), ("bytes=999990-", 999_990, 1_000_000), ("bytes=-5", 999_995, 1_000_000)]
    {
        let part = range(asked);
        part.is(206);
        assert_eq!(part.body, content[from..to], "{asked}");
        assert_eq!(part.header("content-range"), format!("bytes {from}-{}/1000000", to - 1));
    }
    let none = range("bytes=1000000-");
    none.is(416);
    assert_eq!(none.header("content-range"), "bytes */1000000");
    let known = server.ask("GET", large, &[("If-None-Match", &format!("\"{digest}\""))], None, "");
    assert_eq!((known.status, known.body.len()), (304, 0));
    // The rest of another content would be no rest: then all of it comes. A head has no part.
    let resumed = |tag: &str| server.ask("GET", large, &[("Range", "bytes=9-"), ("If-Range", tag)], None, "");
    resumed(&format!("\"{digest}\"")).is(206);
    let other = resumed("\"0000\"");
    assert_eq!((other.status, other.body.len()), (200, content.len()));
    let part = server.ask("HEAD", large, &[("Range", "bytes=0-9")], None, "");
    assert_eq!((part.status, part.header("content-length")), (200, "1000000"));
    // A file is never a page of this hub.
    assert_eq!(head.header("content-type"), "application/octet-stream");
    assert_eq!(head.header("content-disposition"), "attachment");
}

#[test]
fn paths_are_asked_for_in_both_forms_and_not_without_end() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    server.commit(&[file("a b.py", "1"), file("c/d.py", "2")]).is(200);
    let address = "/api/kernels/me/k/paths-info/v1";
    let form = |body: String| {
        let kind = ("Content-Type", "application/x-www-form-urlencoded");
        server.ask("POST", address, &[kind], None, body)
    };
    let names = |answer: super::server::Answer| -> Vec<String> {
        let list = answer.json();
        list.as_array().expect("a list").iter().map(|one| one["path"].to_string()).collect()
    };
    let found = ["\"a b.py\"", "\"c\""];
    assert_eq!(names(form("paths=a+b.py&expand=False&paths=c&paths=gone".to_owned())), found);
    assert_eq!(
        names(server.post(address, &json!({ "paths": ["a b.py", "gone", "c"], "expand": false }))),
        found
    );
    form("paths=x&".repeat(2001)).refused(413, "more than 2000 paths");
    server.post(address, &json!({ "paths": vec!["x"; 2001] })).refused(413, "more than 2000 paths");
    assert_eq!(names(server.post(address, &json!({ "paths": vec!["c"; 2000] }))).len(), 2000);
    for body in [json!({}), json!({ "paths": "a" }), json!({ "paths": [3] }), json!([1])] {
        server.post(address, &body).refused(400, "a list `paths`");
    }
    form("paths=%zz".to_owned()).refused(400, "hexadecimal");
    form("paths=../x".to_owned()).refused(400, "`..`");
}

#[test]
fn a_commit_is_seen_as_a_whole() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    let both = |text: &str| [file("a.txt", text), file("b.txt", text)];
    server.commit(&both("0")).is(200);
    std::thread::scope(|scope| {
        let writer =
            scope.spawn(|| (1..40).for_each(|number: u32| server.commit(&both(&number.to_string())).is(200)));
        while !writer.is_finished() {
            let info = server.get("/api/kernels/me/k/revision/v1").json();
            let commit = info["sha"].as_str().expect("a commit").to_owned();
            let read = |name: &str| server.get(&format!("/kernels/me/k/resolve/{commit}/{name}")).body;
            assert_eq!(read("a.txt"), read("b.txt"));
        }
    });
}

#[test]
fn pages_and_lists_show_what_there_is_and_no_script() {
    let home = Home::new();
    let server = home.serve(&[]).with_kernel();
    let card = "---\nlicense: apache-2.0\n---\n# k\n## Results\n| workload | versus |\n|---|---|\n| <script>alert(1)</script> | 2x |\n";
    server.commit(&[file("README.md", card), file("build/torch-cpu/__init__.py", "x = 1\n")]).is(200);
    let list = server.get("/api/kernels?search=K&author=me").json();
    assert_eq!((list.as_array().map(Vec::len), &list[0]["id"]), (Some(1), &json!("me/k")));
    assert_eq!(list[0]["versions"], json!([1]));
    assert_eq!(server.get("/api/kernels?search=other").json(), json!([]));
    let text = |path: &str| String::from_utf8(server.get(path).body).expect("text");
    let home_page = text("/");
    assert!(
        home_page.contains("href=\"/me/k\"") && home_page.contains("v1") && home_page.contains("apache-2.0")
    );
    let page = text("/kernels/me/k");
    assert!(
        page.contains("torch-cpu") && page.contains("&lt;script&gt;") && !page.contains("<script"),
        "{page}"
    );
    assert!(server.get("/me/k").header("content-security-policy").contains("default-src 'none'"));
    let metrics = text("/metrics");
    assert!(
        metrics.contains("kernelwright_hub_commits_total 1\n")
            && metrics.contains("kernelwright_hub_kernels 1\n")
    );
}
