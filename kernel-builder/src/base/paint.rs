//! Colours for lines of talk on a terminal.
//!
//! Owns: which word of a line has which colour. Never: prints, or decides whether there is a terminal.

use clap::builder::styling::{AnsiColor, Style};

use super::report::event::Event;

const BOLD: Style = Style::new().bold();
const GOOD: Style = AnsiColor::Green.on_default().bold();
const BAD: Style = AnsiColor::Red.on_default().bold();
const WARNING: Style = AnsiColor::Yellow.on_default().bold();
const QUIET: Style = AnsiColor::BrightBlack.on_default();

/// Results that are good news, those that are bad news, and parts of a result; other steps are quiet.
const GOOD_NEWS: &[&str] = &["built", "verified", "loaded", "ran", "published", "measured", "filled"];
const BAD_NEWS: &[&str] = &["refused", "failed"];
const PARTS: &[&str] = &["checked", "judged", "screened"];

/// The line of an event with colours.
pub(super) fn line(event: &Event<'_>, line: &str) -> String {
    let (style, word) = match event {
        Event::Stage { name, .. } => (BOLD, *name),
        Event::Done { action, .. } if GOOD_NEWS.contains(action) => (GOOD, *action),
        Event::Done { action, .. } if BAD_NEWS.contains(action) => (BAD, *action),
        Event::Done { action, .. } if PARTS.contains(action) => (BOLD, *action),
        Event::Done { action, .. } => (QUIET, *action),
        Event::Warning { .. } => (WARNING, "warning:"),
        Event::Note { .. } => (QUIET, "note:"),
        Event::Unit { .. } | Event::Progress(_) => return line.to_owned(),
    };
    line.replacen(word, &format!("{style}{word}{style:#}"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(action: &'static str) -> Event<'static> {
        Event::Done { action, subject: "a", detail: "", seconds: 1.0, cached: false }
    }

    #[test]
    fn one_word_of_a_line_is_coloured() {
        assert_eq!(
            line(&done("built"), "  built     a  (1 s)"),
            "  \u{1b}[1m\u{1b}[32mbuilt\u{1b}[0m     a  (1 s)"
        );
        assert_eq!(line(&done("refused"), "  refused   a"), "  \u{1b}[1m\u{1b}[31mrefused\u{1b}[0m   a");
        assert_eq!(line(&done("checked"), "  checked   a"), "  \u{1b}[1mchecked\u{1b}[0m   a");
        assert_eq!(line(&done("compiled"), "  compiled  a"), "  \u{1b}[90mcompiled\u{1b}[0m  a");
        let warning = Event::Warning { text: "no warning: x" };
        let painted = line(&warning, "  warning: no warning: x");
        assert_eq!(painted, "  \u{1b}[1m\u{1b}[33mwarning:\u{1b}[0m no warning: x");
    }

    #[test]
    fn a_stage_is_bold() {
        let stage = Event::Stage { name: "verify", subject: "k" };
        assert_eq!(line(&stage, "\nverify k"), "\n\u{1b}[1mverify\u{1b}[0m k");
    }
}
