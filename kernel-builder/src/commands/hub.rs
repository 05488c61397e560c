//! `hub`: which kernels there are already, what one of them is, and a project of its sources.
//!
//! Owns: the questions as a person puts them, and how answers are shown. Never: writes a project (`pull`).

use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, Subcommand};
use comfy_table::{Table, presets};
use kernel_plan::units::{GitRef, RepoId};
use serde_json::json;

use crate::base::files;
use crate::base::session::Session;
use crate::exit::{self, Failure};
use crate::hub::find::Published;
use crate::hub::rank::{self, Ranked};
use crate::hub::subject::Subject;
use crate::hub::{Hub, facts};
use crate::pipeline::create::published;
use crate::pipeline::create::pull::{self, PulledProject};
use crate::pipeline::project::OpFile;

/// Search, show and copy published kernels
///
/// The hub is Hugging Face's, or the one at HF_ENDPOINT. `new` and `fill` also query it before they begin, for at
/// most three seconds.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright hub search rms-norm
  kernelwright hub show kernels-community/activation
  kernelwright hub pull kernels-community/triton-layer-norm@v1")]
pub struct Args {
    #[command(subcommand)]
    what: HubVerb,
}

#[derive(Debug, Subcommand)]
enum HubVerb {
    Search(SearchArgs),
    Show(ShowArgs),
    Pull(PullArgs),
}

/// Find kernels that compute an operation, best match first
///
/// The output gives the reasons for each match. The search reads names, functions of the packages and cards; no code
/// runs. The query is a few words, or an op.toml, whose operation, family and template are searched for.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright hub search rms-norm
  kernelwright hub search fast-norm/op.toml --backend cuda")]
struct SearchArgs {
    /// Words to search for, an op.toml, or a folder with one
    #[arg(value_name = "QUERY|op.toml")]
    query: String,
    /// Maximum number of kernels to show
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    limit: u16,
    /// Backend to search for; default: cuda if an NVIDIA driver is present, else cpu
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(facts::BACKENDS.iter().copied()))]
    backend: Option<String>,
}

/// Show the versions, variants, licence and card of a kernel
///
/// Also shows the functions of the package, and where the sources are.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright hub show kernels-community/activation
  kernelwright hub show kernels-community/triton-layer-norm@v1")]
struct ShowArgs {
    /// The kernel; the newest version by default
    #[arg(value_name = "OWNER/NAME[@v1]", value_parser = named)]
    kernel: KernelRevision,
}

/// Create a project from the sources of a published kernel
///
/// A repository with a build.toml is copied without its builds. For a kernel in Python alone (Triton, CuTe DSL), the
/// package is the source, and a build.toml is written for it. If only binaries are published, the output says where
/// the sources are. No downloaded code runs, and no existing file is overwritten.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright hub pull kernels-community/triton-layer-norm@v1
  kernelwright hub pull kernels-community/activation my-activation")]
struct PullArgs {
    /// The kernel; the newest version by default
    #[arg(value_name = "OWNER/NAME[@v1]", value_parser = named)]
    kernel: KernelRevision,
    /// Folder to write to; default: the kernel's name
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// A kernel of a hub, and one of its revisions.
#[derive(Debug, Clone)]
struct KernelRevision {
    repo: RepoId,
    revision: Option<GitRef>,
}

fn named(text: &str) -> Result<KernelRevision, String> {
    let (repo, revision) = match text.split_once('@') {
        Some((repo, revision)) => {
            (repo, Some(revision.parse::<GitRef>().map_err(|error| error.to_string())?))
        }
        None => (text, None),
    };
    Ok(KernelRevision { repo: repo.parse::<RepoId>().map_err(|error| error.to_string())?, revision })
}

impl KernelRevision {
    fn revision(&self) -> Option<&str> {
        self.revision.as_ref().map(|revision| revision.as_str())
    }
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    match &args.what {
        HubVerb::Search(args) => search(args, session),
        HubVerb::Show(args) => show(args, session),
        HubVerb::Pull(args) => pull(args, session),
    }
}

fn search(args: &SearchArgs, session: &Session) -> Result<(), Failure> {
    let path = Path::new(&args.query);
    let is_file =
        path.extension().is_some_and(|ending| ending == "toml") || files::exists(&path.join("op.toml"));
    let subject = if is_file {
        published::of_op(OpFile::at(path).read("look for", session)?.name.value.as_str())
    } else {
        Subject::from_names([args.query.as_str()])
    };
    if subject.questions.is_empty() {
        session.report.warn(format!("the query `{}` contains no letter or digit", args.query));
        return Err(Failure::already_reported(exit::USAGE));
    }
    let hub = Hub::connect(session)?;
    let backend = args.backend.clone().unwrap_or_else(|| published::backend_here().to_owned());
    let ranked = rank::rank(&subject, hub.find(&subject, usize::from(args.limit))?, &backend);
    let data = json!({
        "endpoint": hub.endpoint(), "names": subject.names, "asked": subject.questions, "backend": backend,
        "kernels": ranked,
    });
    session.report.result("hub search", &data, &ranking_text(&ranked, &hub, &subject));
    Ok(())
}

fn ranking_text(ranked: &[Ranked], hub: &Hub, subject: &Subject) -> String {
    if ranked.is_empty() {
        return format!("no kernel found at {} for {}\n", hub.endpoint(), subject.names.join(", "));
    }
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["kernel", "version", "backends", "license", "why"]);
    for one in ranked {
        let kernel = &one.kernel;
        table.add_row([
            kernel.id.clone(),
            kernel.versions.first().map_or_else(|| "-".to_owned(), |version| format!("v{version}")),
            kernel.backends.join(", "),
            kernel.license.clone().unwrap_or_else(|| "-".to_owned()),
            one.why.join("; "),
        ]);
    }
    format!("{table}\n\nnext:\n  kernelwright hub show {}\n", ranked[0].kernel.id)
}

