//! Kernels of a hub by what they compute.
//!
//! Owns: which questions are asked, and what is read of each kernel. Never: downloads a build.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use kernel_plan::units::RepoId;
use serde::Serialize;
use serde_json::Value;

use crate::base::api::Request;

use super::read::{KernelListing, Refs};
use super::subject::{Subject, normal};
use super::{Hub, HubError, escaped, facts};

/// Kernels that one question may give.
const ANSWERS: usize = 20;
/// Kernels that are looked at side by side.
const SIDE_BY_SIDE: usize = 4;

/// A kernel of a hub, and what its files say.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Published {
    /// `owner/name`.
    pub id: String,
    /// Versions, by their branches, the newest first.
    pub versions: Vec<u64>,
    /// The branch that the rest is of.
    pub revision: String,
    /// The commit of that branch.
    pub commit: Option<String>,
    /// The variants.
    pub variants: Vec<String>,
    /// The backends of the variants.
    pub backends: Vec<&'static str>,
    /// The license, as the card or the metadata has it.
    pub license: Option<String>,
    /// Public names of the package.
    pub ops: Vec<String>,
    /// Where the sources are, as the metadata says.
    pub source: Option<String>,
    /// The commit of the sources.
    pub source_commit: Option<String>,
    /// Downloads of the last 30 days, where the hub counts them.
    pub downloads: Option<u64>,
    /// Likes, where the hub counts them.
    pub likes: Option<u64>,
    /// When it was changed last, as the hub says.
    pub changed: Option<String>,
    /// Whether only some may see it.
    pub private: Option<bool>,
    /// Words that describe it.
    pub tags: Vec<String>,
    /// The question that it was found by.
    pub found_by: Option<String>,
    /// The card's first sentences.
    pub about: Option<String>,
    /// The card.
    #[serde(skip)]
    pub card: String,
}

impl Hub {
    /// The kernels that a hub finds by some words.
    fn list(&self, question: &str) -> Result<Vec<KernelListing>, HubError> {
        let url = format!("{}/api/kernels?search={}&limit={ANSWERS}", self.endpoint(), escaped(question));
        self.read(self.ask(Request::get(url))?, "search for kernels")
    }

    /// Kernels that may compute the subject, at most `limit`, each looked at; not in an order that means something.
    pub fn find(&self, subject: &Subject, limit: usize) -> Result<Vec<Published>, HubError> {
        let mut found: Vec<Published> = Vec::new();
        for question in &subject.questions {
            let listed = self.list(question);
            // What some questions gave is worth more than that the last one failed.
            let listed = match listed {
                Err(_) if !found.is_empty() => break,
                other => other?,
            };
            for KernelListing { id, downloads, likes, changed, private, tags } in listed {
                // What is no name of a kernel can neither be shown nor pulled.
                if id.parse::<RepoId>().is_ok() && !found.iter().any(|known| known.id == id) {
                    let found_by = Some(question.clone());
                    let tags = tags.iter().map(|tag| self.scrubbed(tag)).collect();
                    let changed = changed.map(|text| self.scrubbed(&text));
                    let kernel = Published {
                        id,
                        downloads,
                        likes,
                        changed,
                        private,
                        tags,
                        found_by,
                        ..Published::default()
                    };
                    found.push(kernel);
                }
            }
            // Names that fit are at hand: what comes after is farther away.
            let fits = |kernel: &&Published| {
                subject.names.iter().any(|name| normal(&kernel.id).contains(&normal(name)))
            };
            if found.iter().filter(fits).count() >= limit {
                break;
            }
        }
        found.retain(|kernel| kernel.id.parse::<RepoId>().is_ok());
        // A stable sort: names that fit first, else in the hub's order.
        found.sort_by_key(|kernel| {
            !subject.names.iter().any(|name| normal(&kernel.id).contains(&normal(name)))
        });
        found.truncate(limit);
        Ok(self.look_at_all(found))
    }

