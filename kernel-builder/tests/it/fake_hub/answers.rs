//! What a hub answers, as huggingface_hub 2.4.0 expects it. What that client would not send is refused.
//!
//! Owns: the rules of each request. Never: a failure that was asked for.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha1::Sha1;
use sha2::{Digest as _, Sha256};

use super::{Blob, Heard, Repo, State, TOKEN, Tree};

/// Status, headers, body.
pub(super) type Answer = (u16, String, Vec<u8>);

fn json_of(status: u16, value: &Value) -> Answer {
    (status, "Content-Type: application/json\r\n".to_owned(), value.to_string().into_bytes())
}

fn refused(status: u16, code: &str, why: &str) -> Answer {
    let headers = format!("X-Error-Code: {code}\r\nX-Error-Message: {why}\r\n");
    (status, headers, json!({ "error": why }).to_string().into_bytes())
}

pub(super) fn answer(state: &mut State, heard: &Heard) -> Answer {
    let (path, query) = heard.path.split_once('?').unwrap_or((&heard.path, ""));
    let parts: Vec<String> = path.trim_start_matches('/').split('/').map(unescaped).collect();
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    if heard.at_storage {
        return storage(state, heard, &parts);
    }
    let token = heard.headers.get("authorization").map(String::as_str);
    let known = token == Some(&format!("Bearer {TOKEN}"));
    if token.is_some() && !known {
        let why = format!("Invalid credentials in Authorization header: {}", token.unwrap_or_default());
        return refused(401, "", &why);
    }
    let writes = heard.method != "GET" && parts.first() != Some(&"lfs-complete");
    if writes && !known {
        return refused(401, "", "Invalid username or password.");
    }
    if writes && state.read_only && !path.contains("preupload") {
        return refused(403, "", "You need permission to publish kernels");
    }
    match (heard.method.as_str(), parts.as_slice()) {
        ("GET", ["api", "kernels"]) => list(state, query),
        ("POST", ["api", "repos", "create"]) => create(state, &heard.json()),
        ("POST", ["api", "validate-yaml"]) => json_of(200, &json!({ "errors": [], "warnings": [] })),
        ("POST", ["lfs-complete", sha256]) => complete(state, sha256, &heard.json()),
        ("POST", ["lfs-verify"]) => {
            let body = heard.json();
            let size = state.objects.get(body["oid"].as_str().unwrap_or_default()).map(Vec::len);
            let right = size.is_some_and(|size| body["size"] == size);
            if right { json_of(200, &json!({})) } else { refused(404, "", "it is not there") }
        }
        ("POST", ["kernels", owner, name, "info", "lfs", "objects", "batch"]) => {
            let name = name.strip_suffix(".git").unwrap_or(name);
            batch(state, &format!("{owner}/{name}"), heard)
        }
        ("GET", ["kernels", owner, name, "resolve", revision, file @ ..]) => {
            resolve(state, &format!("{owner}/{name}"), revision, &file.join("/"))
        }
        (method, ["api", "kernels", owner, name, rest @ ..]) => {
            let name = format!("{owner}/{name}");
            if !state.repos.contains_key(&name) {
                return refused(404, "RepoNotFound", "Repository not found");
            }
            of_repo(state, &name, method, rest, query, heard)
        }
        _ => refused(404, "", "Cannot be found"),
    }
}

fn of_repo(state: &mut State, name: &str, method: &str, rest: &[&str], query: &str, heard: &Heard) -> Answer {
    match (method, rest) {
        ("GET", ["refs"]) => refs(&state.repos[name], query == "include_prs=1"),
        ("GET", ["tree", revision, under @ ..]) => tree(state, name, revision, &under.join("/"), query),
        ("POST", ["branch", branch]) => branch_of(state, name, branch),
        ("POST", ["preupload", revision]) => preupload(state, name, revision, &heard.json()),
        ("POST", ["commit", revision]) => commit(state, name, revision, query == "create_pr=1", heard),
        ("GET", []) => {
            let own = state.listed.iter().find(|one| one["id"] == name).cloned();
            json_of(200, &own.unwrap_or_else(|| json!({ "id": name })))
        }
        _ => refused(404, "", "Cannot be found"),
    }
}

fn list(state: &State, query: &str) -> Answer {
    let fields: BTreeMap<&str, &str> = query.split('&').filter_map(|one| one.split_once('=')).collect();
    let words =
        unescaped(&fields.get("search").copied().unwrap_or_default().replace('+', " ")).to_lowercase();
    let limit = fields.get("limit").and_then(|text| text.parse().ok()).unwrap_or(1000);
    let fits = |one: &&Value| one["id"].as_str().is_some_and(|id| id.to_lowercase().contains(&words));
    let found: Vec<&Value> = state.listed.iter().filter(fits).take(limit).collect();
    json_of(200, &json!(found))
}

