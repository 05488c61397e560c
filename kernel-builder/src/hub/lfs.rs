//! Large files: which of them a hub lacks, and how it gets them.
//!
//! Owns: git-lfs's batch API with `basic` and the Hub's `multipart`. Never: sends the token to a storage.
//!
//! <https://github.com/git-lfs/git-lfs/blob/main/docs/api/batch.md>; parts are of huggingface_hub, `lfs.py`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kernel_plan::units::RepoId;
use serde::Deserialize;
use serde_json::{Value, json};
use thiserror::Error;

use crate::base::api::{Answer, Body, Request, origin};
use crate::base::report::Progress;

use super::{DEFAULT, Hub, HubError};

const MEDIA: &str = "application/vnd.git-lfs+json";
/// Files that are asked about at a time.
const BATCH: usize = 256;

/// A file that belongs into the large file storage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Its path in the repository, for people.
    pub path: String,
    /// The file here.
    pub file: PathBuf,
    /// SHA-256 of its content, in hex.
    pub sha256: String,
    /// Its size in bytes.
    pub size: u64,
}

/// What has to be done for a file to be in the storage.
#[derive(Debug, Clone)]
pub struct PendingUpload {
    object: Object,
    upload: Action,
    verify: Option<Action>,
}

impl PendingUpload {
    /// The file.
    pub fn object(&self) -> &Object {
        &self.object
    }
}

#[derive(Debug, Clone, Deserialize)]
struct Action {
    href: String,
    #[serde(default)]
    header: Option<BTreeMap<String, Value>>,
}

/// A plan for parts that cannot be followed.
#[derive(Debug, PartialEq, Eq, Error)]
enum PartsError {
    #[error("the hub sent a part size that is not valid: `{0}`")]
    Length(String),
    #[error("the hub sent {places} upload URLs for {wanted} parts of {length} bytes")]
    Count { places: usize, wanted: u64, length: u64 },
}

impl Action {
    fn headers(&self) -> impl Iterator<Item = (&str, String)> {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.header.iter().flatten().map(move |(name, value)| (name.as_str(), text(value)))
    }

    /// The length of a part, where the file is to come in parts.
    fn part_length(&self) -> Option<Result<u64, PartsError>> {
        let (_, text) = self.headers().find(|(name, _)| *name == "chunk_size")?;
        Some(match text.parse() {
            Ok(length) if length > 0 => Ok(length),
            _ => Err(PartsError::Length(text)),
        })
    }

    /// Where the parts go, in their order: as many as `size` and `length` ask for.
    fn parts(&self, size: u64, length: u64) -> Result<Vec<String>, PartsError> {
        let numbered = self.headers().filter_map(|(name, url)| Some((name.parse::<u32>().ok()?, url)));
        let places: BTreeMap<u32, String> = numbered.collect();
        let wanted = size.div_ceil(length);
        if places.len() as u64 == wanted {
            return Ok(places.into_values().collect());
        }
        Err(PartsError::Count { places: places.len(), wanted, length })
    }
}

#[derive(Deserialize)]
struct Batch {
    /// The way that the hub chose of those that it was offered; `basic` if it does not say.
    #[serde(default)]
    transfer: Option<String>,
    objects: Vec<BatchObject>,
}

/// The ways that this program knows. Huggingface_hub offers the same two where it has no xet.
const TRANSFERS: [&str; 2] = ["basic", "multipart"];

#[derive(Deserialize)]
struct BatchObject {
    oid: String,
    #[serde(default)]
    actions: Option<Actions>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Actions {
    #[serde(default)]
    upload: Option<Action>,
    #[serde(default)]
    verify: Option<Action>,
}

impl Hub {
    /// What has to be done for the storage to have `objects`; nothing for those that it has.
    pub fn missing(
        &self,
        repo: &RepoId,
        revision: &str,
        objects: &[Object],
    ) -> Result<Vec<PendingUpload>, HubError> {
        let doing = format!("query the missing large files of `{repo}`");
        let mut errands: Vec<PendingUpload> = Vec::new();
        for batch in objects.chunks(BATCH) {
            let named: Vec<Value> =
                batch.iter().map(|one| json!({ "oid": one.sha256, "size": one.size })).collect();
            let body = json!({
                "operation": "upload", "transfers": TRANSFERS, "objects": named,
                "hash_algo": "sha256", "ref": { "name": revision },
            });
            let url = format!("{}/kernels/{repo}.git/info/lfs/objects/batch", self.endpoint());
            let request =
                Request::post(url, Body::json(&body)).header("accept", MEDIA).header("content-type", MEDIA);
            let told: Batch = self.read(self.ask(request)?, &doing)?;
            let brings_something = told.objects.iter().any(|one| one.actions.is_some());
            if let Some(transfer) =
                told.transfer.filter(|it| brings_something && !TRANSFERS.contains(&it.as_str()))
            {
                let (endpoint, transfer) = (self.endpoint().to_owned(), self.scrubbed(&transfer));
                return Err(HubError::Transfer { endpoint, transfer });
            }
            for one in told.objects {
                let Some(object) = batch.iter().find(|object| object.sha256 == one.oid) else { continue };
                if let Some(error) = one.error {
                    let problem = self.scrubbed(error["message"].as_str().unwrap_or("no reason given"));
                    return Err(HubError::Upload { path: object.path.clone(), problem });
                }
                let Some(Actions { upload: Some(upload), verify }) = one.actions else { continue };
                if !errands.iter().any(|errand| errand.object.sha256 == object.sha256) {
                    errands.push(PendingUpload { object: object.clone(), upload, verify });
                }
            }
        }
        Ok(errands)
    }

