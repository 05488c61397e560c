//! The report of a run: a line for each step, one table, and the last lines.
//!
//! Owns: the words. Never: measures or decides.

use super::proven::Choice;

/// The outcome of a step.
pub(crate) struct Row {
    pub(crate) step: &'static str,
    /// Number of items that ran, and of all that the step has.
    pub(crate) run: usize,
    pub(crate) all: usize,
    /// Wall seconds.
    pub(crate) wall: f64,
    /// Processor seconds of all its processes.
    pub(crate) cpu: f64,
    /// Wall seconds that it may take.
    pub(crate) budget: Option<u32>,
    pub(crate) failure: Option<Failure>,
    /// The items that ran, where some did not.
    pub(crate) named: Option<Vec<String>>,
}

/// The cause of a failed step.
pub(crate) struct Failure {
    /// The items that failed; none where the step failed as a whole.
    pub(crate) items: Vec<String>,
    /// Its error, where it failed as a whole.
    pub(crate) reason: Option<String>,
}

/// `unchanged since it last passed: 13 of 19; run in rotation: 4; left out: 9`, and their names.
pub(crate) fn left_out(choice: &Choice, all: usize) -> String {
    let left = choice.left_out.len();
    let rotated = choice.unchanged - left;
    let names = if left == 0 { String::new() } else { format!(": {}", choice.left_out.join(", ")) };
    format!(
        "unchanged since it last passed: {} of {all}; run in rotation: {rotated}; left out: {left}{names}",
        choice.unchanged
    )
}

/// The closing line of a step.
pub(crate) fn line(row: &Row) -> String {
    let word = if row.failure.is_some() { "FAILED" } else { "passed" };
    let budget = row.budget.map_or_else(String::new, |budget| format!(", budget {budget} s"));
    format!(
        "--- {}: {word}, items {}/{}, {:.0} s, CPU {:.0} s{budget}",
        row.step, row.run, row.all, row.wall, row.cpu
    )
}

/// All steps, and the sum.
pub(crate) fn table(rows: &[Row], wall: f64, budget: Option<u32>) -> String {
    let mut text = format!("{:<12} {:>9} {:>8} {:>8} {:>8}\n", "step", "items", "wall s", "CPU s", "budget");
    let mut add = |name: &str, items: String, wall: f64, cpu: f64, budget: Option<u32>, note: &str| {
        let budget = budget.map_or_else(|| "-".to_owned(), |seconds| seconds.to_string());
        let row = format!("{name:<12} {items:>9} {wall:>8.0} {cpu:>8.0} {budget:>8}  {note}");
        text += row.trim_end();
        text.push('\n');
    };
    for row in rows {
        let note = if row.failure.is_some() { "FAILED" } else { "" };
        add(row.step, format!("{}/{}", row.run, row.all), row.wall, row.cpu, row.budget, note);
    }
    let (run, all) = rows.iter().fold((0, 0), |(run, all), row| (run + row.run, all + row.all));
    add("all", format!("{run}/{all}"), wall, rows.iter().map(|row| row.cpu).sum(), budget, "");
    text
}

/// Each failed step with the command that repeats it alone; empty when everything passed in time.
pub(crate) fn last_lines(rows: &[Row], late: &[String]) -> String {
    let mut lines: Vec<String> = late.iter().map(|message| format!("too slow: {message}")).collect();
    for row in rows {
        let Some(failure) = &row.failure else { continue };
        // The items of a step that failed as a whole are those that it ran.
        let none = Vec::new();
        let again =
            if failure.items.is_empty() { row.named.as_ref().unwrap_or(&none) } else { &failure.items };
        let which = match (&failure.reason, failure.items.as_slice()) {
            (_, items) if !items.is_empty() && row.step != items[0] => format!(" ({})", items.join(", ")),
            (Some(reason), _) => format!(" ({})", shortened(reason)),
            _ => String::new(),
        };
        lines.push(format!("failed: {}{which}", row.step));
        let again = if again.len() == row.all { &none } else { again };
        let words: Vec<&str> =
            ["cargo xtask ci", row.step].into_iter().chain(again.iter().map(String::as_str)).collect();
        lines.push(format!("repeat it: {}", words.join(" ")));
    }
    lines.join("\n")
}

/// The first line of an error, which is printed in full above, or its end if it is long.
fn shortened(reason: &str) -> String {
    const LONGEST: usize = 100;
    let line = reason.lines().next().unwrap_or_default();
    match line.char_indices().rev().nth(LONGEST) {
        Some((at, _)) => format!("... {}", line[at..].trim_start()),
        None => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(step: &'static str, failure: Option<Failure>) -> Row {
        Row { step, run: 2, all: 3, wall: 12.4, cpu: 20.0, budget: Some(25), failure, named: None }
    }

    #[test]
    fn the_last_lines_name_the_step_its_items_and_the_command() {
        let items = vec!["swiglu".to_owned(), "rope".to_owned()];
        let rows = [row("test", None), row("generated", Some(Failure { items, reason: None }))];
        let lines = "failed: generated (swiglu, rope)\nrepeat it: cargo xtask ci generated swiglu rope";
        assert_eq!(last_lines(&rows, &[]), lines);
        let reason = Some("failed to run `nix`: exit status: 1\nmore".to_owned());
        let rows = [row("nix", Some(Failure { items: Vec::new(), reason }))];
        let lines = "failed: nix (failed to run `nix`: exit status: 1)\nrepeat it: cargo xtask ci nix";
        assert_eq!(last_lines(&rows, &[]), lines);
        assert_eq!(last_lines(&[row("test", None)], &[]), "");
        let items = vec!["a".to_owned(), "b".to_owned(), "c".to_owned()];
        let rows = [row("cheats", Some(Failure { items, reason: None }))];
        assert_eq!(last_lines(&rows, &[]), "failed: cheats (a, b, c)\nrepeat it: cargo xtask ci cheats");
        let short = shortened(&format!("{}end", "word ".repeat(40)));
        assert!(short.starts_with("... ") && short.ends_with(" end") && short.len() <= 105, "{short}");
        assert_eq!(last_lines(&[row("test", None)], &["x".to_owned()]), "too slow: x");
    }

    #[test]
    fn lines_of_the_report() {
        assert_eq!(line(&row("fuzz", None)), "--- fuzz: passed, items 2/3, 12 s, CPU 20 s, budget 25 s");
        let choice = Choice { run: vec!["a".into(), "b".into()], left_out: vec!["c".into()], unchanged: 2 };
        let text = "unchanged since it last passed: 2 of 3; run in rotation: 1; left out: 1: c";
        assert_eq!(left_out(&choice, 3), text);
        let table = table(&[row("fuzz", None)], 13.0, None);
        let last = table.lines().last().unwrap();
        assert_eq!(last.split_whitespace().collect::<Vec<_>>(), ["all", "2/3", "13", "20", "-"]);
    }
}
