//! Builds a published kernel again from its sources and compares the bytes.
//!
//! Owns: what is compared, and why an honest build may differ: other sources, another program, other tools. The signature
//! is checked first, by `package::signature`.
//! Never: trusts what is published; changes it, or the sources.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use miette::Diagnostic;
use serde::Serialize;
use serde_json::Value;
use thiserror::Error;

use crate::base::causes::chain;
use crate::base::files;
use crate::base::report::Event;
use crate::base::session::Session;
use crate::compile::artifact::Artifact;
use crate::compile::difference::{self, Difference};
use crate::exit::{self, Failure, StageError};
use crate::package::signature::{self, Signed};
use crate::package::{self, Additions, PackageError, is_shipped, launchers};
use crate::pipeline::build::reproducible::Trial;
use crate::pipeline::project::selection::{Selection, select};
use crate::pipeline::project::{self, Project};

use super::package::additions;

/// The name of what says where a variant comes from.
const METADATA: &str = "metadata.json";

/// Why a publication is not what its sources make.
#[derive(Debug, Error, Diagnostic)]
enum VerifyBuildError {
    /// There is nothing to compare.
    #[error("`{}` has no variant: VARIANT/metadata.json is missing in it and in its `build`", dir.display())]
    #[diagnostic(
        code(rebuild::nothing),
        help("name the folder of a published kernel, or `build` of a project")
    )]
    Nothing {
        /// The folder.
        dir: PathBuf,
    },
    /// The sources are of something else.
    #[error("`{}` has {published}, but the sources in `{}` are for {ours}", dir.display(), source_dir.display())]
    #[diagnostic(
        code(rebuild::other_kernel),
        help("name its sources with --source DIR, at the commit in metadata.json")
    )]
    OtherKernel {
        /// The folder.
        dir: PathBuf,
        /// Its kernel and version.
        published: String,
        /// The project.
        source_dir: PathBuf,
        /// Its kernel and version.
        ours: String,
    },
    /// None of the variants can be built here.
    #[error("none of the variants can be built here: {problem}")]
    #[diagnostic(code(rebuild::elsewhere), help("`kernelwright variants --all` says what each needs"))]
    Elsewhere {
        /// Why not.
        problem: String,
    },
    /// A file has other bytes.
    #[error("{variant}: {} differs from a build of its sources: {place}{texts}", file.display())]
    #[diagnostic(code(rebuild::differs), help("{explanation}"))]
    Differs {
        /// The variant.
        variant: String,
        /// The file.
        file: PathBuf,
        /// The place in it.
        place: String,
        /// The two texts.
        texts: String,
        /// The likely reason.
        explanation: String,
    },
    /// The sources make nothing of a variant.
    #[error("{variant}: a build of the sources does not make this variant")]
    #[diagnostic(code(rebuild::differs), help("`kernelwright variants` lists what it makes"))]
    NotMade {
        /// The variant.
        variant: String,
    },
    /// A variant was asked for that is not published.
    #[error("`{}` has no variant {}", dir.display(), variants.join(", "))]
    #[diagnostic(code(rebuild::nothing), help("leave out `--variant` to compare all variants"))]
    Unpublished {
        /// The folder.
        dir: PathBuf,
        /// The variants that were named.
        variants: Vec<String>,
    },
    /// A file that only one of them has.
    #[error("{variant}: {} is {whose}", file.display())]
    #[diagnostic(code(rebuild::differs), help("{explanation}"))]
    OnlyOne {
        /// The variant.
        variant: String,
        /// The file.
        file: PathBuf,
        /// Which of the two.
        whose: &'static str,
        /// The likely reason.
        explanation: String,
    },
}

impl StageError for VerifyBuildError {
    fn exit(&self) -> u8 {
        match self {
            Self::OtherKernel { .. } => exit::SPEC,
            Self::Elsewhere { .. } => exit::PLAN,
            _ => exit::PACKAGE,
        }
    }
}

/// A variant as it is published.
struct Published {
    variant: String,
    folder: PathBuf,
    metadata: Value,
}

/// A request to build again.
#[derive(Debug)]
pub(crate) struct Request {
    /// The published folder.
    pub(crate) dir: PathBuf,
    /// The project; the folder above `dir` if `None`.
    pub(crate) source: Option<PathBuf>,
    /// Who may sign; the signature is not checked if `None`.
    pub(crate) signers: Option<PathBuf>,
    /// Whether only the signature is checked.
    pub(crate) signature_only: bool,
    /// How builds are made.
    pub(crate) selection: Selection,
}

