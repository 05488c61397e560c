//! `variants`: the rows of the matrix, and why each is in or out for a project.

use std::fmt::Write as _;

use clap::Args as ClapArgs;
use kernel_plan::units::UnitError;
use kernel_plan::variant::preference::{self, Environment, Ranking};
use kernel_plan::variant::{
    self, Decision, Explained, Extent, Matrix, Provision, Refusal, Row, Selector, Variant,
};
use miette::Diagnostic;
use serde_json::{Value, json};
use thiserror::Error;

use crate::base::session::Session;
use crate::base::{env, files};
use crate::exit::{self, Failure, StageError};
use crate::pipeline::project::full_abi;
use crate::pipeline::project::{self, variants};
use crate::toolchain::{self, Provider};

use super::arguments::ProjectDir;

/// List the variants of a project, and why each is built or not
///
/// The list has three parts: the variants that `build` builds here, those that it cannot build here, with the missing
/// tools, and those that are not built, with the reasons. With `--all`, it shows what `build --all` builds. In a folder
/// without a build.toml, or with `--matrix`, it shows every variant that exists.
#[derive(Debug, ClapArgs)]
#[command(after_help = "A selector joins conditions with and, or, not and parentheses:
  torch>=2.11  torch:2.*  tvm-ffi:0.1  noarch    the framework; versions with : >= <= > <
  cuda  cuda:13.*  rocm:7.1  cpu  metal          the backend, and its toolkit's version
  arch:aarch64  os:linux  abi:stable             the machine, and PyTorch's ABI
  provider:wheels  id:torch-*                    the source of the toolchain; a pattern for the id

Examples:
  kernelwright variants my-norm
  kernelwright variants my-norm --all --selector 'torch>=2.12 and cuda'
  kernelwright variants my-norm --client torch=2.12,cuda=13.2")]
pub struct Args {
    #[command(flatten)]
    project: ProjectDir,
    /// Show only the variants that match an expression, such as `torch>=2.11 and cuda:13.*`
    #[arg(long, value_name = "EXPRESSION")]
    selector: Option<String>,
    /// List every variant that the sources support, as for `build --all`; each variant that is not built has its own
    /// line
    #[arg(long)]
    all: bool,
    /// List every variant that exists, without a project
    #[arg(long)]
    matrix: bool,
    /// Show which variant Hugging Face's client would load in an environment, such as `torch=2.12,cuda=13.2`
    #[arg(long, value_name = "ENVIRONMENT")]
    client: Option<String>,
    /// Where compilers and headers come from
    #[arg(long, value_enum, default_value_t = Provider::Wheels)]
    toolchain: Provider,
}

/// What `--client` cannot mean.
#[derive(Debug, Error, Diagnostic)]
#[error("`{}` is not {}", .0.text, .0.kind)]
#[diagnostic(code(plan::bad_environment), help("{}", .0.want))]
pub struct BadEnvironment(UnitError);

impl StageError for BadEnvironment {
    fn exit(&self) -> u8 {
        exit::PLAN
    }
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let selector = args.selector.as_deref().map(variants::selector).transpose()?;
    let client = args.client.as_deref().map(|text| text.parse::<Environment>().map_err(BadEnvironment));
    let client = client.transpose()?;
    let provision = variants::provision(args.toolchain, toolchain::tools(session));
    let matrix = variants::matrix()?;
    if let Some(selector) = &selector {
        warn_of_empty_atoms(selector, &matrix, session);
    }
    let selected = |row: &Row| selector.as_ref().is_none_or(|selector| selector.matches(row));
    let folder = env::absolute(&args.project.dir);
    let lone = files::is_dir(&folder) && !files::exists(&folder.join("build.toml"));
    if lone && !args.matrix {
        let dir = args.project.dir.display();
        session.report.note(format!("`{dir}` has no build.toml, so this list shows every variant"));
    }
    let (mut data, mut human, offered) = if lone || args.matrix {
        let rows: Vec<&Row> = matrix.rows.iter().filter(|row| selected(row)).collect();
        let (data, human) = whole(&rows, &provision);
        (data, human, rows.iter().map(|row| row.variant.value).collect::<Vec<_>>())
    } else {
        let project = project::load(&args.project.dir, session)?;
        let extent = if args.all { Extent::Everything } else { Extent::Needed };
        let mut explained = variant::explain(&project.build, &matrix, &provision, extent);
        explained.retain(|row| selected(row.row));
        let right = explained.iter().filter(|row| !matches!(row.decision, Decision::Out(_)));
        let right = right.map(|row| row.row.variant.value).collect();
        let full = full_abi::find(&project, &matrix, &provision);
        let mut data = rows_of(&explained);
        data["full_abi"] = json!(full);
        let mut human = for_project(&explained, args.all || selector.is_some());
        for sentence in full_abi::sentences(&full) {
            human += &format!("{sentence}\n");
        }
        (data, human, right)
    };
    if let Some(environment) = client {
        let ranking = preference::rank(&offered, &environment);
        data["client"] = json!({
            "takes": ranking.accepted.first(),
            "accepted": ranking.accepted,
            "rejected": ranking.rejected.iter().map(|(variant, why)| {
                json!({ "variant": variant, "why": why.to_string() })
            }).collect::<Vec<_>>(),
        });
        human += &for_client(&ranking);
    }
    session.report.result("variants", &data, &human);
    Ok(())
}

