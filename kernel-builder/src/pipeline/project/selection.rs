//! Which variants of a project a verb works on.
//!
//! Owns: what the options mean together, the errors of a choice that leaves nothing.
//! Never: says what is right for a project (kernel-plan does), builds anything.

use std::collections::BTreeSet;

use kernel_plan::variant::{self, Decision, Explained, Extent, SelectedVariants, Variant};
use miette::Diagnostic;
use thiserror::Error;

use crate::base::nearest;
use crate::base::session::Session;
use crate::compile::BuildPolicy;
use crate::exit::{self, Failure, StageError};
use crate::pipeline::project::Project;
use crate::pipeline::project::variants;
use crate::toolchain::libraries::Folders;
use crate::toolchain::{self, Provider};

/// Which variants of a project are built, and with which tools.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    /// Every variant that the sources support, even if another build covers it.
    pub(crate) all: bool,
    /// Only these variants; all if empty.
    pub(crate) variants: Vec<String>,
    /// Only variants for this backend.
    pub(crate) backend: Option<String>,
    /// Only variants that match this expression.
    pub(crate) selector: Option<String>,
    /// Where compilers and headers come from.
    pub(crate) toolchain: Provider,
    /// What is done when a variant fails.
    pub(crate) conduct: BuildPolicy,
    /// Only wheels of kernelwright.lock.
    pub(crate) locked: bool,
    /// Where header libraries are that a person named.
    pub(crate) libraries: Folders,
    /// Builds nothing: the builds that lie in the project are taken.
    pub(crate) prebuilt: bool,
}

impl Selection {
    /// Whether an option leaves variants out.
    fn narrows(&self) -> bool {
        !self.variants.is_empty() || self.backend.is_some() || self.selector.is_some()
    }

    /// What is chosen from: a variant that is named may be any that the sources can serve.
    fn extent(&self) -> Extent {
        if self.all || !self.variants.is_empty() { Extent::Everything } else { Extent::Needed }
    }
}

/// Why there is nothing to build.
#[derive(Debug, Error, Diagnostic)]
pub(crate) enum SelectError {
    /// A variant was named that does not fit.
    #[error("the variant `{id}` is not for this project: {problem}")]
    #[diagnostic(code(plan::unknown_variant), help("variants that can be built here: {}", few(id, offered)))]
    Unknown {
        /// What was asked for.
        id: String,
        /// Why not.
        problem: String,
        /// What fits.
        offered: Vec<String>,
    },
    /// A variant was named that is right for the project, and something is missing here.
    #[error("the variant `{id}` cannot be built here: {missing}")]
    #[diagnostic(code(plan::not_buildable), help("variants that can be built here: {}", few(id, offered)))]
    Elsewhere {
        /// What was asked for.
        id: String,
        /// What is missing.
        missing: String,
        /// What can be built.
        offered: Vec<String>,
    },
    /// No variant is left.
    #[error("no variant is left: {by} excludes all that can be built here")]
    #[diagnostic(code(plan::nothing_selected), help("variants without it: {}{}", offered.join(", "), more(*extent)))]
    Nothing {
        /// The option.
        by: String,
        /// What can be built.
        offered: Vec<String>,
        /// What it was chosen from.
        extent: Extent,
    },
    /// `--prebuilt`, and nothing was built.
    #[error("no build of {} found in .kernelwright/artifacts", wanted.join(", "))]
    #[diagnostic(
        code(plan::not_built),
        help(
            "{}build without --prebuilt, or copy the folder from the machine that built it",
            besides(there)
        )
    )]
    NotBuilt {
        /// The variants that were wanted and are not there.
        wanted: Vec<String>,
        /// The variants that are there.
        there: Vec<String>,
    },
    /// `--prebuilt`, and something else lies there than what was built.
    #[error("damaged build in .kernelwright/artifacts: {}", damaged.join(", "))]
    #[diagnostic(
        code(plan::damaged_build),
        help(
            "a file was changed, or a copy is incomplete: rebuild, or copy VARIANT/ and VARIANT.json from the machine that built it"
        )
    )]
    Damaged {
        /// The variants.
        damaged: Vec<String>,
    },
}

