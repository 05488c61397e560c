//! Records as traces of flashinfer-bench.
//!
//! Owns: which field of a `Trace` (flashinfer-bench 0.1.2, `flashinfer_bench/data/trace.py`) holds what of a record.
//! Never: invents a figure that the record does not have.

use serde_json::{Map, Value, json};

use super::record::Measurement;

/// A trace: `workload` is a trace without a result, as `export` writes it. `None` when the time of the kernel or its ratio to
/// the reference is not a result, since a trace has both.
///
/// A trace has one latency, and a record one a regime, so each regime is a trace of its own. What a trace has no place
/// for is in `evaluation.correctness.extra`, below `x-kernelwright`. A record does not keep the largest errors, only that
/// they were within the bound: they are `NaN` there.
pub fn trace(workload: &Value, record: &Measurement) -> Option<Value> {
    let (seconds, eager) = (record.time()?, record.contender("eager")?);
    let libraries = json!({ "torch": record.torch, "python": record.python });
    let mut libraries = libraries.as_object().cloned().unwrap_or_default();
    if let Some(driver) = &record.driver {
        libraries.insert("driver".to_owned(), json!(driver));
    }
    Some(json!({
        "definition": workload["definition"],
        "workload": workload["workload"],
        "solution": solution(record),
        "evaluation": {
            "status": "PASSED",
            "environment": { "hardware": record.device, "libs": libraries },
            "timestamp": record.date,
            "log": "",
            "correctness": {
                "max_relative_error": "NaN",
                "max_absolute_error": "NaN",
                "extra": { "x-kernelwright": ours(record) },
            },
            "performance": {
                "latency_ms": seconds * 1e3,
                "reference_latency_ms": eager.median_seconds * 1e3,
                "speedup_factor": record.versus("eager")?.ratio,
            },
        },
    }))
}

/// The solution's name: the operation and what was built.
fn solution(record: &Measurement) -> String {
    format!("{}-{}-{}", record.op, record.variant, record.artifact.short(12))
}

/// The record without its samples and what the trace says elsewhere.
fn ours(record: &Measurement) -> Value {
    let mut fields = match serde_json::to_value(record) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    for name in ["contenders", "op", "date", "device", "driver", "torch", "python"] {
        fields.remove(name);
    }
    Value::Object(fields)
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::example;
    use super::*;

    #[test]
    fn a_record_becomes_a_trace() {
        let workload = json!({
            "definition": "rms_norm_bf16", "workload": { "uuid": "llm-2048x4096", "axes": {}, "inputs": {} },
            "solution": null, "evaluation": null,
        });
        let trace = trace(&workload, &example()).unwrap();
        assert_eq!(trace["workload"]["uuid"], "llm-2048x4096");
        assert!(
            trace["solution"]
                .as_str()
                .unwrap()
                .starts_with("rms_norm-torch-stable-abi211-cu130-x86_64-linux-")
        );
        let evaluation = &trace["evaluation"];
        assert_eq!(evaluation["environment"]["libs"]["driver"], "580.159");
        assert!((evaluation["performance"]["latency_ms"].as_f64().unwrap() - 0.01).abs() < 1e-12);
        assert!((evaluation["performance"]["speedup_factor"].as_f64().unwrap() - 6.4).abs() < 1e-9);
        let ours = &evaluation["correctness"]["extra"]["x-kernelwright"];
        assert_eq!((&ours["regime"], &ours["ratios"][1]["versus"]), (&json!("graph"), &json!("fused")));
        assert!(ours.get("contenders").is_none() && ours.get("device").is_none());
    }

    #[test]
    fn without_a_reference_there_is_no_trace() {
        let mut record = example();
        record.contenders.retain(|contender| contender.name != "eager");
        assert_eq!(trace(&json!({}), &record), None);
    }
}
