//! What of a lab needs no device: the inputs of a case, and what is expected of them, in files.
//!
//! Owns: when the oracle runs for a case. Never: touches a device, so it can be laid while another case is timed on one.

use std::path::Path;

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::{Case, Device};
use tempfile::TempDir;

use super::super::VerifyError;
use super::super::bound::{Bound, Numbers};
use super::super::reference::ReferenceFile;
use super::super::schedule::ScheduledCase;
use super::super::stage::Stage;
use super::pool::{self, Pool};
use crate::base::{env, files};
use crate::toolchain::PythonRuntime;

/// Who else is at work while the groundwork of a case is laid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProcessorShare {
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
        beside: ProcessorShare,
    ) -> Result<Self, VerifyError> {
        let threads = match beside {
            ProcessorShare::Nobody => env::processors(),
            ProcessorShare::Others => (env::processors() / 2).max(1),
        };
        let reference = ReferenceFile::read(op, project)?;
        let stage = Stage::new(python, op, reference, Device::Cuda, threads, None)?;
        let stage = if beside == ProcessorShare::Others { stage.behind_others() } else { stage };
        let (scheduled, timed) = pool::scheduled(op, case);
        stage.beside_oracle(std::slice::from_ref(&scheduled), || Ok(()))?;
        let rows = files::scratch()?;
        let pool = pool::pool(&stage, &scheduled, rows.path())?;
        let bounds = stage.bounds(case).iter().map(Bound::numbers).collect();
        let files = [stage.into_folder(), rows];
        Ok(Self { case: case.clone(), scheduled, timed, bounds, pool, _files: files })
    }
}

impl Groundwork {
    /// Bytes of its files that a device is given.
    pub(crate) fn bytes(&self) -> u64 {
        self.pool.bytes
    }
}

#[cfg(test)]
mod tests {
    use kernel_plan::diagnostic::SourceFile;
    use kernel_plan::spec::op::Purpose;

    use super::super::super::python_for_tests::{endless, is_gone, scripted, with_torch};
    use super::*;
    use crate::base::background::BackgroundTask;
    use crate::base::process::ProcessError;
    use crate::device::wire::Op;

    fn example() -> (OpSpec, Case) {
        let text = include_str!("../../../../examples/rms-norm-device/op.toml");
        let op = kernel_plan::spec::parse_op(SourceFile::new("op.toml", text)).0.unwrap();
        let cases = op.cases(Purpose::Bench, Device::Cuda);
        let case = cases.into_iter().find(|case| case.id == "llm-128x4096/T=f16").unwrap();
        (op, case)
    }

    fn project() -> std::path::PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/rms-norm-device")
    }

    #[test]
    #[expect(clippy::disallowed_macros, reason = "a test that skips says why")]
    fn what_a_device_is_given_is_in_files_that_end_with_the_groundwork() {
        let runtime = match with_torch() {
            Ok(runtime) => runtime,
            Err(reason) => return eprintln!("{reason}"),
        };
        let (op, case) = example();
        let laid = Groundwork::lay(&op, &project(), &case, &runtime, ProcessorShare::Others).unwrap();
        // 64 calls of a graph on tensors of 2 MiB, and three sets that are judged alone.
        assert_eq!((laid.scheduled.sets.len(), laid.timed, laid.pool.known.len()), (67, 64, 67));
        let mut named = Vec::new();
        for op in &laid.pool.ops {
            if let Op::Upload { bytes, file, from, .. } = op {
                assert!(files::read(file).unwrap().len() as u64 >= from + bytes);
                named.push(file.clone());
            }
        }
        // Two inputs, what is expected, and what is computed of its rows.
        assert_eq!(named.len(), 67 * 4);
        drop(laid);
        assert!(named.iter().all(|file| !files::exists(file)));
    }

    #[test]
    fn an_oracle_that_dies_is_told() {
        let folder = files::scratch().unwrap();
        let python = scripted(folder.path(), "echo no torch >&2; exit 3");
        let (op, case) = example();
        let error = Groundwork::lay(&op, &project(), &case, &python, ProcessorShare::Others).err().unwrap();
        assert!(matches!(error, VerifyError::Harness { role: "oracle", .. }), "{error}");
        assert!(error.to_string().contains("no torch"), "{error}");
    }

    #[test]
    fn an_oracle_that_nobody_waits_for_any_more_is_ended() {
        let folder = files::scratch().unwrap();
        let began = folder.path().join("began");
        let script = endless(&began);
        let python = scripted(folder.path(), &script);
        let (op, case) = example();
        let project = project();
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            let ahead = BackgroundTask::begin(scope, || {
                send.send(Groundwork::lay(&op, &project, &case, &python, ProcessorShare::Others).err())
                    .unwrap();
            });
            while !files::exists(&began) {
                std::thread::yield_now();
            }
            drop(ahead);
        });
        let ended = receive.recv().unwrap();
        assert!(matches!(ended, Some(VerifyError::Process(ProcessError::Interrupted))), "{ended:?}");
        assert!(is_gone(&began));
    }
}
