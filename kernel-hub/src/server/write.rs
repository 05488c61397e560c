//! What clients write: kernels, branches, tags, large files and commits.
//!
//! Owns: the JSON of each, signed addresses, and that nothing is acknowledged before the store has it.
//! Never: decides what a commit means; the store does.

use std::io::BufReader;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::StatusCode;
use hyper::body::Body as _;
use ring::hmac;
use serde_json::{Value, json};

use crate::name::{FilePath, RefName, RepoId, Revision, Sha256, hex};
use crate::store::{ATTRIBUTES, Author, READ_AT_ONCE, RefKind, StoreError};
use crate::time::now;
use crate::wire::attributes::Attributes;
use crate::wire::commit;
use crate::wire::route::Access;

use super::current::Busy;
use super::metrics::count;
use super::question::{Hub, Question, blocking, pour};
use super::reply::{Refusal, Reply};
use super::settings::Settings;

/// How long a signed address is good for, in seconds.
pub(super) const GOOD_FOR: u64 = 3600;
/// What is read of a commit at a time.
const BUFFER: usize = 256 * 1024;
/// Objects of one batch.
const BATCH: usize = 1000;

fn author(question: &Question) -> Author {
    Author { name: question.who.name().to_owned(), date: now() }
}

/// The kernel that a body of `/api/repos/...` is about.
fn repo_of(body: &Value, question: &str) -> Result<RepoId, Refusal> {
    let text = |key: &str| body.get(key).and_then(Value::as_str);
    if text("type") != Some("kernel") {
        return Err(Refusal::bad("this hub supports kernels only: use repo_type=\"kernel\""));
    }
    if text("visibility").is_some_and(|visibility| visibility != "public") || body["private"] == true {
        return Err(Refusal::bad(
            "this hub has no private kernels; its operator sets who may read (--anonymous none)",
        ));
    }
    let name = text("name").ok_or_else(|| Refusal::bad("the body has no `name`"))?;
    Ok(RepoId::new(text("organization").unwrap_or(question), name)?)
}

/// Makes a kernel.
pub(super) async fn create(hub: Arc<Hub>, question: Question) -> Result<Reply, Refusal> {
    let (author, base, who) = (author(&question), question.base.clone(), question.who.clone());
    let body = question.json(&hub).await?;
    let repo = repo_of(&body, who.name())?;
    hub.must(&who, Access::Write, Some(repo.org()))?;
    let url = format!("{base}/kernels/{repo}");
    let made = repo.clone();
    let done = blocking(hub, move |hub| Ok(hub.store.create(&made, &author)?)).await;
    done.map_err(|refusal| refusal.at(url.clone()))?;
    Ok(Reply::json(&json!({ "url": url, "name": repo.to_string(), "id": repo.to_string() })))
}

/// Removes a kernel.
pub(super) async fn delete(hub: Arc<Hub>, question: Question) -> Result<Reply, Refusal> {
    let who = question.who.clone();
    let body = question.json(&hub).await?;
    let repo = repo_of(&body, who.name())?;
    hub.must(&who, Access::Write, Some(repo.org()))?;
    blocking(hub, move |hub| Ok(hub.store.delete(&repo)?)).await?;
    Ok(Reply::json(&json!({})))
}

/// Makes a branch.
pub(super) async fn create_branch(
    hub: Arc<Hub>,
    question: Question,
    repo: RepoId,
    name: RefName,
) -> Result<Reply, Refusal> {
    let body = question.json(&hub).await?;
    let start = match body.get("startingPoint").and_then(Value::as_str) {
        Some(start) => start.parse()?,
        None => Revision::Branch(RefName::main()),
    };
    blocking(hub, move |hub| Ok(hub.store.create_ref(&repo, RefKind::Branch, &name, &start)?)).await?;
    Ok(Reply::json(&json!({})))
}

/// Removes a branch.
pub(super) async fn delete_branch(hub: Arc<Hub>, repo: RepoId, name: RefName) -> Result<Reply, Refusal> {
    blocking(hub, move |hub| Ok(hub.store.delete_ref(&repo, RefKind::Branch, &name)?)).await?;
    Ok(Reply::json(&json!({})))
}

/// Makes a tag.
pub(super) async fn create_tag(
    hub: Arc<Hub>,
    question: Question,
    repo: RepoId,
    revision: Revision,
) -> Result<Reply, Refusal> {
    let body = question.json(&hub).await?;
    let name =
        body.get("tag").and_then(Value::as_str).ok_or_else(|| Refusal::bad("the body has no `tag`"))?;
    let name: RefName = name.parse()?;
    blocking(hub, move |hub| Ok(hub.store.create_ref(&repo, RefKind::Tag, &name, &revision)?)).await?;
    Ok(Reply::json(&json!({})))
}

