//! What clients read: lists, refs, trees, histories and files.
//!
//! Owns: the JSON that huggingface_hub expects of each.
//! Never: changes anything.

use std::fmt;
use std::sync::Arc;

use hyper::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_RANGE, CONTENT_TYPE, ETAG, HeaderName, IF_NONE_MATCH,
    IF_RANGE, LINK, RANGE,
};
use hyper::{Method, StatusCode};
use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::{Value, json};

use crate::auth::{Requester, word};
use crate::name::{FilePath, RefName, RepoId, Revision};
use crate::store::objects::{Entry, Listed, Tree};
use crate::store::{Snapshot, StoreError};
use crate::time::rfc3339;
use crate::wire::options::Options;
use crate::wire::range::{self, RequestedRange};
use crate::wire::route::{self, Access, Search};

use super::body::{Content, Part};
use super::page::escaped;
use super::question::{Hub, Question, blocking};
use super::reply::{REPO_COMMIT, Refusal, Reply};
use super::settings::{Settings, Trusted};

/// The most that a list has when nobody says, and the most commits of a history.
const MOST: usize = 1000;
/// Paths that may be asked for at a time.
const PATHS: usize = 2000;

/// The owner of the token.
pub(super) fn who_am_i(who: &Requester) -> Result<Reply, Refusal> {
    match who {
        Requester::Anyone => {
            Err(Refusal::new(StatusCode::UNAUTHORIZED, "Invalid username or password: no token was sent"))
        }
        Requester::Known(token) => {
            let orgs: Vec<Value> =
                token.orgs.iter().map(|org| json!({ "name": org, "type": "org" })).collect();
            let access = json!({ "displayName": token.name, "role": word(token.access) });
            Ok(Reply::json(&json!({
                "type": "user", "id": token.name, "name": token.name, "fullname": token.name, "orgs": orgs,
                "auth": { "type": "access_token", "accessToken": access },
            })))
        }
    }
}

/// What is known of an organization: that of nobody's kernels is nothing.
pub(super) async fn organization(hub: Arc<Hub>, org: String) -> Result<Reply, Refusal> {
    let count = {
        let org = org.clone();
        blocking(hub.clone(), move |hub| {
            Ok(hub.store.list()?.iter().filter(|repo| repo.org() == org).count())
        })
        .await?
    };
    if count == 0 {
        return Err(Refusal::new(StatusCode::NOT_FOUND, format!("organization `{org}` not found")));
    }
    let trusted = match &hub.settings.trusted {
        Trusted::All => true,
        Trusted::Only(orgs) => orgs.contains(&org),
    };
    Ok(Reply::json(&json!({
        "name": org, "fullname": org, "type": "org", "numKernels": count, "trustedKernelPublisher": trusted,
    })))
}

/// Kernels that somebody may read.
pub(super) async fn list(hub: Arc<Hub>, who: Requester, search: Search) -> Result<Reply, Refusal> {
    let listed = blocking(hub, move |hub| {
        let fits = |repo: &RepoId| {
            search.author.as_ref().is_none_or(|author| author == repo.org())
                && search.text.as_ref().is_none_or(|text| repo.to_string().to_lowercase().contains(text))
                && who.may(Access::Read, Some(repo.org()), hub.settings.anonymous)
        };
        let mut listed = Vec::new();
        for repo in hub.store.list()?.into_iter().filter(fits).take(search.limit.unwrap_or(MOST)) {
            // One that was removed in between is not there.
            if let Ok(snapshot) = hub.store.snapshot(&repo, &Revision::Branch(RefName::main())) {
                listed.push(about(hub, &repo, &snapshot)?);
            }
        }
        Ok(listed)
    });
    Ok(Reply::json(&Value::Array(listed.await?)))
}

/// One kernel.
pub(super) async fn info(
    hub: Arc<Hub>,
    repo: RepoId,
    revision: Option<Revision>,
    options: Options,
) -> Result<Reply, Refusal> {
    let value = blocking(hub, move |hub| {
        let revision = revision.unwrap_or(Revision::Branch(RefName::main()));
        let snapshot = hub.store.snapshot(&repo, &revision)?;
        let mut value = about(hub, &repo, &snapshot)?;
        let files = snapshot.tree.files.iter().map(|entry| {
            let mut file = json!({ "rfilename": entry.path.as_str() });
            if options.blobs {
                file["blobId"] = entry.oid.as_str().into();
                file["size"] = entry.size.into();
            }
            if options.blobs && entry.lfs {
                file["lfs"] = json!({ "sha256": entry.digest.as_str(), "size": entry.size, "pointerSize": entry.pointer_size() });
            }
            file
        });
        value["siblings"] = files.collect();
        Ok(value)
    });
    Ok(Reply::json(&value.await?))
}

