//! The suite as a table for people.
//!
//! Owns: the columns and the totals. Never: leaves out a row that was not run.

use std::collections::BTreeMap;

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};
use serde::Serialize;

use super::verdict::{Expected, SelftestOutcome};
use super::{Fixture, Row, SelftestError};

/// How many came out as they must.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Cheats that were judged.
    pub cheats: usize,
    /// Those that were caught by a code that must catch them.
    pub caught: usize,
    /// Honest kernels that were judged.
    pub honest: usize,
    /// Those that passed.
    pub passed: usize,
    /// Kernels that were not judged.
    pub not_run: usize,
}

impl Totals {
    /// Counts.
    pub fn count(rows: &[Row]) -> Self {
        let mut totals = Self::default();
        for row in rows {
            let honest = row.expected == Expected::Passed;
            match row.right {
                None => totals.not_run += 1,
                Some(right) if honest => {
                    totals.honest += 1;
                    totals.passed += usize::from(right);
                }
                Some(right) => {
                    totals.cheats += 1;
                    totals.caught += usize::from(right);
                }
            }
        }
        totals
    }
}

/// What came of one kernel, for a line of talk.
pub(super) fn outcome(row: &Row) -> String {
    let mark = if row.right == Some(false) { ", WRONG" } else { "" };
    match &row.caught_by {
        Some(code) => format!("{} by {code}{mark}", word(&row.seen)),
        None => format!("{}{mark}", word(&row.seen)),
    }
}

/// One row a kernel, then what is wrong, the totals, and what was not run.
pub fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    let judged: Vec<&Row> = rows.iter().filter(|row| row.right.is_some()).collect();
    if !judged.is_empty() {
        let mut table = Table::new();
        table.load_style(NOTHING);
        table.set_header(["kernel", "what it does", "ring", "expected", "seen", "caught by", "s"]);
        for row in &judged {
            table.add_row([
                row.name.clone(),
                row.does.clone(),
                row.ring.to_string(),
                match row.expected {
                    Expected::Passed => "passed",
                    Expected::Refused(_) => "refused",
                    Expected::Warned(_) => "warned",
                }
                .to_owned(),
                word(&row.seen).to_owned(),
                row.caught_by.clone().unwrap_or_else(|| "-".to_owned()),
                format!("{:.0}", row.seconds),
            ]);
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        if let Some(column) = table.column_mut(6) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        text.extend(table.lines().map(|line| format!("{}\n", line.trim_end())));
        text.push('\n');
    }
    for row in judged.iter().filter(|row| row.right == Some(false)) {
        text += &format!("WRONG: {}: {}\n", row.name, complaint(row));
    }
    let totals = Totals::count(rows);
    text += &format!("caught: {} of {} cheats\n", totals.caught, totals.cheats);
    text += &format!("passed: {} of {} honest kernels\n", totals.passed, totals.honest);
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for row in rows {
        if let SelftestOutcome::NotRun { reason } = &row.seen {
            reasons.entry(reason).or_default().push(&row.name);
        }
    }
    for (reason, names) in reasons {
        text += &format!("not run: {} ({reason}): {}\n", names.len(), names.join(", "));
    }
    text
}

/// One line a kernel: name, ring, what it does, what must come of it.
///
/// # Errors
/// A queue names what is not there, which the tests find.
pub fn list(fixtures: &[Fixture]) -> Result<String, SelftestError> {
    let mut text = String::new();
    for fixture in fixtures {
        for subject in fixture.subjects()? {
            let expected = match subject.expected {
                Expected::Passed => "passed".to_owned(),
                Expected::Refused(codes) | Expected::Warned(codes) => codes.join(" or "),
            };
            let ring = fixture.ring.to_string();
            text += &format!("{:<32} {ring:<11} {:<42} {expected}\n", subject.name, subject.does);
        }
    }
    Ok(text)
}

fn word(seen: &SelftestOutcome) -> &'static str {
    match seen {
        SelftestOutcome::Passed { warned } if warned.is_empty() => "passed",
        SelftestOutcome::Passed { .. } => "warned",
        SelftestOutcome::Refused { .. } => "refused",
        SelftestOutcome::NotRun { .. } => "not run",
        SelftestOutcome::Failed { .. } => "failed",
    }
}

fn complaint(row: &Row) -> String {
    let wanted = match &row.expected {
        Expected::Passed => "it must pass".to_owned(),
        Expected::Refused(codes) => format!("it must be refused with {}", codes.join(" or ")),
        Expected::Warned(codes) => format!("{} must warn of it", codes.join(" or ")),
    };
    match &row.seen {
        SelftestOutcome::Refused { codes, summary } => {
            format!("{wanted}; refused with {}: {summary}", codes.join(", "))
        }
        SelftestOutcome::Passed { .. } => format!("{wanted}; it passed"),
        SelftestOutcome::Failed { reason, .. } | SelftestOutcome::NotRun { reason } => {
            format!("{wanted}; {reason}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::selftest::Ring;

    fn row(name: &str, expected: Expected, seen: SelftestOutcome) -> Row {
        Row {
            name: name.to_owned(),
            does: "does something".to_owned(),
            ring: Ring::Cpu,
            right: seen.is_right(&expected),
            caught_by: seen.caught_by(&expected).map(str::to_owned),
            expected,
            seen,
            seconds: 2.4,
        }
    }

    #[test]
    fn the_table_says_what_is_wrong_and_what_was_not_run() {
        let refused = || Expected::Refused(vec!["verify::guard".to_owned()]);
        let with = |code: &str| SelftestOutcome::Refused {
            codes: vec![code.to_owned()],
            summary: "a[0] is off".to_owned(),
        };
        let rows = [
            row("caught", refused(), with("verify::guard")),
            row("missed", refused(), SelftestOutcome::Passed { warned: vec![] }),
            row("honest", Expected::Passed, SelftestOutcome::Passed { warned: vec![] }),
            row("too-strict", Expected::Passed, with("verify::numerics")),
            row("elsewhere", refused(), SelftestOutcome::not_run("no GPU")),
        ];
        let text = table(&rows);
        let last = text.split("\n\n").last().unwrap();
        assert_eq!(
            last,
            "WRONG: missed: it must be refused with verify::guard; it passed\n\
             WRONG: too-strict: it must pass; refused with verify::numerics: a[0] is off\n\
             caught: 1 of 2 cheats\npassed: 1 of 2 honest kernels\nnot run: 1 (no GPU): elsewhere\n"
        );
        assert!(
            text.contains("caught      does something  cpu   refused   refused  verify::guard"),
            "{text}"
        );
        assert!(!text.split("\n\n").next().unwrap().contains("elsewhere"));
    }
}
