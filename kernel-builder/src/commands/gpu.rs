//! `gpu`: which GPUs are here, how they are now, and the highest rates that were measured on them.

use clap::Args as ClapArgs;
use serde_json::json;

use crate::archive::Earlier;
use crate::base::report::bytes;
use crate::base::session::Session;
use crate::exit::Failure;
use crate::pipeline::measure::ceilings::{self, GpuCeilings};

/// Show the NVIDIA GPUs, their clocks and their measured speed
///
/// Two rates are measured: a copy larger than the L2 cache, and the fastest matrix instruction on random operands,
/// with the clocks at that time. This takes a few seconds per GPU. The rates are cached for this GPU and driver, and
/// `bench --device` compares matrix products with them. Without a GPU, the output gives the reason.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright gpu
  kernelwright gpu --fresh")]
pub struct Args {
    /// Measure the rates again, and replace the cached ones
    #[arg(long)]
    fresh: bool,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let earlier = if args.fresh { Earlier::Forget } else { Earlier::Resume };
    let (data, human) = match ceilings::every_gpu(earlier, session)? {
        Ok(found) => {
            let gpus: Vec<_> = found.iter().map(data).collect();
            let human: Vec<String> = found.iter().map(text).collect();
            (json!({ "gpus": gpus, "reason": null }), human.join("\n"))
        }
        Err(missing) => {
            let reason = missing.to_string();
            (json!({ "gpus": [], "reason": reason }), format!("no NVIDIA GPU: {reason}\n"))
        }
    };
    session.report.result("gpu", &data, &human);
    Ok(())
}

fn data(found: &GpuCeilings) -> serde_json::Value {
    json!({
        "about": found.about, "now": found.now, "ceilings": found.ceilings, "cached": found.kept,
    })
}

/// Some lines about a GPU.
fn text(found: &GpuCeilings) -> String {
    let GpuCeilings { about, now, ceilings: measured, kept } = found;
    let mut lines = vec![about.name.clone()];
    let mut line = |name: &str, text: String| lines.push(format!("  {name:<9} {text}"));
    line(
        "device",
        format!(
            "compute capability {}.{}, {} multiprocessors, {} KiB of shared memory per block",
            about.capability.0,
            about.capability.1,
            about.multiprocessors,
            about.shared / 1024
        ),
    );
    let (memory, free) = (bytes(about.memory), bytes(about.free));
    line("memory", format!("{memory}, {free} free; L2 {} MiB", about.l2 >> 20));
    let version = now.as_ref().and_then(|now| now.driver.as_deref()).unwrap_or("unknown");
    let cuda = format!("{}.{}", about.driver / 1000, about.driver % 1000 / 10);
    line("driver", format!("{version}, CUDA {cuda}; {} at {}", about.uuid, about.pci));
    match now {
        Some(now) => {
            let number = |value: Option<f64>| value.map_or_else(|| "?".to_owned(), |it| format!("{it:.0}"));
            let most = now.sm_most_mhz.or(Some(f64::from(about.clock_khz) / 1e3));
            line(
                "clocks",
                format!(
                    "{} of {} MHz, memory {} of {} MHz",
                    number(now.sm_mhz),
                    number(most),
                    number(now.memory_mhz),
                    number(now.memory_most_mhz)
                ),
            );
            let held = match now.reasons.as_slice() {
                [] => String::new(),
                reasons => format!("; clocks limited by: {}", reasons.join(", ")),
            };
            line(
                "now",
                format!(
                    "{} C, {} of {} W{held}",
                    number(now.celsius),
                    number(now.watts),
                    number(now.watts_most)
                ),
            );
        }
        None => line(
            "now",
            "unknown: the driver's management library (libnvidia-ml.so.1) gives no readings".to_owned(),
        ),
    }
    let again = if *kept { ", cached; to measure again: --fresh" } else { "" };
    line("rates", format!("measured {}{again}", measured.date));
    for ceiling in &measured.ceilings {
        lines.push(format!("    {:<7} {}", ceiling.of, ceilings::rate(ceiling)));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::base::nvml::Reading;
    use crate::bench::Clocks;
    use crate::bench::ceilings::{Ceiling, Ceilings};
    use crate::device::wire::DeviceProperties;

    #[test]
    fn a_gpu_is_told_in_lines() {
        let about = DeviceProperties {
            name: "NVIDIA H200".to_owned(),
            capability: (9, 0),
            multiprocessors: 132,
            l2: 50 << 20,
            memory: 150_000_000_000,
            free: 149_000_000_000,
            shared: 232_448,
            threads: 1024,
            clock_khz: 1_980_000,
            driver: 13_000,
            pci: "0000:04:00.0".to_owned(),
            uuid: "GPU-1".to_owned(),
            visible: vec!["GPU-1".to_owned()],
        };
        let now = Reading {
            driver: Some("580.1".to_owned()),
            sm_mhz: Some(345.0),
            watts: Some(76.4),
            reasons: vec!["gpu_idle"],
            ..Reading::default()
        };
        let ceiling = |of: &str, rate: Option<f64>, why: Option<&str>| Ceiling {
            of: of.to_owned(),
            how: "some instruction".to_owned(),
            unit: "TFLOP/s".to_owned(),
            rate,
            not_measured: why.map(str::to_owned),
            clocks: Some(Clocks {
                sm_mhz: Some(1500.0),
                throttle: vec!["sw_power_cap".to_owned()],
                ..Clocks::default()
            }),
        };
        let ceilings = vec![ceiling("bf16", Some(750.25), None), ceiling("i8", None, Some("no compiler"))];
        let ceilings = Ceilings { protocol: 1, date: "2026-11-22".to_owned(), ceilings };
        let found = GpuCeilings { about, now: Some(now), ceilings, kept: true };
        let told = "\
NVIDIA H200
  device    compute capability 9.0, 132 multiprocessors, 227 KiB of shared memory per block
  memory    150.00 GB, 149.00 GB free; L2 50 MiB
  driver    580.1, CUDA 13.0; GPU-1 at 0000:04:00.0
  clocks    345 of 1980 MHz, memory ? of ? MHz
  now       ? C, 76 of ? W; clocks limited by: gpu_idle
  rates     measured 2026-11-22, cached; to measure again: --fresh
    bf16      750.2 TFLOP/s  some instruction, at 1500 MHz (sw_power_cap)
    i8      not measured: no compiler
";
        assert_eq!(text(&found), told);
        assert_eq!(data(&found)["about"]["uuid"], "GPU-1");
        assert_eq!(found.ceilings.matrix_peaks(), BTreeMap::from([("bf16".to_owned(), 750.25)]));
    }
}
