//! `doctor`: what this machine has, and what each absence costs.

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::session::Session;
use crate::exit::Failure;
use crate::toolchain;

/// Show what this machine has, and how to fix what is missing
///
/// For each missing tool, the output names the commands that need it. Nothing is installed or downloaded.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright doctor
  kernelwright doctor --audit")]
pub struct Args {
    /// Also read every cached wheel, and report files that changed since the download
    #[arg(long)]
    audit: bool,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    if args.audit {
        let damaged = toolchain::audit(session)?;
        let mut human: String =
            damaged.iter().map(|(wheel, member)| format!("damaged: {member} of wheel {wheel}\n")).collect();
        if damaged.is_empty() {
            human.push_str("all cached files are unchanged since their download\n");
        } else {
            human += "to download them again: kernelwright toolchain verify --repair\n";
        }
        session.report.result("doctor", &json!({ "damaged": damaged }), &human);
        return Ok(());
    }
    let findings = toolchain::examine(session);
    session.report.result("doctor", &json!({ "findings": findings }), &toolchain::table(&findings));
    Ok(())
}
