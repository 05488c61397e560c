//! Pages for people: which kernels there are, and what is in one.
//!
//! Owns: HTML without a script; everything that came from a kernel is escaped.
//! Never: shows what somebody may not read.

use std::fmt::Write as _;
use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CONTENT_SECURITY_POLICY, HeaderName};
use serde_json::Value;

use crate::auth::Requester;
use crate::name::{RefName, RepoId, Revision};
use crate::store::objects::{Listed, Tree};
use crate::store::{Refs, Snapshot, StoreError};
use crate::time::rfc3339;
use crate::wire::route::Access;

use super::question::{Hub, blocking};
use super::reply::{Refusal, Reply};

/// What is read of a card or of metadata at most.
const MOST: u64 = 256 * 1024;
const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
    table{border-collapse:collapse}td,th{border:1px solid #999;padding:.2rem .6rem;text-align:left}\
    pre{white-space:pre-wrap}@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}a{color:#8bf}}";

/// All kernels that somebody may read.
pub(super) async fn home(hub: Arc<Hub>, who: Requester) -> Result<Reply, Refusal> {
    let body = blocking(hub, move |hub| {
        let mut rows = String::new();
        for repo in hub.store.list()? {
            if !who.may(Access::Read, Some(repo.org()), hub.settings.anonymous) {
                continue;
            }
            // One that was removed in between is not there.
            let Ok(about) = KernelSnapshots::read(hub, &repo) else { continue };
            let versions: Vec<String> = about.versions().map(|name| escaped(name.as_str())).collect();
            let _infallible = write!(
                rows,
                "<tr><td><a href=\"/{repo}\">{repo}</a></td><td>{}</td><td>{}</td><td>{}</td></tr>",
                versions.join(", "),
                escaped(about.license(hub)?.as_deref().unwrap_or("")),
                about.changed(),
            );
        }
        Ok(if rows.is_empty() {
            "<p>There are no kernels yet.</p>".to_owned()
        } else {
            format!(
                "<table><tr><th>kernel</th><th>versions</th><th>license</th><th>changed</th></tr>{rows}</table>"
            )
        })
    });
    Ok(html("Kernels", &body.await?))
}

/// One kernel: versions, variants, license and results.
pub(super) async fn kernel(hub: Arc<Hub>, repo: RepoId) -> Result<Reply, Refusal> {
    let title = repo.to_string();
    let body = blocking(hub, move |hub| {
        let about = KernelSnapshots::read(hub, &repo)?;
        let mut body = String::from("<p><a href=\"/\">All kernels</a></p>");
        if let Some(license) = about.license(hub)? {
            let _infallible = write!(body, "<p>License: {}</p>", escaped(&license));
        }
        body.push_str("<h2>Versions</h2>");
        for (name, snapshot) in &about.snapshots {
            let variants: String = variants(&snapshot.tree)
                .iter()
                .map(|variant| format!("<li><code>{}</code></li>", escaped(variant)))
                .collect();
            let _infallible = write!(
                body,
                "<h3>{}</h3><p><code>{}</code>, {}, {} files: {}</p><ul>{variants}</ul>",
                escaped(name.as_str()),
                snapshot.id,
                rfc3339(snapshot.commit.date),
                snapshot.tree.files.len(),
                escaped(&snapshot.commit.title),
            );
            if let Some(version) = name.version() {
                let _infallible = write!(
                    body,
                    "<pre>from kernels import get_kernel\nkernel = get_kernel(\"{repo}\", version={version})</pre>"
                );
            }
        }
        body.push_str("<h2>Results</h2>");
        body.push_str(&results(about.card(hub)?.as_deref().unwrap_or("")));
        Ok(body)
    });
    Ok(html(&title, &body.await?))
}

/// What pages say of a kernel.
struct KernelSnapshots {
    /// By branch: versions first, newest first, then the others.
    snapshots: Vec<(RefName, Snapshot)>,
}

impl KernelSnapshots {
    fn read(hub: &Hub, repo: &RepoId) -> Result<Self, StoreError> {
        let Refs { branches, .. } = hub.store.refs(repo)?;
        let mut snapshots = Vec::new();
        for (name, id) in branches {
            let snapshot = hub.store.snapshot(repo, &Revision::Commit(id))?;
            snapshots.push((name, snapshot));
        }
        snapshots.sort_by(|(a, _), (b, _)| b.version().cmp(&a.version()).then(a.cmp(b)));
        Ok(Self { snapshots })
    }

    fn versions(&self) -> impl Iterator<Item = &RefName> {
        self.snapshots.iter().map(|(name, _)| name).filter(|name| name.version().is_some())
    }

    fn changed(&self) -> String {
        self.snapshots.iter().map(|(_, snapshot)| snapshot.commit.date).max().map(rfc3339).unwrap_or_default()
    }

    /// The card: README.md of main, else of the newest version that has one.
    fn card(&self, hub: &Hub) -> Result<Option<String>, StoreError> {
        let main = self.snapshots.iter().filter(|(name, _)| *name == RefName::main());
        for (_, snapshot) in main.chain(&self.snapshots) {
            for name in ["README.md", "build/CARD.md", "CARD.md"] {
                if let Some(bytes) = hub.store.small_file(&snapshot.tree, name, MOST)? {
                    return Ok(Some(String::from_utf8_lossy(&bytes).into_owned()));
                }
            }
        }
        Ok(None)
    }

    /// As the front matter of the card says, else the metadata of a variant.
    fn license(&self, hub: &Hub) -> Result<Option<String>, StoreError> {
        if let Some(license) = self.card(hub)?.as_deref().and_then(license_of_card) {
            return Ok(Some(license));
        }
        for (_, snapshot) in &self.snapshots {
            for variant in variants(&snapshot.tree) {
                let path = format!("build/{variant}/metadata.json");
                let metadata = hub.store.small_file(&snapshot.tree, &path, MOST)?;
                let value: Option<Value> = metadata.and_then(|bytes| serde_json::from_slice(&bytes).ok());
                if let Some(license) = value.as_ref().and_then(|value| value["license"].as_str()) {
                    return Ok(Some(license.to_owned()));
                }
            }
        }
        Ok(None)
    }
}

/// The folders of `build/`.
fn variants(tree: &Tree) -> Vec<String> {
    let folders = tree.list("build", false);
    let name = |listed: &Listed<'_>| match listed {
        Listed::Folder { path, .. } => path.rsplit('/').next().map(str::to_owned),
        Listed::File(_) => None,
    };
    folders.iter().filter_map(name).collect()
}

