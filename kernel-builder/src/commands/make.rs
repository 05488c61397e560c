//! `make`: the whole line on one project: check, build, verify, bench, package, publish, load.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use kernel_plan::translate::Choices;
use kernel_plan::units::{KernelName, UnitError};
use serde_json::{Value, json};

use crate::base::env;
use crate::base::report::{Event, duration};
use crate::base::session::Session;
use crate::bench;
use crate::compile::artifact::Artifact;
use crate::exit::Failure;
use crate::package::{Judgement, Status};
use crate::pipeline::create::tracing::{self, ReferencePath, TemplateChoice};
use crate::pipeline::create::{fresh, told};
use crate::pipeline::judge;
use crate::pipeline::make::{self, MakeResult, Request};
use crate::scaffold::{ScaffoldError, template};
use crate::verify::{NOT_LOADED, Verified};

use super::arguments::{Judging, Measuring, Selection};

/// Run every stage, from a project or function to a kernel
///
/// The stages are check, build, verify, bench, package, publish (to DIR/dist) and load. Stages whose inputs did not
/// change are not repeated, so an interrupted run continues where it stopped. At the end, Hugging Face's client loads
/// the result, and the project's example runs. On the way to a hub, loading comes first: a kernel that does not load
/// is not published.
///
/// With `--from`, the project is created first, as `kernelwright new me/NAME DIR --from ...` does. If DIR already has a
/// project, it is used as it is.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright make examples/rms-norm
  kernelwright make --from mine.py:norm
  kernelwright make my-norm --backend cpu --no-bench
  kernelwright make my-norm --to hf:me/fast-norm")]
pub struct Args {
    /// Kernel project: a folder with a build.toml, or the build.toml itself; default: `.`, or with `--from`, the function's name
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Create the project from this function or module
    #[arg(long, value_name = "FILE.py[:NAME]")]
    from: Option<String>,
    /// Translate the function, even if a template matches it
    #[arg(long, requires = "from")]
    translate: bool,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    judge: Judging,
    #[command(flatten)]
    bench: Measuring,
    /// Skip the measurements
    #[arg(long)]
    no_bench: bool,
    /// Where to publish, as for `publish --to`; default: `dist` in the project
    #[arg(long, value_name = "DIR|hf[:OWNER/NAME]")]
    to: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let started = Instant::now();
    let (dir, from) = match &args.from {
        None => (args.dir.clone().unwrap_or_else(|| PathBuf::from(".")), None),
        Some(words) => created(words, args.translate, args.dir.as_deref(), session)?,
    };
    let request = Request {
        dir,
        to: args.to.clone(),
        selection: args.selection.selection(),
        judging: args.judge.judging(),
        options: args.bench.options(),
        measures: !args.no_bench,
    };
    let made = make::make(&request, session)?;
    tell(&made, from.as_ref(), started.elapsed(), session);
    Ok(())
}

/// The folder of a function's project, which is created unless it is there, with what it was created from.
fn created(
    words: &str,
    translates: bool,
    dir: Option<&Path>,
    session: &Session,
) -> Result<(PathBuf, Option<Value>), Failure> {
    let reference = ReferencePath::parse(words);
    let dir = match dir {
        Some(dir) => dir.to_owned(),
        None => PathBuf::from(reference.kernel_name()?.as_str()),
    };
    let shown = dir.display();
    if dir.join("build.toml").is_file() {
        session
            .report
            .note(format!("{shown} already has a project, which is used as it is; `{words}` was not read"));
        return Ok((dir, None));
    }
    // A folder whose name no kernel can have is refused before the function is traced.
    let name = name_of(&env::absolute(&dir))?;
    session.report.emit(&Event::Stage { name: "new", subject: words });
    let among = match translates {
        true => TemplateChoice::None(Choices::default()),
        false => TemplateChoice::All(template::all()?),
    };
    let found = tracing::find(&reference, among, session)?;
    let files = fresh::of_function(&found, name, &dir, session)?;
    session.report.note(format!("{}{} files in {shown}", told::sentences(&found), files.iter().count()));
    Ok((dir, Some(told::facts(&found))))
}

fn tell(made: &MakeResult, from: Option<&Value>, took: Duration, session: &Session) {
    let evidence: Vec<_> = made.verified.iter().map(Verified::evidence).collect();
    let skipped = skipped(&made.verified);
    let data = json!({
        "seconds": took.as_secs_f64(), "dir": made.project.dir, "from": from, "evidence": evidence, "measurements": made.measured,
        "receipt": made.sent.data(), "loaded": made.loaded, "example": made.example, "skipped": skipped,
        "left": made.left.iter().map(|artifact| &artifact.variant).collect::<Vec<_>>(),
        "commands": made.rest.iter().map(|(command, _)| command).collect::<Vec<_>>(),
    });
    let mut human = String::from("\n");
    if !made.measured.is_empty() {
        human += &format!("{}\n", bench::render::table(&made.measured));
    }
    let names: Vec<&str> = made.verified.iter().map(|verified| verified.inner().variant.as_str()).collect();
    human += &format!("built      {} in {}\n", names.join(", "), duration(made.built_in));
    for (verified, evidence) in made.verified.iter().zip(&evidence) {
        let Artifact { variant, backend, .. } = verified.inner();
        let status = Status::new(variant, backend, Judgement::from_evidence(evidence));
        human += &format!("{:<9}  {variant}  {}{}\n", status.action(), judge::line(evidence), status.note());
    }
    human += &format!("published  {}", made.sent.lines());
    for loaded in made.loaded.iter().filter_map(|loaded| loaded.variant.as_ref()) {
        human += &format!("loaded     {loaded} with kernels.get_local_kernel\n");
    }
    if let Some(line) = made.example.as_ref().and_then(|text| text.lines().next()) {
        human += &format!("example    {line}\n");
    }
    for line in &skipped {
        human += &format!("skipped    {line}\n");
    }
    let module = made.project.build.general.name.module();
    human += &format!(
        "took       {}\n\nnext:\n  {}  # the package {module}\n",
        duration(took),
        made.sent.command(),
    );
    for (command, needs) in &made.rest {
        let other = match made.left.len() {
            1 => "other variant".to_owned(),
            count => format!("{count} other variants"),
        };
        human += &format!("  {command}  # loads the {other}, with {needs}\n");
    }
    session.report.result("make", &data, &human);
}

/// What was not checked, each reason once with the variants that it holds for. That what was not loaded was not called
/// either goes without saying.
fn skipped(verified: &[Verified<Artifact>]) -> Vec<String> {
    let mut reasons: Vec<(String, Vec<&str>)> = Vec::new();
    for verified in verified {
        let variant = verified.inner().variant.as_str();
        for check in verified.evidence().skipped().filter(|check| check.code != NOT_LOADED) {
            let reason = format!("{} ({})", check.name, check.summary);
            match reasons.iter_mut().find(|(known, _)| *known == reason) {
                Some((_, variants)) => variants.push(variant),
                None => reasons.push((reason, vec![variant])),
            }
        }
    }
    reasons.into_iter().map(|(reason, variants)| format!("{}: {reason}", variants.join(", "))).collect()
}

/// The name of a kernel in this folder.
fn name_of(dir: &Path) -> Result<KernelName, ScaffoldError> {
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.parse().map_err(|error: UnitError| ScaffoldError::BadName { name, cause: error.into() })
}