fn about(hub: &Hub, repo: &RepoId, snapshot: &Snapshot) -> Result<Value, StoreError> {
    let refs = hub.store.refs(repo)?;
    let versions: Vec<u64> = refs.branches.keys().filter_map(RefName::version).collect();
    let id = repo.to_string();
    Ok(json!({
        "id": id, "author": repo.org(), "sha": snapshot.id.as_str(),
        "lastModified": rfc3339(snapshot.commit.date), "private": false, "gated": false, "disabled": false,
        "downloads": 0, "likes": 0, "tags": ["kernel"], "versions": versions,
    }))
}

/// Branches and tags. For a client that shall work offline, a branch leads to itself in place of a commit: it asks for
/// what it is led to, keeps `refs/v1` in its cache because of that, and finds it there (kernels 0.17.2, `_versions.py`).
pub(super) async fn refs(hub: Arc<Hub>, repo: RepoId, offline: bool) -> Result<Reply, Refusal> {
    let refs = blocking(hub, move |hub| Ok(hub.store.refs(&repo)?)).await?;
    let branch = |(name, id): (&RefName, &crate::name::CommitId)| {
        let target = if offline { name.as_str() } else { id.as_str() };
        json!({ "name": name.as_str(), "ref": format!("refs/heads/{name}"), "targetCommit": target })
    };
    let tag = |(name, id): (&RefName, &crate::name::CommitId)| json!({ "name": name.as_str(), "ref": format!("refs/tags/{name}"), "targetCommit": id.as_str() });
    Ok(Reply::json(&json!({
        "branches": refs.branches.iter().map(branch).collect::<Vec<_>>(),
        "tags": refs.tags.iter().map(tag).collect::<Vec<_>>(),
        "converts": [], "pullRequests": [],
    })))
}

/// Files and folders.
pub(super) async fn tree(
    hub: Arc<Hub>,
    repo: RepoId,
    revision: Revision,
    folder: Option<FilePath>,
    recursive: bool,
    expand: bool,
    offline: bool,
) -> Result<Reply, Refusal> {
    let (value, commit) = blocking(hub, move |hub| {
        let snapshot = hub.store.snapshot(&repo, &revision)?;
        let folder = folder.as_ref().map_or("", FilePath::as_str);
        if !folder.is_empty() && !snapshot.tree.has_folder(folder) {
            let what = format!("`{repo}` has no folder `{folder}` at this revision");
            return Err(StoreError::NoEntry { what, commit: Some(snapshot.id) }.into());
        }
        let listed = snapshot.tree.list(folder, recursive);
        let mut values: Vec<Value> = listed.iter().map(described).collect();
        if expand {
            add_commits(hub, &repo, &snapshot, &listed, &mut values)?;
        }
        if offline {
            // The client keeps a listing, and offline it then wants every file of it, those of other variants too. One
            // with a hash that is none it does not keep (huggingface_hub 2.4, `_tree_cache.py`).
            values
                .iter_mut()
                .filter(|value| value["type"] == "file")
                .for_each(|file| file["xetHash"] = "".into());
        }
        Ok((Value::Array(values), snapshot.id))
    })
    .await?;
    Ok(Reply::json(&value).with(REPO_COMMIT, commit.as_str()))
}

