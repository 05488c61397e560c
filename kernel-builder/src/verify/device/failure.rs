//! What a failure of the worker says about a candidate.
//!
//! Owns: the code of each failure, and its words. Never: asks a worker.

use crate::device::gpu::Failure;

/// The driver's number for memory that is not there.
const OUT_OF_MEMORY: u32 = 2;

/// The code of a launch that does not work.
pub(super) const LAUNCH: &str = "verify::launch";

/// A code and what happened.
pub(in crate::verify) type CodedText = (&'static str, String);

/// What a failure of the worker says about the candidate.
pub(in crate::verify) fn meaning(failure: &Failure) -> CodedText {
    match failure {
        Failure::Hung(after) => {
            ("verify::hang", format!("did not end within {:.0} s, and was killed", after.as_secs_f64()))
        }
        Failure::Refused { trouble, .. } if trouble.code == OUT_OF_MEMORY => {
            ("verify::memory", format!("needs more memory than the device has: {failure}"))
        }
        Failure::Refused { trouble, .. } if trouble.fatal => {
            ("verify::crash", format!("broke the CUDA context: {failure}"))
        }
        Failure::Refused { .. } => (LAUNCH, format!("cannot be started: {failure}")),
        Failure::Died { .. } => ("verify::crash", format!("crashed the worker process: {failure}")),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::base::process::Ending;
    use crate::device::wire::{OperationError, Origin};

    fn refused(code: u32, fatal: bool) -> &'static str {
        let trouble =
            OperationError { from: Origin::Driver, code, name: String::new(), text: String::new(), fatal };
        meaning(&Failure::Refused { at: 0, trouble }).0
    }

    #[test]
    fn failures_have_their_codes() {
        assert_eq!(meaning(&Failure::Hung(Duration::from_secs(2))).0, "verify::hang");
        assert_eq!(
            (refused(2, false), refused(700, true), refused(701, false)),
            ("verify::memory", "verify::crash", LAUNCH)
        );
        let died = Failure::Died { ending: Ending::Signal(11), said: String::new() };
        assert_eq!(meaning(&died).0, "verify::crash");
    }
}