fn license_of_card(card: &str) -> Option<String> {
    let matter = card.strip_prefix("---")?;
    let matter = matter.split_once("\n---").map(|(matter, _)| matter)?;
    let value = matter.lines().find_map(|line| line.strip_prefix("license:"))?;
    Some(value.trim().trim_matches(['"', '\'']).to_owned()).filter(|license| !license.is_empty())
}

/// The section `Results` of a card: tables of Markdown as tables, the rest as it is written.
fn results(card: &str) -> String {
    let lines = card.lines().skip_while(|line| line.trim() != "## Results").skip(1);
    let lines: Vec<&str> =
        lines.take_while(|line| !line.starts_with("# ") && !line.starts_with("## ")).collect();
    if lines.iter().all(|line| line.trim().is_empty()) {
        return "<p>The card has no results.</p>".to_owned();
    }
    let mut text = String::new();
    let mut table: Vec<&str> = Vec::new();
    for line in lines.into_iter().chain([""]) {
        let row = line.trim();
        if row.len() > 1 && row.starts_with('|') && row.ends_with('|') {
            table.push(row);
            continue;
        }
        text.push_str(&drawn(&std::mem::take(&mut table)));
        if !row.is_empty() {
            let _infallible = write!(text, "<p>{}</p>", escaped(row));
        }
    }
    text
}

fn drawn(rows: &[&str]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut text = String::from("<table>");
    for (index, row) in rows.iter().enumerate() {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let is_rule =
            cells.iter().all(|cell| !cell.is_empty() && cell.bytes().all(|byte| b"-:".contains(&byte)));
        if index == 1 && is_rule {
            continue;
        }
        let tag = if index == 0 { "th" } else { "td" };
        text.push_str("<tr>");
        for cell in cells {
            let _infallible = write!(text, "<{tag}>{}</{tag}>", escaped(cell));
        }
        text.push_str("</tr>");
    }
    text.push_str("</table>");
    text
}

fn html(title: &str, body: &str) -> Reply {
    let title = escaped(title);
    let text = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style></head>\
         <body><h1>{title}</h1>{body}</body></html>\n"
    );
    Reply::text(StatusCode::OK, "text/html; charset=utf-8", text)
        .with(
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        )
        .with(HeaderName::from_static("x-content-type-options"), "nosniff")
}

pub(super) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_card_shows_its_results_and_nothing_runs() {
        let card = "---\nlibrary_name: kernels\nlicense: \"apache-2.0\"\n---\n# k\n\n## Results\n\nOn an H200.\n\n\
            | workload | speed-up |\n|---|---|\n| <script>x</script> | 2.00x |\n\n## Other\n| a | b |\n";
        assert_eq!(license_of_card(card).as_deref(), Some("apache-2.0"));
        let shown = results(card);
        assert_eq!(
            shown,
            "<p>On an H200.</p><table><tr><th>workload</th><th>speed-up</th></tr>\
             <tr><td>&lt;script&gt;x&lt;/script&gt;</td><td>2.00x</td></tr></table>"
        );
        assert_eq!(results("# k\n"), "<p>The card has no results.</p>");
        assert_eq!(results("## Results\n|\n||\n"), "<p>|</p><table><tr><th></th></tr></table>");
        assert_eq!(license_of_card("# k\nlicense: x"), None);
    }
}