/// Adds to each file and folder the commit that changed it last.
fn add_commits(
    hub: &Hub,
    repo: &RepoId,
    snapshot: &Snapshot,
    listed: &[Listed<'_>],
    values: &mut [Value],
) -> Result<(), StoreError> {
    let paths: Vec<&str> = listed.iter().map(Listed::path).collect();
    let changes = hub.store.last_changes(repo, snapshot, &paths)?;
    for (value, path) in values.iter_mut().zip(paths) {
        if let Some((id, commit)) = changes.get(path).map(AsRef::as_ref) {
            value["lastCommit"] =
                json!({ "id": id.as_str(), "title": commit.title, "date": rfc3339(commit.date) });
        }
    }
    Ok(())
}

fn described(listed: &Listed<'_>) -> Value {
    match listed {
        Listed::File(entry) => {
            let mut value = json!({
                "type": "file", "oid": entry.oid, "size": entry.size, "path": entry.path.as_str(),
            });
            if entry.lfs {
                value["lfs"] = json!({ "oid": entry.digest.as_str(), "size": entry.size, "pointerSize": entry.pointer_size() });
            }
            value
        }
        Listed::Folder { path, oid } => json!({ "type": "directory", "oid": oid, "size": 0, "path": path }),
    }
}

/// What is at some paths; those where nothing is are left out.
pub(super) async fn paths_info(
    hub: Arc<Hub>,
    question: Question,
    repo: RepoId,
    revision: Revision,
) -> Result<Reply, Refusal> {
    let is_form = question.header(CONTENT_TYPE).is_some_and(|kind| {
        kind.trim().to_ascii_lowercase().starts_with("application/x-www-form-urlencoded")
    });
    let body = question.body(&hub, Settings::SMALL_BODY).await?;
    let (paths, expand) = if is_form { paths_of_form(&body)? } else { paths_of_json(&body)? };
    if paths.len() > PATHS {
        return Err(Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("more than {PATHS} paths; split the request"),
        ));
    }
    let value = blocking(hub, move |hub| {
        let snapshot = hub.store.snapshot(&repo, &revision)?;
        let found: Vec<Listed<'_>> = paths.iter().filter_map(|path| at_path(&snapshot.tree, path)).collect();
        let mut values: Vec<Value> = found.iter().map(described).collect();
        if expand {
            add_commits(hub, &repo, &snapshot, &found, &mut values)?;
        }
        Ok(Value::Array(values))
    });
    Ok(Reply::json(&value.await?))
}

fn at_path<'a>(tree: &'a Tree, path: &'a FilePath) -> Option<Listed<'a>> {
    match tree.file(path) {
        Some(entry) => Some(Listed::File(entry)),
        None => {
            let path = path.as_str();
            tree.has_folder(path).then(|| Listed::Folder { path, oid: tree.folder_oid(path) })
        }
    }
}

/// Paths, and whether more is to be told of each.
type Paths = (Vec<FilePath>, bool);

fn paths_of_form(body: &[u8]) -> Result<Paths, Refusal> {
    let text = std::str::from_utf8(body).map_err(|_| Refusal::bad("the body is not UTF-8"))?;
    let named = |pair: Result<(String, String), _>| match pair {
        Ok((key, path)) => (key == "paths").then(|| Ok(path.parse()?)),
        Err(error) => Some(Err(Refusal::from(error))),
    };
    let expand = route::pairs(text).flatten().any(|(key, value)| key == "expand" && route::is_true(&value));
    let paths: Result<Vec<FilePath>, Refusal> =
        route::pairs(text).filter_map(named).take(PATHS + 1).collect();
    Ok((paths?, expand))
}

fn paths_of_json(body: &[u8]) -> Result<Paths, Refusal> {
    let asked: PathsQuery = serde_json::from_slice(body)
        .map_err(|error| Refusal::bad(format!("the body is not JSON with a list `paths`: {error}")))?;
    let paths: Result<Vec<FilePath>, Refusal> = asked.paths.0.iter().map(|path| Ok(path.parse()?)).collect();
    Ok((paths?, asked.expand))
}

#[derive(serde::Deserialize)]
struct PathsQuery {
    paths: BoundedList,
    #[serde(default)]
    expand: bool,
}

/// Texts of a list, of which no more are kept than tell that there are too many: anybody may send one.
struct BoundedList(Vec<String>);

impl<'de> Deserialize<'de> for BoundedList {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Texts;

        impl<'de> Visitor<'de> for Texts {
            type Value = BoundedList;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of texts")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<BoundedList, A::Error> {
                let mut texts = Vec::new();
                while texts.len() <= PATHS {
                    match list.next_element()? {
                        Some(text) => texts.push(text),
                        None => return Ok(BoundedList(texts)),
                    }
                }
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(BoundedList(texts))
            }
        }

        from.deserialize_seq(Texts)
    }
}

