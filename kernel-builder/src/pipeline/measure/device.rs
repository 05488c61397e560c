//! Judges device code, then measures it.
//!
//! Owns: which work begins before the verdict, and which setting a record names. Never: times; `bench` does.

use std::collections::BTreeMap;

use kernel_plan::spec::op::{Case, Device};

use crate::agent::tuned::{self as tuned_table, TuningChoice};
use crate::archive::{Earlier, Unfinished};
use crate::base::session::Session;
use crate::bench::{self, Measurement};
use crate::compile::artifact::Artifact;
use crate::compile::nvrtc::{Compiler, Tool};
use crate::exit::Failure;
use crate::pipeline::judge::{Judging, device};
use crate::pipeline::project;
use crate::pipeline::project::device::{DeviceProject, NAME};
use crate::toolchain::Extras;
use crate::toolchain::python::{self, Torch};

use super::{Figures, ceilings, kind, settled, turn};

/// Judges device code, then measures it and keeps the records in the project. What takes long and disturbs no judge is
/// begun before the verdict; where that is a refusal, it is ended.
///
/// # Errors
/// The code is refused, or the judge or the measurement fails.
pub(crate) fn verify_and_measure(
    project: &DeviceProject,
    how: &Judging,
    options: &bench::Options,
    tool: Tool,
    earlier: Earlier,
    session: &Session,
) -> Result<Figures, Failure> {
    // Before minutes of judging, and not after.
    bench::select(&project.op, Device::Cuda, options)?;
    let compiler = device::compiler(tool, session)?;
    let Some(python) = device::oracle(session) else {
        device::accept(project, &device::judged(project, how, &compiler, None, session)?)?;
        // Why there is none is an error now.
        python::runtime(session, Torch::Preferably(project::TORCH), Extras::default())?;
        return Ok(Figures::default());
    };
    let candidate = device::candidate(project);
    // What its records name: device code has no package and no folder of its own.
    let artifact = Artifact {
        variant: NAME.to_owned(),
        backend: "cuda".to_owned(),
        dir: project.dir.clone(),
        id: String::new(),
        library: None,
        capabilities: project.archs.clone(),
        digest: candidate.digest()?,
        commit: project::provenance(&project.dir).commit,
        tools: BTreeMap::new(),
        outside: vec![],
    };
    let mut options = bench::Options { commit: artifact.commit.clone(), ..options.clone() };
    if bench::multiplies(&project.op) {
        ceilings::ceilings_here(session)?.iter().for_each(|ceilings| options.about.set_ceilings(ceilings));
        if options.about.matrix_peak.is_empty() {
            session
                .report
                .note("run `kernelwright gpu` to measure the peak rate of matrix products on this GPU");
        }
    }
    let measured =
        bench::OfDevice { artifact: &artifact, candidate: &candidate, python: &python, options: &options };
    std::thread::scope(|scope| {
        let begun = measured.begin(scope, session)?;
        device::accept(project, &device::judged(project, how, &compiler, Some(&python), session)?)?;
        measure(project, &measured, &compiler, begun, earlier, session)
    })
}

fn measure(
    project: &DeviceProject,
    measured: &bench::OfDevice<'_>,
    compiler: &Compiler,
    begun: bench::MeasurementAhead<'_>,
    earlier: Earlier,
    session: &Session,
) -> Result<Figures, Failure> {
    let mut figures = Figures::default();
    let kind = kind(&measured.artifact.digest, &project.op, &project.dir, measured.options)?;
    let mut kept = Unfinished::begin(&project.dir, &kind, earlier)?;
    let _turn = turn::here(session)?;
    let outcome = measured.measure(compiler, begun, &mut kept, session);
    match settled(outcome, &mut kept, session)? {
        bench::Outcome::Measured(mut found) => {
            let cases = bench::select(&project.op, Device::Cuda, measured.options)?;
            for measurement in &mut found {
                name_setting(measurement, project, &cases);
            }
            kept.finish(&found)?;
            figures.measured = found;
        }
        bench::Outcome::Skipped(reason) => {
            let text = format!("{} was not measured: {reason}", project.title());
            session.report.note(&text);
            figures.told.push(text);
        }
    }
    Ok(figures)
}

