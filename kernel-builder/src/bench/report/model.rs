//! The phases of a model as one HTML page: what kernels gain, what they could gain, and how exact the model still is.
//!
//! Owns: what the page says and in which order. Never: leaves out a loss or what was not measured; reads a file.

use serde::Serialize;
use serde_json::{Map, Value};

use super::html::{self, Table, Term};
use super::plot::Figure;
use super::plot::phases::{self, PhaseRatios, Share};

/// The data of `model.html`.
#[derive(Debug, Serialize)]
struct Page {
    title: String,
    summary: String,
    doubts: Vec<String>,
    ratios: Option<Figure>,
    shares: Option<Figure>,
    numbers: Option<Numbers>,
    results: Table,
    about: Vec<Term>,
}

/// How far the model is from a copy in float32.
#[derive(Debug, Serialize)]
struct Numbers {
    plot: Option<Figure>,
    sentences: Vec<String>,
    table: Table,
}

/// The page of the lines that `bench --e2e` records.
pub(crate) fn page(lines: &[Value]) -> String {
    let about = lines.first().cloned().unwrap_or_default();
    let word = |key: &str| about[key].as_str().unwrap_or_default().to_owned();
    let small = if about["small"] == true { " (small)" } else { "" };
    let phases: Vec<PhaseRatios> = lines.iter().filter_map(phase).collect();
    let share = |line: &Value| {
        let (phase, at_most) = (text(line, "phase"), line["at_most"].as_f64());
        Some(Share { phase, share: line["share"].as_f64()?, at_most })
    };
    let shares: Vec<Share> = lines.iter().filter_map(share).collect();
    let packages =
        about["packages"].as_object().map(|all| all.keys().cloned().collect::<Vec<_>>().join(", "));
    html::document(
        "model.html",
        &Page {
            title: format!("{}{small} on {}", word("model"), word("device")),
            summary: summary(&phases, &about),
            doubts: lines.iter().flat_map(failed).collect(),
            ratios: (!phases.is_empty()).then(|| phases::ratios(&phases)),
            shares: (!shares.is_empty()).then(|| phases::shares(&shares)),
            numbers: lines.iter().find(|line| line["phase"] == "numbers").map(numbers),
            results: results(lines),
            about: html::terms([
                ("packages", packages),
                ("modules with kernels", about["replaced"].as_u64().map(|count| count.to_string())),
                ("dtype", Some(word("dtype"))),
                ("device", Some(word("device"))),
                ("torch", Some(word("torch"))),
                ("rounds", about["rounds"].as_u64().map(|count| count.to_string())),
                ("date", Some(word("date"))),
            ]),
        },
    )
}

fn text(line: &Value, key: &str) -> String {
    line[key].as_str().unwrap_or_default().to_owned()
}

/// The ratios of a line; `None` for one without times.
fn phase(line: &Value) -> Option<PhaseRatios> {
    let over = line["over"].as_object()?;
    let interval = |one: &Value| Some([one["low"].as_f64()?, one["ratio"].as_f64()?, one["high"].as_f64()?]);
    let ratios = over.iter().filter_map(|(name, one)| Some((name.clone(), interval(one)?))).collect();
    Some(PhaseRatios { phase: text(line, "phase"), ratios, at_most: line["at_most"].as_f64() })
}

fn summary(phases: &[PhaseRatios], about: &Value) -> String {
    let of_kernels = phases.iter().flat_map(|one| &one.ratios).filter(|(name, _)| name.contains("kernels"));
    let (mut faster, mut slower, mut even) = (0, 0, 0);
    for (_, [low, _, high]) in of_kernels {
        match (low, high) {
            (low, _) if *low > 1.0 => faster += 1,
            (_, high) if *high < 1.0 => slower += 1,
            _ => even += 1,
        }
    }
    format!(
        "Kernels in {} modules. Of {} ratios with kernels over the same without, the model is faster in {faster}, slower in \
         {slower}, and in {even} the interval holds 1.",
        about["replaced"].as_u64().unwrap_or(0),
        faster + slower + even
    )
}

/// Sentences on what was not measured.
fn failed(line: &Value) -> Vec<String> {
    let none = Map::new();
    let all = line["failed"].as_object().unwrap_or(&none);
    let reason = |reason: &Value| reason.as_str().unwrap_or_default().to_owned();
    all.iter()
        .map(|(contender, why)| {
            format!("{}: {contender} was not measured: {}", text(line, "phase"), reason(why))
        })
        .collect()
}

/// The contenders of the comparison with float32, as the page calls them.
const COMPARED: [(&str, &str); 2] = [("eager", "as it is"), ("kernels", "with kernels")];

