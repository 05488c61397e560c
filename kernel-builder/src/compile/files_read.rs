//! The files that the units of a run have read.
//!
//! Owns: which unit read which. Never: judges a file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use kernel_plan::plan::Unit;

use super::cache::parse_depfile;
use crate::base::files;

/// The files that the units of a run have read, by variant and unit.
#[derive(Debug, Default)]
pub(crate) struct ReadFiles(Mutex<BTreeMap<(String, String), BTreeSet<PathBuf>>>);

impl ReadFiles {
    /// Notes what a unit read; paths are relative to the project, or absolute.
    pub(super) fn note(&self, variant: &str, unit: &str, paths: impl IntoIterator<Item = PathBuf>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry((variant.to_owned(), unit.to_owned())).or_default().extend(paths);
    }

    /// Notes what the compiler wrote into the unit's dependency file.
    pub(super) fn note_depfile(&self, project: &Path, variant: &str, unit: &Unit) {
        let text = files::read_text(&project.join(&unit.depfile)).unwrap_or_default();
        self.note(variant, &unit.name, parse_depfile(&text));
    }

    pub(super) fn by_variant(&self, variant: &str) -> BTreeSet<PathBuf> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter(|((of, _), _)| of == variant).flat_map(|(_, paths)| paths.iter().cloned()).collect()
    }
}
