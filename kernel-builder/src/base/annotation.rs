//! Workflow commands of GitHub Actions, which puts them beside the changed lines of a pull request.
//!
//! Owns: their form and its escapes (GitHub's documentation of workflow commands; actions/toolkit, command.ts).
//! Never: decides what is said.

/// One command: `::error file=a,line=1::text`.
pub fn line(command: &str, properties: &[(&str, &str)], text: &str) -> String {
    let properties: Vec<_> =
        properties.iter().map(|(name, value)| format!("{name}={}", property(value))).collect();
    let separator = if properties.is_empty() { "" } else { " " };
    format!("::{command}{separator}{}::{}", properties.join(","), data(text))
}

/// A text behind the last `::`: it must stay on one line.
fn data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// The value of a property, which also ends at a colon or a comma.
fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_end_a_field_is_escaped() {
        let found = line("error", &[("file", "a,b:c%.cu"), ("line", "1")], "100%: a,\r\nb");
        assert_eq!(found, "::error file=a%2Cb%3Ac%25.cu,line=1::100%25: a,%0D%0Ab");
        assert_eq!(line("notice", &[], "x"), "::notice::x");
    }
}
