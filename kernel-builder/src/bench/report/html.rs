//! The page's templates, and the data of tables and lists in them.
//!
//! Owns: escaping. Never: knows what a measurement is.

use minijinja::syntax::SyntaxConfig;
use minijinja::value::Serde;
use minijinja::{AutoEscape, Environment, Error, UndefinedBehavior};
use serde::Serialize;

/// Every file of `resources/report`, by its name in the templates.
const TEMPLATES: &[(&str, &str)] = &[
    ("model.html", include_str!("../../../resources/report/model.html")),
    ("page.html", include_str!("../../../resources/report/page.html")),
    ("parts.html", include_str!("../../../resources/report/parts.html")),
    ("plots.html", include_str!("../../../resources/report/plots.html")),
    ("style.css", include_str!("../../../resources/report/style.css")),
];

/// Text as HTML shows it, in an element or in a quoted attribute.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            // Control characters, and those that turn the direction of writing, can make text look like another.
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => safe.push('\u{fffd}'),
            control if control.is_control() && !control.is_whitespace() => safe.push('\u{fffd}'),
            other => safe.push(other),
        }
    }
    safe
}

/// Escapes everything that a template inserts, other than the output of its macros.
fn environment() -> Result<Environment<'static>, Error> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_syntax(SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?);
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_formatter(|out, _, value| {
        let text = value.to_string();
        Ok(out.write_str(&if value.is_safe() { text } else { escape(&text) })?)
    });
    for (name, text) in TEMPLATES {
        environment.add_template(name, text)?;
    }
    Ok(environment)
}

/// The whole document of a template.
pub(super) fn document(template: &str, page: &impl Serialize) -> String {
    let rendered =
        environment().and_then(|environment| environment.get_template(template)?.render(Serde(page)));
    // Only an error in the templates makes this fail, and every test of the page would show it.
    rendered.unwrap_or_else(|error| format!("<!doctype html>\n<p>the page is wrong: {error}</p>")) + "\n"
}

/// A table. The first column names the row.
#[derive(Debug, Serialize)]
pub(super) struct Table {
    caption: &'static str,
    headers: Vec<String>,
    rows: Vec<Row>,
}

#[derive(Debug, Serialize)]
struct Row {
    name: String,
    cells: Vec<Cell>,
}

#[derive(Debug, Serialize)]
struct Cell {
    class: String,
    text: String,
}

impl Table {
    pub(super) fn new(caption: &'static str, headers: Vec<String>) -> Self {
        Self { caption, headers, rows: Vec::new() }
    }

    /// Begins a row with its name.
    pub(super) fn row(&mut self, name: &str) {
        self.rows.push(Row { name: name.to_owned(), cells: Vec::new() });
    }

    /// Adds a cell to the last row; `class` may be empty.
    pub(super) fn cell(&mut self, class: &str, text: &str) {
        if let Some(row) = self.rows.last_mut() {
            row.cells.push(Cell { class: class.to_owned(), text: text.to_owned() });
        }
    }
}

/// A term and its description.
#[derive(Debug, Serialize)]
pub(super) struct Term {
    pub(super) term: String,
    pub(super) text: String,
}

/// The terms that have a description.
pub(super) fn terms<const N: usize>(rows: [(&str, Option<String>); N]) -> Vec<Term> {
    rows.into_iter().filter_map(|(term, text)| Some(Term { term: term.to_owned(), text: text? })).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// What a macro of `parts.html` or `plots.html` makes of a value.
    pub(in crate::bench::report) fn part(file: &str, name: &str, value: &impl Serialize) -> String {
        let text = format!("{{% from {file:?} import {name} %}}{{{{ {name}(it) }}}}");
        let values = std::collections::BTreeMap::from([("it", value)]);
        environment().unwrap().render_str(&text, Serde(values)).unwrap()
    }

    #[test]
    fn text_stays_text() {
        assert_eq!(escape("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
        assert_eq!(escape("plain\u{202e}txt\u{7}\n"), "plain\u{fffd}txt\u{fffd}\n");
        assert_eq!(part("parts.html", "listed", &["<i>"]), "<ul>\n<li>&lt;i&gt;</li>\n</ul>\n");
    }

    #[test]
    fn an_unknown_field_is_an_error() {
        let environment = environment().unwrap();
        assert!(environment.render_str("{{ it.gone }}", Serde([("it", "x")])).is_err());
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        assert_eq!(
            part("parts.html", "terms", &terms([("driver", None), ("torch", Some("2.11".into()))])),
            "<dl>\n<dt>torch</dt><dd>2.11</dd>\n</dl>\n"
        );
    }
}
