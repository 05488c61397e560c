//! What a record says about the machine and the project.
//!
//! Owns: asking the kernel, the driver and git. Never: fails; what cannot be found out is absent.

use std::path::Path;
use std::time::Duration;

use kernel_plan::plan::CommandLine;

use super::measurement::Machine;
use crate::base::files;
use crate::base::process::{self, Limits};
use crate::verify;

/// The machine now; the driver is asked only when a GPU is measured.
pub(crate) fn machine(threads: usize, gpu: bool) -> Machine {
    let governor = Path::new("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
    let query = |fields: &str| {
        let line = CommandLine::new("nvidia-smi")
            .args([format!("--query-gpu={fields}"), "--format=csv,noheader".to_owned(), "--id=0".to_owned()]);
        if gpu { answer(&line) } else { None }
    };
    Machine {
        cpu: verify::cpu_model(),
        threads,
        governor: files::read_text(governor).ok().map(|text| text.trim().to_owned()),
        driver: query("driver_version"),
        clocks: query("clocks.sm,clocks.mem"),
    }
}

/// The commit that a project is at.
pub(crate) fn commit(project: &Path) -> Option<String> {
    let git = |args: &[&str]| answer(&CommandLine::new("git").args(args.iter().copied()).cwd(project));
    let head = git(&["rev-parse", "HEAD"]).filter(|head| !head.is_empty())?;
    let changes = git(&["status", "--porcelain", "--", "."]).is_some_and(|changes| !changes.is_empty());
    Some(if changes { format!("{head}+changes") } else { head })
}

fn answer(line: &CommandLine) -> Option<String> {
    let done = process::run(line, Limits::wall(Duration::from_secs(20))).ok()?;
    done.ending.success().then(|| done.stdout_text().trim().to_owned())
}
