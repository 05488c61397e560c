//! `templates`: what `new` can start from.

use clap::Args as ClapArgs;
use comfy_table::{Table, presets};
use serde_json::json;

use crate::base::session::Session;
use crate::exit::Failure;
use crate::scaffold::template;

/// List the templates that `new` can start from
#[derive(Debug, ClapArgs)]
pub struct Args {}

/// Runs the verb.
pub fn run(_args: &Args, session: &Session) -> Result<(), Failure> {
    let templates = template::all()?;
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["template", "backends", "what it is"]);
    for template in &templates {
        table.add_row([&template.name, &template.backends.join(", "), &template.description]);
    }
    session.report.result("templates", &json!({ "templates": templates }), &table.to_string());
    Ok(())
}
