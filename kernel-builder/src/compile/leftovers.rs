//! Removes files in `.kernelwright/objects` that no build refers to any more.
//!
//! Owns: telling which files these are, and removing them. Never: touches what another build of the project may still use:
//! it runs while no other build does.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Job, Outcome};
use crate::base::files::{self, FileError};

/// Endings of what compilers and linkers write.
const MADE: [&str; 3] = ["so", "o", "d"];

/// Removes the libraries and objects of earlier sources from the folders of the variants that were built, and the folders
/// of variants that are not built any more.
pub(super) fn clear(project: &Path, jobs: &[Job], outcomes: &[Outcome]) -> Result<(), FileError> {
    let root = Path::new(".kernelwright/objects");
    if !files::is_dir(&project.join(root)) {
        return Ok(());
    }
    let there = files::walk(&project.join(root), |_| true)?;
    let variants: BTreeSet<&str> =
        there.iter().filter_map(|path| path.components().next()?.as_os_str().to_str()).collect();
    for variant in variants {
        let built = jobs.iter().zip(outcomes).find(|(job, _)| job.plan.id == variant);
        let Some((job, outcome)) = built else {
            if !files::exists(&project.join(format!(".kernelwright/artifacts/{variant}.json"))) {
                files::remove_dir(&project.join(root).join(variant))?;
            }
            continue;
        };
        let Ok(artifact) = outcome else { continue };
        let mut used: BTreeSet<PathBuf> = BTreeSet::new();
        for unit in &job.plan.units {
            used.extend([&unit.object, &unit.depfile].map(PathBuf::from));
            used.extend(unit.named.iter().map(PathBuf::from));
        }
        used.extend(job.plan.before_link.iter().map(|step| PathBuf::from(&step.output)));
        let library = artifact.library.as_ref().and_then(|library| library.file_name());
        used.extend(library.map(|name| root.join(variant).join(name)));
        let of_variant = there.iter().filter(|path| path.starts_with(variant)).map(|path| root.join(path));
        let is_made =
            |path: &PathBuf| path.extension().is_some_and(|ending| MADE.iter().any(|made| ending == *made));
        for path in of_variant.filter(is_made).filter(|path| !used.contains(path)) {
            files::remove_file(&project.join(path))?;
        }
    }
    Ok(())
}