fn numbers(line: &Value) -> Numbers {
    let error = |(key, words)| Some((words, line[key]["error"].as_f64()?));
    let errors: Option<Vec<(&str, f64)>> = COMPARED.into_iter().map(error).collect();
    let mut sentences = Vec::new();
    match line["within"].as_bool() {
        Some(true) => {
            sentences.push("With kernels the error is not larger than `bench --e2e` allows.".to_owned())
        }
        Some(false) => {
            sentences.push("With kernels the error is larger than `bench --e2e` allows.".to_owned())
        }
        None => (),
    }
    if let (Some(alike), Some(all)) = (line["greedy_alike"].as_u64(), line["greedy"].as_u64()) {
        sentences.push(format!(
            "Of {all} tokens that each model chose by itself, one after the other, {alike} are the same with kernels as without."
        ));
    }
    Numbers { plot: errors.map(|errors| phases::errors(&errors)), sentences, table: distances(line) }
}

fn distances(line: &Value) -> Table {
    const KEYS: [(&str, &str); 5] = [
        ("error", "error, of the norm"),
        ("largest", "largest error, of the largest"),
        ("cosine", "cosine"),
        ("divergence", "divergence of predictions"),
        ("same_choice", "same most likely token"),
    ];
    let known: Vec<&(&str, &str)> = KEYS.iter().filter(|(key, _)| line["eager"][key].is_number()).collect();
    let headers = std::iter::once("model").chain(known.iter().map(|(_, words)| *words)).map(str::to_owned);
    let mut table = Table::new("How far results are from those of a copy in float32", headers.collect());
    for (contender, words) in COMPARED {
        table.row(words);
        for (key, _) in &known {
            let value = line[contender][key].as_f64().unwrap_or(f64::NAN);
            table.cell("number", &if value >= 0.01 { format!("{value:.5}") } else { format!("{value:.2e}") });
        }
    }
    table
}

fn results(lines: &[Value]) -> Table {
    let headers = ["phase", "contender", "ms", "ratio", "peak memory"].map(str::to_owned);
    let mut table = Table::new("Times, ratios and peak memory", headers.to_vec());
    for line in lines {
        let Some(times) = line["ms"].as_object() else { continue };
        for (contender, milliseconds) in times {
            table.row(&text(line, "phase"));
            table.cell("", contender);
            table.cell("number", &format!("{:.2}", milliseconds.as_f64().unwrap_or(f64::NAN)));
            let start = format!("{contender} over ");
            let over = line["over"].as_object().into_iter().flatten();
            let found = over.filter_map(|(name, one)| Some((name.strip_prefix(&start)?, one))).next();
            let ratio = found.map(|(base, one)| {
                let number = |key: &str| one[key].as_f64().unwrap_or(f64::NAN);
                let (low, ratio, high) = (number("low"), number("ratio"), number("high"));
                let class = if low > 1.0 {
                    "faster"
                } else if high < 1.0 {
                    "slower"
                } else {
                    "even"
                };
                (class, format!("{ratio:.3}x [{low:.3}, {high:.3}] of {base}"))
            });
            let (class, words) = ratio.unwrap_or_default();
            table.cell(class, &words);
            let bytes = line["peak_bytes"][contender].as_f64();
            table.cell("number", &bytes.map_or_else(String::new, |bytes| format!("{:.2} GB", bytes / 1e9)));
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines() -> Vec<Value> {
        let about = json!({
            "model": "qwen3-8b", "small": false, "packages": { "rms-norm": "0011" }, "replaced": 145, "dtype": "bfloat16",
            "device": "a <GPU>", "torch": "2.11.0", "rounds": 15, "date": "2026-11-27",
        });
        let numbers = json!({
            "phase": "numbers", "eager": { "error": 0.0112, "divergence": 1e-4 }, "kernels": { "error": 0.0109, "divergence": 9e-5 },
        });
        let prefill = json!({
            "phase": "prefill 8192", "ms": { "eager": 276.0, "kernels": 241.0, "compile": 300.0 },
            "over": {
                "kernels over eager": { "ratio": 1.145, "low": 1.14, "high": 1.15 },
                "compile over eager": { "ratio": 0.92, "low": 0.91, "high": 0.93 },
            },
            "peak_bytes": { "eager": 17_250_000_000_u64 }, "failed": { "graph": "it <failed>" }, "share": 0.2, "at_most": 1.25,
        });
        let decode = json!({
            "phase": "decode 1", "ms": { "eager": 33.6, "kernels": 34.0 },
            "over": { "kernels over eager": { "ratio": 0.988, "low": 0.98, "high": 0.99 } }, "failed": {}, "share": null,
        });
        let with = |mut line: Value| {
            for (key, value) in about.as_object().expect("fields") {
                line[key] = value.clone();
            }
            line
        };
        [numbers, prefill, decode].map(with).to_vec()
    }

    #[test]
    fn a_page_shows_gains_losses_limits_and_what_was_not_measured() {
        let page = page(&lines());
        // The style is a file of its own.
        let body = page.split("</style>").nth(1).expect("a body");
        insta::assert_snapshot!(body);
        assert!(!page.contains("<GPU>") && !page.contains("<failed>"));
        assert!(page.contains(
            "Of 2 ratios with kernels over the same without, the model is faster in 1, slower in 1"
        ));
    }

    #[test]
    fn nothing_measured_is_a_page() {
        assert!(page(&[]).contains("Kernels in 0 modules"));
    }
}
