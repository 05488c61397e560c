//! compute-sanitizer around a process, and what it says.
//!
//! Owns: where the tool is, its command line, the reading of its report. Never: starts a process, or decides what is run.
//!
//! The report's form is that of the Compute Sanitizer User Manual (NVIDIA, "Compute Sanitizer Tools"): every line begins
//! with `=========`; the first of a record is not indented further, the others are.

use std::path::{Path, PathBuf};

use kernel_plan::plan::CommandLine;

use crate::base::{env, files};

/// What the tool returns where it found something; no status that Python or a signal gives.
pub const FOUND: i32 = 86;

/// The tools of compute-sanitizer, in the order in which they are run: what others follow from comes first.
pub const TOOLS: &[&str] = &["memcheck", "racecheck", "initcheck", "synccheck"];

/// Where compute-sanitizer is: on `PATH`, below `CUDA_HOME`, or in the usual folder.
pub fn find() -> Option<PathBuf> {
    let name = "compute-sanitizer";
    let home = env::text(env::CUDA_HOME).map(PathBuf::from);
    let below = home.into_iter().chain([PathBuf::from("/usr/local/cuda")]);
    let below = below.map(|home| home.join("bin").join(name)).find(|path| files::exists(path));
    which::which(name).ok().or(below)
}

/// The command line that runs `line` under one tool, which writes what it finds to `log` and nothing to standard output.
///
/// Errors of calls of the CUDA API are left out: a program may ask for what is not there and go on.
pub fn wrapped(line: CommandLine, sanitizer: &Path, tool: &str, log: &Path) -> CommandLine {
    let CommandLine { program, args, env, cwd } = line;
    let outer = CommandLine::new(sanitizer)
        .args(["--tool", tool])
        .args(["--error-exitcode", &FOUND.to_string()])
        .arg("--log-file")
        .path(log)
        .args(["--target-processes", "all", "--report-api-errors", "no", "--show-backtrace", "no"])
        .path(&program)
        .args(args);
    CommandLine { env, cwd, ..outer }
}

/// What a report says.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Report {
    /// How many errors the summary counts; the records themselves where there is none.
    pub errors: u64,
    /// The first of them.
    pub first: Option<Record>,
    /// Why the tool itself could not work, in its words.
    pub failed: Option<String>,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Record {
    /// `Invalid __global__ write of size 4 bytes`.
    pub what: String,
    /// The kernel, with its offset or its line as the tool has it.
    pub kernel: Option<String>,
    /// `(0,0,0)`.
    pub thread: Option<String>,
    /// `(0,0,0)`.
    pub block: Option<String>,
    /// What more is said of it: the address, or the other access of a race.
    pub more: Option<String>,
}

impl std::fmt::Display for Record {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}", self.what)?;
        if let Some(kernel) = &self.kernel {
            write!(out, " in {kernel}")?;
        }
        if let Some(thread) = &self.thread {
            write!(out, ", thread {thread}")?;
        }
        if let Some(block) = &self.block {
            write!(out, " of block {block}")?;
        }
        self.more.iter().try_for_each(|more| write!(out, "; {more}"))
    }
}

/// Lines that begin no record.
const TALK: &[&str] = &[
    "COMPUTE-SANITIZER",
    "ERROR SUMMARY:",
    "RACECHECK SUMMARY:",
    "LEAK SUMMARY:",
    "This tool is deprecated",
    "Warning:",
    "Target application returned an error",
    "Host API",
];

/// Ways in which the tool says that it cannot work here.
const FAILURES: &[&str] = &[
    "Internal Sanitizer Error",
    "Error: No attachable process",
    "Error: Target application terminated before",
    "Error: Device not supported",
];

/// Reads a report.
pub fn parse(text: &str) -> Report {
    let mut report = Report::default();
    let mut summed = None;
    let mut records: Vec<Record> = Vec::new();
    for line in text.lines().filter_map(|line| line.trim_start().strip_prefix("=========")) {
        let said = line.trim();
        let indented = line.starts_with("  ");
        if said.is_empty() {
            continue;
        }
        if let Some(failure) = FAILURES.iter().find(|failure| said.starts_with(**failure)) {
            let reason = said.strip_prefix(*failure).unwrap_or(said).trim_start_matches([':', ' ']);
            let text = if reason.is_empty() { (*failure).to_owned() } else { said.to_owned() };
            report.failed.get_or_insert(text);
        } else if let Some(count) = counted(said) {
            summed = Some(summed.unwrap_or(0) + count);
        } else if indented {
            if let Some(record) = records.last_mut() {
                detail(record, said);
            }
        } else if !TALK.iter().any(|talk| said.starts_with(talk)) {
            records.push(beginning(said));
        }
    }
    report.errors = summed.unwrap_or(records.len() as u64);
    report.first = records.into_iter().next().filter(|_| report.errors > 0);
    report
}

/// The errors that a summary counts: `ERROR SUMMARY: 3 errors`, `RACECHECK SUMMARY: 2 hazards displayed (1 error, 1
/// warning)`.
fn counted(said: &str) -> Option<u64> {
    let (kind, rest) = said.split_once(" SUMMARY: ")?;
    let count = match kind {
        "ERROR" => rest,
        "RACECHECK" => rest.split_once('(')?.1,
        _ => return None,
    };
    count.split(' ').next()?.parse().ok()
}

