//! `bench`: measures verified builds against PyTorch, interleaved, with intervals.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::files;
use crate::base::session::Session;
use crate::bench::drawn::summary;
use crate::bench::{self, report};
use crate::compile::nvrtc::Tool;
use crate::exit::Failure;
use crate::pipeline::measure::e2e::{self, ModelRun};
use crate::pipeline::measure::{self, Figures, device};
use crate::pipeline::project::tuned::{self, Choice};
use crate::pipeline::{build, judge, project};

use super::arguments::{Judging, Measuring, ProjectDir, Selection};

/// Measure verified variants against PyTorch, with 95% intervals
///
/// The rivals (baselines) are eager PyTorch, its fused operator, torch.compile and, for matrix products, cuBLASLt. Each
/// one runs in its own process, and the samples are interleaved. With several starts, the intervals also cover the
/// differences between starts. CPU figures are valid for this machine only.
///
/// Every measurement is appended to .kernelwright/records.jsonl in the project. An interrupted run continues where it
/// stopped, unless you pass `--fresh`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright bench examples/rms-norm --without compile-max
  kernelwright bench --device examples/rms-norm-device --workload llm-4096x4096
  kernelwright bench examples/rms-norm --drawn 7 --count 50 --without compile-max
  kernelwright bench --e2e qwen3-8b examples/rms-norm examples/swiglu --toolchain system
  kernelwright bench --e2e model.py:make my-norm --phase forward --without compile-max")]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    judge: Judging,
    #[command(flatten)]
    how: Measuring,
    /// Also write the results as one HTML page, with plots and provenance
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Measure the device code that `[launch]` of op.toml starts; needs no build and no build.toml. DIR may also be a
    /// file such as backward.toml
    #[arg(long, conflicts_with_all = ["Selection", "write_dispatch"])]
    device: bool,
    /// Compiler for device code
    #[arg(long, value_enum, value_name = "WHICH", requires = "device")]
    compiler: Option<Tool>,
    /// Use the defaults of `[tune]` instead of the settings that `fill` found for this GPU
    #[arg(long, requires = "device")]
    untuned: bool,
    /// Write tuned/DEVICE.toml, which sends each range of lengths to the kernel or to PyTorch, whichever is faster
    #[arg(long)]
    write_dispatch: bool,
    /// Measure cases with other lengths than the workloads. The seed draws them from the axes of op.toml and from sizes of
    /// current models, and gives the same cases on every machine
    #[arg(long, value_name = "SEED", conflicts_with_all = ["workloads", "write_dispatch"])]
    drawn: Option<u64>,
    /// Number of cases to draw. Default: 20
    #[arg(long, value_name = "COUNT", requires = "drawn", value_parser = clap::value_parser!(u16).range(1..=1000))]
    count: Option<u16>,
    #[command(flatten)]
    model: ModelArgs,
}

/// What `--e2e` takes.
#[derive(Debug, ClapArgs)]
#[group(id = "model-args")]
struct ModelArgs {
    /// Measure a whole model as it is and with kernels put into it. MODEL is a public architecture with drawn weights
    /// (qwen3-8b, qwen3-30b-a3b, llama-3.1-8b, llama-1b-training, gemma-3-4b, vit-l, ltx-video, flux-dev), a folder with a
    /// config.json of transformers, or FILE.py:FUNCTION. It runs in the active Python
    #[arg(
        long,
        value_name = "MODEL",
        conflicts_with_all = ["device", "write_dispatch", "drawn", "workloads", "starts"]
    )]
    e2e: Option<String>,
    /// More kernels for the model: projects, which are built and verified, or folders of packages
    #[arg(value_name = "KERNEL", requires = "e2e")]
    more: Vec<PathBuf>,
    /// Take the sizes of a small model, for tests
    #[arg(long, requires = "e2e")]
    small: bool,
    /// Dtype of the model
    #[arg(long, value_name = "DTYPE", requires = "e2e", default_value = "bf16", value_parser = ["bf16", "f16", "f32"])]
    dtype: String,
    /// Measure only these phases of the model; can be repeated
    #[arg(
        long = "phase",
        value_name = "NAME",
        requires = "e2e",
        value_parser = ["prefill", "decode", "train", "forward", "step", "loop"]
    )]
    phases: Vec<String>,
    /// How often every contender has its turn in a phase
    #[arg(
        long,
        value_name = "COUNT",
        requires = "e2e",
        default_value_t = 15,
        value_parser = clap::value_parser!(u16).range(3..=1000)
    )]
    rounds: u16,
}

