//! Pages for people: which kernels there are, and what is in one.
//!
//! Owns: HTML without a script, by the templates in `pages/`; everything that came from a kernel is escaped.
//! Never: shows what somebody may not read.

use std::sync::Arc;

use hyper::StatusCode;
use hyper::header::{CONTENT_SECURITY_POLICY, HeaderName};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, UndefinedBehavior};
use serde::Serialize;
use serde_json::Value;

use crate::auth::Who;
use crate::name::{RefName, RepoId, Revision};
use crate::store::objects::{Listed, Tree};
use crate::store::{Refs, Snapshot, StoreError};
use crate::time::rfc3339;
use crate::wire::route::Access;

use super::question::{Hub, blocking};
use super::reply::{Refusal, Reply};

/// What is read of a card or of metadata at most.
const MOST: u64 = 256 * 1024;
/// Every file of `pages/`, by its name in the templates.
const TEMPLATES: &[(&str, &str)] = &[
    ("home.html", include_str!("pages/home.html")),
    ("kernel.html", include_str!("pages/kernel.html")),
    ("page.html", include_str!("pages/page.html")),
    ("style.css", include_str!("pages/style.css")),
];

/// The data of `home.html`.
#[derive(Debug, Serialize)]
struct Home {
    title: &'static str,
    kernels: Vec<Row>,
}

/// A kernel in the list of all.
#[derive(Debug, Serialize)]
struct Row {
    name: String,
    versions: String,
    license: String,
    changed: String,
}

/// The data of `kernel.html`.
#[derive(Debug, Serialize)]
struct Kernel {
    title: String,
    license: Option<String>,
    branches: Vec<Branch>,
    results: Vec<Block>,
}

#[derive(Debug, Serialize)]
struct Branch {
    name: String,
    commit: String,
    date: String,
    files: usize,
    /// The title of the commit.
    message: String,
    variants: Vec<String>,
    version: Option<String>,
}

/// A paragraph, or a table if there is no text.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
struct Block {
    text: Option<String>,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
}

/// All kernels that somebody may read.
pub(super) async fn home(hub: Arc<Hub>, who: Who) -> Result<Reply, Refusal> {
    let kernels = blocking(hub, move |hub| {
        let mut kernels = Vec::new();
        for repo in hub.store.list()? {
            if !who.may(Access::Read, Some(repo.org()), hub.settings.anonymous) {
                continue;
            }
            // One that was removed in between is not there.
            let Ok(about) = About::of(hub, &repo) else { continue };
            kernels.push(Row {
                name: repo.to_string(),
                versions: about.versions().map(RefName::as_str).collect::<Vec<_>>().join(", "),
                license: about.license(hub)?.unwrap_or_default(),
                changed: about.changed(),
            });
        }
        Ok(kernels)
    });
    html("home.html", &Home { title: "Kernels", kernels: kernels.await? })
}

/// One kernel: versions, variants, license and results.
pub(super) async fn kernel(hub: Arc<Hub>, repo: RepoId) -> Result<Reply, Refusal> {
    let page = blocking(hub, move |hub| {
        let about = About::of(hub, &repo)?;
        let branch = |(name, snapshot): &(RefName, Snapshot)| Branch {
            name: name.as_str().to_owned(),
            commit: snapshot.id.to_string(),
            date: rfc3339(snapshot.commit.date),
            files: snapshot.tree.files.len(),
            message: snapshot.commit.title.clone(),
            variants: variants(&snapshot.tree),
            version: name.version().map(|version| version.to_string()),
        };
        Ok(Kernel {
            title: repo.to_string(),
            license: about.license(hub)?,
            branches: about.snapshots.iter().map(branch).collect(),
            results: results(about.card(hub)?.as_deref().unwrap_or("")),
        })
    });
    html("kernel.html", &page.await?)
}

/// What pages say of a kernel.
struct About {
    /// By branch: versions first, newest first, then the others.
    snapshots: Vec<(RefName, Snapshot)>,
}

impl About {
    fn of(hub: &Hub, repo: &RepoId) -> Result<Self, StoreError> {
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
fn results(card: &str) -> Vec<Block> {
    let lines = card.lines().skip_while(|line| line.trim() != "## Results").skip(1);
    let lines = lines.take_while(|line| !line.starts_with("# ") && !line.starts_with("## "));
    let mut blocks = Vec::new();
    let mut table: Vec<&str> = Vec::new();
    for line in lines.chain([""]) {
        let row = line.trim();
        if row.len() > 1 && row.starts_with('|') && row.ends_with('|') {
            table.push(row);
            continue;
        }
        blocks.extend(block_of(&std::mem::take(&mut table)));
        if !row.is_empty() {
            blocks.push(Block { text: Some(row.to_owned()), ..Block::default() });
        }
    }
    blocks
}

/// The lines of a Markdown table; its second line is left out if it is a rule.
fn block_of(lines: &[&str]) -> Option<Block> {
    let cells = |line: &&str| -> Vec<String> {
        line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let is_rule = |cells: &[String]| {
        cells.iter().all(|cell| !cell.is_empty() && cell.bytes().all(|byte| b"-:".contains(&byte)))
    };
    let mut rows = lines.iter().map(cells);
    let head = rows.next()?;
    let mut rows: Vec<_> = rows.collect();
    if rows.first().is_some_and(|first| is_rule(first)) {
        rows.remove(0);
    }
    Some(Block { text: None, head, rows })
}

fn html(template: &str, page: &impl Serialize) -> Result<Reply, Refusal> {
    let text = rendered(template, page).map_err(|error| {
        Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, format!("the page is wrong: {error}"))
    })?;
    Ok(Reply::text(StatusCode::OK, "text/html; charset=utf-8", text)
        .with(
            CONTENT_SECURITY_POLICY,
            "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
        )
        .with(HeaderName::from_static("x-content-type-options"), "nosniff"))
}

/// Only an error in the templates makes this fail.
fn rendered(template: &str, page: &impl Serialize) -> Result<String, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_formatter(|out, _, value| {
        let text = value.to_string();
        Ok(out.write_str(&if value.is_safe() { text } else { escaped(&text) })?)
    });
    for (name, text) in TEMPLATES {
        environment.add_template(name, text)?;
    }
    Ok(environment.get_template(template)?.render(Serde(page))? + "\n")
}

/// Text as HTML shows it, in an element or in a quoted attribute.
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

