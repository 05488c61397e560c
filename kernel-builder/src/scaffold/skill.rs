//! The skill that tells coding agents how to use this program, in the open Agent Skills format (agentskills.io).
//!
//! Owns: its files, and where each agent looks for skills. Never: writes one.

use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};

use super::{FileSet, ScaffoldError};

/// The files.
static SKILL: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/resources/skill");
/// The skill's name, and that of its folder.
pub(crate) const NAME: &str = "kernelwright";

/// An agent that reads skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reader {
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// opencode.
    Opencode,
}

impl Reader {
    /// The folder of skills in a project.
    pub(crate) fn folder(self) -> PathBuf {
        let folder = match self {
            Self::Claude => ".claude/skills",
            Self::Codex => ".agents/skills",
            Self::Gemini => ".gemini/skills",
            Self::Opencode => ".opencode/skills",
        };
        PathBuf::from(folder)
    }

    /// The folder of skills in a home.
    pub(crate) fn at_home(self, home: &Path) -> PathBuf {
        match self {
            Self::Opencode => home.join(".config/opencode/skills"),
            other => home.join(other.folder()),
        }
    }
}

/// The files of the skill.
///
/// # Errors
/// None, since their paths are this program's own.
pub(crate) fn files() -> Result<FileSet, ScaffoldError> {
    let mut set = FileSet::default();
    let mut folders = vec![&SKILL];
    while let Some(folder) = folders.pop() {
        folders.extend(folder.dirs());
        for file in folder.files() {
            let text = file.contents_utf8().unwrap_or_default();
            set.insert(file.path(), text.replace("{version}", env!("CARGO_PKG_VERSION")))?;
        }
    }
    Ok(set)
}

#[cfg(test)]
mod tests {
    use kernel_plan::diagnostic::{SourceFile, has_errors};
    use kernel_plan::spec::parse_op;
    use serde_json::Value;

    use super::*;
    use crate::agent::kernel::merged;
    use crate::mcp::Tool;

    /// The code blocks of a text: what stands behind the fence, and the code.
    fn blocks(text: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(kind) = line.strip_prefix("```") {
                let code = lines.by_ref().take_while(|line| *line != "```").map(|line| format!("{line}\n"));
                found.push((kind.to_owned(), code.collect()));
            }
        }
        found
    }

    fn texts() -> Vec<(String, String)> {
        let files = files().unwrap();
        let text = |(path, bytes): (&Path, &[u8])| {
            (path.display().to_string(), String::from_utf8(bytes.to_vec()).unwrap())
        };
        files.iter().map(text).collect()
    }

    #[test]
    fn it_has_the_form_of_a_skill_and_its_links_lead_somewhere() {
        let texts = texts();
        let skill = &texts.iter().find(|(path, _)| path == "SKILL.md").unwrap().1;
        let (head, body) = skill.strip_prefix("---\n").unwrap().split_once("\n---\n").unwrap();
        assert!(
            head.contains(&format!("name: {NAME}\n")) && head.contains(env!("CARGO_PKG_VERSION")),
            "{head}"
        );
        let description = head.lines().find_map(|line| line.strip_prefix("description: ")).unwrap();
        assert!((20..=1024).contains(&description.len()));
        // About four letters a token; what is always read is short.
        assert!(body.len() < 2600, "{}", body.len());
        for target in body.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            assert!(texts.iter().any(|(path, _)| path == target), "{target}");
        }
        assert_eq!(texts.len(), 1 + body.matches("](references/").count());
    }

    #[test]
    fn its_calls_are_calls_of_tools_and_its_sections_are_sections_of_an_op_file() {
        let op = include_str!("../../../examples/rms-norm-device/op.toml");
        let mut seen = 0;
        for (path, text) in texts() {
            for (kind, code) in blocks(&text) {
                if let Some(tool) = kind.strip_prefix("json tool=") {
                    let Ok(Value::Object(arguments)) = serde_json::from_str(&code) else {
                        panic!("{path}: {code}")
                    };
                    Tool::read(tool, arguments).unwrap_or_else(|error| panic!("{path}: {error}"));
                    seen += 1;
                } else if kind == "toml op" {
                    let op = merged(op, &code).unwrap();
                    let (_, problems) = parse_op(SourceFile::new("op.toml", op));
                    assert!(!has_errors(&problems), "{path}: {problems:?}");
                    seen += 1;
                } else {
                    assert!(["sh", "cuda", "python"].contains(&kind.as_str()), "{path}: {kind}");
                }
            }
        }
        assert_eq!(seen, 2);
    }
}