/// Removes a tag.
pub(super) async fn delete_tag(hub: Arc<Hub>, repo: RepoId, name: RefName) -> Result<Reply, Refusal> {
    blocking(hub, move |hub| Ok(hub.store.delete_ref(&repo, RefKind::Tag, &name)?)).await?;
    Ok(Reply::json(&json!({})))
}

/// How each file is to be sent, and what the hub has at its path now.
pub(super) async fn preupload(
    hub: Arc<Hub>,
    question: Question,
    repo: RepoId,
    revision: Revision,
) -> Result<Reply, Refusal> {
    let body = question.json(&hub).await?;
    let files = body["files"].as_array().ok_or_else(|| Refusal::bad("the body has no list `files`"))?;
    let mut asked = Vec::with_capacity(files.len());
    for file in files {
        let text = |key: &str| file.get(key).and_then(Value::as_str);
        let path: FilePath = text("path").ok_or_else(|| Refusal::bad("a file has no `path`"))?.parse()?;
        let size = file["size"].as_u64().ok_or_else(|| Refusal::bad("a file has no `size`"))?;
        let sample = STANDARD.decode(text("sample").unwrap_or_default());
        let sample = sample.map_err(|_| Refusal::bad("a `sample` is not valid base64"))?;
        asked.push((path, size, hub.settings.goes_by_lfs(size, &sample)));
    }
    let value = blocking(hub, move |hub| {
        let snapshot = hub.store.snapshot(&repo, &revision)?;
        let attributes = hub.store.small_file(&snapshot.tree, ATTRIBUTES, Settings::SMALL_BODY)?;
        let attributes = Attributes::parse(&String::from_utf8_lossy(&attributes.unwrap_or_default()));
        let mut answers = Vec::with_capacity(asked.len());
        let mut budget = READ_AT_ONCE;
        for (path, _, lfs) in &asked {
            let mode = if *lfs || attributes.by_lfs(path.as_str()) { "lfs" } else { "regular" };
            let mut answer = json!({ "path": path.as_str(), "uploadMode": mode, "shouldIgnore": false });
            // A client does not send what it finds here. It has to, if the hub's copy is damaged.
            if let Some(entry) = snapshot.tree.file(path)
                && hub.store.is_sound_within(&entry.digest, entry.size, &mut budget)?
            {
                answer["oid"] = entry.etag().into();
            }
            answers.push(answer);
        }
        Ok(json!({ "files": answers, "commitOid": snapshot.id.as_str() }))
    });
    Ok(Reply::json(&value.await?))
}

/// Changes a branch.
pub(super) async fn commit(
    hub: Arc<Hub>,
    question: Question,
    repo: RepoId,
    branch: RefName,
) -> Result<Reply, Refusal> {
    let (author, base) = (author(&question), question.base.clone());
    let turn = {
        let _busy = Busy::begin();
        hub.commits.acquire().await
    };
    let _turn = turn.map_err(|_| Refusal::inner("the hub is stopping"))?;
    let mut body = question.body_on_disk(&hub, hub.settings.commit_bytes).await?;
    let shown = repo.clone();
    let id = blocking(hub.clone(), move |hub| {
        let body = body.rewound().map_err(StoreError::from)?;
        let asked =
            commit::parse(BufReader::with_capacity(BUFFER, &mut *body), &hub.settings.commit_limits())?;
        Ok(hub.store.commit(&repo, &branch, asked, body, &author)?)
    });
    let id = id.await?;
    count(&hub.metrics.commits);
    Ok(Reply::json(&json!({
        "success": true, "commitOid": id.as_str(), "commitUrl": format!("{base}/kernels/{shown}/commit/{id}"),
        "hookOutput": "",
    })))
}

