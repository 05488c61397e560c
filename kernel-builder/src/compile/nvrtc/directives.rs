//! Preprocessor directives in a C++ text that read files.
//!
//! Owns: finding every directive that reads a file, however it is written (trigraphs, digraphs, spliced lines, comments).
//! Directives in strings and comments are found too. The result is used to refuse code, so finding too much is safe.
//! The time is proportional to the length of the text, whatever it holds.
//! Never: expands a macro.

use std::collections::BTreeSet;

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

impl Directive {
    /// Whether the search begins behind the folder in which the current file was found.
    pub(super) fn is_next(&self) -> bool {
        self.word.contains("_next")
    }
}

/// Operand of a directive.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Operand {
    /// A name between quotes, which is looked for beside the file first.
    Quoted(String),
    /// A name between angle brackets.
    Bracketed(String),
    /// The file that `#line` says the text is from: compilers quote its lines in errors.
    Shown(String),
    /// Something that is still to be expanded.
    Computed,
}

const DIRECTIVES: [&str; 4] = ["embed", "import", "include", "include_next"];
/// The names with underscores behind them are those of older versions of GCC.
const QUESTIONS: [&str; 5] =
    ["__has_embed", "__has_include", "__has_include_next", "__has_include__", "__has_include_next__"];
/// No compiler can open a file with a longer name.
const LONGEST: usize = 4096;
/// More digits than a line number has.
const DIGITS: usize = 24;

/// Every directive of a text, in its order.
pub(super) fn read(text: &[u8]) -> Vec<Directive> {
    let text = Text::new(text);
    let mut found = Vec::new();
    // Several directives can share an operand, behind nested comments.
    let mut known = BTreeSet::new();
    let firsts = text.firsts();
    let mut at = 0;
    while at < text.bytes.len() {
        let place = if text.bytes[at] == b'#' {
            let operand = text.blanks[at + 1];
            let place = text
                .directive(operand)
                .or_else(|| text.line_marker(operand).filter(|_| firsts.contains(&at)));
            at += 1;
            place.map(|(word, operand)| (at - 1, word, operand))
        } else if is_word(text.bytes[at]) {
            let (start, end) = (at, text.word_end(at));
            at = end;
            QUESTIONS.iter().find(|word| &text.bytes[start..end] == word.as_bytes()).and_then(|word| {
                let bracket = text.blanks[end];
                let is_call = text.bytes.get(bracket) == Some(&b'(');
                is_call.then(|| (start, *word, text.blanks[bracket + 1]))
            })
        } else {
            at += 1;
            None
        };
        let Some((start, word, operand)) = place.filter(|(_, word, at)| known.insert((*word, *at))) else {
            continue;
        };
        if let Some(operand) = text.operand(word, operand) {
            let word = if QUESTIONS.contains(&word) { word.to_owned() } else { format!("#{word}") };
            found.push(Directive { line: text.lines[start], word, operand });
        }
    }
    found
}

