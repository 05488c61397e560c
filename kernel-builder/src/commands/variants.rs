//! `variants`: every row of the matrix, and why it is in or out for a project.

use clap::Args as ClapArgs;
use comfy_table::{Table, presets};
use kernel_plan::spec::BuildSpec;
use kernel_plan::variant::{self, Cpu, Matrix};
use serde_json::json;

use crate::base::session::Session;
use crate::exit::Failure;

use super::build::host_cpu;
use super::project::{self, ProjectDir};

/// List the variants of a project and why each is in or out
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let project = project::load(&args.project.dir, session)?;
    let explained = variant::explain(&project.build, &project::matrix()?, host_cpu());
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["variant", "built", "why"]);
    let mut rows = Vec::new();
    for row in &explained {
        let id = row.variant.id().to_string();
        let reason = row.refusal.as_ref().map_or_else(|| "it fits".to_owned(), ToString::to_string);
        table.add_row([id.as_str(), if row.refusal.is_none() { "yes" } else { "no" }, reason.as_str()]);
        rows.push(json!({ "variant": id, "selected": row.refusal.is_none(), "why": reason }));
    }
    session.report.result("variants", &json!({ "variants": rows }), &table.to_string());
    Ok(())
}

/// For each row that is out, why; for the error that nothing is left.
pub fn reasons(build: &BuildSpec, matrix: &Matrix, host: Cpu) -> Vec<String> {
    variant::explain(build, matrix, host)
        .iter()
        .filter_map(|row| Some(format!("{}: {}", row.variant.id(), row.refusal.as_ref()?)))
        .collect()
}
