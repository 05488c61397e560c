//! What a measurement depends on beside the kernel: the processor, the GPU's driver and clocks.
//!
//! Owns: asking the system, while and after something is timed; what many readings say together.
//! Never: changes a clock or a governor.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use kernel_plan::plan::CommandLine;

use crate::base::nvml::{self, Driver, Reading};
use crate::base::process::{self, Limits};
use crate::base::{env, files};

use super::record::{Clocks, Cpu};
use super::stats;

/// Time between two readings of the GPUs.
const EVERY: Duration = Duration::from_millis(50);
/// Readings that are kept at most: half an hour of them.
const KEPT: usize = 36_000;

/// Ticks of /proc in a second: the ABI of Linux has had 100 on every architecture that we build for.
const TICKS: f64 = 100.0;

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

/// What the processors have done until a moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    /// Seconds that all processors together were busy.
    busy: f64,
    /// Seconds of them that were ours.
    own: f64,
    at: Instant,
}

impl Load {
    /// The processors now; `own` are the seconds that the timed processes have used. `None` where the system does not
    /// tell.
    pub(super) fn now(own: f64) -> Option<Self> {
        let table = files::read_text(Path::new("/proc/stat")).ok()?;
        Some(Self { busy: busy_seconds(&table)?, own, at: Instant::now() })
    }

    /// How many of the processors that the contenders were to have were taken by others since then, on average.
    pub(super) fn crowded_since(&self, before: &Self, threads: u64) -> f64 {
        let elapsed = self.at.saturating_duration_since(before.at).as_secs_f64();
        crowded(self.busy - before.busy, self.own - before.own, elapsed, env::processors() as u64, threads)
    }
}

fn crowded(busy: f64, own: f64, elapsed: f64, processors: u64, threads: u64) -> f64 {
    let others = (busy - own) / elapsed.max(1e-9);
    let spare = processors.saturating_sub(threads) as f64;
    (100.0 * (others - spare).max(0.0)).round() / 100.0
}

/// Busy seconds in the first line of /proc/stat: user, nice, system, interrupts and what the host of a guest took.
fn busy_seconds(table: &str) -> Option<f64> {
    let fields: Vec<u64> =
        table.lines().next()?.split_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, _idle, _waiting, interrupt, soft, stolen, ..] = fields.as_slice() else {
        return None;
    };
    Some((user + nice + system + interrupt + soft + stolen) as f64 / TICKS)
}

/// Seconds of processors that one process has used, by /proc.
pub(super) fn processor_seconds(process: u32) -> Option<f64> {
    ticks_of(&files::read_text(Path::new(&format!("/proc/{process}/stat"))).ok()?)
}

/// User and system time of /proc/<process>/stat; the name before them may hold anything.
fn ticks_of(line: &str) -> Option<f64> {
    let (_, fields) = line.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some((next()? + next()?) / TICKS)
}

/// Driver and clocks of one GPU.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Gpu {
    pub(super) driver: Option<String>,
    /// Compute capability, major and minor.
    pub(super) capability: Option<(u32, u32)>,
    /// Bytes a second that its memory can move at most.
    pub(super) memory_bandwidth: Option<f64>,
    pub(super) clocks: Clocks,
}

/// Reads the GPUs again and again while something is timed, in a thread of its own, until it is dropped.
#[derive(Debug)]
pub(super) struct GpuMonitor {
    readings: Arc<Mutex<Vec<Reading>>>,
    over: Arc<AtomicBool>,
    watches: bool,
}

impl GpuMonitor {
    /// Begins, where the driver's library can be loaded.
    pub(super) fn start() -> Self {
        let mut watch = Self { readings: Arc::default(), over: Arc::default(), watches: false };
        let Some(driver) = Driver::open() else { return watch };
        watch.watches = true;
        let (readings, over) = (watch.readings.clone(), watch.over.clone());
        std::thread::spawn(move || {
            while !over.load(Ordering::Relaxed) {
                let now = driver.readings();
                let mut kept = readings.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.len() < KEPT {
                    kept.extend(now);
                }
                drop(kept);
                std::thread::park_timeout(EVERY);
            }
        });
        watch
    }

