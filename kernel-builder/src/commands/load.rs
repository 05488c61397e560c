//! `load`: loads a published folder with the stock client in a clean process, and runs the project's example.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use kernel_plan::units::Version;
use serde_json::json;

use crate::base::session::Session;
use crate::base::{env, files};
use crate::exit::Failure;
use crate::pipeline::ship::load::{self, LoadReport};

/// Load a published folder with Hugging Face's client
///
/// `kernels.get_local_kernel` picks the variant in a separate process; then example.py computes with it. The output
/// lists the variants that this PyTorch cannot load. If it can load none, the command fails.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright load my-norm/dist
  kernelwright load dist --torch 2.15")]
pub struct Args {
    /// Published folder
    #[arg(value_name = "DIR", default_value = "dist")]
    dir: PathBuf,
    /// Python file that takes the folder as its argument, and exits with 0 if the kernel is correct
    #[arg(long, value_name = "FILE")]
    example: Option<PathBuf>,
    /// PyTorch release to load with; downloaded into the cache if the active Python has a different one
    #[arg(long, value_name = "MAJOR.MINOR")]
    torch: Option<Version>,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let dir = env::absolute(&args.dir);
    load::refuse_empty(&dir)?;
    if let Some(example) = &args.example {
        files::stamp(example)?;
    }
    let python = load::python_for(&dir, args.torch, session)?;
    let loaded = load::load(&dir, &python, session)?;
    let mut human = format!("with torch {}\n", python.torch);
    human.extend(loaded.iter().map(sentence));
    if let Some(example) = &args.example {
        human += &load::run_example(example, &dir, &python, session)?;
    }
    session.report.result("load", &json!({ "dir": dir, "torch": python.torch, "loaded": loaded }), &human);
    Ok(())
}

fn sentence(loaded: &LoadReport) -> String {
    match (&loaded.variant, &loaded.reason) {
        (Some(variant), _) => format!("{}: {variant} ({})\n", loaded.backend, loaded.names.join(", ")),
        (None, reason) => {
            format!("{}: not loaded here: {}\n", loaded.backend, reason.as_deref().unwrap_or(""))
        }
    }
}