/// A condition that no row of the matrix meets is a slip of the pen more often than not.
fn warn_of_empty_atoms(selector: &Selector, matrix: &Matrix, session: &Session) {
    for atom in selector.atoms() {
        let alone = Selector::Atom(atom.clone());
        if !matrix.rows.iter().any(|row| alone.matches(row)) {
            session.report.warn(format!("no variant matches `{alone}`"));
        }
    }
}

fn rows_of(explained: &[Explained<'_>]) -> Value {
    let rows = explained.iter().map(|row| {
        let (why, provider) = match &row.decision {
            Decision::Built(provider) => ("it fits".to_owned(), Some(provider)),
            Decision::Elsewhere(missing) => (missing.to_string(), None),
            Decision::Out(refusal) => (refusal.to_string(), None),
        };
        json!({
            "variant": row.row.variant.value,
            "selected": provider.is_some(),
            "right": !matches!(row.decision, Decision::Out(_)),
            "why": why,
            "provider": provider,
            "providers": row.row.providers,
        })
    });
    json!({ "variants": rows.collect::<Vec<_>>() })
}

/// What is said of rows that another one serves, when they are not told one by one.
const COVERED: &str = "a variant above loads there too, with the same code (needs --all)";

/// What is in first, then what would be, then what is not; reasons that many rows share are told once, unless `each` row
/// is to have its own.
fn for_project(explained: &[Explained<'_>], each: bool) -> String {
    let mut here = Vec::new();
    let mut elsewhere = Vec::new();
    let mut out: Vec<(Variant, String)> = Vec::new();
    for row in explained {
        let variant = row.row.variant.value;
        match &row.decision {
            Decision::Built(provider) => here.push((variant, format!("with {provider}"))),
            Decision::Elsewhere(missing) => elsewhere.push((variant, missing.to_string())),
            Decision::Out(Refusal::Covered(_)) if !each => out.push((variant, COVERED.to_owned())),
            Decision::Out(refusal) => out.push((variant, refusal.to_string())),
        }
    }
    let mut text = String::new();
    section(&mut text, "Built here", &here);
    section(&mut text, "Supported by the project, but not built here", &elsewhere);
    if each {
        section(&mut text, "Not built", &out);
    } else if !out.is_empty() {
        let mut reasons: Vec<(&str, usize)> = Vec::new();
        for (_, reason) in &out {
            match reasons.iter_mut().find(|(known, _)| known == reason) {
                Some((_, count)) => *count += 1,
                None => reasons.push((reason, 1)),
            }
        }
        text += "Not built (to list each one, pass --selector)\n";
        for (reason, count) in reasons {
            let _infallible = writeln!(text, "  {count:>3}  {reason}");
        }
        text.push('\n');
    }
    let (here, elsewhere, out) = (here.len(), elsewhere.len(), out.len());
    let total = here + elsewhere + out;
    text + &format!(
        "variants: {here} built here, {elsewhere} not built here, {out} excluded; {total} in total\n"
    )
}

/// A heading, and the rows under it in aligned columns.
fn section(text: &mut String, heading: &str, rows: &[(Variant, String)]) {
    if rows.is_empty() {
        return;
    }
    let width = rows.iter().map(|(variant, _)| variant.to_string().len()).max().unwrap_or_default();
    let _infallible = writeln!(text, "{heading}");
    for (variant, why) in rows {
        let _infallible = writeln!(text, "  {variant:<width$}  {why}");
    }
    text.push('\n');
}

/// The matrix without a project.
fn whole(rows: &[&Row], provision: &Provision) -> (Value, String) {
    let mut data = Vec::new();
    let mut lines = Vec::new();
    let mut here = 0;
    for row in rows {
        let judged = provision.judge(row);
        let names: Vec<&str> = row.providers.iter().map(|provider| provider.as_str()).collect();
        let why = match &judged {
            Ok(provider) => format!("here: {provider}"),
            Err(missing) => missing.to_string(),
        };
        here += usize::from(judged.is_ok());
        lines.push((row.variant.value, format!("{:<19}  {why}", names.join(", "))));
        data.push(json!({
            "variant": row.variant.value,
            "why": why,
            "provider": judged.ok(),
            "providers": row.providers,
        }));
    }
    let mut text = String::new();
    section(&mut text, "Variant, possible toolchains, and whether it can be built here", &lines);
    text += &format!("variants: {here} of {} can be built here\n", rows.len());
    (json!({ "variants": data }), text)
}

fn for_client(ranking: &Ranking) -> String {
    match ranking.accepted.split_first() {
        None => "The client finds no variant that it can load\n".to_owned(),
        Some((first, [])) => format!("The client loads {first}; no other variant loads\n"),
        Some((first, rest)) => {
            let rest: Vec<_> = rest.iter().map(ToString::to_string).collect();
            format!("The client loads {first}; if it is missing, in this order: {}\n", rest.join(", "))
        }
    }
}