/// A variant that was compared.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// The variant.
    pub(crate) variant: String,
    /// Whether all bytes are the same; `None` if it cannot be built here.
    pub(crate) same: Option<bool>,
    /// Why it was not built.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) why: Option<String>,
}

/// The result of building again.
pub(crate) struct Rebuilt {
    /// The signer, if the signature was checked.
    pub(crate) signature: Option<Signed>,
    /// Every variant.
    pub(crate) rows: Vec<Row>,
    /// Every difference; without any, its exit code is that of success.
    pub(crate) failure: Failure,
}

/// Builds a published kernel again, and compares.
///
/// # Errors
/// The signature is refused, or nothing could be compared.
pub(crate) fn rebuild(args: &Request, session: &Session) -> Result<Rebuilt, Failure> {
    let published = published(&args.dir)?;
    let signature = signed(args, &published, session)?;
    if args.signature_only {
        return Ok(Rebuilt {
            signature,
            rows: Vec::new(),
            failure: Failure::already_reported(exit::SUCCESS),
        });
    }
    let source = args.source.clone().unwrap_or_else(|| args.dir.join(".."));
    let project = project::load(&source, session)?;
    same_kernel(args, &source, &project, &published)?;
    let (buildable, elsewhere) = buildable(args, &project, &published, session)?;
    let again = build_again(args, &project, &buildable, session)?;
    let scratch = files::scratch()?;
    let additions = additions(&project, session)?;
    // Packages made before launchers.json existed are compared without it.
    let earlier = Additions { dispatch: additions.dispatch.clone(), launchers: vec![] };
    let provenance = project.provenance();
    let mut failure = Failure::already_reported(exit::SUCCESS);
    let mut rows = Vec::new();
    for published in &buildable {
        let variant = published.variant.clone();
        let Some(artifact) = again.artifacts.iter().find(|one| one.variant == variant) else {
            failure.join(VerifyBuildError::NotMade { variant: variant.clone() }.into());
            rows.push(Row { variant, same: Some(false), why: None });
            continue;
        };
        let folder = scratch.path().join(&published.variant);
        let is_earlier = !files::exists(&published.folder.join(launchers::FILE));
        let additions = if is_earlier { &earlier } else { &additions };
        package::variant((&project.build, &provenance), artifact, additions, None, &folder)
            .map_err(PackageError::into_failure)?;
        let problems = compare(published, &folder, artifact, &again.place)?;
        told_commit(published, &provenance.described(), session);
        let same = problems.is_empty();
        if same {
            session.report.emit(&Event::Done {
                action: "built",
                subject: &published.variant,
                detail: "the same bytes as published",
                seconds: 0.0,
                cached: false,
            });
        }
        rows.push(Row { variant, same: Some(same), why: None });
        problems.into_iter().for_each(|problem| failure.join(problem.into()));
    }
    for (variant, why) in elsewhere {
        session.report.warn(format!("{variant} was not rebuilt: {why}"));
        rows.push(Row { variant, same: None, why: Some(why) });
    }
    Ok(Rebuilt { signature, rows, failure })
}

/// The variants in a folder, or in its `build`.
fn published(dir: &Path) -> Result<Vec<Published>, Failure> {
    let build = dir.join("build");
    let root = if files::is_dir(&build) { build } else { dir.to_owned() };
    let mut found = Vec::new();
    if files::is_dir(&root) {
        for path in files::walk(&root, |folder| is_shipped(folder) && folder.components().count() == 1)? {
            if !path.ends_with(METADATA) || path.components().count() != 2 {
                continue;
            }
            let metadata = serde_json::from_str(&files::read_text(&root.join(&path))?).unwrap_or(Value::Null);
            let variant = path.parent().map(|parent| parent.display().to_string()).unwrap_or_default();
            found.push(Published { folder: root.join(&variant), variant, metadata });
        }
    }
    if found.is_empty() { Err(VerifyBuildError::Nothing { dir: dir.to_owned() }.into()) } else { Ok(found) }
}

/// The signature, if it was asked for.
fn signed(args: &Request, published: &[Published], session: &Session) -> Result<Option<Signed>, Failure> {
    let Some(root) = published.first().and_then(|one| one.folder.parent()) else { return Ok(None) };
    let Some(signers) = &args.signers else {
        if signature::is_there(root) {
            session.report.note("the package is signed: --signers FILE checks its signers");
        }
        return Ok(None);
    };
    Ok(Some(signature::verify(root, signers)?))
}