/// Writes into a measurement which tunables its calls had.
fn name_setting(measurement: &mut Measurement, project: &DeviceProject, cases: &[Case]) {
    let is_of = |case: &&Case| {
        let dtypes = tuned_table::dtypes_of(case);
        let named = match dtypes.values().collect::<Vec<_>>().as_slice() {
            [one] => **one == measurement.dtype,
            several => {
                let pairs = dtypes.iter().map(|(name, dtype)| format!("{name}={dtype}"));
                several.is_empty() || pairs.collect::<Vec<_>>().join(",") == measurement.dtype
            }
        };
        named
            && case.workload.as_str() == measurement.workload
            && tuned_table::axes_of(&project.op, case) == measurement.axes
    };
    if let (Some(case), Some(made)) = (cases.iter().find(is_of), &mut measurement.candidate) {
        let TuningChoice { tuning, from } = project.settings.choose(&project.op, case);
        let pairs = tuning.iter().map(|(name, value)| (name.to_string(), value.to_string()));
        made.setting = Some(bench::Setting { tuning: pairs.collect(), from });
    }
}

#[cfg(test)]
mod tests {
    use kernel_plan::diagnostic::SourceFile;
    use kernel_plan::spec;
    use kernel_plan::spec::expr::Value;
    use kernel_plan::spec::op::Purpose;
    use kernel_plan::spec::tune::Tuning;

    use std::path::PathBuf;

    use super::*;
    use crate::agent::tuned::{Setting, Settings, TunedTable};
    use crate::archive::old_records::old_record;
    use crate::compile::nvrtc::Source;

    fn records() -> &'static str {
        old_record("2026-11-22-h200-rms-norm-device.jsonl")
    }
    const OP: &str = include_str!("../../../../examples/rms-norm-device/op.toml");

    #[test]
    fn a_record_says_which_setting_it_is_of() {
        let op = spec::parse_op(SourceFile::new("op.toml", OP)).0.unwrap();
        let mut table =
            TunedTable::empty(&op, "NVIDIA H200", (9, 0), 132, crate::base::digest::Digest::blake3(b"x"));
        let tuning = Tuning::from([("block".parse().unwrap(), Value::Integer(512))]);
        let tuning: Tuning = op.tune.default_tuning().into_iter().chain(tuning).collect();
        table.put(Setting {
            workload: "llm-128x4096".to_owned(),
            date: "2026-11-22".to_owned(),
            driver: "580".to_owned(),
            compiler: "nvrtc".to_owned(),
            protocol: 1,
            judged: 1,
            right: 1,
            seconds: 1e-6,
            default_seconds: None,
            copy_fraction: None,
            gain: None,
            dtypes: [("T".to_owned(), "f16".to_owned())].into(),
            axes: [("rows".to_owned(), 128), ("hidden".to_owned(), 4096)].into(),
            range: [].into(),
            tuning: tuned_table::written(&tuning),
        });
        let settings = Settings::of_table("tuned/nvidia-h200.toml", table, &op).unwrap();
        let source = Source { text: String::new(), name: String::new(), include: vec![], root: None };
        let project = DeviceProject {
            dir: PathBuf::new(),
            op_name: "op.toml".to_owned(),
            op,
            source,
            archs: vec![],
            settings,
        };
        let cases = project.op.cases(Purpose::Bench, Device::Cuda);
        let mut of = Vec::new();
        for line in records().lines() {
            let mut record: Measurement = serde_json::from_str(line).unwrap();
            assert_eq!(record.candidate.as_ref().unwrap().setting, None, "it is from before");
            name_setting(&mut record, &project, &cases);
            let setting = record.candidate.unwrap().setting.unwrap();
            of.push((format!("{} {}", record.workload, record.dtype), setting));
        }
        for (case, setting) in &of {
            let is_tuned = case == "llm-128x4096 f16";
            assert_eq!(setting.tuning["block"], if is_tuned { "512" } else { "256" }, "{case}");
            assert_eq!(
                setting.from == "tuned/nvidia-h200.toml, llm-128x4096",
                is_tuned,
                "{case}: {}",
                setting.from
            );
        }
        assert!(of.iter().any(|(case, _)| case == "llm-128x4096 f16") && of.len() > 3);
    }
}
