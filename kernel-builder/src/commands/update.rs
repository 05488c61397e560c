//! `update`: brings build.toml of an older edition to edition 5.

use clap::Args as ClapArgs;
use kernel_plan::diagnostic::{SourceFile, has_errors};
use kernel_plan::spec::update::Update;
use kernel_plan::spec::{self, Edition};
use kernel_plan::units::License;
use serde_json::{Value, json};

use crate::base::files;
use crate::base::session::Session;
use crate::exit::{self, Failure};
use crate::pipeline::project;

use super::arguments::ProjectDir;

/// Update build.toml from an older edition to edition 5
///
/// Comments, order and layout are kept. A file in edition 5 is not changed. Problems that `update` cannot fix are
/// reported, with exit code 10. All other changes are written.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright update --license Apache-2.0
  kernelwright update --check                  in CI: exit code 10 if an update is needed")]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
    /// Change nothing: list the changes, and exit with code 10 if there are any
    #[arg(long)]
    check: bool,
    /// Licence to write if the file does not have one, as an SPDX expression
    #[arg(long, value_name = "LICENSE")]
    license: Option<License>,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let dir = project::folder(&args.project.dir);
    let path = dir.join("build.toml");
    if !files::exists(&path) {
        return Err(project::no_project(dir).into());
    }
    let name = path.display().to_string().trim_start_matches("./").to_owned();
    let file = SourceFile::new(&name, project::specification(&path)?);
    let update = match spec::update(&file, args.license.as_ref()) {
        Ok(update) => update,
        Err(problems) => {
            project::tell(&problems, session)?;
            return Err(Failure::already_reported(exit::SPEC));
        }
    };
    let needed = !update.changes.is_empty();
    let written = needed && !args.check;
    if written {
        files::rewrite(&path, &update.text)?;
    }
    let data = json!({
        "file": name,
        "from": update.from.number(),
        "to": Edition::Five.number(),
        "needed": needed,
        "written": written,
        "changes": changes(&update),
    });
    session.report.result("update", &data, &summary(&name, &update, args.check));
    // An old mistake is no reason to keep the old edition, and the new one says more about it. What remains is told.
    let (_, problems) = spec::parse_build(SourceFile::new(&name, update.text));
    if has_errors(&problems) {
        session.report.warn(format!("{name} has errors that `update` cannot fix"));
    }
    Failure::check_errors(&problems)?;
    if needed && args.check { Err(Failure::already_reported(exit::SPEC)) } else { Ok(()) }
}

fn changes(update: &Update) -> Vec<Value> {
    let row =
        |change: &spec::update::Change| json!({ "line": change.line, "old": change.old, "new": change.new });
    update.changes.iter().map(row).collect()
}

/// The lines that change, as a difference.
fn summary(name: &str, update: &Update, is_check: bool) -> String {
    if update.changes.is_empty() {
        return format!("{name} is already in {}\n", update.from);
    }
    let done = if is_check { "needs an update" } else { "updated" };
    let mut text =
        format!("{name}: {done} from edition {} to {}\n", update.from.number(), Edition::Five.number());
    for change in &update.changes {
        for (sign, line) in [('-', &change.old), ('+', &change.new)] {
            if let Some(line) = line {
                text += format!("{:5} {sign} {line}", change.line).trim_end();
                text.push('\n');
            }
        }
    }
    text
}
