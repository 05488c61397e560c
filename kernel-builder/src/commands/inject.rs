//! `inject`: what kernels replace in a model.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::session::Session;
use crate::exit::Failure;
use crate::pipeline::measure::e2e::{self, ModelRun, replaced};

use super::arguments::{Judging, Selection};

/// Show what kernels replace in a model, and why other code is left
///
/// The kernels are built and verified, then their packages' function `inject` puts them into the model. The results are
/// compared with those in float32. `bench --e2e` also measures what that brings.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright inject qwen3-8b examples/rms-norm
  kernelwright inject model.py:make my-norm --backend cpu
  kernelwright inject ltx-video --small parts/apply-rotary-emb")]
pub struct Args {
    /// A public architecture with drawn weights, a folder with a config.json of transformers, or FILE.py:FUNCTION, as for
    /// `bench --e2e`
    #[arg(value_name = "MODEL")]
    model: String,
    /// Kernel projects, which are built and verified, or folders of packages
    #[arg(value_name = "KERNEL", required = true)]
    kernels: Vec<PathBuf>,
    /// Take the sizes of a small model, for tests
    #[arg(long)]
    small: bool,
    /// Dtype of the model
    #[arg(long, value_name = "DTYPE", default_value = "bf16", value_parser = ["bf16", "f16", "f32"])]
    dtype: String,
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    judge: Judging,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let run = ModelRun {
        model: args.model.clone(),
        kernels: args.kernels.clone(),
        small: args.small,
        dtype: args.dtype.clone(),
        rounds: 0,
        compile: false,
        search: false,
        phases: Vec::new(),
    };
    let lines = replaced::replaced(&run, &args.selection.selection(), &args.judge.judging(), session)?;
    let (numbers, packages) =
        lines.split_last().map_or((None, lines.as_slice()), |(one, rest)| (Some(one), rest));
    session.report.result(
        "inject",
        &json!({ "model": args.model, "packages": packages, "numbers": numbers }),
        &replaced::summary(&lines),
    );
    Ok(e2e::refuse_worse(&args.model, &lines)?)
}
