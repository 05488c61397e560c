//! `build`: every selected variant of a project, from wheels or the system's tools.

use std::path::PathBuf;
use std::time::Instant;

use clap::Args as ClapArgs;
use kernel_plan::plan::VariantPlan;
use serde_json::{Value, json};

use crate::base::env;
use crate::base::session::Session;
use crate::compile::artifact::Artifact;
use crate::compile::shell_line;
use crate::exit::{self, Failure};
use crate::pipeline::build::{self, Built, reproducible};
use crate::pipeline::project::{self, Project, selection};
use crate::pipeline::ship::prove::{self, Proof, ProofDepth};
use crate::verify::{Gated, Options, Outcome};

use super::arguments::{ProjectDir, Selection};

/// Build the variants that users need, or all with `--all`
///
/// With PyTorch's stable ABI, one build serves many PyTorch releases. Builds for older CUDA releases are added if the
/// newer build does not load there or has no code for a GPU.
///
/// By default, compilers and headers come from PyPI wheels, so neither CUDA nor PyTorch has to be installed. With
/// `--toolchain system` they come from this machine. Unchanged units are not compiled again. Every library is
/// checked: symbols, dependencies, architectures. Libraries that fail are not kept. Logs are in .kernelwright/logs.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright build examples/rms-norm
  kernelwright build --all --selector 'cuda:13.* and not abi:full'
  kernelwright build --check-reproducible")]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
    #[command(flatten)]
    selection: Selection,
    /// Print the commands instead of running them; missing tools are still fetched
    #[arg(long)]
    plan: bool,
    /// Build twice, from two copies of the project and without the cache, and compare every byte
    #[arg(long, conflicts_with_all = ["plan", "prebuilt", "load", "prove"])]
    check_reproducible: bool,
    /// Build in a copy of the project, and write each build with its description to DIR, which must not exist. For
    /// read-only projects and for `layout`
    #[arg(long, value_name = "DIR", conflicts_with_all = ["plan", "prebuilt", "check_reproducible", "load", "prove"])]
    to: Option<PathBuf>,
    /// Then load each variant with Hugging Face's client under a matching PyTorch, and all variants together
    #[arg(long, conflicts_with = "plan")]
    load: bool,
    /// Check that the variants can be published: load them, require manylinux_2_28, and verify the CPU variants, each
    /// with its own PyTorch
    #[arg(long, conflicts_with = "plan")]
    prove: bool,
}

impl Args {
    /// What is asked of the variants beyond what can be read from them.
    fn depth(&self) -> Option<ProofDepth> {
        let verified = self.prove.then_some(ProofDepth::Verified);
        verified.or_else(|| self.load.then_some(ProofDepth::Loaded))
    }
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let project = project::load(&args.project.dir, session)?;
    let selection = args.selection.selection();
    if args.plan {
        let jobs = build::jobs(&project, &selection, session)?;
        let plans: Vec<&VariantPlan> = jobs.iter().map(|job| &job.plan).collect();
        session.report.result("build", &json!({ "plan": plans }), &plan_text(&plans));
        return Ok(());
    }
    if args.check_reproducible {
        return check_reproducible(&project, &selection, session);
    }
    let started = Instant::now();
    if let Some(to) = &args.to {
        let to = env::absolute(to);
        let built = build::build_into(&project, &selection, &to, session)?;
        let seconds = started.elapsed().as_secs_f64();
        let data = json!({ "dir": to, "variants": rows(&built, None), "seconds": seconds });
        session.report.result("build", &data, &table(&built, None));
        return Ok(());
    }
    let options = Options { require_portable: args.prove, ..Options::standard() };
    let (built, summary) = build::gated(&project, &selection, &options, session)?;
    let artifacts: Vec<Artifact> = built.iter().map(|built| built.artifact.clone()).collect();
    let depth = args.depth();
    let proof = depth.map(|depth| prove::prove(&project, &artifacts, depth, session)).transpose()?;
    let (proof, unproven) = proof.unzip();
    let data = json!({
        "artifacts": artifacts,
        "variants": rows(&built, proof.as_ref()),
        "together": proof.as_ref().map(|proof| &proof.together),
        "failed": summary.groups(),
        "seconds": started.elapsed().as_secs_f64(),
    });
    session.report.result("build", &data, &table(&built, proof.as_ref()));
    match (summary.verdict(), unproven.filter(|failure| failure.exit != exit::SUCCESS)) {
        (verdict, None) => verdict,
        (Ok(()), Some(failure)) => Err(failure),
        (Err(mut verdict), Some(failure)) => {
            verdict.join(failure);
            Err(verdict)
        }
    }
}