fn same_kernel(
    args: &Request,
    source: &Path,
    project: &Project,
    published: &[Published],
) -> Result<(), Failure> {
    let general = &project.build.general;
    let ours = format!("{} {}", general.name.as_str(), general.version.value);
    for Published { metadata, .. } in published {
        let theirs = format!("{} {}", metadata["name"].as_str().unwrap_or("?"), metadata["version"]);
        if theirs != ours {
            let (dir, source_dir) = (args.dir.clone(), source.to_owned());
            return Err(VerifyBuildError::OtherKernel { dir, published: theirs, source_dir, ours }.into());
        }
    }
    Ok(())
}

/// The published variants that are asked for and can be built here, and why the others cannot.
fn buildable<'a>(
    args: &Request,
    project: &Project,
    published: &'a [Published],
    session: &Session,
) -> Result<(Vec<&'a Published>, BTreeMap<String, String>), Failure> {
    let named = &args.selection.variants;
    let unknown = |id: &&String| !published.iter().any(|one| one.variant == **id);
    let unknown: Vec<String> = named.iter().filter(unknown).cloned().collect();
    if !unknown.is_empty() {
        return Err(VerifyBuildError::Unpublished { dir: args.dir.clone(), variants: unknown }.into());
    }
    let asked = |one: &&Published| named.is_empty() || named.contains(&one.variant);
    let (mut here, mut elsewhere) = (Vec::new(), BTreeMap::new());
    for one in published.iter().filter(asked) {
        let selection = Selection { variants: vec![one.variant.clone()], ..args.selection.clone() };
        match select(project, &selection, session) {
            Ok(_) => here.push(one),
            Err(failure) => {
                let why = failure.reports.first().map(|report| chain(&**report)).unwrap_or_default();
                elsewhere.insert(one.variant.clone(), why);
            }
        }
    }
    if here.is_empty() {
        let problem = elsewhere.values().next().cloned().unwrap_or_default();
        return Err(VerifyBuildError::Elsewhere { problem }.into());
    }
    Ok((here, elsewhere))
}

/// A finished rebuild.
struct Rebuild {
    artifacts: Vec<Artifact>,
    /// The copy that it was built in, as its path would stand in a library.
    place: String,
    /// Keeps the copy.
    _scratch: tempfile::TempDir,
}

fn build_again(
    args: &Request,
    project: &Project,
    published: &[&Published],
    session: &Session,
) -> Result<Rebuild, Failure> {
    let scratch = files::scratch()?;
    let folder = scratch.path().join(project.build.general.name.as_str());
    let locked =
        args.selection.locked || project.files.iter().any(|path| path.as_str() == "kernelwright.lock");
    if !locked {
        session.report.warn("the sources have no kernelwright.lock, so the rebuild may use other wheels");
    }
    let variants = published.iter().map(|one| one.variant.clone()).collect();
    let selection = Selection { variants, locked, ..args.selection.clone() };
    let place = folder.display().to_string();
    session.report.emit(&Event::Stage {
        name: "build",
        subject: &format!("{} again", project.build.general.name.as_str()),
    });
    let artifacts = Trial { folder, jobs: session.jobs }.build(project, &selection, session)?;
    Ok(Rebuild { artifacts, place, _scratch: scratch })
}

/// Every file of a variant that is not the same in both.
fn compare(
    published: &Published,
    again: &Path,
    artifact: &Artifact,
    place: &str,
) -> Result<Vec<VerifyBuildError>, Failure> {
    let of_both = |folder: &Path| -> Result<Vec<PathBuf>, Failure> {
        // Caches count, too: Python would load them in place of the files that were compared.
        let mut names = files::walk(folder, |_| true)?;
        // A signature is not made from sources; it says whose the publication is.
        names.retain(|name| !signature::is_bundle(name));
        Ok(names)
    };
    let (theirs, ours) = (of_both(&published.folder)?, of_both(again)?);
    let variant = published.variant.clone();
    let likely = reason(&published.metadata, artifact);
    let mut problems = Vec::new();
    for (names, others, whose) in [
        (&theirs, &ours, "published, but not built from the sources"),
        (&ours, &theirs, "built from the sources, but not published"),
    ] {
        for file in names.iter().filter(|file| !others.contains(file)) {
            let (variant, file) = (variant.clone(), file.clone());
            let explanation = likely.clone().unwrap_or_else(|| OTHER_SOURCES.to_owned());
            problems.push(VerifyBuildError::OnlyOne { variant, file, whose, explanation });
        }
    }
    for file in theirs.iter().filter(|file| ours.contains(file)) {
        if file.as_os_str() == METADATA {
            continue;
        }
        let [one, other] = [files::read(&published.folder.join(file))?, files::read(&again.join(file))?];
        problems.extend(differs(&variant, file, [&one, &other], place, likely.as_ref()));
    }
    // If all files are the same, their digests must be, too: clients trust the ones listed there.
    let metadata = Path::new(METADATA);
    let text = |folder: &Path| files::read(&folder.join(metadata));
    let (one, other) = (text(&published.folder)?, text(again)?);
    let [one, other] = [comparable(&one, problems.is_empty()), comparable(&other, problems.is_empty())];
    problems.extend(differs(&variant, metadata, [&one, &other], place, likely.as_ref()));
    Ok(problems)
}

