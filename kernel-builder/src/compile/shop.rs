//! What every part of this stage works with.
//!
//! Owns: this type. Never: does anything.

use std::path::Path;

use super::cache::Cache;
use super::files_read::ReadFiles;
use super::slots::Slots;
use crate::base::report::Report;

/// What every part of this stage works with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shop<'a> {
    /// The project's folder; commands run there.
    pub(crate) project: &'a Path,
    /// What earlier runs made.
    pub(crate) cache: &'a Cache,
    /// The pool.
    pub(crate) slots: &'a Slots,
    /// Files that the units have read.
    pub(crate) read: &'a ReadFiles,
    /// Whom to tell.
    pub(crate) report: &'a Report,
}