/// Builds twice, and tells that all bytes are the same.
fn check_reproducible(
    project: &Project,
    selection: &selection::Selection,
    session: &Session,
) -> Result<(), Failure> {
    let reproducible::Reproduced { variants, files, bytes } =
        reproducible::check(project, selection, session)?;
    let data = json!({ "reproducible": true, "variants": variants, "files": files, "bytes": bytes });
    let human = format!(
        "{} of {} built twice: {files} files with {bytes} bytes, the same in both\n",
        if variants.len() == 1 { "1 variant".to_owned() } else { format!("{} variants", variants.len()) },
        project.build.general.name.as_str(),
    );
    session.report.result("build", &data, &human);
    Ok(())
}

/// What a program is told of each variant.
fn rows(built: &[Built], proof: Option<&Proof>) -> Vec<Value> {
    let row = |(place, built): (usize, &Built)| {
        let mut row =
            json!({ "variant": built.artifact.variant, "size": built.size, "gates": built.gates.checks });
        if let Some(tried) = proof.and_then(|proof| proof.variants.get(place)) {
            row["loaded_with"] = json!(tried.loaded_with);
            row["not_loaded"] = json!(tried.not_loaded);
            row["load_failed"] = json!(tried.failed);
            row["verified"] = json!(tried.verified);
        }
        row
    };
    built.iter().enumerate().map(row).collect()
}

/// A line a variant: its size, what the gates say, which torch loaded it or why none did. Then what the client takes of
/// all of them.
fn table(built: &[Built], proof: Option<&Proof>) -> String {
    let mut text = String::new();
    let width = built.iter().map(|built| built.artifact.variant.len()).max().unwrap_or_default();
    for (place, Built { artifact, gates, size }) in built.iter().enumerate() {
        let size = size.map_or_else(|| "Python".to_owned(), |bytes| format!("{:.1} kB", bytes as f64 / 1e3));
        text += &format!("{:<width$}  {size:>10}  {}", artifact.variant, gates_line(gates));
        if let Some(tried) = proof.and_then(|proof| proof.variants.get(place)) {
            text += &format!("  {tried}");
        }
        text.push('\n');
    }
    for taken in proof.into_iter().flat_map(|proof| &proof.together) {
        let variant = taken.variant.as_deref().unwrap_or("none of them");
        text += &format!("under torch {} the client takes for {}: {variant}\n", taken.torch, taken.backend);
    }
    text
}

/// What a table says: `gates: 4 passed`, `gates: 3 passed, 1 warned`.
fn gates_line(gated: &Gated) -> String {
    let counted = [(Outcome::Passed, "passed"), (Outcome::Warned, "warned"), (Outcome::Skipped, "skipped")];
    let counted = counted.map(|(outcome, word)| (gated.ended(outcome).count(), word));
    let told: Vec<_> = counted
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, word)| format!("{count} {word}"))
        .collect();
    if told.is_empty() { "no gates: no library".to_owned() } else { format!("gates: {}", told.join(", ")) }
}

fn plan_text(plans: &[&VariantPlan]) -> String {
    let mut text = String::new();
    for plan in plans {
        text += &format!("# {}\n", plan.id);
        text += &plan.route.iter().map(|route| format!("# {route}\n")).collect::<String>();
        let units = plan.units.iter().map(|unit| &unit.command);
        let steps = plan.before_link.iter().map(|step| &step.command);
        for command in plan.prepare.iter().chain(units).chain(steps) {
            text += &format!("{}\n", shell_line(command));
        }
        if let Some(link) = &plan.link {
            text += &format!("{}\n", shell_line(link));
        }
    }
    text
}
