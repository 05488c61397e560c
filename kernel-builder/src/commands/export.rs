//! `export`: definitions, workloads and traces of flashinfer-bench from op.toml, its reference, and records.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use kernel_plan::diagnostic::SourceFile;
use kernel_plan::exchange::{self, Choice, Exported, Published};
use kernel_plan::spec::{self, OpSpec};
use kernel_plan::units::{Dtype, PythonName};
use miette::Diagnostic;
use serde_json::{Value, json};
use thiserror::Error;

use crate::archive;
use crate::base::files;
use crate::base::session::Session;
use crate::bench::{Measurement, trace};
use crate::exit::{self, Failure, StageError};
use crate::pipeline::create::exchange::{rows, tell};
use crate::scaffold::FileSet;

/// Convert op.toml to flashinfer-bench definitions and workloads
///
/// Writes one definition for each choice of dtypes, in the folders of a flashinfer-bench data set:
/// definitions/OP_TYPE/ and workloads/OP_TYPE/, and with `--traces` also traces/OP_TYPE/. Values that the format
/// cannot hold are reported. Existing files are never overwritten.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright export fast-norm --to flashinfer-trace
  kernelwright export fast-norm --dtype T=bf16 --to only-bf16")]
pub struct Args {
    /// Folder with an op.toml
    #[arg(id = "task", value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Folder of the data set
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Export only this dtype of a type variable; can be repeated
    #[arg(long, value_name = "T=DTYPE", value_parser = assignment)]
    dtype: Vec<(PythonName, Dtype)>,
    /// Also export the workloads that are held out
    #[arg(long)]
    held_out: bool,
    /// Also export these records as traces: a file, `-` for standard input, or a digest from DIR's archive
    #[arg(long, value_name = "RECORD")]
    traces: Vec<String>,
}

/// There is nothing to export.
#[derive(Debug, Error, Diagnostic)]
#[error("`{}` has no op.toml, so there is nothing to export", dir.display())]
#[diagnostic(
    code(spec::no_op),
    help("pass a folder that has one; op.toml describes the operation (docs/reference/op-toml.md)")
)]
pub struct NoOp {
    /// The folder.
    dir: PathBuf,
}

impl StageError for NoOp {
    fn exit(&self) -> u8 {
        exit::SPEC
    }
}

fn assignment(text: &str) -> Result<(PythonName, Dtype), String> {
    let (name, dtype) = text.split_once('=').ok_or("write it as NAME=DTYPE, such as T=bf16")?;
    Ok((
        name.parse().map_err(|error| format!("{error}"))?,
        dtype.parse().map_err(|error| format!("{error}"))?,
    ))
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let dir = &args.dir;
    if !files::exists(&dir.join("op.toml")) {
        return Err(NoOp { dir: dir.clone() }.into());
    }
    let read = |name: &str| {
        let path = dir.join(name);
        let shown = path.display().to_string().trim_start_matches("./").to_owned();
        Ok::<_, Failure>(SourceFile::new(shown, files::read_text(&path)?))
    };
    let (op, problems) = spec::parse_op(read("op.toml")?);
    tell(&problems, session)?;
    let Some(op) = op else { return Err(Failure::already_reported(exit::SPEC)) };
    let reference = read(op.reference.file.as_str())?;
    let workloads = if args.held_out { Published::All } else { Published::Open };
    let choice = Choice { dtypes: args.dtype.clone(), workloads };
    let (exported, problems) = exchange::export(&op, &reference, &choice);
    tell(&problems, session)?;
    let mut set = FileSet::default();
    let mut made: Vec<Value> = Vec::new();
    let mut human = String::new();
    let mut records = Vec::new();
    for name in &args.traces {
        records.extend(archive::find(name, dir)?);
    }
    let mut traced = 0;
    for one in exported {
        let lines = traces(&op, &one, &records);
        if !lines.is_empty() {
            let path = format!("traces/{}/{}.jsonl", one.op_type, one.name);
            human += &format!("{}  {} traces\n", args.to.join(&path).display(), lines.len());
            traced += lines.len();
            set.insert(&path, lines.iter().map(|line| format!("{line}\n")).collect::<String>())?;
        }
        let definition = format!("definitions/{}/{}.json", one.op_type, one.name);
        let workloads = format!("workloads/{}/{}.jsonl", one.op_type, one.name);
        set.insert(&definition, one.definition)?;
        if one.count > 0 {
            set.insert(&workloads, one.workloads)?;
        }
        human += &format!("{}  {} workloads\n", args.to.join(&definition).display(), one.count);
        made.push(json!({
            "name": one.name, "definition": definition, "count": one.count,
            "workloads": (one.count > 0).then_some(workloads),
        }));
    }
    set.write_to(&args.to)?;
    if traced < records.len() {
        let left = records.len() - traced;
        session.report.warn(format!(
            "{left} of {} records do not match an exported definition, and were left out",
            records.len()
        ));
    }
    let result =
        json!({ "dir": args.to, "definitions": made, "traces": traced, "problems": rows(&problems) });
    session.report.result("export", &result, &human);
    Ok(())
}

/// The records that are of one definition, each with its workload, as lines.
fn traces(op: &OpSpec, exported: &Exported, records: &[Measurement]) -> Vec<Value> {
    let workloads: Vec<Value> =
        exported.workloads.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |record: &&Measurement| {
        let dtypes: Vec<&str> =
            record.dtype.split(',').filter_map(|one| one.split('=').next_back()).collect();
        record.op == op.name.value.as_str()
            && (op.dtypes.is_empty() || exported.name.ends_with(&format!("_{}", dtypes.join("_"))))
    };
    let workload_of = |record: &Measurement| {
        let named = workloads.iter().find(|line| line["workload"]["uuid"] == record.workload.as_str());
        // One that came from flashinfer-bench has an identifier of its own, and is known by its lengths.
        let same = |line: &&Value| !record.axes.is_empty() && line["workload"]["axes"] == json!(record.axes);
        named.or_else(|| workloads.iter().find(same))
    };
    records.iter().filter(of).filter_map(|record| trace::trace(workload_of(record)?, record)).collect()
}