    /// What was read of the GPU of this name since the last call; asks nvidia-smi where nothing is watched.
    pub(super) fn take(&mut self, name: &str) -> Option<Gpu> {
        if !self.watches {
            return gpu(name);
        }
        let taken = std::mem::take(&mut *self.readings.lock().unwrap_or_else(PoisonError::into_inner));
        together(&taken, name)
    }
}

impl Drop for GpuMonitor {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// What readings say together. Of several GPUs with this name it is the one that drew most power, since that one worked;
/// moments in which it had nothing to do are left out, where there are others.
fn together(readings: &[Reading], name: &str) -> Option<Gpu> {
    let named: Vec<&Reading> = readings.iter().filter(|reading| reading.name == name).collect();
    let power = |index: u32| {
        let watts: Vec<f64> = named.iter().filter(|it| it.index == index).filter_map(|it| it.watts).collect();
        stats::median(&watts).unwrap_or(0.0)
    };
    let indices: BTreeSet<u32> = named.iter().map(|reading| reading.index).collect();
    let index = indices.into_iter().max_by(|one, other| power(*one).total_cmp(&power(*other)))?;
    let all: Vec<&Reading> = named.into_iter().filter(|reading| reading.index == index).collect();
    let busy: Vec<&Reading> =
        all.iter().copied().filter(|reading| !reading.reasons.contains(&nvml::IDLE)).collect();
    let used = if busy.is_empty() { &all } else { &busy };
    let middle = |of: fn(&Reading) -> Option<f64>| {
        stats::median(&used.iter().filter_map(|reading| of(reading)).collect::<Vec<_>>())
    };
    let reasons: BTreeSet<&str> = used.iter().flat_map(|reading| reading.reasons.iter().copied()).collect();
    let last = all.last()?;
    Some(Gpu {
        driver: last.driver.clone(),
        capability: last.capability,
        memory_bandwidth: last.memory_bandwidth(),
        clocks: Clocks {
            sm_mhz: middle(|reading| reading.sm_mhz),
            memory_mhz: middle(|reading| reading.memory_mhz),
            celsius: middle(|reading| reading.celsius),
            watts: middle(|reading| reading.watts),
            sm_lowest_mhz: used.iter().filter_map(|reading| reading.sm_mhz).min_by(f64::total_cmp),
            sm_most_mhz: last.sm_most_mhz,
            throttle: reasons.into_iter().map(str::to_owned).collect(),
            readings: used.len() as u64,
        },
    })
}

/// Reasons for which a clock is lower than the GPU would have it for this work.
const SLOWED: [&str; 6] = [
    "sw_power_cap",
    "hw_slowdown",
    "sync_boost",
    "sw_thermal_slowdown",
    "hw_thermal_slowdown",
    "hw_power_brake_slowdown",
];

/// Whether the clock was held down while something was timed: for a reason in [`SLOWED`], or because it was below three
/// quarters of the highest (the rule of nvbench) though the GPU had work.
pub(super) fn throttled(clocks: &Clocks) -> bool {
    let idle = clocks.throttle.iter().any(|reason| reason == nvml::IDLE);
    let low = match (clocks.sm_mhz, clocks.sm_most_mhz) {
        (Some(now), Some(most)) => !idle && now < 0.75 * most,
        _ => false,
    };
    low || clocks.throttle.iter().any(|reason| SLOWED.contains(&reason.as_str()))
}

/// Asks nvidia-smi for the GPU of this name, the first one where several have it; `None` where there is no answer.
fn gpu(name: &str) -> Option<Gpu> {
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
        capability: None,
        memory_bandwidth: None,
        clocks: Clocks {
            sm_mhz: number(2),
            memory_mhz: number(3),
            celsius: number(4),
            watts: number(5),
            readings: 1,
            ..Clocks::default()
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_model_of_a_processor() {
        assert_eq!(model_of("processor\t: 0\nmodel name\t: AMD EPYC\n"), Some("AMD EPYC"));
        assert_eq!(model_of("processor : 0\n"), None);
    }

    #[test]
    fn what_others_take_of_the_processors() {
        let table = "cpu  100 20 30 4000 50 6 7 8 0 0\ncpu0 1 2 3 4\n";
        assert_eq!(busy_seconds(table), Some(1.71));
        assert_eq!(busy_seconds("cpu 1 2\n"), None);
        let line = "42 (a (strange) name) S 1 42 42 0 -1 4194304 9 9 9 9 250 50 0 0 20 0 1 0";
        assert_eq!(ticks_of(line), Some(3.0));
        // Four processors, two of them for the contenders: one that others take is not missed, two and a half are.
        assert_eq!(crowded(30.0, 20.0, 10.0, 4, 2), 0.0);
        assert_eq!(crowded(45.0, 20.0, 10.0, 4, 2), 0.5);
    }

    #[test]
    fn absent_figures_of_a_gpu_are_absent() {
        let answer = "Other, 1.0, 1, 2, 3, 4\nNVIDIA H200, 580.159, 1980, 3201, 41, [N/A]\n";
        let found = gpu_of(answer, "NVIDIA H200").unwrap();
        assert_eq!(found.driver.as_deref(), Some("580.159"));
        assert_eq!((found.clocks.sm_mhz, found.clocks.watts), (Some(1980.0), None));
        assert_eq!(gpu_of("NVIDIA-SMI has failed\n", "NVIDIA H200"), None);
    }

    fn reading(index: u32, sm_mhz: f64, watts: f64, reasons: &[&'static str]) -> Reading {
        Reading {
            index,
            name: "NVIDIA H200".to_owned(),
            driver: Some("580.159".to_owned()),
            capability: Some((9, 0)),
            sm_mhz: Some(sm_mhz),
            sm_most_mhz: Some(1980.0),
            watts: Some(watts),
            reasons: reasons.to_vec(),
            ..Reading::default()
        }
    }

    #[test]
    fn readings_of_the_gpu_that_worked_count() {
        let readings = [
            reading(0, 345.0, 75.0, &["gpu_idle"]),
            reading(1, 345.0, 76.0, &["gpu_idle"]),
            reading(0, 345.0, 75.0, &["gpu_idle"]),
            reading(1, 1980.0, 400.0, &[]),
            reading(1, 1755.0, 690.0, &["sw_power_cap"]),
            reading(1, 1965.0, 500.0, &[]),
            Reading { name: "another".to_owned(), ..reading(2, 1.0, 9000.0, &[]) },
        ];
        let found = together(&readings, "NVIDIA H200").unwrap();
        assert_eq!((found.driver.as_deref(), found.capability), (Some("580.159"), Some((9, 0))));
        let clocks = found.clocks;
        assert_eq!((clocks.sm_mhz, clocks.sm_lowest_mhz, clocks.readings), (Some(1965.0), Some(1755.0), 3));
        assert_eq!((clocks.watts, clocks.celsius), (Some(500.0), None));
        assert_eq!(clocks.throttle, ["sw_power_cap"]);
        assert_eq!(together(&readings, "NVIDIA A100"), None);
    }

    #[test]
    fn what_holds_a_clock_down_is_told_from_what_does_not() {
        let clocks = |sm_mhz, reasons: &[&str]| Clocks {
            sm_mhz: Some(sm_mhz),
            sm_most_mhz: Some(1980.0),
            throttle: reasons.iter().map(|&reason| reason.to_owned()).collect(),
            ..Clocks::default()
        };
        for (throttled_now, clocks) in [
            (false, clocks(1980.0, &[])),
            (false, clocks(1600.0, &["applications_clocks_setting"])),
            (true, clocks(1400.0, &["applications_clocks_setting"])),
            (true, clocks(1900.0, &["sw_power_cap"])),
            (true, clocks(1900.0, &["hw_thermal_slowdown", "gpu_idle"])),
            (false, clocks(345.0, &["gpu_idle"])),
            (false, Clocks::default()),
        ] {
            assert_eq!(throttled(&clocks), throttled_now, "{clocks:?}");
        }
    }
}
