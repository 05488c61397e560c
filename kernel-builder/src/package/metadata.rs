//! `metadata.json` of a variant, as the `kernels` client 0.17 reads it (huggingface/kernels, kernels-data/src/metadata.rs).
//!
//! Owns: its fields and the digest over the variant's files.
//! Never: writes a field whose value is not known; unknown keys are ignored by the client, wrong ones are not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kernel_plan::spec::BuildSpec;
use kernel_plan::spec::build::{KernelDepend, KernelPin};
use kernel_plan::units::BackendId;
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};

use crate::base::files::{self, FileError};
use crate::compile::artifact::Artifact;

use super::judged::{Judgement, Status};
use super::signature;

/// Where the sources of a kernel came from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Provenance {
    /// The commit of the repository that holds the project, 40 hexadecimal digits; absent outside of one.
    pub commit: Option<String>,
    /// Whether files of the project differ from that commit.
    pub dirty: bool,
}

impl Provenance {
    /// The commit as text, with `-dirty` where files differ from it.
    pub fn described(&self) -> Option<String> {
        self.commit.as_ref().map(|commit| if self.dirty { format!("{commit}-dirty") } else { commit.clone() })
    }
}

/// The oldest client that reads this layout; with dependencies on other kernels, the first that resolves them.
const CLIENT: &str = "0.14.0";
const CLIENT_WITH_KERNEL_DEPENDS: &str = "0.17.0";

/// SHA-256 of every file of a variant's folder, in base64, by its path.
pub fn digests(folder: &Path) -> Result<Vec<(String, String)>, FileError> {
    let names = files::walk(folder, super::shipped::is_shipped)?;
    names
        .into_iter()
        .filter(|name| name.as_os_str() != "metadata.json")
        .map(|name| {
            let digest = Sha256::digest(files::read(&folder.join(&name))?);
            Ok((name.display().to_string(), STANDARD.encode(digest)))
        })
        .collect()
}

/// The kernel and version that a variant was packaged as, where its metadata.json says both.
pub fn named(folder: &Path) -> Result<Option<(String, u64)>, FileError> {
    let text = files::read(&folder.join("metadata.json"))?;
    let metadata: Value = serde_json::from_slice(&text).unwrap_or(Value::Null);
    Ok(metadata["name"].as_str().map(str::to_owned).zip(metadata["version"].as_u64()))
}

/// Where the results of a packaged variant were checked, by its metadata.json; packages made earlier do not say it.
pub fn status(variant: &str, folder: &Path) -> Result<Status, FileError> {
    let text = files::read(&folder.join("metadata.json"))?;
    let metadata: Value = serde_json::from_slice(&text).unwrap_or(Value::Null);
    let backend = metadata["backend"]["type"].as_str().unwrap_or("unknown");
    let judged = serde_json::from_value(metadata["kernelwright"]["judged"].clone()).unwrap_or(None);
    Ok(Status::new(variant, backend, judged))
}

/// The files of a variant's folder that are not those that its metadata.json has the digests of: changed, added or gone.
/// Signatures come later and are none of them; metadata that has no digests says nothing.
pub fn changed(folder: &Path) -> Result<Vec<String>, FileError> {
    let text = files::read(&folder.join("metadata.json"))?;
    let metadata: Value = serde_json::from_slice(&text).unwrap_or(Value::Null);
    let Some(digests_then) = metadata["digest"]["files"].as_object() else { return Ok(Vec::new()) };
    let then: BTreeMap<&str, &str> =
        digests_then.iter().filter_map(|(name, digest)| Some((name.as_str(), digest.as_str()?))).collect();
    let now = digests(folder)?;
    let now: BTreeMap<&str, &str> = now
        .iter()
        .map(|(name, digest)| (name.as_str(), digest.as_str()))
        .filter(|(name, _)| !signature::is_bundle(Path::new(name)))
        .collect();
    let names: BTreeSet<&str> = then.keys().chain(now.keys()).copied().collect();
    Ok(names.into_iter().filter(|name| then.get(name) != now.get(name)).map(str::to_owned).collect())
}

/// The text of `metadata.json`: same inputs, same bytes.
pub fn render(
    build: &BuildSpec,
    artifact: &Artifact,
    provenance: &Provenance,
    judged: Option<&Judgement>,
    digests: &[(String, String)],
) -> String {
    let general = &build.general;
    // The backend of an artifact is that of a row of the matrix, so it has a name that build.toml knows.
    let id: Option<BackendId> = artifact.backend.parse().ok();
    let python = id.into_iter().flat_map(|id| general.python_depends_of(id));
    let kernels: Vec<Value> =
        id.into_iter().flat_map(|id| general.kernel_depends_of(id)).map(kernel_depend).collect();
    let mut backend = json!({ "type": artifact.backend });
    if !artifact.capabilities.is_empty() {
        backend["archs"] = json!(artifact.capabilities);
    }
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| fields.insert(name.to_owned(), value);
    put("name", json!(general.name.as_str()));
    put("id", json!(artifact.id));
    put("version", json!(general.version.value));
    put("license", json!(general.license.value));
    if let Some(upstream) = &general.upstream {
        put("upstream", json!(upstream.value));
    }
    if let Some(source) = &general.source {
        put("source", json!(source.value));
    }
    put("python-depends", python.map(|depend| json!(depend)).collect());
    let client = if kernels.is_empty() { CLIENT } else { CLIENT_WITH_KERNEL_DEPENDS };
    if !kernels.is_empty() {
        put("kernel-depends", Value::Array(kernels));
    }
    put("backend", backend);
    put("kernels-minver", json!(client));
    let files: Map<String, Value> =
        digests.iter().map(|(name, digest)| (name.clone(), json!(digest))).collect();
    put("digest", json!({ "algorithm": "sha256", "files": files }));
    let mut origin = json!({ "kernel-builder": { "version": env!("CARGO_PKG_VERSION") } });
    if let Some(commit) = &provenance.commit {
        origin["kernel"] = json!({ "commit": commit, "dirty": provenance.dirty });
    }
    put("provenance", origin);
    // Our own key: the client ignores keys that it does not know. `judged` is null if results were not checked.
    let ours = json!({ "version": env!("CARGO_PKG_VERSION"), "tools": artifact.tools, "judged": judged });
    put("kernelwright", ours);
    let mut text = serde_json::to_string_pretty(&fields).unwrap_or_default();
    text.push('\n');
    text
}

fn kernel_depend(depend: &KernelDepend) -> Value {
    match &depend.pin {
        KernelPin::Version(version) => json!({ "repo-id": depend.repo_id.value, "version": version }),
        KernelPin::Revision(revision) => json!({ "repo-id": depend.repo_id.value, "revision": revision }),
    }
}
