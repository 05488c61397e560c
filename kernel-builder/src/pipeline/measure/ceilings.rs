//! The GPUs that are here, and the highest rates that were measured on them.
//!
//! Owns: where measured rates are kept, and when they are measured again. Never: measures; `bench::ceilings` does.

use std::collections::BTreeMap;
use std::path::PathBuf;

use crate::archive::Earlier;
use crate::base::causes::chain;
use crate::base::digest::DigestBuilder;
use crate::base::files;
use crate::base::nvml::{Driver, Reading};
use crate::base::report::Event;
use crate::base::session::Session;
use crate::bench::Clocks;
use crate::bench::ceilings::{self, Ceiling, Ceilings};
use crate::bench::impossible::Rates;
use crate::compile::nvrtc::Tool;
use crate::device::gpu::{Gpu, NoDevice};
use crate::device::wire::DeviceProperties;
use crate::exit::Failure;
use crate::pipeline::judge::device;
use crate::verify::device as judge;

/// One GPU as it is told.
pub(crate) struct GpuCeilings {
    /// What it is.
    pub(crate) about: DeviceProperties,
    /// How it is now, where the driver's library tells.
    pub(crate) now: Option<Reading>,
    /// Its rates.
    pub(crate) ceilings: Ceilings,
    /// Whether the rates are from an earlier run.
    pub(crate) kept: bool,
}

/// Every GPU that is here with its rates, measured where they are not known; or the reason why there is none.
///
/// # Errors
/// A measurement fails.
pub(crate) fn every_gpu(
    earlier: Earlier,
    session: &Session,
) -> Result<Result<Vec<GpuCeilings>, NoDevice>, Failure> {
    let mut first = Gpu::new();
    let about = match judge::device(&mut first)? {
        Ok(about) => about,
        Err(missing) => return Ok(Err(missing)),
    };
    let mut found = vec![of_gpu(first, about.clone(), earlier, session)?];
    for uuid in about.visible.iter().skip(1) {
        let mut gpu = Gpu::with_uuid(uuid);
        match judge::device(&mut gpu)? {
            Ok(about) => found.push(of_gpu(gpu, about, earlier, session)?),
            Err(missing) => session.report.warn(format!("{uuid}: {missing}")),
        }
    }
    Ok(Ok(found))
}

/// The rates that were measured on a GPU in an earlier run.
fn earlier_ceilings(about: &DeviceProperties, session: &Session) -> Option<Ceilings> {
    read_ceilings(&place(about, reading(about).as_ref(), session))
}

/// The rates of matrix products that were measured on a GPU in an earlier run, in 10^12 operations a second by dtype.
pub(crate) fn matrix_peaks(about: &DeviceProperties, session: &Session) -> BTreeMap<String, f64> {
    earlier_ceilings(about, session).map(|ceilings| ceilings.matrix_peaks()).unwrap_or_default()
}

/// The rates that were measured in an earlier run on the GPU that is here, if there is one.
pub(crate) fn ceilings_here(session: &Session) -> Result<Option<Ceilings>, Failure> {
    let about = judge::device(&mut Gpu::new())?.ok();
    Ok(about.and_then(|about| earlier_ceilings(&about, session)))
}

/// The rates of a GPU that no candidate can pass.
pub(crate) fn rates(about: &DeviceProperties, session: &Session) -> Rates {
    Rates {
        memory: reading(about).and_then(|now| now.memory_bandwidth()),
        l2: Some(about.l2),
        matrix: earlier_ceilings(about, session).map(|ceilings| ceilings.matrix_limits()).unwrap_or_default(),
        headroom: None,
    }
}

fn of_gpu(
    mut gpu: Gpu,
    about: DeviceProperties,
    earlier: Earlier,
    session: &Session,
) -> Result<GpuCeilings, Failure> {
    let now = reading(&about);
    let path = place(&about, now.as_ref(), session);
    if let Some(ceilings) = read_ceilings(&path).filter(|_| earlier == Earlier::Resume) {
        return Ok(GpuCeilings { about, now, ceilings, kept: true });
    }
    // Without a compiler the copy is still measured.
    let compiler =
        device::compiler(Tool::default(), session).map_err(|failure| match failure.reports.first() {
            Some(report) => chain(&**report),
            None => "no compiler for device code found".to_owned(),
        });
    let describe = |ceiling: &Ceiling| {
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
    let ceilings = ceilings::measure(&mut gpu, &about, compiler.as_ref().map_err(String::as_str), &describe)?;
    if ceilings.is_whole() {
        files::write(&path, serde_json::to_vec_pretty(&ceilings).unwrap_or_default())?;
    }
    Ok(GpuCeilings { about, now, ceilings, kept: false })
}

/// How the GPU is now, where the driver's library tells.
pub(crate) fn reading(about: &DeviceProperties) -> Option<Reading> {
    let readings = Driver::open()?.readings();
    let of = |reading: &&Reading| reading.uuid.as_deref() == Some(about.uuid.as_str());
    readings.iter().find(of).cloned()
}

/// Where the rates of a GPU are kept: another driver may clock it otherwise.
fn place(about: &DeviceProperties, now: Option<&Reading>, session: &Session) -> PathBuf {
    let driver = now.and_then(|reading| reading.driver.clone());
    let key = DigestBuilder::new("ceilings")
        .field("protocol", ceilings::PROTOCOL.to_string())
        .field("name", &about.name)
        .field("uuid", &about.uuid)
        .field("driver", driver.unwrap_or_else(|| about.driver.to_string()))
        .finish();
    session.cache.join("ceilings").join(format!("{}.json", key.short(16)))
}

fn read_ceilings(path: &std::path::Path) -> Option<Ceilings> {
    let read: Ceilings = serde_json::from_slice(&files::read(path).ok()?).ok()?;
    (read.protocol == ceilings::PROTOCOL).then_some(read)
}

/// A rate with what it is of, or why there is none.
pub(crate) fn rate(ceiling: &Ceiling) -> String {
    match (ceiling.rate, &ceiling.not_measured) {
        (Some(rate), _) => {
            let of = |clocks: &Clocks| {
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