fn create(state: &mut State, body: &Value) -> Answer {
    let text = |name: &str| body[name].as_str().unwrap_or_default();
    if text("type") != "kernel" || text("name").is_empty() {
        return refused(400, "", "name and type, please");
    }
    let name = format!("{}/{}", text("organization"), text("name"));
    if state.repos.contains_key(&name) {
        return refused(409, "", "You already created this kernel repo");
    }
    let mut repo = Repo { private: text("visibility") == "private", ..Repo::default() };
    if !state.bare {
        let first = state.commit_name();
        let attributes = Blob::Regular(b"*.so filter=lfs\n".to_vec());
        let mut tree = Tree::from([(".gitattributes".to_owned(), attributes)]);
        tree.extend(state.first.map(|path| (path.to_owned(), Blob::Regular(b"old".to_vec()))));
        repo.commits.insert(first.clone(), tree);
        repo.branches.insert("main".to_owned(), first);
    }
    state.repos.insert(name.clone(), repo);
    json_of(200, &json!({ "url": format!("http://127.0.0.1:{}/kernels/{name}", state.port) }))
}

fn refs(repo: &Repo, pulls: bool) -> Answer {
    let row =
        |name: &str, full: String, commit: &str| json!({ "name": name, "ref": full, "targetCommit": commit });
    let branches: Vec<Value> =
        repo.branches.iter().map(|(name, commit)| row(name, format!("refs/heads/{name}"), commit)).collect();
    let mut answer = json!({ "branches": branches, "tags": [], "converts": [] });
    if pulls {
        let rows = (1..).zip(&repo.pulls).map(|(number, commit)| {
            let name = format!("refs/pr/{number}");
            row(&name, name.clone(), commit)
        });
        answer["pullRequests"] = rows.collect();
    }
    json_of(200, &answer)
}

/// The commit that a revision names.
pub(super) fn commit_of(repo: &Repo, revision: &str) -> Option<String> {
    if repo.commits.contains_key(revision) {
        return Some(revision.to_owned());
    }
    match revision.strip_prefix("refs/pr/") {
        Some(number) => repo.pulls.get(number.parse::<usize>().ok()?.checked_sub(1)?).cloned(),
        None => repo.branches.get(revision).cloned(),
    }
}

fn tree(state: &State, name: &str, revision: &str, under: &str, query: &str) -> Answer {
    let repo = &state.repos[name];
    let Some(commit) = commit_of(repo, revision) else {
        return refused(404, "RevisionNotFound", "Invalid rev id");
    };
    let inside = |path: &str| under.is_empty() || path.starts_with(&format!("{under}/"));
    let mut entries: Vec<Value> = Vec::new();
    let depth = if under.is_empty() { 0 } else { under.split('/').count() };
    for (path, blob) in repo.commits[&commit].iter().filter(|(path, _)| inside(path)) {
        let parts: Vec<&str> = path.split('/').collect();
        for end in depth + 1..parts.len() {
            let folder = parts[..end].join("/");
            if !entries.iter().any(|entry| entry["path"] == folder.as_str()) {
                entries.push(json!({ "type": "directory", "oid": "0", "size": 0, "path": folder }));
            }
        }
        entries.push(entry(path, blob));
    }
    if entries.is_empty() && !under.is_empty() {
        return refused(404, "EntryNotFound", "no such folder");
    }
    if query.contains("recursive=false") {
        entries
            .retain(|entry| entry["path"].as_str().is_some_and(|path| path.split('/').count() == depth + 1));
    }
    let from: usize = query.split("cursor=").nth(1).map_or(0, |text| text.parse().expect("a cursor"));
    let end = if state.page == 0 { entries.len() } else { (from + state.page).min(entries.len()) };
    let mut answer = json_of(200, &json!(&entries[from..end]));
    if end < entries.len() {
        let folder = if under.is_empty() { String::new() } else { format!("/{under}") };
        let own = format!("http://127.0.0.1:{}", state.port);
        let host = state.pages_at.unwrap_or(&own);
        let base = format!("{host}/api/kernels/{name}/tree/{revision}{folder}");
        let plain = query.split("&cursor=").next().unwrap_or_default();
        answer.1 += &format!("Link: <{base}?{plain}&cursor={end}>; rel=\"next\"\r\n");
    }
    answer
}

fn entry(path: &str, blob: &Blob) -> Value {
    match blob {
        Blob::Regular(bytes) => {
            let mut name = Sha1::new();
            name.update(format!("blob {}\0", bytes.len()));
            name.update(bytes);
            json!({ "type": "file", "oid": hex(&name.finalize()), "size": bytes.len(), "path": path })
        }
        Blob::Large { sha256, size } => json!({
            "type": "file", "oid": "f".repeat(40), "size": size, "path": path,
            "lfs": { "oid": sha256, "size": size, "pointerSize": 134 }, "xetHash": "e".repeat(64),
        }),
    }
}

