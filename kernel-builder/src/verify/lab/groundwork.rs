//! What of a lab needs no device: the inputs of a case, and what is expected of them, in files.
//!
//! Owns: when the oracle runs for a case. Never: touches a device, so it can be laid while another case is timed on one.

use std::path::Path;

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::{Case, Device};
use tempfile::TempDir;

use super::super::VerifyError;
use super::super::bound::{Bound, Numbers};
use super::super::schedule::ScheduledCase;
use super::super::stage::Stage;
use super::pool::{self, Pool};
use crate::base::{env, files};
use crate::toolchain::PythonRuntime;

/// Who else is at work while the groundwork of a case is laid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Beside {
    /// Nobody: every processor is free.
    Nobody,
    /// Another case is searched or measured, and comes first: the oracle has half of the processors and a low priority.
    Others,
}

/// A case that can be put on a device at once.
pub(crate) struct Groundwork {
    pub(super) case: Case,
    pub(super) scheduled: ScheduledCase,
    /// How many of the sets calls are timed with; the first ones.
    pub(super) timed: usize,
    pub(super) bounds: Vec<Numbers>,
    pub(super) pool: Pool,
    /// The files that the pool names, until they are on the device.
    _files: [TempDir; 2],
}

impl Groundwork {
    /// Computes what is expected of a case.
    ///
    /// # Errors
    /// The reference fails, or ctrl-C.
    pub(crate) fn lay(
        op: &OpSpec,
        project: &Path,
        case: &Case,
        python: &PythonRuntime,
        beside: Beside,
    ) -> Result<Self, VerifyError> {
        let threads = match beside {
            Beside::Nobody => env::processors(),
            Beside::Others => (env::processors() / 2).max(1),
        };
        let stage = Stage::new(python, op, project, Device::Cuda, threads, None)?;
        let stage = if beside == Beside::Others { stage.behind_others() } else { stage };
        let (scheduled, timed) = pool::scheduled(op, case);
        stage.beside_oracle(std::slice::from_ref(&scheduled), || Ok(()))?;
        let rows = files::scratch()?;
        let pool = pool::pool(&stage, &scheduled, rows.path())?;
        let bounds = stage.bounds(case).iter().map(Bound::numbers).collect();
        let files = [stage.into_folder(), rows];
        Ok(Self { case: case.clone(), scheduled, timed, bounds, pool, _files: files })
    }
}
