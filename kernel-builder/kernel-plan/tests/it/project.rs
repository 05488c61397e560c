//! A project in one text, for tests: its files between `# --- NAME ---` lines.
//!
//! Owns: the split, reading everything in it, and how problems are rendered in snapshots.
//! Never: asserts anything.

use std::collections::BTreeSet;
use std::sync::Arc;

use kernel_plan::diagnostic::{Problem, SourceFile};
use kernel_plan::spec::{self, BuildSpec, OpSpec, Project};
use kernel_plan::units::RelPath;
use kernel_plan::variant::{Cpu, Matrix, select};
use miette::{GraphicalReportHandler, GraphicalTheme};

/// The repository's own list of variants.
pub(crate) const VARIANTS: &str = include_str!("../../../../variants.toml");

/// What was read of a project, and everything that is wrong with it.
pub(crate) struct Read {
    pub(crate) build: Option<BuildSpec>,
    pub(crate) op: Option<OpSpec>,
    pub(crate) problems: Vec<Problem>,
}

/// Reads every part of `text`, then applies the rules across them.
pub(crate) fn read(text: &str) -> Read {
    let mut read = Read { build: None, op: None, problems: Vec::new() };
    if let Some(part) = part(text, "build.toml") {
        let (build, problems) = spec::parse_build(part);
        read.build = build;
        read.problems.extend(problems);
    }
    if let Some(part) = part(text, "op.toml") {
        let (op, problems) = spec::parse_op(part);
        read.op = op;
        read.problems.extend(problems);
    }
    if let Some(build) = &read.build {
        let files = files(text);
        read.problems.extend(spec::check(&Project { build, op: read.op.as_ref(), files: &files }));
    }
    if let Some(part) = part(text, "variants.toml") {
        match (Matrix::parse(&part.text), &read.build) {
            (Err(problems), _) => read.problems.extend(problems),
            (Ok(matrix), Some(build)) => read.problems.extend(select(build, &matrix, Cpu::X86_64).err()),
            (Ok(_), None) => {}
        }
    }
    read
}

/// The files that the `files` part lists, a `# ` before each.
fn files(text: &str) -> BTreeSet<RelPath> {
    let listing = part(text, "files").map(|part| part.text.clone()).unwrap_or_default();
    listing
        .lines()
        .map(|line| line.trim_start_matches("# ").parse().expect("a path in the project"))
        .collect()
}

/// The lines after `# --- NAME ---`, up to the next such line.
pub(crate) fn part(text: &str, name: &str) -> Option<Arc<SourceFile>> {
    let header = format!("# --- {name} ---\n");
    let (_, rest) = text.split_once(&header)?;
    let end = rest.find("# --- ").unwrap_or(rest.len());
    Some(SourceFile::new(name, &rest[..end]))
}

/// What a person would see, without colours.
pub(crate) fn render(problems: &[Problem]) -> String {
    let handler = GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
        .with_width(110)
        .with_wrap_lines(false)
        .with_links(false);
    let mut text = String::new();
    for problem in problems {
        handler.render_report(&mut text, problem).expect("writing to a string succeeds");
        text.push('\n');
    }
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}
