//! `templates`: what `new` can start from.

use clap::Args as ClapArgs;
use comfy_table::{Table, presets};
use serde_json::{Value, json};

use crate::base::session::Session;
use crate::exit::Failure;
use crate::scaffold::hole::{Hole, Kind, region};
use crate::scaffold::serves::{self, Served};
use crate::scaffold::{ScaffoldError, Template, template};

/// How many lines around a region are shown.
const AROUND: usize = 3;

/// List the templates for `new`, or show one in full
///
/// Each template has holes: places that you fill, all with a default that works. You set values and choices with `new
/// --set NAME=VALUE`. You edit code in the project, between two markers.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright templates
  kernelwright templates swiglu")]
pub struct Args {
    /// Template to show, with the contract, default and place of every hole
    #[arg(value_name = "NAME")]
    name: Option<String>,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    if let Some(name) = &args.name {
        let served = serves::served(template::find(name)?)?;
        let (data, human) = (facts(&served), shown(&served));
        session.report.result("templates", &json!({ "template": data }), &human);
        return Ok(());
    }
    let templates = template::all()?;
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["template", "ops", "backends", "holes", "description"]);
    for template in &templates {
        let row = [
            template.name.clone(),
            template.ops.join(", "),
            template.backends.join(", "),
            counted(template),
            template.description.clone(),
        ];
        table.add_row(row);
    }
    session.report.result("templates", &json!({ "templates": templates }), &table.to_string());
    Ok(())
}

/// How many holes of each kind.
fn counted(template: &Template) -> String {
    let of = |word: &str| template.holes.iter().filter(|hole| hole.word() == word).count();
    let parts = [("value", "values"), ("choice", "choices"), ("code", "code"), ("kernel", "kernel")];
    let present = parts.iter().filter(|(word, _)| of(word) > 0);
    present.map(|(word, plural)| format!("{} {plural}", of(word))).collect::<Vec<_>>().join(", ")
}

/// The default and the values of a value hole.
fn values(served: &Served, name: &str) -> Option<(String, Vec<String>)> {
    let tunable = served.op.tune.tunables.iter().find(|tunable| tunable.name.value.as_str() == name)?;
    let values = tunable.values.iter().map(ToString::to_string).collect();
    Some((tunable.default.value.to_string(), values))
}

/// The text of a code hole's file in the project, and its path there.
fn code<'s>(served: &'s Served, hole: &Hole) -> Result<(String, std::borrow::Cow<'s, str>), ScaffoldError> {
    let path = served.path(hole)?;
    let bytes = served.files.get(&path).unwrap_or_default();
    Ok((path, String::from_utf8_lossy(bytes)))
}

/// The device code of a template, in its project.
fn sources(served: &Served) -> Vec<String> {
    let Some(launch) = &served.op.launch else { return vec![] };
    let folder = std::path::Path::new(launch.source.value.as_str()).parent();
    let own = served.files.iter().map(|(path, _)| path).filter(|path| path.parent() == folder);
    own.map(|path| path.display().to_string()).collect()
}

/// A template for a program.
fn facts(served: &Served) -> Value {
    let mut data = json!(served.template);
    for (place, hole) in served.template.holes.iter().enumerate() {
        let more = &mut data["hole"][place];
        match &hole.kind {
            Kind::Value => {
                let (default, values) = values(served, &hole.name).unwrap_or_default();
                more["default"] = json!(default);
                more["values"] = json!(values);
            }
            Kind::Choice { .. } => {}
            Kind::Kernel { .. } => more["files"] = json!(sources(served)),
            Kind::Code { .. } => {
                let found = code(served, hole).ok().and_then(|(path, text)| {
                    let region = region(&text, &hole.name).ok()?;
                    let lines: Vec<String> = region.inside(&text).into_iter().map(str::to_owned).collect();
                    Some((path, region, lines))
                });
                if let Some((path, region, lines)) = found {
                    more["file"] = json!(path);
                    more["lines"] = json!(region);
                    more["default"] = json!(lines.join("\n"));
                }
            }
        }
        more["decides"] = json!(hole.decides());
        more["proved_by"] = json!(hole.check.command("DIR"));
    }
    data
}

/// A template for people.
fn shown(served: &Served) -> String {
    let template = &served.template;
    let mut text = format!(
        "{}: {}\noperations: {}\nbackends: {}\n",
        template.name,
        template.description,
        template.ops.join(", "),
        template.backends.join(", ")
    );
    for form in &template.serves {
        text += &format!("also serves: {}\n", form.as_words);
    }
    for hole in &template.holes {
        text += &format!(
            "\n{}: {}, decides the {}, proved by `{}`\n",
            hole.name,
            hole.word(),
            hole.decides(),
            hole.check.command("DIR")
        );
        match &hole.kind {
            Kind::Value => {
                let (default, values) = values(served, &hole.name).unwrap_or_default();
                text += &format!("  default {default}, one of {}\n", values.join(", "));
            }
            Kind::Choice { files, to, default, .. } => {
                text += &format!("  default {default}, one of {}; goes to {to}\n", files.join(", "));
            }
            Kind::Kernel { contract } => {
                text += &format!("  {}\n", contract.trim().replace('\n', "\n  "));
                text += &format!("  {}; [let], [tune] and [launch] of op.toml\n", sources(served).join(", "));
            }
            Kind::Code { contract, .. } => {
                text += &format!("  {}\n", contract.trim().replace('\n', "\n  "));
                let Ok((path, code)) = code(served, hole) else { continue };
                let Ok(region) = region(&code, &hole.name) else { continue };
                text += &format!("  {path}, lines {} to {}:\n", region.first, region.last);
                for (number, line) in region.with_context(&code, AROUND) {
                    let mark = if (region.first + 1..region.last).contains(&number) { '>' } else { ' ' };
                    text += format!("  {number:5} {mark} {line}").trim_end();
                    text.push('\n');
                }
            }
        }
    }
    if template.holes.is_empty() {
        text += "\nno holes\n";
    }
    text
}
