//! What a measurement depends on beside the kernel: the processor, the GPU's driver and clocks, the day.
//!
//! Owns: asking the system. Never: changes a clock or a governor.

use std::path::Path;
use std::time::{Duration, SystemTime};

use kernel_plan::plan::CommandLine;

use crate::base::files;
use crate::base::process::{self, Limits};

use super::record::{Clocks, Cpu};

/// The processor's model and governor, from the system's own tables; `unknown` where they do not tell.
pub(super) fn cpu(threads: u64, crowded: Option<f64>) -> Cpu {
    let table = files::read_text(Path::new("/proc/cpuinfo")).unwrap_or_default();
    let governor = files::read_text(Path::new("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")).ok();
    Cpu {
        model: model_of(&table).unwrap_or("unknown processor").to_owned(),
        threads,
        governor: governor.map(|text| text.trim().to_owned()),
        crowded,
    }
}

fn model_of(table: &str) -> Option<&str> {
    let (_, model) = table.lines().find(|line| line.starts_with("model name"))?.split_once(':')?;
    Some(model.trim()).filter(|model| !model.is_empty())
}

/// Driver and clocks of one GPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Gpu {
    pub(super) driver: Option<String>,
    pub(super) clocks: Clocks,
}

/// Asks nvidia-smi for the GPU of this name, the first one where several have it; `None` where there is no answer.
pub(super) fn gpu(name: &str) -> Option<Gpu> {
    const FIELDS: &str = "name,driver_version,clocks.sm,clocks.mem,temperature.gpu,power.draw";
    let line = CommandLine::new("nvidia-smi")
        .arg(format!("--query-gpu={FIELDS}"))
        .arg("--format=csv,noheader,nounits");
    let finished = process::run(&line, Limits::wall(Duration::from_secs(20))).ok()?;
    gpu_of(&finished.stdout_text(), name)
}

fn gpu_of(answer: &str, name: &str) -> Option<Gpu> {
    let rows: Vec<Vec<&str>> = answer
        .lines()
        .map(|line| line.split(',').map(str::trim).collect())
        .filter(|row: &Vec<_>| row.len() == 6)
        .collect();
    let row = rows.iter().find(|row| row[0] == name).or_else(|| rows.first())?;
    let number = |at: usize| row[at].parse::<f64>().ok();
    Some(Gpu {
        driver: Some(row[1].to_owned()),
        clocks: Clocks { sm_mhz: number(2), memory_mhz: number(3), celsius: number(4), watts: number(5) },
    })
}

/// Today, UTC, as `YYYY-MM-DD`.
pub(super) fn today() -> String {
    date_of(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

/// Days to civil date, Howard Hinnant, "chrono-compatible low-level date algorithms".
fn date_of(since_epoch: Duration) -> String {
    let days = since_epoch.as_secs() / 86_400 + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        for (seconds, date) in [
            (0, "1970-01-01"),
            (951_782_400, "2000-02-29"),
            (1_795_226_400, "2026-11-21"),
            (4_107_542_400, "2100-03-01"),
        ] {
            assert_eq!(date_of(Duration::from_secs(seconds)), date);
        }
    }

    #[test]
    fn the_model_of_a_processor() {
        assert_eq!(model_of("processor\t: 0\nmodel name\t: AMD EPYC\n"), Some("AMD EPYC"));
        assert_eq!(model_of("processor : 0\n"), None);
    }

    #[test]
    fn absent_figures_of_a_gpu_are_absent() {
        let answer = "Other, 1.0, 1, 2, 3, 4\nNVIDIA H200, 580.159, 1980, 3201, 41, [N/A]\n";
        let found = gpu_of(answer, "NVIDIA H200").unwrap();
        assert_eq!(found.driver.as_deref(), Some("580.159"));
        assert_eq!((found.clocks.sm_mhz, found.clocks.watts), (Some(1980.0), None));
        assert_eq!(gpu_of("NVIDIA-SMI has failed\n", "NVIDIA H200"), None);
    }
}
