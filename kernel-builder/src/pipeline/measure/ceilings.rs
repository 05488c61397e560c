//! `gpu`: which GPUs are here, how they are now, and the highest rates that were measured on them.
//!
//! Owns: where measured rates are kept, and when they are measured again. Never: measures; `bench::ceilings` does.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::digest::DigestBuilder;
use crate::base::files;
use crate::base::nvml::{Driver, Reading};
use crate::base::report::{Event, bytes};
use crate::base::session::Session;
use crate::bench::ceilings::{self, Ceiling, Ceilings};
use crate::bench::impossible::Rates;
use crate::compile::nvrtc::Tool;
use crate::device::gpu::Gpu;
use crate::device::wire::About;
use crate::exit::Failure;
use crate::pipeline::judge::device;
use crate::verify::device as judge;

/// Show the NVIDIA GPUs, their clocks and their measured speed
///
/// Two rates are measured: a copy larger than the L2 cache, and the fastest matrix instruction on random operands,
/// with the clocks at that time. This takes a few seconds per GPU. The rates are cached for this GPU and driver, and
/// `bench --device` compares matrix products with them. Without a GPU, the output gives the reason.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright gpu
  kernelwright gpu --fresh")]
pub(crate) struct Args {
    /// Measure the rates again, and replace the cached ones
    #[arg(long)]
    fresh: bool,
}

/// One GPU as it is told.
struct Found {
    about: About,
    now: Option<Reading>,
    ceilings: Ceilings,
    /// Whether the rates are from an earlier run.
    kept: bool,
}

/// Runs the verb.
pub(crate) fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let mut first = Gpu::new();
    let about = match judge::device(&mut first)? {
        Ok(about) => about,
        Err(reason) => {
            let human = format!("no NVIDIA GPU: {reason}\n");
            session.report.result("gpu", &json!({ "gpus": [], "reason": reason }), &human);
            return Ok(());
        }
    };
    let mut found = vec![one(first, about.clone(), args, session)?];
    for uuid in about.visible.iter().skip(1) {
        let mut gpu = Gpu::of(uuid);
        match judge::device(&mut gpu)? {
            Ok(about) => found.push(one(gpu, about, args, session)?),
            Err(reason) => session.report.warn(format!("{uuid}: {reason}")),
        }
    }
    let gpus: Vec<_> = found.iter().map(data).collect();
    let human: Vec<String> = found.iter().map(text).collect();
    session.report.result("gpu", &json!({ "gpus": gpus, "reason": null }), &human.join("\n"));
    Ok(())
}

/// The rates that were measured on a GPU in an earlier run.
fn known(about: &About, session: &Session) -> Option<Ceilings> {
    kept(&place(about, reading(about).as_ref(), session))
}

/// The rates of matrix products that were measured on a GPU in an earlier run, in 10^12 operations a second by dtype.
pub(crate) fn matrix_peaks(about: &About, session: &Session) -> BTreeMap<String, f64> {
    known(about, session).map(|ceilings| ceilings.matrix_peaks()).unwrap_or_default()
}

/// The rates that were measured in an earlier run on the GPU that is here, if there is one.
pub(crate) fn ceilings_here(session: &Session) -> Result<Option<Ceilings>, Failure> {
    let about = judge::device(&mut Gpu::new())?.ok();
    Ok(about.and_then(|about| known(&about, session)))
}

/// The rates of a GPU that no candidate can pass.
pub(crate) fn rates(about: &About, session: &Session) -> Rates {
    Rates {
        memory: reading(about).and_then(|now| now.memory_bandwidth()),
        l2: Some(about.l2),
        matrix: known(about, session).map(|ceilings| ceilings.matrix_limits()).unwrap_or_default(),
        headroom: None,
    }
}

fn one(mut gpu: Gpu, about: About, args: &Args, session: &Session) -> Result<Found, Failure> {
    let now = reading(&about);
    let path = place(&about, now.as_ref(), session);
    if let Some(ceilings) = kept(&path).filter(|_| !args.fresh) {
        return Ok(Found { about, now, ceilings, kept: true });
    }
    // Without a compiler the copy is still measured.
    let compiler =
        device::compiler(Tool::default(), session).map_err(|failure| match failure.reports.first() {
            Some(report) => report.to_string(),
            None => "there is no compiler of device code".to_owned(),
        });
    let told = |ceiling: &Ceiling| {
        if ceiling.rate.is_some() {
            session.report.emit(&Event::Done {
                action: "measured",
                subject: &ceiling.of,
                detail: &rate(ceiling),
                seconds: 0.0,
                cached: false,
            });
        }
    };
    let ceilings = ceilings::measure(&mut gpu, &about, compiler.as_ref().map_err(String::as_str), &told)?;
    if ceilings.is_whole() {
        files::write(&path, serde_json::to_vec_pretty(&ceilings).unwrap_or_default())?;
    }
    Ok(Found { about, now, ceilings, kept: false })
}

