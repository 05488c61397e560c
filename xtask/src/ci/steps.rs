//! The steps of CI in their order, and the items of each.
//!
//! Owns: the list. Never: runs a step.

use std::path::Path;

use super::run::Run;
use super::{
    cheats, checks, device_code, documents, generated, line, pages, projects, prove, rust, translation,
};

/// Lists the items of a step in the checkout at a root.
type Items = fn(&Path) -> Result<Vec<String>, String>;

/// A step of CI.
pub(crate) struct Step {
    /// Its name, as typed.
    pub(crate) name: &'static str,
    /// One line for the list: the property that it proves.
    pub(crate) about: &'static str,
    /// Names of its parts that can run alone, in their order; `None` for a step that runs as a whole.
    pub(crate) items: Option<Items>,
    /// For a step in the proven table: a number that spreads steps without items over successive commits.
    pub(crate) turn: Option<usize>,
    /// Runs some items; returns those that failed.
    pub(crate) run: fn(&Run<'_>) -> Result<Vec<String>, String>,
}

/// In the order of a run.
pub(crate) const STEPS: &[Step] = &[
    Step {
        name: "test",
        about: "`cargo xtask test`, with the official parsers",
        items: None,
        turn: None,
        run: checks::test,
    },
    Step {
        name: "make",
        about: "the whole line on examples/rms-norm, and from a function, as a new user does it",
        items: None,
        turn: None,
        run: line::make,
    },
    Step {
        name: "fuzz",
        about: "the fuzz targets compile; they are a workspace of their own",
        items: None,
        turn: Some(1),
        run: checks::fuzz,
    },
    Step {
        name: "again",
        about: "`make` once more: an unchanged project comes from the cache",
        items: None,
        turn: None,
        run: line::again,
    },
    Step {
        name: "model",
        about: "`profile`, `inject` and `bench --e2e` of a model that is in no library, with two kernels in it",
        items: None,
        turn: None,
        run: line::model,
    },
    Step {
        name: "torch",
        about: "`toolchain fetch --torch 2.11`, for the steps below; `make` uses 2.10",
        items: None,
        turn: None,
        run: line::torch,
    },
    Step {
        name: "with-torch",
        about: "the tests that need torch, wheels of CUDA, or both",
        items: None,
        turn: None,
        run: checks::with_torch,
    },
    Step {
        name: "harness",
        about: "ruff, basedpyright in strict mode and pytest on the Python that judges, with torch",
        items: None,
        turn: Some(0),
        run: checks::harness,
    },
    Step {
        name: "site",
        about: "the documentation as a site, with every link and anchor",
        items: None,
        turn: None,
        run: checks::site,
    },
    Step {
        name: "pages",
        about: "the pages of `report` and the site in Chromium: light, dark, narrow, by keyboard, with search",
        items: None,
        turn: Some(2),
        run: pages::run,
    },
    Step {
        name: "documents",
        about: "the commands of README.md and the tutorials do what the pages show",
        items: Some(documents::items),
        turn: Some(1),
        run: documents::run,
    },
    Step {
        name: "agents",
        about: "`cargo xtask test agents`: a real coding agent with a scripted model calls the judge",
        items: None,
        turn: Some(1),
        run: checks::agents,
    },
    Step {
        name: "tracing",
        about: "`new --from` on functions as people write them, with torch",
        items: None,
        turn: Some(2),
        run: checks::tracing,
    },
    Step {
        name: "translation",
        about: "functions of `tests/translation` and drawn ones, their gradients too, beside PyTorch on the processor",
        items: None,
        turn: Some(0),
        run: translation::run,
    },
    Step {
        name: "hub",
        about: "`.ci/hub`: publish twice to a hub of one's own, load by the stock client",
        items: None,
        turn: Some(1),
        run: line::hub,
    },
    Step {
        name: "release",
        about: "`.ci/release`: the workflow of a project, from a tag to a release and a hub, signed",
        items: None,
        turn: Some(1),
        run: line::release,
    },
    Step {
        name: "device-code",
        about: "device code of examples and templates for every usual architecture, no spills",
        items: Some(device_code::items),
        turn: Some(0),
        run: device_code::run,
    },
    Step {
        name: "rust",
        about: "crates outside of the workspace build with own and published kernels, without a GPU; the crates for them are packed",
        items: None,
        turn: Some(1),
        run: rust::run,
    },
    Step {
        name: "generated",
        about: "every template's code for the processor: built, judged, timed beside PyTorch",
        items: Some(generated::items),
        turn: Some(0),
        run: generated::run,
    },
    Step {
        name: "prove",
        about: "`build --prove`: seven variants under three torch versions",
        items: None,
        turn: Some(1),
        run: prove::run,
    },
    Step {
        name: "crosscheck",
        about: "device code for CUDA 12 beside that of NVIDIA's compiler",
        items: None,
        turn: Some(2),
        run: line::crosscheck,
    },
    Step {
        name: "projects",
        about: "projects as other people write them; some must fail",
        items: Some(projects::items),
        turn: Some(0),
        run: projects::run,
    },
    Step {
        name: "nix",
        about: "`.ci/nix`: real Nix builds the same bytes",
        items: None,
        turn: Some(0),
        run: line::nix,
    },
    Step {
        name: "cheats",
        about: "kernels that must be refused, and honest ones that must pass",
        items: Some(cheats::items),
        turn: Some(0),
        run: cheats::run,
    },
];

/// The items of a step; a step that runs as a whole is its own single item.
///
/// # Errors
/// The folders that they come from cannot be read.
pub(crate) fn items(step: &Step, root: &Path) -> Result<Vec<String>, String> {
    step.items.map_or_else(|| Ok(vec![step.name.to_owned()]), |items| items(root))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;

    #[test]
    fn names_are_unique_and_every_list_has_items() {
        let root = repo::root();
        let mut names: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), STEPS.len());
        for step in STEPS.iter().filter(|step| step.items.is_some()) {
            let items = items(step, &root).unwrap();
            let mut unique = items.clone();
            unique.sort();
            unique.dedup();
            assert!(items.len() >= 5 && unique.len() == items.len(), "{}: {items:?}", step.name);
        }
    }
}
