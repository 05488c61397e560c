//! TASK.md: what an agent, or a person, is asked to do.
//!
//! Owns: these words. Never: names a workload that is held out.

use kernel_plan::spec::op::Case;

use crate::agent::kernel::{MOST_BYTES, MOST_FILES, Origin};
use crate::agent::lineage::Lineage;
use crate::bench::render;

use super::past;

/// Candidates of the history that are told.
const TOLD: usize = 20;

/// How the candidate is handed in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HandInMethod {
    /// By tools.
    Tools,
    /// By the files alone.
    Files,
}

/// What an agent is asked for in its first message.
pub(super) const PROMPT: &str = "Read TASK.md in this folder and do what it says. Use the `kernelwright` tools: `task` \
    first, `try` after each change, `submit` for a candidate that is faster. Write the final code into the files of this \
    folder as well.";

/// The text.
pub(super) fn text(
    origin: &Origin,
    cases: &[Case],
    lineage: &Lineage,
    parent: &str,
    way: HandInMethod,
) -> String {
    let op = &origin.op;
    let mut text = format!("# Make `{}` faster\n\n", op.name.value);
    if let Some(description) = &op.description {
        text += &format!("{}.\n\n", description.value.trim_end_matches('.'));
    }
    let folder = if origin.folder.is_empty() { "this folder" } else { &origin.folder };
    text += &format!(
        "The operation is defined by `{}` and the reference `{}`. The device code is in {folder}; it is candidate {parent}. \
         Make it faster on all workloads and keep its results right.\n\n",
        origin.op_name, origin.reference.0,
    );
    text += "## Rules\n\n";
    text += &format!(
        "- Change device code (.cu, .cuh, .h, .inl) in {folder}, and the sections [let], [tune] and [launch] of `{}`. Any other \
         change is refused.\n",
        origin.op_name
    );
    text += &format!("- At most {MOST_FILES} files and {MOST_BYTES} bytes, UTF-8, no links.\n");
    text += "- Includes: your own files and headers of the CUDA toolkit.\n\
             - No state between calls: `__device__` variables that keep results are refused.\n\
             - Every result is compared with a float64 reference, on new values and on lengths that you do not see.\n\
             - The kernel is called with every length that the axes of the op file allow, not only with the workloads.\n\n";
    text += "## Workloads that are timed\n\n";
    let best = lineage.find(parent);
    for case in cases {
        let lengths: Vec<String> =
            case.axes.iter().map(|(name, length)| format!("{name} = {length}")).collect();
        let time = best.and_then(|entry| entry.figures.get(&case.id));
        let time = time.map_or_else(String::new, |figure| format!(", now {}", render::time(figure.seconds)));
        text += &format!("- {}: {}{time}\n", case.id, lengths.join(", "));
    }
    text += match way {
        HandInMethod::Tools => {
            "\n## Tools\n\nThe MCP server `kernelwright` has `task`, `try`, `profile`, `history` and `submit`. A time counts only \
             with the verdict `passed`. `submit` decides; do not stop at a `try` that looks faster.\n"
        }
        HandInMethod::Files => {
            "\n## Hand in\n\nChange the files of this folder. `kernelwright submit DIR` takes them, where DIR is the project.\n"
        }
    };
    let entries = lineage.entries();
    if entries.len() > 1 {
        text += "\n## Tried before\n\n";
        for entry in &entries[entries.len().saturating_sub(TOLD)..] {
            text += &format!("- {}  {}\n", entry.id, past::words(entry));
        }
    }
    text
}