fn branch_of(state: &mut State, name: &str, branch: &str) -> Answer {
    let repo = state.repos.get_mut(name).expect("it was asked for");
    if repo.branches.contains_key(branch) {
        return refused(409, "", "Reference already exists");
    }
    let Some(main) = repo.branches.get("main").cloned() else {
        return refused(404, "RevisionNotFound", "there is no main");
    };
    repo.branches.insert(branch.to_owned(), main);
    json_of(200, &json!({}))
}

fn preupload(state: &State, name: &str, revision: &str, body: &Value) -> Answer {
    let repo = &state.repos[name];
    if commit_of(repo, revision).is_none() && !repo.branches.is_empty() {
        return refused(404, "RevisionNotFound", "Invalid rev id");
    }
    let ignored = |path: &str| {
        let tree = commit_of(repo, revision).map(|commit| &repo.commits[&commit]);
        let rules = tree.and_then(|tree| tree.get(".gitignore"));
        matches!(rules, Some(Blob::Regular(text)) if String::from_utf8_lossy(text).lines().any(|line| path.ends_with(line)))
    };
    let decide = |file: &Value| {
        let sample = STANDARD.decode(file["sample"].as_str().expect("a sample")).expect("base64");
        assert!(sample.len() as u64 == file["size"].as_u64().expect("a size").min(512), "{file}");
        let path = file["path"].as_str().expect("a path");
        let mode = if path.ends_with(".so") || sample.contains(&0) { "lfs" } else { "regular" };
        json!({ "path": path, "uploadMode": mode, "shouldIgnore": ignored(path), "oid": null })
    };
    let files: Vec<Value> = body["files"].as_array().expect("files").iter().map(decide).collect();
    assert!(files.len() <= 256);
    json_of(200, &json!({ "files": files, "commitOid": "0" }))
}

fn batch(state: &State, name: &str, heard: &Heard) -> Answer {
    let body = heard.json();
    let media = "application/vnd.git-lfs+json";
    let right = state.repos.contains_key(name)
        && heard.headers.get("accept").is_some_and(|text| text == media)
        && heard.headers.get("content-type").is_some_and(|text| text == media)
        && body["operation"] == "upload"
        && body["transfers"] == json!(["basic", "multipart"])
        && body["hash_algo"] == "sha256"
        && body["ref"]["name"].is_string();
    if !right {
        return refused(422, "", "this is no batch");
    }
    let verify = json!({ "href": format!("http://127.0.0.1:{}/lfs-verify", state.port), "header": {} });
    let object = |one: &Value| {
        let (oid, size) = (one["oid"].as_str().expect("an oid"), one["size"].as_u64().expect("a size"));
        if state.objects.contains_key(oid) {
            return json!({ "oid": oid, "size": size });
        }
        let place = format!("http://127.0.0.1:{}/store/{oid}", state.storage);
        let upload = match state.part.filter(|part| size > *part) {
            None => {
                json!({ "href": place, "header": if state.keyed { json!({ "X-Storage": "yes" }) } else { json!({}) } })
            }
            Some(part) => {
                let mut header = json!({ "chunk_size": part.to_string() });
                for number in 1..=size.div_ceil(part) {
                    header[number.to_string()] = format!("{place}/{number}").into();
                }
                json!({ "href": format!("http://127.0.0.1:{}/lfs-complete/{oid}", state.port), "header": header })
            }
        };
        json!({
            "oid": oid, "size": size, "authenticated": true,
            "actions": { "upload": upload, "verify": verify },
        })
    };
    let asked = body["objects"].as_array().expect("objects");
    let objects: Vec<Value> = asked.iter().map(object).collect();
    let in_parts = asked.iter().any(|one| state.part.is_some_and(|part| one["size"].as_u64() > Some(part)));
    let chosen = state.transfer.unwrap_or(if in_parts { "multipart" } else { "basic" });
    json_of(200, &json!({ "transfer": chosen, "objects": objects, "hash_algo": "sha256" }))
}

fn storage(state: &mut State, heard: &Heard, parts: &[&str]) -> Answer {
    match (heard.method.as_str(), parts) {
        ("PUT", ["store", sha256]) => {
            let may = !state.keyed || heard.headers.contains_key("x-storage");
            if hex(&Sha256::digest(&heard.body)) != *sha256 || !may {
                return refused(400, "", "the content is another one");
            }
            state.objects.insert((*sha256).to_owned(), heard.body.clone());
            json_of(200, &json!({}))
        }
        ("PUT", ["store", sha256, number]) => {
            let number: u64 = number.parse().expect("a number");
            state.parts.insert(((*sha256).to_owned(), number), heard.body.clone());
            (200, format!("ETag: \"tag-{number}\"\r\n"), Vec::new())
        }
        _ => refused(404, "", "no such place"),
    }
}

