//! The lines of a model as a table for people.
//!
//! Owns: the columns. Never: leaves out a loss.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde_json::{Map, Value};

/// A row for each phase and contender, then the errors, and what could not be measured.
pub(crate) fn table(lines: &[Value]) -> String {
    let Some(first) = lines.first() else { return "nothing was measured\n".to_owned() };
    let mut told = format!("{}: kernels in {} modules\n", about(first), first["replaced"]);
    let mut rows = Table::new();
    rows.load_style(NOTHING);
    rows.set_header(["phase", "contender", "ms", "ratio", "peak memory"]);
    for line in lines {
        let Some(times) = line["ms"].as_object() else { continue };
        for (place, (contender, milliseconds)) in times.iter().enumerate() {
            let phase = line["phase"].as_str().filter(|_| place == 0).unwrap_or_default();
            let milliseconds = milliseconds.as_f64().unwrap_or(f64::NAN);
            rows.add_row([
                phase.to_owned(),
                contender.clone(),
                format!("{milliseconds:.2}"),
                ratio(line, contender),
                memory(&line["peak_bytes"][contender]),
            ]);
        }
    }
    for column in rows.column_iter_mut() {
        column.set_padding((0, 2));
    }
    for column in [2, 4] {
        if let Some(column) = rows.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    told.extend(rows.lines().map(|line| format!("{}\n", line.trim_end())));
    told.extend(lines.iter().filter(|line| line["share"].is_number()).map(share));
    told.extend(lines.iter().filter(|line| line["phase"] == "numbers").map(numbers));
    let none = Map::new();
    for line in lines {
        for (contender, reason) in line["failed"].as_object().unwrap_or(&none) {
            let reason = reason.as_str().unwrap_or_default();
            told += &format!(
                "{}: {contender} was not measured: {reason}\n",
                line["phase"].as_str().unwrap_or_default()
            );
        }
    }
    told
}

/// The model, and where it runs.
pub(super) fn about(line: &Value) -> String {
    let text = |key: &str| line[key].as_str().unwrap_or_default();
    let small = if line["small"] == true { " (small)" } else { "" };
    format!("{}{small}, {}, {}, torch {}", text("model"), text("dtype"), text("device"), text("torch"))
}

/// `1.14x [1.13, 1.15] of eager`.
fn ratio(line: &Value, contender: &str) -> String {
    let start = format!("{contender} over ");
    let over = line["over"].as_object();
    let found =
        over.and_then(|over| over.iter().find_map(|(name, one)| Some((name.strip_prefix(&start)?, one))));
    let Some((base, found)) = found else { return String::new() };
    let number = |key: &str| found[key].as_f64().unwrap_or(f64::NAN);
    format!("{:.3}x [{:.3}, {:.3}] of {base}", number("ratio"), number("low"), number("high"))
}

fn memory(bytes: &Value) -> String {
    bytes.as_f64().map_or_else(String::new, |bytes| format!("{:.2} GB", bytes / 1e9))
}

fn share(line: &Value) -> String {
    format!(
        "{}: the replaced modules take {:.1}% of eager's GPU time: {:.2}x if they took none, and more \
         where the host is slower than the GPU\n",
        line["phase"].as_str().unwrap_or_default(),
        line["share"].as_f64().unwrap_or(f64::NAN) * 100.0,
        line["at_most"].as_f64().unwrap_or(f64::NAN)
    )
}

/// How far results are off.
pub(super) fn numbers(line: &Value) -> String {
    let of = |contender: &str, key: &str| line[contender][key].as_f64();
    let mut told = String::from("off from float32, of the norm:");
    for (contender, words) in [("eager", "as it is"), ("kernels", "with kernels")] {
        told += &format!(" {:.2e} {words},", of(contender, "error").unwrap_or(f64::NAN));
    }
    told.pop();
    if let (Some(eager), Some(kernels)) = (of("eager", "divergence"), of("kernels", "divergence")) {
        told += &format!("; divergence of the predictions: {eager:.2e} and {kernels:.2e}");
    }
    if let (Some(alike), Some(all)) = (line["greedy_alike"].as_u64(), line["greedy"].as_u64()) {
        told += &format!("; {alike} of {all} greedy tokens alike");
    }
    told + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_has_losses_shares_and_what_was_not_measured() {
        let about = json!({ "model": "qwen3-8b", "small": false, "dtype": "bfloat16", "device": "NVIDIA H100", "torch": "2.11.0", "replaced": 145 });
        let with = |mut line: serde_json::Value| {
            for (key, value) in about.as_object().expect("fields") {
                line[key] = value.clone();
            }
            line
        };
        let lines = [
            with(json!({
                "phase": "numbers",
                "eager": { "error": 0.0112, "divergence": 1e-4 }, "kernels": { "error": 0.0109, "divergence": 9e-5 },
                "greedy_alike": 63, "greedy": 64, "within": true,
            })),
            with(json!({
                "phase": "prefill 8192",
                "ms": { "eager": 276.0, "kernels": 282.5 },
                "over": { "kernels over eager": { "ratio": 0.977, "low": 0.97, "high": 0.981 } },
                "peak_bytes": { "eager": 17_250_000_000_u64, "kernels": null },
                "failed": { "compile": "RuntimeError: no" }, "share": 0.2, "at_most": 1.25,
            })),
        ];
        let shown = "\
qwen3-8b, bfloat16, NVIDIA H100, torch 2.11.0: kernels in 145 modules
phase         contender      ms  ratio                           peak memory
prefill 8192  eager      276.00                                     17.25 GB
              kernels    282.50  0.977x [0.970, 0.981] of eager
prefill 8192: the replaced modules take 20.0% of eager's GPU time: 1.25x if they took none, and more where the host is slower than the GPU
off from float32, of the norm: 1.12e-2 as it is, 1.09e-2 with kernels; divergence of the predictions: 1.00e-4 and 9.00e-5; \
63 of 64 greedy tokens alike
prefill 8192: compile was not measured: RuntimeError: no
";
        assert_eq!(table(&lines), shown);
        assert_eq!(table(&[]), "nothing was measured\n");
    }
}