/// How many variants a message names.
const NAMED: usize = 6;

/// All variants if they are few; else those with similar names, or the first, and where to see the others.
fn few(id: &str, offered: &[String]) -> String {
    if offered.len() <= NAMED {
        return offered.join(", ");
    }
    let mut named = nearest::alike(id, offered.iter().map(String::as_str), NAMED);
    if named.is_empty() {
        named.extend(offered.iter().take(NAMED).map(String::as_str));
    }
    let others = offered.len() - named.len();
    format!("{} and {others} more, which `kernelwright variants --all` lists", named.join(", "))
}

/// The builds in a project, as the beginning of a help text.
fn besides(there: &[String]) -> String {
    if there.is_empty() { String::new() } else { format!("there are builds of {}; ", there.join(", ")) }
}

/// What else there would be to choose from.
fn more(extent: Extent) -> &'static str {
    match extent {
        Extent::Needed => "; with --all there are more, which `kernelwright variants --all` lists",
        Extent::Everything => "",
    }
}

impl StageError for SelectError {
    fn exit(&self) -> u8 {
        exit::PLAN
    }
}

/// The variants of a project that the options choose, and how many more they would if this machine had the tools.
///
/// # Errors
/// Nothing is right for the project, a variant is named that is not, or an option leaves nothing.
pub(crate) fn select(
    project: &Project,
    selection: &Selection,
    session: &Session,
) -> Result<SelectedVariants, Failure> {
    let matrix = variants::matrix()?;
    let selector = selection.selector.as_deref().map(variants::selector).transpose()?;
    let provision = variants::provision(selection.toolchain, toolchain::tools(session));
    let extent = selection.extent();
    let failure = |problem| Failure::from_problems(exit::PLAN, [problem]);
    let mut chosen = variant::select(&project.build, &matrix, &provision, extent).map_err(failure)?;
    let offered: Vec<String> = chosen.variants.iter().map(ToString::to_string).collect();
    let named: BTreeSet<&str> = selection.variants.iter().map(String::as_str).collect();
    if let Some(id) = named.iter().find(|id| !offered.iter().any(|offered| offered == *id)) {
        let explained = variant::explain(&project.build, &matrix, &provision, extent);
        return Err(not_offered(id, &explained, offered).into());
    }
    let mut keep = |by: String, wanted: &dyn Fn(&Variant) -> bool| {
        chosen.variants.retain(wanted);
        let left = !chosen.variants.is_empty();
        left.then_some(()).ok_or_else(|| SelectError::Nothing { by, offered: offered.clone(), extent })
    };
    if !named.is_empty() {
        keep("`--variant`".to_owned(), &|variant| named.contains(variant.id().as_str()))?;
    }
    if let Some(backend) = &selection.backend {
        let of = |variant: &Variant| variant.backend().is_some_and(|found| found.as_str() == backend);
        keep(format!("`--backend {backend}`"), &of)?;
    }
    if let Some(selector) = &selector {
        let by = format!("`--selector '{selector}'`");
        keep(by, &|variant| matrix.row(variant).is_some_and(|row| selector.matches(row)))?;
    }
    if selection.narrows() {
        // Who asked for some of them knows that there are others.
        chosen.elsewhere = 0;
    }
    Ok(chosen)
}

/// Why a variant that was named is not among those that can be built here.
fn not_offered(id: &str, explained: &[Explained<'_>], offered: Vec<String>) -> SelectError {
    let decision = explained.iter().find(|row| row.row.variant.value.to_string() == id);
    let id = id.to_owned();
    match decision.map(|row| &row.decision) {
        Some(Decision::Elsewhere(missing)) => {
            SelectError::Elsewhere { id, missing: missing.to_string(), offered }
        }
        Some(Decision::Out(refusal)) => SelectError::Unknown { id, problem: refusal.to_string(), offered },
        Some(Decision::Built(_)) | None => {
            SelectError::Unknown { id, problem: "no variant has this name".to_owned(), offered }
        }
    }
}