/// The first difference in a file.
fn differs(
    variant: &str,
    file: &Path,
    [one, other]: [&[u8]; 2],
    folder: &str,
    likely: Option<&String>,
) -> Option<VerifyBuildError> {
    let Difference { place, texts, explanation } = difference::between(one, other, [folder, folder])?;
    let texts = texts.map(|(one, other)| format!(", `{one}` and `{other}`")).unwrap_or_default();
    let explanation = likely.cloned().unwrap_or(explanation);
    Some(VerifyBuildError::Differs {
        variant: variant.to_owned(),
        file: file.to_owned(),
        place,
        texts,
        explanation,
    })
}

const OTHER_SOURCES: &str = "kernelwright and the tools are the same, so the sources differ: use the commit that \
                             metadata.json names, without changes";

/// The likely reason of a difference, by the publication's own metadata.
fn reason(metadata: &Value, artifact: &Artifact) -> Option<String> {
    let program = metadata["kernelwright"]["version"].as_str()?;
    let own = env!("CARGO_PKG_VERSION");
    if program != own {
        return Some(format!(
            "it was built by kernelwright {program}, but this is {own}: install that version"
        ));
    }
    let tools: BTreeMap<String, String> =
        serde_json::from_value(metadata["kernelwright"]["tools"].clone()).unwrap_or_default();
    let differing: Vec<String> = tools
        .iter()
        .filter(|(role, id)| artifact.tools.get(*role) != Some(id))
        .map(|(role, id)| {
            let here = artifact.tools.get(role).map_or("none", String::as_str);
            format!("{role} was {id} and is now {here}")
        })
        .collect();
    (!differing.is_empty()).then(|| format!("it was built with other tools: {}", differing.join("; ")))
}

/// Metadata without the commit and the judgement, which a copy of the sources does not have; and without the digests of files that are not the same.
fn comparable(text: &[u8], digests: bool) -> Vec<u8> {
    let mut metadata: Value = serde_json::from_slice(text).unwrap_or(Value::Null);
    if let Some(fields) = metadata.as_object_mut() {
        if !digests {
            fields.remove("digest");
        }
        if let Some(origin) = fields.get_mut("provenance").and_then(Value::as_object_mut) {
            origin.remove("kernel");
        }
        if let Some(ours) = fields.get_mut("kernelwright").and_then(Value::as_object_mut) {
            ours.remove("judged");
        }
    }
    serde_json::to_vec_pretty(&metadata).unwrap_or_default()
}

/// That the sources are at another commit; the bytes say whether it matters.
fn told_commit(published: &Published, here: &Option<String>, session: &Session) {
    let kernel = &published.metadata["provenance"]["kernel"];
    let Some(commit) = kernel["commit"].as_str() else { return };
    let then = if kernel["dirty"] == true { format!("{commit}-dirty") } else { commit.to_owned() };
    if here.as_ref() != Some(&then) {
        let here = here.as_deref().unwrap_or("none");
        session.report.note(format!(
            "{}: published from commit {then}; commit of the sources: {here}",
            published.variant
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_compared_without_the_commit() {
        let text = |commit: &str, id: &str| {
            format!(
                r#"{{"id": "{id}", "provenance": {{"kernel": {{"commit": "{commit}"}}, "kernel-builder": {{}}}}, "digest": "{commit}"}}"#
            )
        };
        let seen = |text: String, digests| comparable(text.as_bytes(), digests);
        assert_eq!(seen(text("a", "_k"), false), seen(text("b", "_k"), false));
        let judged = |judged: &str| format!(r#"{{"kernelwright": {{"tools": 1, "judged": {judged}}}}}"#);
        assert_eq!(seen(judged("null"), true), seen(judged(r#"{"device": "GPU"}"#), true));
        assert_ne!(seen(text("a", "_k"), false), seen(text("a", "_l"), false));
        assert_ne!(seen(text("a", "_k"), true), seen(text("b", "_k"), true));
    }
}