fn show(args: &ShowArgs, session: &Session) -> Result<(), Failure> {
    let hub = Hub::connect(session)?;
    let kernel = hub.show(&args.kernel.repo, args.kernel.revision())?;
    let data = json!({ "endpoint": hub.endpoint(), "kernel": kernel, "card": kernel.card });
    session.report.result("hub show", &data, &shown(&kernel, &hub.page(&args.kernel.repo)));
    Ok(())
}

fn shown(kernel: &Published, page: &str) -> String {
    let list = |items: &[String]| if items.is_empty() { "none".to_owned() } else { items.join(", ") };
    let versions: Vec<String> = kernel.versions.iter().map(|version| format!("v{version}")).collect();
    let or = |text: &Option<String>, other: &str| text.clone().unwrap_or_else(|| other.to_owned());
    let mut text = format!("{} {}  {page}\n", kernel.id, kernel.revision);
    if let Some(about) = &kernel.about {
        text += &format!("  {about}\n");
    }
    let commit = or(&kernel.commit, "unknown");
    let source = match (&kernel.source, &kernel.source_commit) {
        (Some(source), Some(commit)) => format!("{source} at {commit}"),
        (Some(source), None) => source.clone(),
        (None, _) => "not stated".to_owned(),
    };
    let mut rows = vec![
        ("versions", list(&versions)),
        ("commit", commit),
        ("license", or(&kernel.license, "not stated")),
        ("functions", list(&kernel.ops)),
        ("sources", source),
    ];
    rows.extend(kernel.downloads.map(|count| ("downloads", format!("{count} in 30 days"))));
    rows.extend(kernel.changed.clone().map(|when| ("changed", when)));
    for (name, value) in rows {
        text += &format!("  {name:<10} {value}\n");
    }
    text += &format!("  variants   {}\n", kernel.variants.len());
    for variant in &kernel.variants {
        text += &format!("    {variant}\n");
    }
    let version = kernel.revision.strip_prefix('v').filter(|digits| digits.parse::<u64>().is_ok());
    if let Some(version) = version {
        text += &format!(
            "\nnext:\n  python -c \"from kernels import get_kernel; get_kernel('{}', version={version})\"\n",
            kernel.id
        );
    }
    text
}

fn pull(args: &PullArgs, session: &Session) -> Result<(), Failure> {
    let KernelRevision { repo, .. } = &args.kernel;
    let dir = args.dir.clone().unwrap_or_else(|| PathBuf::from(repo.name()));
    let PulledProject { kernel, origin, files } = pull::pull(repo, args.kernel.revision(), &dir, session)?;
    let data = json!({
        "dir": dir, "kernel": kernel.id, "revision": kernel.revision, "commit": kernel.commit,
        "license": kernel.license, "from": origin.name(), "files": files,
    });
    let license = kernel.license.as_deref().unwrap_or("not stated; ask the authors");
    let human = format!(
        "{} {}: {}\n  {} files in {}; license: {license}\n\nnext:\n  kernelwright check {}\n",
        kernel.id,
        kernel.revision,
        origin.described(),
        files.len(),
        dir.display(),
        dir.display()
    );
    session.report.result("hub pull", &data, &human);
    Ok(())
}