/// Which large files must be sent, and where to (git-lfs's docs/api/batch.md).
pub(super) async fn lfs_batch(hub: Arc<Hub>, question: Question, repo: RepoId) -> Result<Reply, Refusal> {
    let base = question.base.clone();
    let body = question.json(&hub).await?;
    if body["operation"] != "upload" {
        return Err(Refusal::bad(
            "this hub uses LFS only for uploads; download files from /kernels/.../resolve/",
        ));
    }
    let transfers = body["transfers"].as_array();
    if transfers.is_some_and(|transfers| !transfers.iter().any(|transfer| transfer == "basic")) {
        return Err(Refusal::bad("this hub supports only the transfer `basic`: set HF_HUB_DISABLE_XET=1"));
    }
    if body.get("hash_algo").and_then(Value::as_str).is_some_and(|algo| algo != "sha256") {
        return Err(Refusal::bad("this hub supports only sha256 as hash_algo"));
    }
    let objects = body["objects"].as_array().ok_or_else(|| Refusal::bad("the body has no list `objects`"))?;
    if objects.len() > BATCH {
        return Err(Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            format!("more than {BATCH} objects in a batch"),
        ));
    }
    let mut asked: Vec<(Sha256, u64)> = Vec::with_capacity(objects.len());
    for object in objects {
        let digest = object["oid"].as_str().ok_or_else(|| Refusal::bad("an object has no `oid`"))?.parse()?;
        let size = object["size"].as_u64().ok_or_else(|| Refusal::bad("an object has no `size`"))?;
        asked.push((digest, size));
    }
    let objects = blocking(hub, move |hub| {
        if !hub.store.has(&repo) {
            return Err(StoreError::NoRepo(repo).into());
        }
        let (mut answers, mut budget) = (Vec::with_capacity(asked.len()), READ_AT_ONCE);
        for (digest, size) in asked {
            let mut answer = json!({ "oid": digest.as_str(), "size": size });
            if size > hub.settings.file_bytes {
                let message = format!("this hub accepts files up to {} bytes", hub.settings.file_bytes);
                answer["error"] = json!({ "code": 413, "message": message });
            } else if hub.store.sent(&repo, &digest, &mut budget)? != Some(size) {
                let until = now() + GOOD_FOR;
                let signature = hex(hmac::sign(&hub.key, &signed(&repo, &digest, size, until)).as_ref());
                let query = format!("repo={repo}&size={size}&until={until}&signature={signature}");
                answer["authenticated"] = true.into();
                answer["actions"] =
                    json!({ "upload": { "href": format!("{base}/lfs/{digest}?{query}"), "header": {} } });
            }
            answers.push(answer);
        }
        Ok(answers)
    });
    let mut reply =
        Reply::json(&json!({ "transfer": "basic", "objects": objects.await?, "hash_algo": "sha256" }));
    reply.headers.clear();
    Ok(reply.with(hyper::header::CONTENT_TYPE, "application/vnd.git-lfs+json"))
}

/// What a signature is over.
fn signed(repo: &RepoId, digest: &Sha256, size: u64, until: u64) -> Vec<u8> {
    format!("upload\n{repo}\n{digest}\n{size}\n{until}").into_bytes()
}

/// Receives a large file at the address that a batch has given.
pub(super) async fn upload(
    hub: Arc<Hub>,
    question: Question,
    digest: Sha256,
    query: Vec<(String, String)>,
) -> Result<Reply, Refusal> {
    let value = |key: &str| query.iter().find(|(there, _)| there == key).map(|(_, value)| value.as_str());
    let number = |key: &str| value(key).and_then(|text| text.parse::<u64>().ok());
    let forged =
        || Refusal::new(StatusCode::FORBIDDEN, "the upload URL is not signed by this hub, or has expired");
    let (Some(repo), Some(size), Some(until), Some(signature)) =
        (value("repo"), number("size"), number("until"), value("signature").and_then(bytes_of))
    else {
        return Err(forged());
    };
    let repo: RepoId = repo.parse()?;
    hmac::verify(&hub.key, &signed(&repo, &digest, size, until), &signature).map_err(|_| forged())?;
    if until < now() {
        return Err(forged());
    }
    let mut body = question.request.into_body();
    if body.size_hint().exact().is_some_and(|announced| announced != size) {
        return Err(Refusal::bad(format!("the body does not have the announced size of {size} bytes")));
    }
    let upload = {
        let repo = repo.clone();
        blocking(hub.clone(), move |hub| Ok(hub.store.receive(&repo, digest, size)?)).await?
    };
    let upload = pour(&hub, &mut body, upload, u64::MAX, |upload, bytes| Ok(upload.write(bytes)?)).await?;
    blocking(hub.clone(), move |hub| Ok(hub.store.finish(&repo, upload)?)).await?;
    count(&hub.metrics.uploads);
    Ok(Reply::json(&json!({})))
}

/// Bytes of hexadecimal digits.
pub(super) fn bytes_of(text: &str) -> Option<Vec<u8>> {
    if !text.len().is_multiple_of(2) || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_bytes_and_nothing_else_is() {
        assert_eq!(bytes_of("00ffa0"), Some(vec![0, 255, 160]));
        assert_eq!((bytes_of("0"), bytes_of("zz"), bytes_of("é")), (None, None, None));
        assert_eq!(bytes_of(&hex(&[1, 2, 3])), Some(vec![1, 2, 3]));
    }
}
