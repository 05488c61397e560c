//! Bounds of [torch], or a floor of the stable ABI, that no torch of the matrix lies between or above.
//!
//! Never: looks at processors or at what else a variant is for; the selection does.

use crate::diagnostic::Problem;
use crate::spec::build::StableAbi;
use crate::spec::{Spanned, codes};
use crate::units::Version;

use crate::spec::project::Project;
use crate::spec::wording::{list, range_problem};

pub(super) fn check(project: &Project<'_>) -> Vec<Problem> {
    let build = project.build;
    let Some(torch) = build.torch() else { return Vec::new() };
    let all: Vec<_> = project.matrix.torch_versions().into_iter().collect();
    let allowed: Vec<_> = all.iter().copied().filter(|version| torch.versions.contains(*version)).collect();
    if allowed.is_empty() {
        let problem = range_problem(codes::TORCH_RANGE, "torch", &build.file, &torch.versions);
        let help = format!("there are variants for torch {}", list(&all));
        return problem.map(|problem| problem.help(help)).into_iter().collect();
    }
    let floors: Vec<&Spanned<Version>> = match &torch.stable_abi {
        None => Vec::new(),
        Some(StableAbi::All(floor)) => vec![floor],
        Some(StableAbi::PerBackend(floors)) => floors.iter().map(|(_, floor)| floor).collect(),
    };
    let above = floors.into_iter().filter(|floor| allowed.iter().all(|version| *version < floor.value));
    above
        .map(|floor| {
            let message = format!("no variant is built for torch {} or later", floor.value);
            Problem::error(codes::TORCH_RANGE, message)
                .at(&build.file, &floor.span, "the oldest torch of the stable ABI")
                .help(format!("there are variants for torch {}", list(&allowed)))
        })
        .collect()
}
