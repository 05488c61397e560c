//! `sign`: signs the bundle with an SSH key.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::session::Session;
use crate::exit::Failure;
use crate::package::{self, PackageError, signature};
use crate::pipeline::project;
use crate::publish::PublishError;

use super::arguments::ProjectDir;

/// Sign the packaged kernel with an SSH key
///
/// Lists the files of `build/` and `benchmarks/` in `build/SHA256SUMS`, and writes the signature of that list to
/// `build/SHA256SUMS.sig`. `publish` sends both files. Users check them with `ssh-keygen` and `sha256sum`, or with
/// `verify-build --signers`. Sign last: `publish` refuses a package that changed after it was signed.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright sign my-norm --key signing-key    made by: ssh-keygen -t ed25519 -N '' -f signing-key
  kernelwright sign my-norm --key ~/.ssh/id_ed25519.pub")]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
    /// Private SSH key without a passphrase, or the .pub file of a key in ssh-agent
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let project = project::load(&args.project.dir, session)?;
    let bundle = package::to_sign(&project.dir, &project.build)
        .map_err(PackageError::into_failure)?
        .ok_or_else(|| PublishError::NoBundle { project: args.project.dir.clone() })?;
    let signed = signature::sign(&bundle.dir, &args.key)?;
    let human = format!("signed {} files of {} with the {}\n", signed.files, bundle.name, signed.key);
    session.report.result("sign", &json!({ "signature": signed, "variants": bundle.variants }), &human);
    Ok(())
}
