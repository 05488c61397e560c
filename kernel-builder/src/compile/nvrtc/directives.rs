//! Preprocessor directives in a C++ text that read files.
//!
//! Owns: finding every directive that reads a file, however it is written (trigraphs, digraphs, spliced lines, comments).
//! Directives in strings and comments are found too. The result is used to refuse code, so finding too much is safe.
//! Never: expands a macro.

/// A place that names a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Directive {
    /// The line, from one.
    pub(super) line: usize,
    /// `#include`, `__has_include`.
    pub(super) word: String,
    /// The file that it names.
    pub(super) operand: Operand,
}

/// Operand of a directive.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// A name between quotes or angle brackets.
    Named(String),
    /// Something that is still to be expanded.
    Computed,
}

const DIRECTIVES: [&str; 4] = ["embed", "import", "include", "include_next"];
const QUESTIONS: [&str; 3] = ["__has_embed", "__has_include", "__has_include_next"];

/// Every directive of a text, in its order.
pub(super) fn read(text: &[u8]) -> Vec<Directive> {
    let text = Text::of(text);
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.bytes.len() {
        if text.bytes[at] == b'#' {
            let start = text.skip_blanks(at + 1);
            let end = text.word_end(start);
            let word = text.word(start, end);
            if DIRECTIVES.contains(&word.as_str()) {
                let operand = text.operand(text.skip_blanks(end));
                found.push(Directive { line: text.lines[at], word: format!("#{word}"), operand });
            }
            at += 1;
        } else if is_word(text.bytes[at]) {
            let end = text.word_end(at);
            let word = text.word(at, end);
            let bracket = text.skip_blanks(end);
            if QUESTIONS.contains(&word.as_str()) && text.bytes.get(bracket) == Some(&b'(') {
                let operand = text.operand(text.skip_blanks(bracket + 1));
                found.push(Directive { line: text.lines[at], word, operand });
            }
            at = end;
        } else {
            at += 1;
        }
    }
    found
}

/// The lines that define a macro which holds an absolute path, or `..`: a header of the toolkit that includes by macro
/// could be led out with it.
pub(super) fn suspicious_macros(text: &[u8]) -> Vec<usize> {
    let text = Text::of(text);
    let mut found = Vec::new();
    for at in (0..text.bytes.len()).filter(|at| text.bytes[*at] == b'#') {
        let start = text.skip_blanks(at + 1);
        let end = text.word_end(start);
        if text.word(start, end) != "define" {
            continue;
        }
        let name = text.skip_blanks(end);
        let body = text.word_end(name);
        let stop = text.bytes[body..]
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(text.bytes.len(), |far| body + far);
        let body = String::from_utf8_lossy(&text.bytes[body..stop]);
        let body = body.replace("...", "");
        let begins = body.trim_start().strip_prefix('/').is_some_and(|rest| !rest.starts_with(['*', '/']));
        if begins || ["\"/", "</", "../", "/.."].iter().any(|sign| body.contains(sign)) {
            found.push(text.lines[at]);
        }
    }
    found
}

/// A text after the first two phases of translation: trigraphs and digraphs of `#` replaced, spliced lines joined.
struct Text {
    bytes: Vec<u8>,
    /// The line of each byte.
    lines: Vec<usize>,
}

impl Text {
    fn of(text: &[u8]) -> Self {
        let mut this = Self { bytes: Vec::with_capacity(text.len()), lines: Vec::with_capacity(text.len()) };
        let (mut at, mut line) = (0, 1);
        while at < text.len() {
            let (byte, length) = match &text[at..] {
                [b'?', b'?', b'=', ..] => (b'#', 3),
                [b'?', b'?', b'/', ..] => (b'\\', 3),
                [b'%', b':', ..] => (b'#', 2),
                [byte, ..] => (*byte, 1),
                [] => break,
            };
            // A compiler joins lines over blanks behind the backslash, too.
            if byte == b'\\' {
                let blanks =
                    text[at + length..].iter().take_while(|byte| matches!(byte, b' ' | b'\t' | b'\r'));
                let end = at + length + blanks.count();
                if text.get(end) == Some(&b'\n') {
                    line += 1;
                    at = end + 1;
                    continue;
                }
            }
            this.bytes.push(byte);
            this.lines.push(line);
            line += usize::from(byte == b'\n');
            at += length;
        }
        this
    }

    /// The first byte from `at` that is no blank of the line and in no comment between `/*` and `*/`.
    fn skip_blanks(&self, mut at: usize) -> usize {
        loop {
            match self.bytes.get(at..).unwrap_or_default() {
                [b' ' | b'\t' | b'\r' | 0x0b | 0x0c, ..] => at += 1,
                [b'/', b'*', rest @ ..] => {
                    let length =
                        rest.windows(2).position(|two| two == b"*/").map_or(rest.len(), |far| far + 2);
                    at += 2 + length;
                }
                _ => return at,
            }
        }
    }

    fn word_end(&self, at: usize) -> usize {
        let length =
            self.bytes.get(at..).unwrap_or_default().iter().take_while(|byte| is_word(**byte)).count();
        at + length
    }

    fn word(&self, start: usize, end: usize) -> String {
        String::from_utf8_lossy(self.bytes.get(start..end).unwrap_or_default()).into_owned()
    }

    fn operand(&self, at: usize) -> Operand {
        let close = match self.bytes.get(at) {
            Some(b'"') => b'"',
            Some(b'<') => b'>',
            _ => return Operand::Computed,
        };
        let name = self.bytes[at + 1..].iter().take_while(|byte| **byte != close && **byte != b'\n');
        let name: Vec<u8> = name.copied().collect();
        if self.bytes.get(at + 1 + name.len()) != Some(&close) {
            return Operand::Computed;
        }
        Operand::Named(String::from_utf8_lossy(&name).into_owned())
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_found_with_their_lines() {
        let text = b"// one\n#inc\\\n  lude_\n #  include /* a\n */ \"x.h\"\n#if __has_include (<y.h>)\n#include NAME\n";
        let named = |name: &str| Operand::Named(name.to_owned());
        let found: Vec<(usize, String, Operand)> =
            read(text).into_iter().map(|found| (found.line, found.word, found.operand)).collect();
        assert_eq!(
            found,
            [
                (4, "#include".to_owned(), named("x.h")),
                (6, "__has_include".to_owned(), named("y.h")),
                (7, "#include".to_owned(), Operand::Computed),
            ]
        );
        assert!(read(b"#define includes 1\nint include = 2; // a # b\n").is_empty());
    }

    #[test]
    fn harmless_macros_stay() {
        for text in [
            "#define HALF (N / 2)\n",
            "#define F(...) g(__VA_ARGS__)\n",
            "#define A 1 // a/b\n",
            "#define A/**/1\n",
        ] {
            assert!(suspicious_macros(text.as_bytes()).is_empty(), "{text}");
        }
        assert_eq!(suspicious_macros(b"\n#define X </etc/passwd>\n#define UP ../x\n"), [2, 3]);
    }
}