/// How the GPU is now, where the driver's library tells.
pub(crate) fn reading(about: &About) -> Option<Reading> {
    let readings = Driver::open()?.readings();
    let of = |reading: &&Reading| reading.uuid.as_deref() == Some(about.uuid.as_str());
    readings.iter().find(of).cloned()
}

/// Where the rates of a GPU are kept: another driver may clock it otherwise.
fn place(about: &About, now: Option<&Reading>, session: &Session) -> PathBuf {
    let driver = now.and_then(|reading| reading.driver.clone());
    let key = DigestBuilder::new("ceilings")
        .field("protocol", ceilings::PROTOCOL.to_string())
        .field("name", &about.name)
        .field("uuid", &about.uuid)
        .field("driver", driver.unwrap_or_else(|| about.driver.to_string()))
        .finish();
    session.cache.join("ceilings").join(format!("{}.json", key.short(16)))
}

fn kept(path: &std::path::Path) -> Option<Ceilings> {
    let read: Ceilings = serde_json::from_slice(&files::read(path).ok()?).ok()?;
    (read.protocol == ceilings::PROTOCOL).then_some(read)
}

fn data(found: &Found) -> serde_json::Value {
    json!({
        "about": found.about, "now": found.now, "ceilings": found.ceilings, "cached": found.kept,
    })
}

/// Some lines about a GPU.
fn text(found: &Found) -> String {
    let Found { about, now, ceilings, kept } = found;
    let mut lines = vec![about.name.clone()];
    let mut line = |name: &str, text: String| lines.push(format!("  {name:<9} {text}"));
    line(
        "is",
        format!(
            "compute capability {}.{}, {} multiprocessors, {} KiB of shared memory a block",
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
                reasons => format!("; the clock is where it is for {}", reasons.join(", ")),
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
        None => line("now", "the driver's management library (libnvidia-ml.so.1) says nothing".to_owned()),
    }
    let again = if *kept { ", kept; --fresh measures again" } else { "" };
    line("rates", format!("measured {}{again}", ceilings.date));
    for ceiling in &ceilings.ceilings {
        lines.push(format!("    {:<7} {}", ceiling.of, rate(ceiling)));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A rate with what it is of, or why there is none.
fn rate(ceiling: &Ceiling) -> String {
    match (ceiling.rate, &ceiling.not_measured) {
        (Some(rate), _) => {
            let of = |clocks: &crate::bench::Clocks| {
                let held = match clocks.throttle.as_slice() {
                    [] => String::new(),
                    reasons => format!(" ({})", reasons.join(", ")),
                };
                clocks.sm_mhz.map(|mhz| format!(", at {mhz:.0} MHz{held}"))
            };
            let at = ceiling.clocks.as_ref().and_then(of).unwrap_or_default();
            format!("{rate:>7.1} {:<7}  {}{at}", ceiling.unit, ceiling.how)
        }
        (None, Some(reason)) => format!("not measured: {reason}"),
        (None, None) => "not measured".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Clocks;

    #[test]
    fn a_gpu_is_told_in_lines() {
        let about = About {
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
        let found = Found { about, now: Some(now), ceilings, kept: true };
        let told = "\
NVIDIA H200
  is        compute capability 9.0, 132 multiprocessors, 227 KiB of shared memory a block
  memory    150.00 GB, 149.00 GB free; L2 50 MiB
  driver    580.1, CUDA 13.0; GPU-1 at 0000:04:00.0
  clocks    345 of 1980 MHz, memory ? of ? MHz
  now       ? C, 76 of ? W; the clock is where it is for gpu_idle
  rates     measured 2026-11-22, kept; --fresh measures again
    bf16      750.2 TFLOP/s  some instruction, at 1500 MHz (sw_power_cap)
    i8      not measured: no compiler
";
        assert_eq!(text(&found), told);
        assert_eq!(data(&found)["about"]["uuid"], "GPU-1");
        assert_eq!(found.ceilings.matrix_peaks(), BTreeMap::from([("bf16".to_owned(), 750.25)]));
    }
}
