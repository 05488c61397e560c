//! A project in one text, for tests: its files between `# --- NAME ---` lines.
//!
//! Owns: the split, reading everything in it, and how problems are rendered in snapshots.
//! Never: asserts anything.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use kernel_plan::diagnostic::{Problem, SourceFile, has_errors};
use kernel_plan::spec::{self, BuildSpec, OpSpec, Project, Sources, Unread};
use kernel_plan::units::{RelPath, Version};
use kernel_plan::variant::{Cpu, Extent, Matrix, Offer, Os, Provider, Provision, Selector, select};
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
    let listing = part(text, "files").map(|part| part.text.clone()).unwrap_or_default();
    let files: BTreeSet<_> = listing.lines().map(|line| path(line.trim_start_matches("# "))).collect();
    judge(&files, |name| {
        // A file that is listed and not written out is empty.
        let empty = || files.contains(&path(name)).then(|| SourceFile::new(name, ""));
        part(text, name).or_else(empty).ok_or(Unread::NotText)
    })
}

/// Reads the project in a folder, then applies the rules across its files. They are called as `kernelwright check`
/// calls them, started in the folder that `shown` starts from.
#[expect(clippy::disallowed_methods, reason = "the fixtures are files of the repository")]
pub(crate) fn read_folder(folder: &Path, shown: &str) -> Read {
    let mut files = BTreeSet::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).expect("a readable folder") {
            let found = entry.expect("a readable entry").path();
            if found.is_dir() {
                folders.push(found);
            } else {
                let inside = found.strip_prefix(folder).expect("a path below the folder");
                files.insert(path(inside.to_str().expect("UTF-8")));
            }
        }
    }
    judge(&files, |name| {
        const CIRCLE: i32 = 40;
        let text =
            std::fs::read_to_string(folder.join(name)).map_err(|error| match error.raw_os_error() {
                Some(CIRCLE) => Unread::Refused("it is a link that leads back to itself".to_owned()),
                _ => Unread::NotText,
            })?;
        Ok(SourceFile::new(format!("{shown}/{name}"), text))
    })
}

fn path(text: &str) -> RelPath {
    text.parse().expect("a path in the project")
}

fn judge(files: &BTreeSet<RelPath>, text: impl Fn(&str) -> Result<Arc<SourceFile>, Unread>) -> Read {
    let mut read = Read { build: None, op: None, problems: Vec::new() };
    let mut names = (String::new(), String::new());
    if let Ok(part) = text("build.toml") {
        names.0.clone_from(&part.name);
        let (build, problems) = spec::parse_build(part);
        read.build = build;
        read.problems.extend(problems);
    }
    if let Ok(part) = text("op.toml") {
        names.1.clone_from(&part.name);
        let (op, problems) = spec::parse_op(part);
        read.op = op;
        read.problems.extend(problems);
    }
    let matrix = text("variants.toml").map(|part| Matrix::parse(&part.text));
    if let Some(build) = &read.build {
        let (op, sources) =
            (read.op.as_ref(), Sources::gather(build, files, &mut |path| text(path.as_str())));
        let own = matrix.as_ref().ok().and_then(|matrix| matrix.as_ref().ok());
        let everybodys = Matrix::parse(VARIANTS).unwrap_or_else(|problems| panic!("{}", render(&problems)));
        let matrix = own.unwrap_or(&everybodys);
        read.problems.extend(spec::check(&Project { build, op, files, sources: &sources, matrix }));
    }
    match (matrix, &read.build) {
        (Ok(Err(problems)), _) => read.problems.extend(problems),
        // As in the program: what has errors is not selected for.
        (Ok(Ok(matrix)), Some(build)) if !has_errors(&read.problems) => {
            read.problems.extend(select(build, &matrix, &provision(), Extent::Needed).err());
        }
        _ => {}
    }
    if read.build.is_some() {
        spec::rules::in_order(&mut read.problems, &names.0, &names.1);
    }
    if let Ok(part) = text("selector.txt") {
        read.problems.extend(Selector::parse(part.text.trim_end()).err());
    }
    read
}

/// What this version can build on a PC with Linux: torch 2.11, tvm-ffi 0.1, CUDA 13.0.
pub(crate) fn provision() -> Provision {
    let (torch, tvm_ffi, cuda) =
        (vec![Version::new(2, 11)], vec![Version::new(0, 1)], vec![Version::new(13, 0)]);
    let offers = [Provider::Wheels, Provider::System].map(|provider| Offer {
        provider,
        torch: torch.clone(),
        tvm_ffi: tvm_ffi.clone(),
        cuda: cuda.clone(),
    });
    Provision { cpu: Cpu::X86_64, os: Os::Linux, offers: offers.to_vec(), tools: Vec::new() }
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
