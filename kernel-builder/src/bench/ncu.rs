//! Nsight Compute around a process, and the hardware counters that it reads.
//!
//! Owns: where the program is, its command line, which counters are read, the reading of its report. Never: starts a
//! process.
//!
//! Names of metrics and the form of the report are those of NVIDIA's "Nsight Compute CLI" manual: with `--csv --page raw` a
//! row of names, a row of units, then a row for each kernel that was started.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use kernel_plan::plan::CommandLine;
use serde::Serialize;

use crate::base::{env, files};
use crate::verify::lab::CandidateRefusal;

/// Metrics by the name that a report of ours has for each, with the factor to its unit: seconds, bytes, percent.
const METRICS: [(&str, &str, f64); 14] = [
    ("seconds", "gpu__time_duration.sum", 1e-9),
    ("dram_percent", "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", 1.0),
    ("compute_percent", "sm__throughput.avg.pct_of_peak_sustained_elapsed", 1.0),
    ("l2_hit_percent", "lts__t_sector_hit_rate.pct", 1.0),
    ("occupancy_percent", "sm__warps_active.avg.pct_of_peak_sustained_active", 1.0),
    ("issue_percent", "smsp__issue_active.avg.pct_of_peak_sustained_active", 1.0),
    ("dram_bytes_read", "dram__bytes_read.sum", 1.0),
    ("dram_bytes_written", "dram__bytes_write.sum", 1.0),
    ("load_efficiency_percent", "smsp__sass_average_data_bytes_per_sector_mem_global_op_ld.pct", 1.0),
    ("shared_bank_conflicts", "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum", 1.0),
    ("stalled_on_memory", "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio", 1.0),
    ("stalled_on_shared", "smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio", 1.0),
    ("stalled_on_barrier", "smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio", 1.0),
    (
        "stalled_on_arithmetic",
        "smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio",
        1.0,
    ),
];
/// A kernel that reaches this share of a peak, in percent, is limited by it.
const LIMITED: f64 = 60.0;
/// Where the installer of CUDA puts the program.
const FOLDERS: [&str; 2] = ["/usr/local/cuda", "/usr/local/NVIDIA-Nsight-Compute"];

/// Why there are no counters.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoCounters {
    /// The program is not installed.
    #[error("Nsight Compute (ncu) not found: looked on PATH, in CUDA_HOME and in /usr/local/cuda")]
    NotInstalled,
    /// The program failed; its message.
    #[error("{output}")]
    Failed {
        /// The end of its error output.
        output: String,
    },
    /// The program ran and reported nothing.
    #[error("Nsight Compute wrote no counters")]
    Empty,
    /// The candidate could not be called.
    #[error("{}", .0.text)]
    Candidate(CandidateRefusal),
}

/// Counters of one start of a kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Counters {
    /// The kernel.
    pub(crate) kernel: String,
    /// What limits it, by the two peaks: `memory`, `arithmetic`, or `latency` if it reaches neither.
    pub(crate) limit: &'static str,
    /// The values, by name. Stalls are warps that wait so, for each issued instruction.
    #[serde(flatten)]
    pub(crate) values: BTreeMap<&'static str, f64>,
}

/// Where ncu is: on `PATH`, below `CUDA_HOME`, or in the usual folders.
pub(crate) fn find() -> Option<PathBuf> {
    let home = env::text(env::CUDA_HOME).map(PathBuf::from);
    let below = home.into_iter().chain(FOLDERS.map(PathBuf::from));
    let mut places = below.flat_map(|home| [home.join("bin/ncu"), home.join("ncu")]);
    which::which("ncu").ok().or_else(|| places.find(|path| files::exists(path)))
}

/// The command line that runs `line` under ncu, which writes what it reads to `log` and nothing to standard output.
/// Clocks stay as they are, since they are those of the candidate's times.
pub(crate) fn wrapped(line: CommandLine, ncu: &Path, log: &Path) -> CommandLine {
    let CommandLine { program, args, env, cwd } = line;
    let names: Vec<&str> = METRICS.iter().map(|(_, metric, _)| *metric).collect();
    let outer = CommandLine::new(ncu)
        .args(["--csv", "--page", "raw", "--print-units", "base", "--target-processes", "all"])
        .args(["--clock-control", "none", "--metrics", &names.join(",")])
        .arg("--log-file")
        .path(log)
        .path(&program)
        .args(args);
    CommandLine { env, cwd, ..outer }
}