    /// Brings a file into the storage. `progress` counts its bytes.
    pub fn upload(&self, errand: &PendingUpload, progress: &Progress) -> Result<(), HubError> {
        let PendingUpload { object, upload, verify } = errand;
        let failed = |problem: String| HubError::Upload {
            path: object.path.clone(),
            problem: self.scrubbed(&problem),
        };
        match upload.part_length() {
            None => {
                let body = piece(&object.file, 0, object.size);
                let mut request = Request::put(self.ours(&upload.href), body);
                for (name, value) in upload.headers().filter(|(name, _)| !is_of_the_connection(name)) {
                    request = request.header(name, &value);
                }
                self.stored(self.ask_as(request, progress)?, object)?;
            }
            Some(length) => {
                let length = length.map_err(|error| failed(error.to_string()))?;
                let places = upload.parts(object.size, length).map_err(|error| failed(error.to_string()))?;
                let mut parts = Vec::new();
                for (number, place) in (1u64..).zip(places) {
                    let start = (number - 1) * length;
                    let body = piece(&object.file, start, length.min(object.size - start));
                    let answer = self.stored(self.ask_as(Request::put(place, body), progress)?, object)?;
                    let tag = answer.header("etag").filter(|tag| !tag.is_empty());
                    let tag =
                        tag.ok_or_else(|| failed(format!("the storage sent no ETag for part {number}")))?;
                    parts.push(json!({ "partNumber": number, "etag": tag }));
                }
                let body = Body::json(&json!({ "oid": object.sha256, "parts": parts }));
                let whole = Request::post(self.ours(&upload.href), body);
                let whole = whole.header("accept", MEDIA).header("content-type", MEDIA);
                self.stored(self.ask_as(whole, progress)?, object)?;
            }
        }
        if let Some(verify) = verify {
            let body = Body::json(&json!({ "oid": object.sha256, "size": object.size }));
            let request =
                Request::post(self.ours(&verify.href), body).header("content-type", "application/json");
            self.stored(self.ask(request)?, object)?;
        }
        Ok(())
    }

    /// An address of the answer; a hub behind another address names the Hub's own (huggingface_hub, `utils/_http.py`).
    pub(super) fn ours(&self, href: &str) -> String {
        match href.strip_prefix(DEFAULT).filter(|rest| rest.starts_with('/')) {
            Some(rest) if origin(self.endpoint()) != origin(DEFAULT) => format!("{}{rest}", self.endpoint()),
            _ => href.to_owned(),
        }
    }

    fn stored(&self, answer: Answer, object: &Object) -> Result<Answer, HubError> {
        if answer.fine() {
            return Ok(answer);
        }
        let text = String::from_utf8_lossy(&answer.body).into_owned();
        let problem = self.scrubbed(&format!("the storage answered {} {text}", answer.status));
        Err(HubError::Upload { path: object.path.clone(), problem })
    }
}

fn piece(file: &Path, start: u64, length: u64) -> Body {
    Body::File { path: file.to_owned(), start, length }
}

/// Whether a header is the connection's own business, whatever a hub says.
fn is_of_the_connection(name: &str) -> bool {
    ["host", "content-length", "transfer-encoding", "connection"]
        .iter()
        .any(|own| name.eq_ignore_ascii_case(own))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn action(header: Value) -> Action {
        serde_json::from_value(json!({ "href": "http://h/x", "header": header })).unwrap()
    }

    #[test]
    fn parts_are_in_the_order_of_their_numbers_and_as_many_as_the_file_needs() {
        let parted = action(json!({ "chunk_size": "4", "10": "j", "2": "b", "1": "a" }));
        assert_eq!(parted.part_length(), Some(Ok(4)));
        assert_eq!(parted.parts(9, 4).unwrap(), ["a", "b", "j"]);
        assert!(parted.parts(8, 4).unwrap_err().to_string().contains("3 upload URLs for 2 parts"));
        assert_eq!(action(json!({ "chunk_size": 7 })).part_length(), Some(Ok(7)));
        assert!(action(json!({ "chunk_size": "0" })).part_length().unwrap().is_err());
        assert_eq!(action(json!({})).part_length(), None);
    }
}
