//! Splits a printed command into words.
//!
//! Owns: the quoting that nvcc and cicc print. Never: expands a pattern or runs a command.

/// The words of a line: blanks separate, double and single quotes hold together, a backslash keeps the next letter.
pub(super) fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('"' | '\'', None) => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (closing, Some(open)) if closing == open => quote = None,
            ('\\', None | Some('"')) => word.get_or_insert_default().extend(letters.next()),
            (blank, None) if blank.is_whitespace() => words.extend(word.take()),
            (other, _) => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_what_a_shell_makes_of_them() {
        assert_eq!(
            split(r#"  "/a b/cicc" -D "X=\"q\"" '' x"y"z "#),
            ["/a b/cicc", "-D", "X=\"q\"", "", "xyz"]
        );
        assert!(split("  ").is_empty());
    }
}
