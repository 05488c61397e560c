//! `explain`: what a diagnostic code means.

use clap::Args as ClapArgs;
use serde_json::json;

use crate::base::session::Session;
use crate::codes::{self, Entry};
use crate::exit::Failure;

/// Explain a diagnostic code: its cause, an example, how to fix it
///
/// Without a code, lists all codes.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:
  kernelwright explain verify::guard
  kernelwright explain bench
  kernelwright explain | grep stream")]
pub struct Args {
    /// Diagnostic code, such as `verify::guard`; the part after `::`; or the name of a stage
    #[arg(value_name = "CODE")]
    code: Option<String>,
}

/// Runs the verb.
pub fn run(args: &Args, session: &Session) -> Result<(), Failure> {
    let entries = match &args.code {
        Some(code) => codes::find(code)?,
        None => codes::all(),
    };
    let human = match entries.as_slice() {
        [entry] => whole(entry),
        many => many.iter().map(|entry| format!("{:<28} {}\n", entry.code, plain(entry.meaning))).collect(),
    };
    session.report.result("explain", &json!({ "codes": entries }), &human);
    Ok(())
}

/// An entry with all that is known.
fn whole(entry: &Entry) -> String {
    let details = entry.details.map(|text| format!("\n{}\n", plain(text))).unwrap_or_default();
    format!("{}\n  {}\n{details}", entry.code, plain(entry.meaning))
}

/// Markdown for a terminal: bold words and links are their text.
fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, after)) = rest.split_once('[') {
        let link = after.split_once("](").and_then(|(label, tail)| Some((label, tail.split_once(')')?.1)));
        text.push_str(before);
        match link {
            Some((label, tail)) if !label.contains(['[', '\n']) => {
                text.push_str(label);
                rest = tail;
            }
            _ => {
                text.push('[');
                rest = after;
            }
        }
    }
    text.push_str(rest);
    text.replace("**", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_bold_words_are_text() {
        assert_eq!(plain("see [drawn lengths](a.md#b), `x[0]`"), "see drawn lengths, `x[0]`");
        assert_eq!(plain("**Fix.** `[tune]` ([how](b.md))"), "Fix. `[tune]` (how)");
    }

    #[test]
    fn an_entry_with_details_has_them_below_its_line() {
        let entry = Entry { code: "a::b", meaning: "wrong", details: Some("**Cause.** c") };
        assert_eq!(whole(&entry), "a::b\n  wrong\n\nCause. c\n");
    }
}
