//! `bench`: measures verified builds against PyTorch, interleaved, with intervals.

use std::collections::BTreeSet;

use clap::Args as ClapArgs;
use serde_json::json;

use crate::archive;
use crate::base::session::Session;
use crate::bench::{self, Measurement, Options};
use crate::compile::artifact::Artifact;
use crate::exit::Failure;
use crate::toolchain::PythonRuntime;
use crate::verify::{Verified, lint};

use super::build;
use super::judges::{self, Reach};
use super::project::{self, Project, ProjectDir};
use super::selection::Selection;
use super::verify;

/// Measure every verified variant against PyTorch eager, its fused operator and torch.compile
///
/// Contenders are interleaved in one run; the result is a ratio with its 95% interval. Figures of a CPU are local to
/// this machine. Every measurement is appended to .kernelwright/records.jsonl of the project.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    judge: verify::How,
    #[command(flatten)]
    how: How,
}

/// How long and against what; shared with `make`.
#[derive(Debug, Clone, ClapArgs)]
#[group(id = "measuring")]
pub struct How {
    /// Seconds for each workload and dtype, at most; sampling stops earlier when the interval is narrow
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    pub budget: f64,
    /// Measure this workload of op.toml only; may be given several times
    #[arg(long = "workload", value_name = "NAME")]
    pub workloads: Vec<String>,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let project = project::load(&args.project.dir, session)?;
    project.op_for("measure")?;
    let artifacts = build::build(&project, &args.selection, session)?;
    let extras = verify::extras(&project);
    let python = judges::first(&project, &artifacts, extras, session)?;
    let groups = judges::groups(artifacts, &python, Reach::Kept, extras, session)?;
    let verdicts = verify::all(&project, groups, &args.judge, session)?;
    let verified = verify::accept(verdicts, &project)?;
    let measured = measure(&project, &verified, &args.how, &python, session)?;
    session.report.result("bench", &json!({ "measurements": measured }), &bench::render::table(&measured));
    Ok(())
}

/// Measures each verified variant that this machine can run, and keeps the records.
pub fn measure(
    project: &Project,
    verified: &[Verified<Artifact>],
    how: &How,
    python: &PythonRuntime,
    session: &Session,
) -> Result<Vec<Measurement>, Failure> {
    let op = project.op_for("measure")?;
    let mut measured = Vec::new();
    for artifact in verified {
        let options = Options {
            budget: how.budget,
            workloads: how.workloads.clone(),
            commit: artifact.inner().commit.clone(),
            ..Options::default()
        };
        match bench::measure(artifact, op, &project.dir, python, &options, session)? {
            bench::Outcome::Measured(mut found) => {
                for measurement in &mut found {
                    measurement.lint = lint::noted(artifact.evidence(), &measurement.workload);
                }
                archive::record(&project.dir, &found)?;
                measured.extend(found);
            }
            bench::Outcome::Skipped(reason) => {
                session.report.note(format!("{} was not measured: {reason}", artifact.inner().variant));
            }
        }
    }
    let found: BTreeSet<&String> = measured.iter().filter_map(|one| one.lint.as_ref()).flatten().collect();
    if !found.is_empty() {
        let found: Vec<&str> = found.into_iter().map(String::as_str).collect();
        session
            .report
            .warn(format!("figures of a doubtful task (`kernelwright lint`): {}", found.join(", ")));
    }
    Ok(measured)
}