    fn look_at_all(&self, found: Vec<Published>) -> Vec<Published> {
        let (next, seen) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            while let Some(kernel) = found.get(next.fetch_add(1, Ordering::Relaxed)) {
                let mut own = kernel.clone();
                // One that cannot be read is shown by what the list says.
                if let Ok(repo) = own.id.parse::<RepoId>() {
                    let _unreadable = self.look(&repo, None, &mut own);
                }
                if let Ok(mut seen) = seen.lock() {
                    seen.push(own);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..SIDE_BY_SIDE.min(found.len()) {
                scope.spawn(work);
            }
        });
        seen.into_inner().unwrap_or_default()
    }

    /// One kernel by its name, at a revision or at its newest version.
    pub fn show(&self, repo: &RepoId, revision: Option<&str>) -> Result<Published, HubError> {
        let mut kernel = Published { id: repo.to_string(), ..Published::default() };
        self.look(repo, revision, &mut kernel)?;
        // Counts are an extra that not every hub has.
        let url = format!("{}/api/kernels/{repo}", self.endpoint());
        if let Ok(answer) = self.ask(Request::get(url))
            && let Ok(KernelListing { downloads, likes, changed, private, tags, .. }) =
                self.read(answer, "read its counts")
        {
            let changed = changed.map(|text| self.scrubbed(&text));
            let tags = tags.iter().map(|tag| self.scrubbed(tag)).collect();
            kernel = Published { downloads, likes, changed, private, tags, ..kernel };
        }
        Ok(kernel)
    }

    /// Reads what the files of a kernel say.
    fn look(&self, repo: &RepoId, revision: Option<&str>, kernel: &mut Published) -> Result<(), HubError> {
        let missing = |message: String| HubError::NotFound {
            doing: format!("read `{repo}`"),
            endpoint: self.endpoint().to_owned(),
            message,
        };
        let refs = self
            .refs(repo)?
            .ok_or_else(|| missing("the repository does not exist, or is private".to_owned()))?;
        kernel.versions = versions(&refs);
        let newest =
            kernel.versions.first().map_or_else(|| "main".to_owned(), |version| format!("v{version}"));
        kernel.revision = revision.map_or(newest, str::to_owned);
        kernel.commit = refs.head(&kernel.revision).map(str::to_owned);
        let Some(commit) = kernel.commit.clone() else {
            let has: Vec<String> = refs.branches.iter().map(|branch| self.scrubbed(&branch.name)).collect();
            return Err(missing(format!("no branch `{}`; it has {}", kernel.revision, has.join(", "))));
        };
        kernel.variants =
            self.folders(repo, &commit, "build")?.iter().map(|name| self.scrubbed(name)).collect();
        kernel.variants.sort();
        kernel.backends = facts::backends(&kernel.variants);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        kernel.card = self.file(repo, "main", "README.md")?.map(text).unwrap_or_default();
        kernel.license = facts::license(&kernel.card).map(|text| self.scrubbed(&text));
        kernel.about = facts::about(&kernel.card).map(|text| self.scrubbed(&text));
        let Some(variant) = kernel.variants.first() else { return Ok(()) };
        let package = self.file(repo, &commit, &format!("build/{variant}/__init__.py"))?;
        kernel.ops = package.map(|bytes| facts::names(&text(bytes))).unwrap_or_default();
        let metadata = self.file(repo, &commit, &format!("build/{variant}/metadata.json"))?;
        let metadata: Value =
            metadata.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        let field = |value: &Value| value.as_str().map(|text| self.scrubbed(text));
        kernel.license = kernel.license.take().or_else(|| field(&metadata["license"]));
        kernel.source = field(&metadata["source"]).filter(|text| facts::is_address(text));
        kernel.source_commit =
            field(&metadata["provenance"]["kernel"]["commit"]).filter(|text| facts::is_commit(text));
        Ok(())
    }
}

/// The versions that have a branch, the newest first.
pub(crate) fn versions(refs: &Refs) -> Vec<u64> {
    // `v01` and `v+1` are names like any other.
    let number = |name: &str| {
        let digits = name.strip_prefix('v')?;
        digits.parse().ok().filter(|number: &u64| number.to_string() == digits)
    };
    let mut versions: Vec<u64> = refs.branches.iter().filter_map(|branch| number(&branch.name)).collect();
    versions.sort_unstable_by(|one, other| other.cmp(one));
    versions
}