    fn page(results: Vec<Block>) -> String {
        let branch = |name: &str, version: Option<u64>| Branch {
            name: name.to_owned(),
            commit: "0".repeat(40),
            date: rfc3339(0),
            files: 2,
            message: "it's <new>".to_owned(),
            variants: vec!["torch-cpu".to_owned()],
            version: version.map(|version| version.to_string()),
        };
        let branches = vec![branch("v1", Some(1)), branch("main", None)];
        let page =
            Kernel { title: "me/k".to_owned(), license: Some("apache-2.0".to_owned()), branches, results };
        rendered("kernel.html", &page).unwrap()
    }

    /// The results of a card, as the page has them.
    fn shown(card: &str) -> String {
        let page = page(results(card));
        let (_, rest) = page.split_once("<h2>Results</h2>\n").unwrap();
        rest.split_once("</body>").unwrap().0.to_owned()
    }

    #[test]
    fn a_page_is_what_it_was_before_it_was_a_template() {
        let one_line = |text: &str| text.replace(['\n'], "");
        assert_eq!(
            one_line(&page(vec![])),
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>me/k</title>\
             <meta name=\"viewport\" content=\"width=device-width\"><style>\
             body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}\
             table{border-collapse:collapse}td,th{border:1px solid #999;padding:.2rem .6rem;text-align:left}\
             pre{white-space:pre-wrap}@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}a{color:#8bf}}\
             </style></head><body><h1>me/k</h1><p><a href=\"/\">All kernels</a></p><p>License: apache-2.0</p>\
             <h2>Versions</h2><h3>v1</h3><p><code>0000000000000000000000000000000000000000</code>, \
             1970-01-01T00:00:00.000Z, 2 files: it&#39;s &lt;new&gt;</p><ul><li><code>torch-cpu</code></li></ul>\
             <pre>from kernels import get_kernelkernel = get_kernel(\"me/k\", version=1)</pre>\
             <h3>main</h3><p><code>0000000000000000000000000000000000000000</code>, \
             1970-01-01T00:00:00.000Z, 2 files: it&#39;s &lt;new&gt;</p><ul><li><code>torch-cpu</code></li></ul>\
             <h2>Results</h2><p>The card has no results.</p></body></html>"
        );
        let none = rendered("home.html", &Home { title: "Kernels", kernels: vec![] }).unwrap();
        assert!(one_line(&none).ends_with("<h1>Kernels</h1><p>There are no kernels yet.</p></body></html>"));
        let row = Row {
            name: "me/k".to_owned(),
            versions: "v2, v1".to_owned(),
            license: String::new(),
            changed: rfc3339(0),
        };
        let one = rendered("home.html", &Home { title: "Kernels", kernels: vec![row] }).unwrap();
        assert!(one_line(&one).contains(
            "<table><tr><th>kernel</th><th>versions</th><th>license</th><th>changed</th></tr>\
             <tr><td><a href=\"/me/k\">me/k</a></td><td>v2, v1</td><td></td><td>1970-01-01T00:00:00.000Z</td></tr></table>"
        ));
    }

    #[test]
    fn a_card_shows_its_results_and_nothing_runs() {
        let card = "---\nlibrary_name: kernels\nlicense: \"apache-2.0\"\n---\n# k\n\n## Results\n\nOn an H200.\n\n\
            | workload | speed-up |\n|---|---|\n| <script>x</script> | 2.00x |\n\n## Other\n| a | b |\n";
        assert_eq!(license_of_card(card).as_deref(), Some("apache-2.0"));
        assert_eq!(
            shown(card),
            "<p>On an H200.</p>\n<table><tr><th>workload</th><th>speed-up</th></tr>\n\
             <tr><td>&lt;script&gt;x&lt;/script&gt;</td><td>2.00x</td></tr>\n</table>\n"
        );
        assert_eq!(shown("# k\n"), "<p>The card has no results.</p>\n");
        assert_eq!(shown("## Results\n|\n||\n"), "<p>|</p>\n<table><tr><th></th></tr>\n</table>\n");
        assert_eq!(license_of_card("# k\nlicense: x"), None);
    }
}
