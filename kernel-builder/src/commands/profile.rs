//! `profile`: the parts of a model that kernels could compute, and projects for them.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::files;
use crate::base::session::Session;
use crate::exit::Failure;
use crate::pipeline::measure::e2e::shares::{self, ProfileRun};

/// Find the slow parts of a model, and create projects for them
///
/// A part is what stands between products, convolutions and attention: a norm, an activation, a sum with the norm after it,
/// a rotary embedding. The model runs once as it is and once with a profiler. Each part is shown with its share of the
/// GPU's time, the bytes that its operators move, and the bytes that one kernel would have to move. Without a GPU, the time
/// is that of the processor.
///
/// With `--to`, parts that could save 1% of the time or more become projects: of a template that takes the same tensors, or
/// by translation. The packages of these projects find their places in the model themselves (`bench --e2e`).
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright profile qwen3-8b
  kernelwright profile qwen3-8b --phase decode
  kernelwright profile model.py:make --to parts")]
pub struct Args {
    /// A public architecture with drawn weights, a folder with a config.json of transformers, or FILE.py:FUNCTION, as for
    /// `bench --e2e`
    #[arg(value_name = "MODEL")]
    model: String,
    /// Create a project in this folder for each part that is worth it
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Take the sizes of a small model, for tests
    #[arg(long)]
    small: bool,
    /// Dtype of the model
    #[arg(long, value_name = "DTYPE", default_value = "bf16", value_parser = ["bf16", "f16", "f32"])]
    dtype: String,
    /// The phase to look at; default: the model's first one
    #[arg(long, value_name = "NAME", value_parser = ["prefill", "decode", "train", "forward", "step", "loop"])]
    phase: Option<String>,
    /// Where the model runs; default: on the GPU, if there is one
    #[arg(long, value_name = "BACKEND", value_parser = ["cpu", "cuda"])]
    backend: Option<String>,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let run = ProfileRun {
        model: args.model.clone(),
        small: args.small,
        dtype: args.dtype.clone(),
        phases: args.phase.iter().cloned().collect(),
        on_cpu: args.backend.as_deref() == Some("cpu"),
    };
    if let Some(folder) = &args.to {
        // Before the model is made, which takes long.
        files::create_dirs(folder)?;
    }
    let lines = shares::profile(&run, session)?;
    let projects = match &args.to {
        Some(folder) => shares::projects(&lines, folder, session)?,
        None => Vec::new(),
    };
    session.report.result(
        "profile",
        &json!({ "parts": lines, "projects": shares::facts(&projects) }),
        &shares::table(&lines, &projects),
    );
    Ok(())
}
