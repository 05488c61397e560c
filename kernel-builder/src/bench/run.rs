//! One run of the harness: its lines become measurements, or the reason why there are none.
//!
//! Owns: what is told while it runs, and what the end of the process means.
//! Never: starts it.

use std::time::Instant;

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::Case;

use crate::base::process::{Ending, Finished, ProcessError};
use crate::base::report::{Event, Progress, ProgressKind};
use crate::base::session::Session;
use crate::compile::artifact::Artifact;

use super::harness::{Finding, Line, Machine, MeasuredCase, Regime, Request};
use super::record::{self, Contender, Measurement, PROTOCOL};
use super::{BenchError, Options, Outcome, machine, render, stats};

/// The order in which contenders are recorded.
const ORDER: [&str; 5] = ["kernel", "eager", "fused", "compile", "copy"];

/// What has been heard so far.
pub(super) struct Run<'a> {
    artifact: &'a Artifact,
    op: &'a OpSpec,
    request: &'a Request,
    options: &'a Options,
    session: &'a Session,
    progress: Progress,
    machine: Option<Machine>,
    measured: Vec<Measurement>,
    refusal: Option<BenchError>,
    /// Cases that are over, whichever way.
    over: usize,
    since: Instant,
}

impl<'a> Run<'a> {
    /// A run that has not begun.
    pub(super) fn new(
        artifact: &'a Artifact,
        op: &'a OpSpec,
        request: &'a Request,
        options: &'a Options,
        session: &'a Session,
    ) -> Self {
        let total = Some(request.cases().len() as u64);
        let progress = session.report.progress("measuring", ProgressKind::Count, total);
        Self {
            artifact,
            op,
            request,
            options,
            session,
            progress,
            machine: None,
            measured: Vec::new(),
            refusal: None,
            over: 0,
            since: Instant::now(),
        }
    }

    /// Takes one line of the harness.
    pub(super) fn take(&mut self, line: Line) {
        match line {
            Line::Machine(machine) => {
                self.machine = Some(machine);
                self.since = Instant::now();
                return;
            }
            Line::Case(measured) => self.keep(&measured),
            Line::Refused { case, finding, reason } => {
                let variant = self.artifact.variant.clone();
                let refusal = match finding {
                    Finding::Wrong => BenchError::WrongWhileTimed { variant, case, reason },
                    Finding::Escape => BenchError::StreamEscape { variant, case, reason },
                    Finding::Raised => BenchError::Raised { variant, case, reason },
                };
                self.refusal.get_or_insert(refusal);
            }
        }
        self.over += 1;
        self.progress.add(1);
        self.since = Instant::now();
    }

    fn keep(&mut self, measured: &MeasuredCase) {
        let Some(case) = self.request.cases().iter().find(|case| case.id == measured.case) else { return };
        let Some(machine) = self.machine.clone() else { return };
        for regime in &measured.regimes {
            let measurement = self.measurement(case, measured.bytes, regime, &machine);
            self.tell(&measurement);
            self.measured.push(measurement);
        }
    }

    fn measurement(&self, case: &Case, bytes: u64, regime: &Regime, machine: &Machine) -> Measurement {
        let contenders: Vec<Contender> = ORDER
            .iter()
            .filter_map(|name| {
                let samples = regime.samples.get(*name)?.clone();
                Some(Contender {
                    name: (*name).to_owned(),
                    median_seconds: stats::median(&samples)?,
                    calls: regime.calls.get(*name).copied().unwrap_or(1),
                    samples,
                })
            })
            .collect();
        let cpu = machine::cpu(machine.threads, regime.crowded);
        let on_host = self.request.on_host();
        let device = machine.device.clone().filter(|_| !on_host).unwrap_or_else(|| cpu.model.clone());
        let gpu = if on_host { None } else { machine::gpu(&device) };
        Measurement {
            protocol: PROTOCOL,
            artifact: self.artifact.digest,
            variant: self.artifact.variant.clone(),
            op: self.op.name.value.to_string(),
            workload: case.workload.to_string(),
            weight: case.weight,
            held_out: case.held_out,
            dtype: dtype_of(case),
            regime: regime.regime.clone(),
            device,
            date: machine::today(),
            ratios: record::ratios(&contenders),
            copy_fraction: record::copy_fraction(&contenders),
            bytes,
            // The harness refuses a case whose timed outputs are wrong, and reports no other.
            checked: true,
            // The evidence knows; who brings both together says so.
            lint: None,
            contenders,
            skipped: regime.skipped.clone(),
            driver: gpu.as_ref().and_then(|gpu| gpu.driver.clone()),
            clocks: gpu.map(|gpu| gpu.clocks),
            cpu,
            torch: machine.torch.clone(),
            python: machine.python.clone(),
            commit: self.options.commit.clone(),
        }
    }

    fn tell(&self, measurement: &Measurement) {
        let ratios: Vec<String> =
            measurement.ratios.iter().map(|ratio| format!("{:.2}x {}", ratio.ratio, ratio.versus)).collect();
        self.session.report.emit(&Event::Done {
            action: "measured",
            subject: &format!("{} {} {}", measurement.workload, measurement.dtype, measurement.regime),
            detail: &match measurement.contender("kernel") {
                Some(kernel) => format!("{}, {}", render::time(kernel.median_seconds), ratios.join(", ")),
                None => "the kernel could not be timed in this regime".to_owned(),
            },
            seconds: self.since.elapsed().as_secs_f64(),
            cached: false,
        });
    }

    /// What the end of the process means.
    pub(super) fn end(self, finished: &Finished) -> Result<Outcome, BenchError> {
        if let Some(refusal) = self.refusal {
            return Err(refusal);
        }
        if let Some(reason) = self.machine.as_ref().and_then(|machine| machine.reason.clone()) {
            return Ok(Outcome::Skipped(reason));
        }
        if finished.ending.success() && self.over == self.request.cases().len() {
            return Ok(Outcome::Measured(self.measured));
        }
        // ^C reaches the whole group of a terminal, so the child may end before this process notices.
        if finished.ending == Ending::Signal(2) {
            return Err(ProcessError::Interrupted.into());
        }
        let words = finished.stderr_text();
        let lines: Vec<&str> = words.lines().collect();
        Err(BenchError::Process {
            variant: self.artifact.variant.clone(),
            case: match (&self.machine, self.request.cases().get(self.over)) {
                (Some(_), Some(case)) => case.id.clone(),
                (None, _) => "its start".to_owned(),
                (Some(_), None) => "its end".to_owned(),
            },
            ending: finished.ending.to_string(),
            output: lines[lines.len().saturating_sub(12)..].join("\n"),
        })
    }
}

/// The dtype that names a case: that of its type variable, all of them where there are several, else the output's.
fn dtype_of(case: &Case) -> String {
    let chosen: Vec<_> = case.dtypes.iter().collect();
    match chosen.as_slice() {
        [] => case.outputs.first().map_or_else(String::new, |output| output.dtype.to_string()),
        [(_, dtype)] => dtype.to_string(),
        several => several
            .iter()
            .map(|(variable, dtype)| format!("{variable}={dtype}"))
            .collect::<Vec<_>>()
            .join(","),
    }
}
