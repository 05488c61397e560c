//! The card: what a person reads on the kernel's page. The project's CARD.md, then what was built and measured.
//!
//! Owns: the sections `Variants`, `Results` and `Which calls it serves`.
//! Never: states a figure that is not in a measurement.

use std::fmt::Write as _;

use crate::base::files::{self, FileError};
use crate::bench::Measurement;

use super::contents::Contents;
use super::judged::Status;

/// The card's text.
///
/// # Errors
/// The project has a CARD.md that cannot be read.
pub fn render(contents: &Contents<'_>, variants: &[Status]) -> Result<String, FileError> {
    let own = contents.project.join("CARD.md");
    let mut text = if files::exists(&own) { files::read_text(&own)? } else { default_head(contents) };
    while !text.ends_with("\n\n") {
        text.push('\n');
    }
    text.push_str("## Variants\n\n");
    for variant in variants {
        let _infallible = writeln!(text, "- `{}`: {variant}", variant.variant);
    }
    text.push_str("\n## Results\n\n");
    text.push_str(&results(contents.measured));
    text.push_str(&served(contents));
    Ok(text)
}

/// For a project that has no CARD.md of its own.
fn default_head(contents: &Contents<'_>) -> String {
    let general = &contents.build.general;
    let description =
        contents.op.and_then(|op| op.description.as_ref()).map_or("", |text| text.value.as_str());
    format!(
        "---\nlibrary_name: kernels\nlicense: {}\ntags:\n- kernel\n---\n\n# {}\n\n{description}\n",
        general.license.as_str().to_lowercase(),
        general.name.as_str(),
    )
}

/// The dispatch tables: for which lengths the kernel is called on a device; nothing without a table.
fn served(contents: &Contents<'_>) -> String {
    if contents.additions.dispatch.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "\n## Which calls it serves\n\nOn these devices the kernel is called where it was measured to be faster, and \
         PyTorch everywhere else; on other devices the kernel is.\n\n| device | dtype | lengths |\n|---|---|---|\n",
    );
    for table in &contents.additions.dispatch {
        if table.ranges.is_empty() {
            let _infallible = writeln!(text, "| {} | all | none: PyTorch is called |", table.device);
        }
        for range in &table.ranges {
            let lengths: Vec<String> =
                range.axes.iter().map(|(axis, [low, high])| format!("{axis} {low} to {high}")).collect();
            let _infallible =
                writeln!(text, "| {} | {} | {} |", table.device, range.dtype, lengths.join(", "));
        }
    }
    text
}

/// Ratios of every measurement as a Markdown table, with device and date; a sentence when nothing was measured.
fn results(measured: &[Measurement]) -> String {
    if measured.is_empty() {
        return "Not measured yet.\n".to_owned();
    }
    let no_result: usize = measured.iter().filter(|it| it.is_result()).map(|it| it.unmeasured.len()).sum();
    let doubt = match no_result {
        0 => String::new(),
        1 => "1 figure was sampled and is not known well enough to be shown.\n".to_owned(),
        count => format!("{count} figures were sampled and are not known well enough to be shown.\n"),
    };
    if measured.iter().all(|measurement| measurement.ratios.is_empty()) {
        return format!("Not measured yet.\n{doubt}");
    }
    let mut text =
        String::from("| workload | dtype | regime | device | versus | speed-up [95% interval] | date |\n");
    text.push_str("|---|---|---|---|---|---|---|\n");
    let mut single = false;
    for measurement in measured.iter().filter(|measurement| measurement.is_result()) {
        let mark = if measurement.starts() < 2 { "\\*" } else { "" };
        single |= measurement.starts() < 2 && !measurement.ratios.is_empty();
        for ratio in &measurement.ratios {
            let _infallible = writeln!(
                text,
                "| {} | {} | {} | {} | {} | {:.2}x [{:.2}, {:.2}]{mark} | {} |",
                measurement.workload,
                measurement.dtype,
                measurement.regime,
                measurement.device,
                ratio.versus,
                ratio.ratio,
                ratio.low,
                ratio.high,
                measurement.date,
            );
        }
    }
    if single {
        text.push_str("\n\\* Measured in one start: the interval does not say how runs differ.\n");
    }
    if !doubt.is_empty() {
        text.push_str(&format!("\n{doubt}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::old_records::old_record;

    fn kept() -> &'static str {
        old_record("2026-11-24-h100-rms-norm-protocol-5.jsonl")
    }

    #[test]
    fn a_figure_that_is_no_result_is_on_no_card() {
        let lines: Vec<Measurement> =
            kept().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let mut wild = lines.into_iter().find(|it| it.is_result() && it.versus("eager").is_some()).unwrap();
        wild.ratios.retain(|ratio| ratio.versus == "eager");
        let kept = results(&[wild.clone().settled()]);
        assert!(kept.contains("| eager |") && !kept.contains("not known well enough"), "{kept}");
        // 324x [9, 672], as a run with a tiny budget printed it.
        (wild.ratios[0].ratio, wild.ratios[0].low, wild.ratios[0].high) = (324.0, 9.0, 672.0);
        assert!(results(std::slice::from_ref(&wild)).contains("324.00x"));
        assert_eq!(
            results(&[wild.settled()]),
            "Not measured yet.\n1 figure was sampled and is not known well enough to be shown.\n"
        );
    }
}
