//! `embed`: device code with a Rust module that starts it.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use kernel_plan::units::Capability;
use serde_json::json;

use crate::base::report::bytes;
use crate::base::session::Session;
use crate::compile::nvrtc::Tool;
use crate::exit::Failure;
use crate::pipeline::build::embed::{self, Code, Request};
use crate::pipeline::build::published::PublishedError;

/// Compile device code for Rust programs, with typed launchers
///
/// Writes the machine code and PTX of every kernel that a `[launch]` table can start, and kernels.rs, which includes
/// them. The code of a published kernel is that of its package. The crate kernelwright-build runs this command from a build script; docs/rust.md is the guide. Does not need
/// a GPU.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright embed kernels/rms-norm --out-dir generated --arch 9.0a --arch 12.0+PTX
  kernelwright embed kernels/rms-norm --out-dir stubs --stubs    for docs.rs, without code")]
pub struct Args {
    /// Folders with an op.toml that has a `[launch]` table, or files of that format
    #[arg(value_name = "DIR", required_unless_present = "dependencies")]
    kernels: Vec<PathBuf>,
    /// Published kernel to include, as in rms-norm@1=hf:OWNER/rms-norm or rms-norm@1=DIR; can be repeated
    #[arg(long = "dependency", value_name = "NAME@VERSION=PLACE", requires = "lock")]
    dependencies: Vec<String>,
    /// Lock file of the published kernels, written by `pin`
    #[arg(long, value_name = "FILE")]
    lock: Option<PathBuf>,
    /// Folder to write; code of an earlier run that is no longer needed is removed
    #[arg(long, value_name = "DIR")]
    out_dir: PathBuf,
    /// Compute capability to compile for, such as 9.0a, or 9.0+PTX to add PTX for later GPUs; can be repeated. Default:
    /// those of build.toml, or 8.0, 9.0, 10.0 and 12.0+PTX
    #[arg(long = "arch", value_name = "CAPABILITY")]
    archs: Vec<Capability>,
    /// Compiler for device code
    #[arg(long, value_enum, value_name = "WHICH", default_value_t)]
    compiler: Tool,
    /// Compile nothing; the functions return an error when they are called
    #[arg(long)]
    stubs: bool,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let out = embed::folder(&args.out_dir);
    let request = Request {
        kernels: args.kernels.clone(),
        dependencies: args
            .dependencies
            .iter()
            .map(|text| text.parse())
            .collect::<Result<_, PublishedError>>()?,
        lock: args.lock.as_deref().map(embed::folder).unwrap_or_default(),
        out: out.clone(),
        archs: args.archs.clone(),
        tool: args.compiler,
        code: if args.stubs { Code::Stubs } else { Code::Compiled },
    };
    let embedded = embed::embed(&request, session)?;
    let data = json!({
        "out": out, "module": embed::MODULE, "ops": embedded.ops, "files": embedded.files, "reads": embedded.reads,
        "bytes": embedded.bytes,
    });
    let size = if args.stubs { "no code".to_owned() } else { bytes(embedded.bytes) };
    let human = format!("{} of {} in {}\n", size, embedded.ops.join(", "), out.join(embed::MODULE).display());
    session.report.result("embed", &data, &human);
    Ok(())
}
