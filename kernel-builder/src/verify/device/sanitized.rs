//! Small calls of a device candidate in a worker under compute-sanitizer.
//!
//! Owns: the worker's life under a tool. Never: reads a report; compares values, which may be wrong under it.

use std::time::Duration;

use kernel_plan::spec::op::Case;

use super::super::VerifyError;
use super::super::checks::sanitizer::{self, WALL};
use super::super::evidence::CheckResult;
use super::super::sanitize::{self, TOOLS};
use super::super::schedule::ScheduledCase;
use super::trials::Lane;
use crate::base::files;
use crate::base::process::Ending;
use crate::device::gpu::Gpu;

/// How long a tool may take to write its report when the worker has ended.
const REPORT: Duration = Duration::from_secs(60);

/// A result for each tool.
pub(super) fn check(
    lane: &Lane<'_>,
    schedule: &[ScheduledCase],
    cases: &[Case],
) -> Result<Vec<CheckResult>, VerifyError> {
    let Some(program) = sanitize::find() else { return Ok(sanitizer::not_installed()) };
    let small = sanitizer::small(schedule);
    if small.is_empty() {
        let text = "op.toml has no workload with elements to verify on this device";
        return Ok(sanitizer::skipped("verify::no_workload", text));
    }
    let under = |tool: &&str| {
        let log = lane.stage.path(&format!("{tool}.log"));
        let gpu = Gpu::within(|line| sanitize::wrapped(line, &program, tool, &log), REPORT);
        let mut lane = Lane::new(gpu, lane.code, lane.op, lane.settings, lane.stage);
        let run = lane.run(&small, cases, WALL, &|| {})?;
        lane.gpu.end();
        let text = files::read_text(&log).unwrap_or_default();
        let ending = lane.gpu.ended().unwrap_or(Ending::Deadline);
        Ok(sanitizer::verdict(tool, &text, ending, !run.stopped))
    };
    TOOLS.iter().map(under).collect()
}
