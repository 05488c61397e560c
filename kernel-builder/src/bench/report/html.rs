//! The words of HTML that the page is made of.
//!
//! Owns: escaping, tables, the style. Never: knows what a measurement is.

/// The page's look. Colours have names, and dark ones where the reader's system asks for them.
const STYLE: &str = include_str!("style.css");

/// Text as HTML shows it, in an element or in a quoted attribute.
pub(super) fn escape(text: &str) -> String {
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

/// A whole document.
pub(super) fn document(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        escape(title)
    )
}

/// A table under construction. The first column names the row.
#[derive(Debug)]
pub(super) struct Table {
    text: String,
    in_row: bool,
}

impl Table {
    pub(super) fn new(caption: &str, headers: &[String]) -> Self {
        let cells: String =
            headers.iter().map(|header| format!("<th scope=\"col\">{}</th>", escape(header))).collect();
        // A region that scrolls is reached by the keyboard.
        let text = format!(
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"{caption}\">\n<table>\n<caption>{caption}</caption>\n\
             <thead><tr>{cells}</tr></thead>\n<tbody>\n",
            caption = escape(caption)
        );
        Self { text, in_row: false }
    }

    /// Begins a row with its name.
    pub(super) fn row(&mut self, name: &str) {
        self.end_row();
        self.text += &format!("<tr><th scope=\"row\">{}</th>", escape(name));
        self.in_row = true;
    }

    /// Adds a cell to the row; `class` is a word of ours.
    pub(super) fn cell(&mut self, class: &str, text: &str) {
        let class = if class.is_empty() { String::new() } else { format!(" class=\"{class}\"") };
        self.text += &format!("<td{class}>{}</td>", escape(text));
    }

    fn end_row(&mut self) {
        if self.in_row {
            self.text += "</tr>\n";
        }
        self.in_row = false;
    }

    /// The table's text.
    pub(super) fn end(mut self) -> String {
        self.end_row();
        self.text + "</tbody>\n</table>\n</div>\n"
    }
}

/// A list of terms and what they are; what is not known is left out.
pub(super) fn terms(rows: &[(&str, Option<String>)]) -> String {
    let known = rows.iter().filter_map(|(term, text)| Some((term, text.as_ref()?)));
    let items: String =
        known.map(|(term, text)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(term), escape(text))).collect();
    format!("<dl>\n{items}</dl>\n")
}

/// A list of sentences.
pub(super) fn list(rows: &[String]) -> String {
    let items: String = rows.iter().map(|text| format!("<li>{}</li>\n", escape(text))).collect();
    format!("<ul>\n{items}</ul>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_text() {
        assert_eq!(escape("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
        assert_eq!(escape("plain\u{202e}txt\u{7}\n"), "plain\u{fffd}txt\u{fffd}\n");
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        assert_eq!(
            terms(&[("driver", None), ("torch", Some("2.11".into()))]),
            "<dl>\n<dt>torch</dt><dd>2.11</dd>\n</dl>\n"
        );
    }
}