/// A page of the history, newest first; `Link` leads to the next one.
pub(super) async fn commits(
    hub: Arc<Hub>,
    base: String,
    target: &str,
    repo: RepoId,
    revision: Revision,
    options: Options,
) -> Result<Reply, Refusal> {
    let size = options.limit.unwrap_or(MOST).clamp(1, MOST);
    let skip = options.page.saturating_mul(size);
    // One more says whether there is a next page.
    let read = move |hub: &Hub| Ok(hub.store.history(&repo, &revision, skip, size + 1)?);
    let history = blocking(hub, read).await?;
    let commits = history.iter().take(size).map(|(id, commit)| {
        let mut value = json!({
            "id": id.as_str(), "title": commit.title, "message": commit.message,
            "authors": [{ "user": commit.author }], "date": rfc3339(commit.date),
        });
        if options.formatted {
            let html = |text: &str| format!("<p>{}</p>", escaped(text));
            value["formatted"] = json!({ "title": escaped(&commit.title), "message": html(&commit.message) });
        }
        value
    });
    let reply = Reply::json(&commits.collect::<Value>());
    if history.len() <= size {
        return Ok(reply);
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let kept = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("p="));
    let query: Vec<String> =
        kept.map(str::to_owned).chain([format!("p={}", options.page.saturating_add(1))]).collect();
    Ok(reply.with(LINK, &format!("<{base}{path}?{}>; rel=\"next\"", query.join("&"))))
}

/// That the kernel is there; whether the token may was asked before.
pub(super) async fn auth_check(hub: Arc<Hub>, repo: RepoId) -> Result<Reply, Refusal> {
    blocking(hub, move |hub| Ok(hub.store.refs(&repo)?)).await?;
    Ok(Reply::json(&json!({})))
}

/// The content of a file.
pub(super) async fn resolve(
    hub: Arc<Hub>,
    question: Question,
    repo: RepoId,
    revision: Revision,
    path: FilePath,
) -> Result<Reply, Refusal> {
    let buffers = hub.buffers.clone();
    // A head promises no content.
    let whole = question.request.method() == Method::GET;
    let found = blocking(hub, move |hub| {
        let snapshot = hub.store.snapshot(&repo, &revision)?;
        let entry = snapshot.tree.file(&path).cloned().ok_or_else(|| StoreError::NoEntry {
            what: format!("`{repo}` has no file `{path}` at this revision"),
            commit: Some(snapshot.id.clone()),
        })?;
        let opened = if whole { hub.store.open_sound(&entry) } else { hub.store.open_blob(&entry) };
        let file = opened.map_err(|error| Refusal::of_content(error, &path))?;
        Ok((file, entry, snapshot.id))
    });
    let (file, entry, commit) = found.await?;
    let etag = format!("\"{}\"", entry.etag());
    let reply = |status, content| Reply { status, headers: Vec::new(), content };
    let known = question.header(IF_NONE_MATCH);
    let reply = if known
        .is_some_and(|known| known.split(',').any(|tag| matches!(tag.trim(), "*") || tag.trim() == etag))
    {
        reply(StatusCode::NOT_MODIFIED, Content::Empty)
    } else {
        let size = entry.size;
        // A part is of GET (RFC 9110, 14.2), and of the content that the client has the rest of (13.1.5).
        let same = question.header(IF_RANGE).is_none_or(|known| known.trim() == etag);
        let wanted = question.header(RANGE).filter(|_| same && question.request.method() == Method::GET);
        match range::parse(wanted, size) {
            RequestedRange::Whole => reply(StatusCode::OK, Content::File(Part::new(file, 0, size, buffers))),
            RequestedRange::Part { start, length } => {
                let content = Content::File(Part::new(file, start, length, buffers));
                let range = format!("bytes {start}-{}/{size}", start + length - 1);
                reply(StatusCode::PARTIAL_CONTENT, content).with(CONTENT_RANGE, &range)
            }
            RequestedRange::Unsatisfiable => {
                let none = reply(StatusCode::RANGE_NOT_SATISFIABLE, Content::Empty);
                none.with(CONTENT_RANGE, &format!("bytes */{size}"))
            }
        }
    };
    Ok(with_file_headers(reply, &entry, &etag).with(REPO_COMMIT, commit.as_str()))
}

/// No browser shows a file of a kernel as a page of this hub.
fn with_file_headers(reply: Reply, entry: &Entry, etag: &str) -> Reply {
    let reply = reply
        .with(ETAG, etag)
        .with(ACCEPT_RANGES, "bytes")
        .with(CONTENT_TYPE, "application/octet-stream")
        .with(CONTENT_DISPOSITION, "attachment")
        .with(HeaderName::from_static("x-content-type-options"), "nosniff");
    if !entry.lfs {
        return reply;
    }
    reply
        .with(HeaderName::from_static("x-linked-etag"), etag)
        .with(HeaderName::from_static("x-linked-size"), &entry.size.to_string())
}