/// What a report says of each kernel.
///
/// # Errors
/// It has no counters.
pub(crate) fn parse(report: &str) -> Result<Vec<Counters>, NoCounters> {
    let mut lines = report.lines().skip_while(|line| !line.starts_with("\"ID\""));
    let failed = || match report.lines().find_map(|line| line.strip_prefix("==ERROR==")) {
        Some(message) => NoCounters::Failed { output: message.trim().to_owned() },
        None => NoCounters::Empty,
    };
    let names = fields(lines.next().ok_or_else(failed)?);
    let place = |name: &str| names.iter().position(|known| known == name);
    let kernel = place("Kernel Name").ok_or_else(failed)?;
    let _units = lines.next();
    let rows = lines.filter(|line| line.starts_with('"')).map(fields);
    let found: Vec<Counters> = rows
        .filter_map(|row| {
            let read = |(name, metric, factor): &(&'static str, &str, f64)| {
                let text = row.get(place(metric)?)?;
                let value: f64 = text.replace(',', "").parse().ok()?;
                value.is_finite().then_some((*name, value * factor))
            };
            let values: BTreeMap<&'static str, f64> = METRICS.iter().filter_map(read).collect();
            let name = row.get(kernel)?.split(['(', '<']).next().unwrap_or_default();
            let kernel = name.strip_prefix("void ").unwrap_or(name).to_owned();
            Some(Counters { kernel, limit: limit(&values), values })
        })
        .filter(|counters| !counters.values.is_empty())
        .collect();
    if found.is_empty() { Err(failed()) } else { Ok(found) }
}

fn limit(values: &BTreeMap<&'static str, f64>) -> &'static str {
    let of = |name| values.get(name).copied().unwrap_or_default();
    match (of("dram_percent"), of("compute_percent")) {
        (memory, compute) if memory < LIMITED && compute < LIMITED => "latency",
        (memory, compute) if memory >= compute => "memory",
        _ => "arithmetic",
    }
}

/// The fields of a line of comma-separated values in quotes (RFC 4180).
fn fields(line: &str) -> Vec<String> {
    let (mut found, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => found.push(std::mem::take(&mut field)),
            other => field.push(other),
        }
    }
    found.push(field);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "==PROF== Connected to process 7\n\
        ==PROF== Profiling \"held\" - 0: 0%....100% - 2 passes\n\
        \"ID\",\"Process ID\",\"Kernel Name\",\"dram__bytes_read.sum\",\"gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed\",\"gpu__time_duration.sum\",\"sm__throughput.avg.pct_of_peak_sustained_elapsed\"\n\
        \"\",\"\",\"\",\"byte\",\"%\",\"ns\",\"%\"\n\
        \"0\",\"7\",\"void rms::held<__nv_bfloat16, (int)256>(T1 *, \"\"x\"\")\",\"33,554,432\",\"81.50\",\"12,345\",\"30.1\"\n\
        \"1\",\"7\",\"rms::tail(float *)\",\"n/a\",\"1.5\",\"2,000\",\"3\"\n\
        ==WARNING== Backing up device memory in system memory.\n";

    #[test]
    fn a_report_gives_counters_in_plain_units() {
        let found = parse(REPORT).unwrap();
        let first = &found[0];
        assert_eq!((first.kernel.as_str(), first.limit), ("rms::held", "memory"));
        assert_eq!((first.values["dram_bytes_read"], first.values["dram_percent"]), (33_554_432.0, 81.5));
        assert!((first.values["seconds"] - 12.345e-6).abs() < 1e-12);
        assert_eq!((found[1].kernel.as_str(), found[1].limit, found.len()), ("rms::tail", "latency", 2));
        assert!(!found[1].values.contains_key("dram_bytes_read"), "it was not read");
    }

    #[test]
    fn counters_that_may_not_be_read_are_explained_in_the_words_of_the_program() {
        let denied = "==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission\n";
        let output = "ERR_NVGPUCTRPERM - The user does not have permission".to_owned();
        assert_eq!(parse(denied), Err(NoCounters::Failed { output }));
        assert_eq!(parse(""), Err(NoCounters::Empty));
    }

    #[test]
    fn a_command_runs_under_it_with_its_own_environment() {
        let line = CommandLine::new("kernelwright").args(["--worker", "gpu"]).env("A", "b");
        let all = wrapped(line, Path::new("/cuda/bin/ncu"), Path::new("/tmp/log"));
        assert_eq!((all.program.as_path(), all.env["A"].as_str()), (Path::new("/cuda/bin/ncu"), "b"));
        assert_eq!(all.args[all.args.len() - 3..], ["kernelwright", "--worker", "gpu"]);
    }
}
