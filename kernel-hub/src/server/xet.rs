//! Large files from clients with `hf_xet`, which has no other way: a token, xorbs, shards.
//!
//! Owns: the tokens, and the answers that `hf_xet` reads (github.com/huggingface/xet-core, openapi/cas.openapi.yaml).
//! Never: serves a file this way. Downloads are plain HTTP: no answer has an `X-Xet-Hash`.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{AUTHORIZATION, HeaderName};
use ring::hmac;
use serde_json::json;

use crate::name::{RepoId, hex};
use crate::store::disk::random_name;
use crate::time::now;
use crate::wire::xet::MerkleHash;

use super::metrics::count;
use super::question::{Hub, Question, blocking};
use super::reply::{Refusal, Reply};
use super::write::{GOOD_FOR, bytes_of};

/// Bytes of a xorb: its content has at most 64 MiB, and it may end with a footer.
const XORB: u64 = 68 * 1024 * 1024;
/// Bytes of a shard, which is for at most about a million chunks.
const SHARD: u64 = 64 * 1024 * 1024;
/// Begins a token.
const PREFIX: &str = "kwxet";

/// What a client needs to send large files of a kernel. Each answer names another session: `hf_xet` remembers the xorbs
/// that it has sent to an address and does not send them again, and here they are kept for one upload.
pub(super) async fn token(hub: Arc<Hub>, question: Question, repo: RepoId) -> Result<Reply, Refusal> {
    let base = question.base;
    let known = repo.clone();
    blocking(hub.clone(), move |hub| Ok(hub.store.refs(&known)?)).await?;
    let until = now() + GOOD_FOR;
    let signature = hex(hmac::sign(&hub.key, &signed(&repo, until)).as_ref());
    let token = format!("{PREFIX}:{repo}:{until}:{signature}");
    let url = format!("{base}/xet/{}", random_name());
    let reply = Reply::json(&json!({ "accessToken": token, "exp": until, "casUrl": url }));
    Ok(reply
        .with(HeaderName::from_static("x-xet-access-token"), &token)
        .with(HeaderName::from_static("x-xet-token-expiration"), &until.to_string())
        .with(HeaderName::from_static("x-xet-cas-url"), &url))
}

/// The kernel that a token of [`token`] is for.
fn authorized(hub: &Hub, question: &Question) -> Result<RepoId, Refusal> {
    let refusal = || {
        Refusal::new(
            StatusCode::UNAUTHORIZED,
            "the token for xet uploads is not from this hub, or has expired",
        )
    };
    let sent = question.header(AUTHORIZATION).and_then(|text| text.strip_prefix("Bearer "));
    let parts: Vec<&str> = sent.unwrap_or_default().split(':').collect();
    let [PREFIX, repo, until, signature] = parts.as_slice() else { return Err(refusal()) };
    let (Ok(repo), Ok(until), Some(signature)) = (repo.parse(), until.parse(), bytes_of(signature)) else {
        return Err(refusal());
    };
    hmac::verify(&hub.key, &signed(&repo, until), &signature).map_err(|_| refusal())?;
    if until < now() { Err(refusal()) } else { Ok(repo) }
}

/// What a signature is over.
fn signed(repo: &RepoId, until: u64) -> Vec<u8> {
    format!("xet\n{repo}\n{until}").into_bytes()
}

/// Receives a xorb.
pub(super) async fn xorb(
    hub: Arc<Hub>,
    question: Question,
    session: String,
    name: MerkleHash,
) -> Result<Reply, Refusal> {
    let repo = authorized(&hub, &question)?;
    let received = question.body_on_disk(&hub, XORB).await?;
    blocking(hub, move |hub| {
        let session = hub.store.session(&repo, &session)?;
        Ok(hub.store.put_xorb(&session, &name, received)?)
    })
    .await?;
    Ok(Reply::json(&json!({ "was_inserted": true })))
}

/// Receives a shard, and makes its files.
pub(super) async fn shard(hub: Arc<Hub>, question: Question, session: String) -> Result<Reply, Refusal> {
    let repo = authorized(&hub, &question)?;
    let mut received = question.body_on_disk(&hub, SHARD).await?;
    blocking(hub.clone(), move |hub| {
        let session = hub.store.session(&repo, &session)?;
        Ok(hub.store.put_shard(&session, &mut received, hub.settings.file_bytes)?)
    })
    .await?;
    count(&hub.metrics.uploads);
    // 0 would say that the files were known before; `hf_xet` makes no difference.
    Ok(Reply::json(&json!({ "result": 1 })))
}
