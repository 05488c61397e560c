//! `skill`: what a coding agent should know of this program, where it looks for skills.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};
use miette::Diagnostic;
use serde_json::json;
use thiserror::Error;

use crate::base::session::Session;
use crate::base::{env, files};
use crate::exit::{self, Failure, StageError};
use crate::scaffold::skill::{self, NAME, Reader};

/// Teach coding agents to write kernels: install the skill
///
/// A skill is a folder in the open Agent Skills format. It explains the tools of `kernelwright mcp`, the verdicts, and
/// the features of each GPU architecture.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright skill add --claude
  kernelwright skill add --codex --gemini --global")]
pub struct Args {
    #[command(subcommand)]
    what: SkillVerb,
}

#[derive(Debug, Subcommand)]
enum SkillVerb {
    Add(AddArgs),
}

/// Install the skill where agents look for skills
///
/// Without `--global`, it is installed into the current folder, for this project only. An existing version is replaced
/// only with `--force`.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright skill add --claude
  kernelwright skill add --dest skills --force")]
struct AddArgs {
    /// Install for Claude Code, in .claude/skills
    #[arg(long)]
    claude: bool,
    /// Install for Codex, in .agents/skills
    #[arg(long)]
    codex: bool,
    /// Install for Gemini CLI, in .gemini/skills
    #[arg(long)]
    gemini: bool,
    /// Install for opencode, in .opencode/skills
    #[arg(long)]
    opencode: bool,
    /// Install into this folder of skills
    #[arg(long, value_name = "DIR", conflicts_with_all = ["claude", "codex", "gemini", "opencode", "global"])]
    dest: Option<PathBuf>,
    /// Install for all projects, in the home folder
    #[arg(long)]
    global: bool,
    /// Replace another version of the skill
    #[arg(long)]
    force: bool,
}

/// Why the skill is not installed.
#[derive(Debug, Error, Diagnostic)]
enum SkillError {
    #[error("no agent was selected")]
    #[diagnostic(
        code(scaffold::no_agent),
        help("pass one of --claude, --codex, --gemini, --opencode or --dest DIR")
    )]
    NoAgent,
    #[error("`{}` already contains another version of the skill, or other files", folder.display())]
    #[diagnostic(code(scaffold::skill_there), help("to replace it, add --force"))]
    There { folder: PathBuf },
    #[error("HOME is not set")]
    #[diagnostic(code(scaffold::no_home), help("pass the folder with --dest DIR"))]
    NoHome,
}

impl StageError for SkillError {
    fn exit(&self) -> u8 {
        exit::SCAFFOLD
    }
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let SkillVerb::Add(add) = &args.what;
    let chosen = [
        (add.claude, Reader::Claude),
        (add.codex, Reader::Codex),
        (add.gemini, Reader::Gemini),
        (add.opencode, Reader::Opencode),
    ];
    let home = env::text("HOME").map(PathBuf::from);
    let mut folders: Vec<PathBuf> = add.dest.clone().into_iter().collect();
    for (_, reader) in chosen.into_iter().filter(|(is_chosen, _)| *is_chosen) {
        folders.push(if add.global {
            reader.at_home(home.as_ref().ok_or(SkillError::NoHome)?)
        } else {
            reader.folder()
        });
    }
    if folders.is_empty() {
        return Err(SkillError::NoAgent.into());
    }
    let skill = skill::files()?;
    let folders: Vec<PathBuf> = folders.into_iter().map(|folder| folder.join(NAME)).collect();
    // All or none: a folder that stays as it is is told before another one is written.
    for folder in &folders {
        let same = || {
            skill.iter().all(|(path, bytes)| files::read(&folder.join(path)).is_ok_and(|old| old == bytes))
        };
        if files::exists(folder) && !files::is_empty_dir(folder) && !add.force && !same() {
            return Err(SkillError::There { folder: folder.clone() }.into());
        }
    }
    for folder in &folders {
        let staged = files::staging_beside(folder)?;
        for (path, bytes) in skill.iter() {
            files::write(&staged.path().join(path), bytes)?;
        }
        files::replace_dir(staged, folder)?;
    }
    let human: String = folders.iter().map(|folder| format!("{}\n", folder.display())).collect();
    session.report.result(
        "skill",
        &json!({ "written": folders, "version": env!("CARGO_PKG_VERSION") }),
        &human,
    );
    Ok(())
}
