//! The tool `task`: what is to be done.
//!
//! Owns: what an agent is told of an operation. Never: names a workload that is held out.

use std::collections::BTreeMap;

use kernel_plan::spec::OpSpec;
use kernel_plan::spec::op::{Case, Purpose};
use serde_json::{Value, json};

use crate::agent::kernel::{MOST_BYTES, MOST_FILES, visible};
use crate::agent::reply;
use crate::archive;
use crate::bench;
use crate::exit::Failure;
use crate::mcp::Outcome;
use crate::pipeline::measure::ceilings;

use super::desk::{Desk, files_of};

impl Desk<'_> {
    /// `task`.
    pub(super) fn task(&mut self) -> Result<Outcome, Failure> {
        let op = &self.project.op;
        let shown = match visible(&op.file.text) {
            Ok(shown) => shown,
            Err(error) => return Ok(Outcome::failed("agent::op_toml", &error.to_string())),
        };
        let device = self.judge.device()?;
        let mut workloads = Vec::new();
        for case in self.cases()? {
            workloads.push(json!({
                "name": case.id, "axes": case.axes, "weight": case.weight,
                "lowest_possible": self.lowest(&case)?, "measured": self.baselines(&case),
            }));
        }
        let verified: Vec<&str> = op
            .workloads
            .iter()
            .filter(|workload| !workload.held_out && workload.purposes.contains(&Purpose::Verify))
            .map(|workload| workload.name.value.as_str())
            .collect();
        let best = self.best()?;
        let figures = self.store.lineage().best().map(|entry| entry.figures.clone());
        let best = match best {
            Some((id, best)) => {
                let files = files_of(&best.proposed, &self.origin.op_name, &best.proposed.op);
                json!({ "id": id, "files": files.unwrap_or_default(), "seconds": figures })
            }
            None => Value::Null,
        };
        let device = match device {
            Ok(about) => json!({
                "name": about.name, "capability": about.capability, "multiprocessors": about.multiprocessors,
                "l2_bytes": about.l2, "memory_bytes": about.memory, "shared_bytes_per_block": about.shared,
                "threads_per_block": about.threads, "clock_khz": about.clock_khz,
                "rates": ceilings::ceilings_here(self.session)?.map(|known| {
                    known.ceilings.iter().map(|one| json!({ "of": one.of, "rate": one.rate, "unit": one.unit })).collect::<Vec<_>>()
                }),
            }),
            Err(missing) => json!({
                "code": "bench::no_gpu",
                "text": format!(
                    "{}: `try` compiles and judges nothing; `submit` needs a GPU",
                    reply::short(&missing.to_string())
                ),
            }),
        };
        Ok(Outcome::done(json!({
            "operation": op.name.value.as_str(),
            "description": op.description.as_ref().map(|text| text.value.as_str()),
            "op.toml": shown,
            "reference": {
                "file": self.origin.reference.0, "function": op.reference.function.value.as_str(),
                "text": String::from_utf8_lossy(&self.origin.reference.1),
            },
            "tolerance": tolerance(op),
            "workloads": workloads,
            "also_verified": verified,
            "device": device,
            "architectures": self.project.archs,
            "best": best,
            "may_change": {
                "code_folder": if self.origin.folder.is_empty() { "." } else { &self.origin.folder },
                "op.toml": ["let", "tune", "launch"], "files": MOST_FILES, "bytes": MOST_BYTES, "includes":
                    "files of the candidate and headers of the CUDA toolkit, such as <cuda_fp16.h>, <cooperative_groups.h>, <cstdint>",
            },
            "tries_left": self.tries,
        })))
    }

    /// What no kernel can be faster than, by the bytes that must move.
    pub(super) fn lowest(&mut self, case: &Case) -> Result<Value, Failure> {
        let bytes: u64 = case
            .inputs
            .iter()
            .filter(|tensor| !tensor.omitted)
            .chain(&case.outputs)
            .map(kernel_plan::spec::op::CaseTensor::bytes)
            .sum();
        let Ok(about) = self.judge.device()? else { return Ok(json!({ "bytes": bytes })) };
        let rate = ceilings::rates(&about, self.session).memory;
        let peaks = ceilings::matrix_peaks(&about, self.session);
        let by_arithmetic = bench::least_seconds(&self.project.op, case, &peaks);
        Ok(json!({
            "bytes": bytes,
            "seconds_by_memory": rate.map(|rate| bytes as f64 / rate),
            "seconds_by_arithmetic": by_arithmetic,
        }))
    }

    /// What the last measurement of a case says of the baselines: seconds by name, by regime.
    fn baselines(&self, case: &Case) -> BTreeMap<String, BTreeMap<String, f64>> {
        let mut found = BTreeMap::new();
        for record in archive::records(&self.project.dir) {
            let dtypes = crate::agent::tuned::dtypes_of(case);
            let same = record.op == self.project.op.name.value.as_str()
                && record.workload == case.workload.as_str()
                && !record.held_out
                && dtypes.values().all(|dtype| record.dtype.contains(dtype.as_str()));
            if same {
                let seconds = record.contenders.iter().map(|one| (one.name.clone(), one.median_seconds));
                found.insert(format!("{} on {}", record.regime, record.device), seconds.collect());
            }
        }
        found
    }
}

/// The tolerance in words.
fn tolerance(op: &OpSpec) -> String {
    let tolerance = &op.tolerance;
    let cancels = if tolerance.cancels { "; terms may cancel" } else { "" };
    format!(
        "every element is compared with a float64 reference; the allowed error is what sums of {} terms in {} and {} \
         rounding(s) to the output dtype explain{cancels}",
        tolerance.length, tolerance.accumulate.value, tolerance.roundings.value,
    )
}