/// Cases that a run draws by default.
const COUNT: u16 = 20;

impl Args {
    /// As the bench stage takes them.
    fn options(&self) -> bench::Options {
        let count = usize::from(self.count.unwrap_or(COUNT));
        let drawn = self.drawn.map(|seed| bench::Draw { seed, count });
        bench::Options { drawn, ..self.how.options() }
    }
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let (judging, options) = (args.judge.judging(), args.options());
    if let Some(model) = &args.model.e2e {
        return run_model(args, model, session);
    }
    if args.device {
        let tool = args.compiler.unwrap_or_default();
        let project = tuned::read_project(&args.project.dir, Choice::new(args.untuned), session)?;
        let earlier = judging.earlier();
        let figures = device::verify_and_measure(&project, &judging, &options, tool, earlier, session)?;
        let written = write_page(args, &figures)?;
        return tell(&figures, &written, session);
    }
    let project = project::load(&args.project.dir, session)?;
    bench::refuse_unknown(project.op_for("measure")?, &options)?;
    let artifacts = build::build(&project, &args.selection.selection(), session)?;
    let extras = judge::extras(&project);
    let (verified, python) = judge::accepted(&project, artifacts, extras, &judging, session)?;
    let earlier = judging.earlier();
    let figures = measure::measure(&project, &verified, &options, earlier, &python, session)?;
    let mut written = write_page(args, &figures)?;
    if args.write_dispatch {
        for artifact in &verified {
            written.extend(measure::write_dispatch(&project, artifact.inner(), &figures.measured)?);
        }
    }
    tell(&figures, &written, session)
}

/// Measures a whole model.
fn run_model(args: &Args, model: &str, session: &Session) -> Result<(), Failure> {
    let own = &args.model;
    let is_without = |rival: &str| args.how.without.iter().any(|one| one == rival);
    let run = ModelRun {
        model: model.to_owned(),
        kernels: std::iter::once(&args.project.dir).chain(&own.more).cloned().collect(),
        small: own.small,
        dtype: own.dtype.clone(),
        rounds: own.rounds,
        compile: !is_without("compile"),
        search: !is_without("compile-max"),
        phases: own.phases.clone(),
    };
    let lines = e2e::measure(&run, &args.selection.selection(), &args.judge.judging(), session)?;
    let record = e2e::record(&run.kernels);
    let mut human = format!("{}recorded in {}\n", e2e::table(&lines), record.display());
    if let Some(path) = &args.html {
        files::write(path, report::model::page(&lines))?;
        human += &format!("written to {}\n", path.display());
    }
    session.report.result(
        "bench",
        &json!({ "model": model, "phases": lines, "record": record, "written": args.html }),
        &human,
    );
    Ok(e2e::refuse_worse(model, &lines)?)
}

/// Writes the page that was asked for.
fn write_page(args: &Args, figures: &Figures) -> Result<Vec<PathBuf>, Failure> {
    let Some(path) = &args.html else { return Ok(Vec::new()) };
    files::write(path, report::page(&figures.measured, &figures.told))?;
    Ok(vec![path.clone()])
}

fn tell(figures: &Figures, written: &[PathBuf], session: &Session) -> Result<(), Failure> {
    let Figures { measured, told } = figures;
    let drawn = summary::summaries(measured);
    let mut human = summary::table(&drawn, measured);
    for path in written {
        human += &format!("written to {}\n", path.display());
    }
    let data = json!({ "measurements": measured, "drawn": drawn, "told": told, "written": written });
    session.report.result("bench", &data, &human);
    Ok(bench::refuse_unmeasured(measured)?)
}