/// The lines that define a macro which holds an absolute path, or `..`: a header of the toolkit that includes by macro
/// could be led out with it.
pub(super) fn suspicious_macros(text: &[u8]) -> Vec<usize> {
    let text = Text::new(text);
    let ends = text.ends_of_lines();
    let signs = text
        .positions(|rest| ["\"/", "</", "../", "/.."].iter().any(|sign| rest.starts_with(sign.as_bytes())));
    let closing = text.positions(|rest| rest.first() == Some(&b')'));
    let mut found = Vec::new();
    let mut known = BTreeSet::new();
    for at in (0..text.bytes.len()).filter(|at| text.bytes[*at] == b'#') {
        let start = text.blanks[at + 1];
        if !text.is_word_at(start, "define") {
            continue;
        }
        let name = text.blanks[start + "define".len()];
        if !known.insert(name) {
            continue;
        }
        let body = text.word_end(name);
        let stop = ends[body];
        let first_in = |positions: &[usize]| {
            positions
                .get(positions.partition_point(|place| *place < body))
                .copied()
                .filter(|place| *place < stop)
        };
        // The body begins behind the name, or behind the parameters.
        let parameters = (text.bytes.get(body) == Some(&b'(')).then(|| first_in(&closing)).flatten();
        let starts = [Some(body), parameters.map(|close| close + 1)].into_iter().flatten();
        let is_rooted = starts.map(|start| text.blanks[start]).any(|start| {
            start < stop && text.bytes[start] == b'/' && text.bytes.get(start + 1) != Some(&b'/')
        });
        if is_rooted || first_in(&signs).is_some() {
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
    /// For each place, and that behind the text: the first one from there that is no blank of the line and in no comment
    /// between `/*` and `*/`.
    blanks: Vec<usize>,
    /// For each place, and that behind the text: behind the next `*/`.
    closes: Vec<usize>,
}

impl Text {
    fn new(text: &[u8]) -> Self {
        let mut this = Self {
            bytes: Vec::with_capacity(text.len()),
            lines: Vec::with_capacity(text.len()),
            blanks: Vec::new(),
            closes: Vec::new(),
        };
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
                let blanks = text[at + length..].iter().take_while(|byte| is_blank(**byte));
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
        this.index();
        this
    }

    /// Fills `blanks` and `closes`, from the end.
    fn index(&mut self) {
        let end = self.bytes.len();
        self.closes = vec![end; end + 2];
        self.blanks = vec![end; end + 2];
        for at in (0..end).rev() {
            let rest = &self.bytes[at..];
            self.closes[at] = if rest.starts_with(b"*/") { at + 2 } else { self.closes[at + 1] };
            self.blanks[at] = match rest {
                [byte, ..] if is_blank(*byte) => self.blanks[at + 1],
                [b'/', b'*', ..] => self.blanks[self.closes[at + 2]],
                _ => at,
            };
        }
    }

    /// For each place the end of its logical line: a newline in a comment does not end it. Strings and comments to the end
    /// of a line are not known here, so the end may be too far, and is never too near.
    fn ends_of_lines(&self) -> Vec<usize> {
        let end = self.bytes.len();
        let mut ends = vec![end; end + 2];
        for at in (0..end).rev() {
            ends[at] = match &self.bytes[at..] {
                [b'\n', ..] => at,
                // Its last `/` could also begin a comment, if this is one in a string.
                [b'/', b'*', ..] => ends[(self.closes[at + 2]).saturating_sub(1).max(at + 1)],
                _ => ends[at + 1],
            };
        }
        ends
    }

    fn positions(&self, holds: impl Fn(&[u8]) -> bool) -> Vec<usize> {
        (0..self.bytes.len()).filter(|at| holds(&self.bytes[*at..])).collect()
    }

    fn word_end(&self, at: usize) -> usize {
        let length =
            self.bytes.get(at..).unwrap_or_default().iter().take_while(|byte| is_word(**byte)).count();
        at + length
    }

    fn is_word_at(&self, at: usize, word: &str) -> bool {
        let rest = self.bytes.get(at..).unwrap_or_default();
        rest.starts_with(word.as_bytes()) && !rest.get(word.len()).is_some_and(|byte| is_word(*byte))
    }

    /// The directive whose word is here, and the place of its operand.
    fn directive(&self, at: usize) -> Option<(&'static str, usize)> {
        let named = DIRECTIVES.iter().chain(&["line"]).find(|word| self.is_word_at(at, word));
        named.map(|word| (*word, self.blanks[at + word.len()]))
    }

    /// `# 1 "name"` is `#line 1 "name"`.
    fn line_marker(&self, at: usize) -> Option<(&'static str, usize)> {
        self.bytes.get(at).is_some_and(u8::is_ascii_digit).then_some(("line", at))
    }

    /// The first place of each line that is no blank and in no comment: text such as `see #12 for` is no line marker.
    fn firsts(&self) -> BTreeSet<usize> {
        let newlines = self.bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n');
        std::iter::once(0).chain(newlines.map(|(at, _)| at + 1)).map(|start| self.blanks[start]).collect()
    }

    /// What is at the place of an operand; `#line` alone can be without one.
    fn operand(&self, word: &str, at: usize) -> Option<Operand> {
        if word == "line" {
            return self.shown(at);
        }
        Some(match self.bytes.get(at) {
            Some(b'"') => self.name(at, b'"').map_or(Operand::Computed, Operand::Quoted),
            Some(b'<') => self.name(at, b'>').map_or(Operand::Computed, Operand::Bracketed),
            _ => Operand::Computed,
        })
    }

    /// The operand of `#line`, behind its number.
    fn shown(&self, at: usize) -> Option<Operand> {
        let rest = self.bytes.get(at..).unwrap_or_default();
        let digits = rest.iter().take(DIGITS).take_while(|byte| is_word(**byte)).count();
        if digits == DIGITS || !rest.first().is_some_and(u8::is_ascii_digit) {
            return Some(Operand::Computed);
        }
        let name = self.blanks[at + digits];
        match self.bytes.get(name) {
            None | Some(b'\n') => None,
            Some(b'"') => {
                // The compiler expands escapes such as `\x2f`.
                let literal = self.name(name, b'"').filter(|name| !name.contains('\\'));
                Some(literal.map_or(Operand::Computed, Operand::Shown))
            }
            Some(_) => Some(Operand::Computed),
        }
    }

    /// The text up to `close` in the same line.
    fn name(&self, at: usize, close: u8) -> Option<String> {
        let rest = &self.bytes[at + 1..];
        let length = rest.iter().take(LONGEST).position(|byte| *byte == close || *byte == b'\n')?;
        (rest[length] == close).then(|| String::from_utf8_lossy(&rest[..length]).into_owned())
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// Blanks of a line. GCC takes NUL for one.
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | 0x0b | 0x0c | 0)
}
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_found_with_their_lines() {
        let text = b"// one\n#inc\\\n  lude_\n #  include /* a\n */ \"x.h\"\n#if __has_include (<y.h>)\n#include NAME\n";
        let quoted = |name: &str| Operand::Quoted(name.to_owned());
        let bracketed = |name: &str| Operand::Bracketed(name.to_owned());
        let found: Vec<(usize, String, Operand)> =
            read(text).into_iter().map(|found| (found.line, found.word, found.operand)).collect();
        assert_eq!(
            found,
            [
                (4, "#include".to_owned(), quoted("x.h")),
                (6, "__has_include".to_owned(), bracketed("y.h")),
                (7, "#include".to_owned(), Operand::Computed),
            ]
        );
        for text in [
            "#define includes 1\nint include = 2; // a # b\n",
            "#line 7\n",
            "# 7\n",
            "#line 7",
            "// see #123 for it\n",
            "f(\"#12 x\");\n",
            "#",
            "__has_include",
        ] {
            assert!(read(text.as_bytes()).is_empty(), "{text}");
        }
    }

    /// Each of these took time in proportion to the square of its length, or more.
    #[test]
    fn the_time_does_not_grow_faster_than_the_text() {
        for unit in [
            "# /* ",
            "__has_include /* ",
            "x/* ",
            "/*#/**/",
            "/*#include/**/",
            "#include <",
            "#define a ",
            "#define /* ",
            "/*#define/**/",
            "__has_include(",
            "\\ ",
            "# 1",
        ] {
            let text = unit.repeat((1 << 18) / unit.len());
            assert!(read(text.as_bytes()).len() <= text.len(), "{unit}");
            assert!(suspicious_macros(text.as_bytes()).len() <= text.len(), "{unit}");
        }
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
