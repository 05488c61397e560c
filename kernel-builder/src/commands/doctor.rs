//! `doctor`: what this machine has, and what each absence costs.

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::session::Session;
use crate::exit::Failure;
use crate::toolchain;

/// Say what this machine has, what each absence costs, and the command that fixes it
#[derive(Debug, ClapArgs)]
pub struct Args {}

/// Runs the verb.
pub fn run(_args: &Args, session: &Session) -> Result<(), Failure> {
    let findings = toolchain::examine(session);
    session.report.result("doctor", &json!({ "findings": findings }), &toolchain::table(&findings));
    Ok(())
}
