//! `verify-build`: builds a published kernel again from its sources and compares the bytes.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::session::Session;
use crate::exit::{self, Failure};
use crate::package::signature::Signed;
use crate::pipeline::ship::rebuild::{self, Rebuilt, Request};

use super::arguments::Selection;

/// Rebuild a published kernel and compare every byte
///
/// Each variant is built from a copy of the sources, without cached objects, and with the wheels of kernelwright.lock
/// if the sources have one. Libraries, Python files, dispatch tables and metadata must be equal, except for the
/// commit. For each difference, the output names its place, and the input that changed: the sources, this program, a
/// compiler or headers. README.md and benchmarks are not compared, since they are not made from sources.
///
/// With `--signers`, the signature made by `kernelwright sign` is checked first. The package is refused, and nothing is
/// built, if the signature is missing or made by another key, or if a file was changed after signing.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright verify-build dist --source .
  kernelwright verify-build my-norm/build")]
pub struct Args {
    /// Published folder, or a folder `build` that `package` made
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Project at the commit that metadata.json names; default: the folder above DIR
    #[arg(long, value_name = "DIR")]
    source: Option<PathBuf>,
    /// Check the signature with this allowed-signers file of ssh-keygen, which lists the SSH keys that may sign
    #[arg(long, value_name = "FILE")]
    signers: Option<PathBuf>,
    /// Check only the signature, and build nothing
    #[arg(long, requires = "signers", conflicts_with = "source")]
    signature_only: bool,
    #[command(flatten)]
    selection: Selection,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let request = Request {
        dir: args.dir.clone(),
        source: args.source.clone(),
        signers: args.signers.clone(),
        signature_only: args.signature_only,
        selection: args.selection.selection(),
    };
    let Rebuilt { signature, rows, failure } = rebuild::rebuild(&request, session)?;
    let mut human = by_whom(signature.as_ref());
    if !args.signature_only {
        let same = rows.iter().filter(|row| row.same == Some(true)).count();
        human +=
            &format!("{same} of {} variants match a rebuild from their sources byte for byte\n", rows.len());
    }
    let ok = failure.exit == exit::SUCCESS;
    let data = json!({ "ok": ok, "dir": args.dir, "signature": signature, "variants": rows });
    session.report.result("verify-build", &data, &human);
    if ok { Ok(()) } else { Err(failure) }
}

/// A line about a signature, for people.
fn by_whom(signed: Option<&Signed>) -> String {
    let line = |signed: &Signed| {
        let signer = signed.signer.as_deref().unwrap_or_default();
        format!("signed by {signer} with the {}: {} files\n", signed.key, signed.files)
    };
    signed.map(line).unwrap_or_default()
}