/// The record that a line begins: a race names its first access there.
fn beginning(said: &str) -> Record {
    let said = said.strip_prefix("Error: ").unwrap_or(said);
    match said.split_once(" access at ") {
        Some((what, kernel)) => {
            Record { what: format!("{what} access"), kernel: Some(kernel.to_owned()), ..Record::default() }
        }
        None => Record { what: said.trim_end_matches('.').to_owned(), ..Record::default() },
    }
}

fn detail(record: &mut Record, said: &str) {
    if let Some(kernel) = said.strip_prefix("at ") {
        record.kernel.get_or_insert(kernel.to_owned());
    } else if let Some((thread, block)) =
        said.strip_prefix("by thread ").and_then(|by| by.split_once(" in block "))
    {
        record.thread.get_or_insert(thread.to_owned());
        record.block.get_or_insert(block.to_owned());
    } else if said.starts_with("and ") || said.starts_with("Address ") || said.starts_with("Access ") {
        record.more.get_or_insert(said.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMCHECK: &str = "\
========= COMPUTE-SANITIZER
========= Invalid __global__ write of size 4 bytes
=========     at norm::scale_rows(float *, const float *, int)+0x1c0 in rms_norm.cu:41
=========     by thread (96,0,0) in block (2,0,0)
=========     Address 0x7f2b4e400804 is out of bounds
=========     and is 5 bytes after the nearest allocation at 0x7f2b4e400000 of size 2,048 bytes
=========
========= Invalid __global__ write of size 4 bytes
=========     at norm::scale_rows(float *, const float *, int)+0x1c0 in rms_norm.cu:41
=========     by thread (97,0,0) in block (2,0,0)
=========     Address 0x7f2b4e400808 is out of bounds
=========
========= ERROR SUMMARY: 2 errors
";

    #[test]
    fn an_access_out_of_bounds_is_placed() {
        let report = parse(MEMCHECK);
        assert_eq!((report.errors, &report.failed), (2, &None));
        assert_eq!(
            report.first.unwrap().to_string(),
            "Invalid __global__ write of size 4 bytes in norm::scale_rows(float *, const float *, int)+0x1c0 in \
             rms_norm.cu:41, thread (96,0,0) of block (2,0,0); Address 0x7f2b4e400804 is out of bounds"
        );
    }

    #[test]
    fn a_race_names_both_accesses_and_warnings_are_no_errors() {
        let race = "\
========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at partial_sums(float *)+0xf0 in sums.cu:18
=========     and Read access at partial_sums(float *)+0x140 in sums.cu:22 [124 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
";
        let first = parse(race).first.unwrap();
        assert_eq!(first.what, "Race reported between Write access");
        assert_eq!(first.kernel.as_deref(), Some("partial_sums(float *)+0xf0 in sums.cu:18"));
        assert!(first.more.unwrap().starts_with("and Read access at partial_sums"));
        let warned =
            race.replace("(1 error, 0 warnings)", "(0 errors, 1 warning)").replace("Error: ", "Warning: ");
        assert_eq!(parse(&warned), Report::default());
    }

    #[test]
    fn uninitialised_reads_and_barriers_are_read_alike() {
        let text = "\
========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 2 bytes
=========     at combine(const __half *, __half *)+0x70
=========     by thread (3,0,0) in block (0,1,0)
=========     Address 0x7fd3ca000006
=========
========= ERROR SUMMARY: 1 error
";
        let first = parse(text).first.unwrap();
        assert_eq!((first.thread.as_deref(), first.block.as_deref()), (Some("(3,0,0)"), Some("(0,1,0)")));
        let barrier = "\
========= Barrier error detected. Divergent thread(s) in block.
=========     at reduce(float *)+0x90 in reduce.cu:9
=========     by thread (32,0,0) in block (0,0,0)
=========
========= ERROR SUMMARY: 1 error
";
        let first = parse(barrier).first.unwrap();
        assert_eq!(first.what, "Barrier error detected. Divergent thread(s) in block");
        assert_eq!(first.kernel.as_deref(), Some("reduce(float *)+0x90 in reduce.cu:9"));
    }

    #[test]
    fn clean_reports_and_failures_of_the_tool_are_no_findings() {
        assert_eq!(
            parse("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n"),
            Report::default()
        );
        assert_eq!(parse("what the program itself prints\n"), Report::default());
        let failed = parse(
            "========= COMPUTE-SANITIZER\n========= Internal Sanitizer Error: The Sanitizer encountered an error\n",
        );
        assert_eq!((failed.errors, failed.first), (0, None));
        assert!(failed.failed.unwrap().contains("encountered an error"));
    }

    #[test]
    fn a_command_keeps_its_place_and_environment() {
        let inner =
            CommandLine::new("/usr/bin/python3").args(["-I", "main.py"]).env("A", "b").cwd("/harness");
        let line =
            wrapped(inner, Path::new("/cuda/bin/compute-sanitizer"), "racecheck", Path::new("/tmp/log"));
        assert_eq!(line.program, Path::new("/cuda/bin/compute-sanitizer"));
        assert_eq!(
            line.args[..8].join(" "),
            "--tool racecheck --error-exitcode 86 --log-file /tmp/log --target-processes all"
        );
        assert!(line.args.join(" ").ends_with("/usr/bin/python3 -I main.py"));
        assert_eq!((line.env["A"].as_str(), line.cwd.as_deref()), ("b", Some(Path::new("/harness"))));
    }
}
