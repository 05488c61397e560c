//! `import`: op.toml and reference.py from a definition of flashinfer-bench.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use kernel_plan::diagnostic::SourceFile;
use kernel_plan::exchange;
use serde_json::json;

use crate::base::files;
use crate::base::session::Session;
use crate::exit::{self, Failure};
use crate::pipeline::create::exchange::{rows, tell};
use crate::scaffold::FileSet;

/// Create op.toml from a flashinfer-bench definition
///
/// Also writes reference.py. op.toml needs some values that a definition does not have, such as the function's name
/// and the tolerance. Assumed values are reported, and marked in the file. Existing files are never overwritten. The
/// exit code is 10 if the definition is not valid.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright import definitions/norm/rmsnorm_h4096.json
  kernelwright import definitions/gemm/gemm_n4096_k4096.json \\
    --workloads workloads/gemm/gemm_n4096_k4096.jsonl --to gemm")]
pub struct Args {
    /// JSON file with the definition
    #[arg(value_name = "DEFINITION.json")]
    definition: PathBuf,
    /// Workloads of the definition: a JSON list, JSON lines, or lines of traces
    #[arg(long, value_name = "FILE.jsonl")]
    workloads: Option<PathBuf>,
    /// Folder to write to; default: the name of the operation
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let read = |path: &PathBuf| {
        Ok::<_, Failure>(SourceFile::new(path.display().to_string(), files::read_text(path)?))
    };
    let definition = read(&args.definition)?;
    let workloads = args.workloads.as_ref().map(read).transpose()?;
    let (imported, problems) = exchange::import(&definition, workloads.as_ref());
    tell(&problems, session)?;
    let Some(imported) = imported else { return Err(Failure::already_reported(exit::SPEC)) };
    let dir = args.to.clone().unwrap_or_else(|| PathBuf::from(&imported.name));
    let mut set = FileSet::default();
    set.insert("op.toml", imported.op_toml)?;
    set.insert("reference.py", imported.reference)?;
    set.write_to(&dir)?;
    let written: Vec<_> = set.iter().map(|(path, _)| path.display().to_string()).collect();
    let human = format!(
        "{} with {} workloads: {} in {}\n",
        imported.name,
        imported.workloads,
        written.join(" and "),
        dir.display()
    );
    let result = json!({
        "dir": dir, "name": imported.name, "workloads": imported.workloads, "files": written,
        "problems": rows(&problems),
    });
    session.report.result("import", &result, &human);
    Ok(())
}