fn complete(state: &mut State, sha256: &str, body: &Value) -> Answer {
    let mut whole = Vec::new();
    for (number, part) in (1..).zip(body["parts"].as_array().expect("parts")) {
        let right = part["partNumber"] == number && part["etag"] == format!("\"tag-{number}\"");
        match state.parts.get(&(sha256.to_owned(), number)) {
            Some(bytes) if right => whole.extend_from_slice(bytes),
            _ => return refused(400, "", "a part is wrong"),
        }
    }
    if hex(&Sha256::digest(&whole)) != sha256 || body["oid"] != sha256 {
        return refused(400, "", "the parts are not the file");
    }
    state.objects.insert(sha256.to_owned(), whole);
    json_of(200, &json!({}))
}

fn commit(state: &mut State, name: &str, revision: &str, opens: bool, heard: &Heard) -> Answer {
    if heard.headers.get("content-type").is_none_or(|text| text != "application/x-ndjson") {
        return refused(400, "", "a commit is application/x-ndjson");
    }
    let lines = heard.lines();
    let head = commit_of(&state.repos[name], revision);
    let header = &lines[0]["value"];
    if lines[0]["key"] != "header" || header["summary"].as_str().is_none_or(str::is_empty) {
        return refused(400, "", "the first line is the header");
    }
    if header["parentCommit"].is_string() && header["parentCommit"].as_str() != head.as_deref() {
        return refused(412, "", "A commit has happened since. Please refresh and try again.");
    }
    assert!(lines.len() <= 1001, "{} operations", lines.len() - 1);
    let mut tree = head.map(|head| state.repos[name].commits[&head].clone()).unwrap_or_default();
    for line in &lines[1..] {
        let value = &line["value"];
        let path = value["path"].as_str().expect("a path").to_owned();
        match line["key"].as_str() {
            Some("file") if value["encoding"] == "base64" => {
                let content = STANDARD.decode(value["content"].as_str().expect("content")).expect("base64");
                tree.insert(path, Blob::Regular(content));
            }
            Some("lfsFile") if value["algo"] == "sha256" => {
                let sha256 = value["oid"].as_str().expect("an oid").to_owned();
                let size = value["size"].as_u64().expect("a size");
                if state.objects.get(&sha256).is_none_or(|bytes| bytes.len() as u64 != size) {
                    return refused(400, "", &format!("{path} was not uploaded"));
                }
                tree.insert(path, Blob::Large { sha256, size });
            }
            Some("deletedFile") if tree.remove(&path).is_some() => {}
            _ => return refused(400, "", &format!("what is to be done with {path}?")),
        }
    }
    let made = state.commit_name();
    let page = format!("http://127.0.0.1:{}/kernels/{name}", state.port);
    let repo = state.repos.get_mut(name).expect("it was asked for");
    repo.commits.insert(made.clone(), tree);
    repo.summaries.push(header["summary"].as_str().unwrap_or_default().to_owned());
    let mut answer =
        json!({ "success": true, "commitOid": made, "commitUrl": format!("{page}/commit/{made}") });
    if opens {
        repo.pulls.push(made);
        answer["pullRequestUrl"] = format!("{page}/discussions/{}", repo.pulls.len()).into();
    } else if let Some(number) = revision.strip_prefix("refs/pr/") {
        let number: usize = number.parse().expect("a number");
        repo.pulls[number - 1] = made;
    } else {
        repo.branches.insert(revision.to_owned(), made);
    }
    json_of(200, &answer)
}

fn resolve(state: &State, name: &str, revision: &str, path: &str) -> Answer {
    let Some(repo) = state.repos.get(name) else {
        return refused(404, "RepoNotFound", "Repository not found");
    };
    let blob = commit_of(repo, revision).and_then(|commit| repo.commits[&commit].get(path));
    match blob {
        Some(Blob::Regular(bytes)) => (200, String::new(), bytes.clone()),
        Some(Blob::Large { sha256, .. }) => (200, String::new(), state.objects[sha256].clone()),
        None => refused(404, "EntryNotFound", "Entry not found"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unescaped(text: &str) -> String {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::new(), 0);
    while at < bytes.len() {
        let code = text.get(at + 1..at + 3).filter(|_| bytes[at] == b'%');
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                at += 3;
            }
            None => {
                out.push(bytes[at]);
                at += 1;
            }
        }
    }
    String::from_utf8(out).expect("text")
}
