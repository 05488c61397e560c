//! The step `prove`: three torch versions, each in processes of its own. Every variant is loaded with its torch by the
//! stock client, those for the cpu are verified, and of all of them the client must take the best.
//!
//! Owns: the picks that a reader of the list would expect, so that no torch is left out unseen. Never: loads anything;
//! `build --prove` does, and compares with its own prediction.

use super::ready::EXAMPLE;
use super::run::Run;

const SYSTEM: &str = "x86_64-linux";
const VARIANTS: &[&str] = &[
    "torch-stable-abi210-cpu",
    "torch-stable-abi210-cu126",
    "torch-stable-abi210-cu130",
    "torch211-cxx11-cpu",
    "torch211-cxx11-cu130",
    "torch-stable-abi215-cpu",
    "torch-stable-abi215-cu132",
];
/// torch, backend, and the variant that the client takes.
const PICKS: &[(&str, &str, &str)] = &[
    ("2.10", "cpu", "torch-stable-abi210-cpu"),
    ("2.10", "cuda", "torch-stable-abi210-cu126"),
    ("2.11", "cpu", "torch-stable-abi210-cpu"),
    ("2.11", "cuda", "torch-stable-abi210-cu130"),
    ("2.15", "cpu", "torch-stable-abi215-cpu"),
    ("2.15", "cuda", "torch-stable-abi215-cu132"),
];
/// Variants for the cpu, all of which are verified.
const VERIFIED: usize = 3;

/// Runs `build --prove` and compares its report with the lists above.
pub(crate) fn run(run: &Run<'_>) -> Result<Vec<String>, String> {
    run.whole(|talk| {
        let mut command = run.site.ready.kernelwright(&["build", "--prove"])?;
        command.args(VARIANTS.iter().map(|variant| format!("--variant={variant}-{SYSTEM}"))).arg(EXAMPLE);
        let (text, outcome) = talk.heard(&mut command);
        outcome?;
        let differences = differences(&text);
        if differences.is_empty() { Ok(()) } else { Err(differences.join("\n")) }
    })
}

/// Every way in which the report is not as expected.
fn differences(report: &str) -> Vec<String> {
    let has = |begins: &str, inside: &str, ends: &str| {
        let fits = |line: &&str| line.starts_with(begins) && line.contains(inside) && line.ends_with(ends);
        report.lines().any(|line| fits(&line))
    };
    let mut found = Vec::new();
    for variant in VARIANTS {
        if !has(&format!("{variant}-{SYSTEM} "), " loaded with torch ", "") {
            found.push(format!("not loaded: {variant}-{SYSTEM}"));
        }
    }
    for (torch, backend, variant) in PICKS {
        let pick = format!(" the client takes for {backend}: {variant}-{SYSTEM}");
        if !has(&format!("under torch {torch}."), "", &pick) {
            found.push(format!("under torch {torch} the client should take for {backend}: {variant}"));
        }
    }
    let verified = report.lines().filter(|line| is_verified(line)).count();
    if verified != VERIFIED {
        found.push(format!("{verified} variants for the cpu are verified, not {VERIFIED}"));
    }
    found
}

/// `...-cpu-... verified: 12 checks passed`, and nothing behind it.
fn is_verified(line: &str) -> bool {
    let parts = line.split_once("-cpu-").and_then(|(_, rest)| rest.rsplit_once(" verified: "));
    let count = parts.and_then(|(_, checks)| checks.strip_suffix(" checks passed"));
    count.is_some_and(|count| count.chars().all(|letter| letter.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> String {
        let loaded = VARIANTS.iter().map(|variant| {
            let verified = if variant.ends_with("cpu") { ", verified: 12 checks passed" } else { "" };
            format!("{variant}-{SYSTEM} built, loaded with torch 2.10.0{verified}\n")
        });
        let picks = PICKS.iter().map(|(torch, backend, variant)| {
            format!("under torch {torch}.0+cpu the client takes for {backend}: {variant}-{SYSTEM}\n")
        });
        loaded.chain(picks).collect()
    }

    #[test]
    fn a_report_as_expected_differs_in_nothing() {
        assert_eq!(differences(&report()), Vec::<String>::new());
        let wrong =
            report().replace("for cpu: torch-stable-abi215-cpu-", "for cpu: torch-stable-abi210-cpu-");
        assert_eq!(
            differences(&wrong),
            ["under torch 2.15 the client should take for cpu: torch-stable-abi215-cpu"]
        );
        let wrong = report().replace("torch211-cxx11-cpu", "torch211-cxx11-xpu");
        assert_eq!(differences(&wrong).len(), 2, "not loaded, and one less verified");
        assert!(!is_verified("a-cpu-b verified: 3 checks passed, 1 skipped"));
    }
}
