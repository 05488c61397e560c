//! Tells of sources that compare a length with one of the workloads.
//!
//! Owns: which comparisons are told. Never: refuses: two code paths may both be right, and the numbers decide.
//!
//! Told are `==`, `!=`, `case` and Python's `in` with a number of 64 or more that a workload has as a length. A power of
//! two is a constant of much else, so it counts only beside an axis's name, `shape[..]` or `size(..)`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kernel_plan::spec::OpSpec;
use serde_json::json;

use super::evidence::{CheckResult, Outcome};
use super::findings::first_few;
use crate::base::files::{self, FileError};

/// The least length that is told: smaller numbers count much else.
const LEAST: u64 = 64;
/// Names of axes with fewer letters are told apart from others only as whole words.
const SHORT: usize = 4;
/// Bytes of the longest source that is read.
const LONGEST: u64 = 4 << 20;
/// Folders that are no part of the package.
const NO_PART: &[&str] = &["tests", "benchmarks", "build", "dist", "tuned", "target", "result"];
/// What sources with C's comments end in.
const C_LIKE: &[&str] = &[
    "c", "cc", "cpp", "cu", "cuh", "cxx", "h", "hh", "hip", "hpp", "hxx", "inc", "inl", "metal", "mm", "sycl",
];
/// Where Python that is shipped lies.
const PACKAGES: &[&str] = &["torch-ext", "tvm-ffi-ext"];

/// One comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
struct LengthTest {
    line: usize,
    length: u64,
}

/// The warning about a project's sources, if any.
///
/// # Errors
/// The project's folder cannot be read.
pub(super) fn of_project(op: &OpSpec, project: &Path) -> Result<Option<CheckResult>, FileError> {
    let enter = |folder: &Path| {
        let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        !name.starts_with('.') && !NO_PART.contains(&name)
    };
    let is_source = |path: &PathBuf| {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        let shipped = PACKAGES.iter().any(|folder| path.starts_with(folder));
        C_LIKE.contains(&ending) || (ending == "py" && shipped)
    };
    let mut texts = Vec::new();
    for path in files::walk(project, enter)?.into_iter().filter(is_source) {
        // What is too long or no text is nothing that anybody wrote.
        if let Ok(text) = files::read_text_up_to(&project.join(&path), LONGEST) {
            texts.push((path.display().to_string(), text));
        }
    }
    Ok(of_texts(op, &texts))
}

/// The warning about sources by name, if any.
pub(super) fn of_texts(op: &OpSpec, texts: &[(String, String)]) -> Option<CheckResult> {
    let lengths: BTreeSet<u64> = op
        .workloads
        .iter()
        .flat_map(|workload| workload.axes.values().copied())
        .filter(|length| *length >= LEAST)
        .collect();
    let axes: Vec<String> = op.axes.iter().map(|axis| axis.name.as_str().to_lowercase()).collect();
    let found: Vec<String> = texts
        .iter()
        .flat_map(|(name, text)| {
            let python = name.ends_with(".py");
            let found = compared(text, python, &lengths, &axes).into_iter();
            found.map(move |one| format!("{name}:{} ({})", one.line, one.length))
        })
        .collect();
    (!found.is_empty()).then(|| {
        let text = format!(
            "the sources compare a length with one of the workloads: {}; other lengths were drawn and tried, too",
            first_few(&found)
        );
        let facts = json!({ "places": found });
        CheckResult::new("listed lengths", "verify::listed_lengths", Outcome::Warned, text, facts)
    })
}

/// Every comparison that is told, by line.
fn compared(text: &str, python: bool, lengths: &BTreeSet<u64>, axes: &[String]) -> Vec<LengthTest> {
    let tokens = tokens(text, python);
    let mut found: Vec<LengthTest> = Vec::new();
    let mut tell = |line: usize, number: Option<u64>, other: &[Token<'_>]| {
        let Some(length) = number.filter(|number| lengths.contains(number)) else { return };
        let one = LengthTest { line, length };
        if (!length.is_power_of_two() || is_length(other, axes)) && !found.contains(&one) {
            found.push(one);
        }
    };
    let mut switched: &[Token<'_>] = &[];
    for (place, token) in tokens.iter().enumerate() {
        match token.text {
            "==" | "!=" => {
                let (left, right) = (before(&tokens[..place]), after(&tokens[place + 1..]));
                for (one, other) in [(left, right), (right, left)] {
                    if let [only] = one {
                        tell(token.line, only.number(), other);
                    }
                }
            }
            "switch" | "match" => switched = line_of(&tokens[place + 1..]),
            "case" => {
                let labels = tokens[place + 1..].iter().take_while(|token| token.text != ":");
                for label in labels {
                    tell(label.line, label.number(), switched);
                }
            }
            "in" if python => {
                let list = tokens[place + 1..]
                    .iter()
                    .skip(1)
                    .take_while(|token| token.text == "," || token.number().is_some());
                if tokens.get(place + 1).is_some_and(|open| ["(", "[", "{"].contains(&open.text)) {
                    list.for_each(|token| tell(token.line, token.number(), before(&tokens[..place])));
                }
            }
            _ => {}
        }
    }
    found
}

/// Whether an operand is the length of something: an axis by name, or an element of a shape.
fn is_length(operand: &[Token<'_>], axes: &[String]) -> bool {
    operand.iter().any(|token| {
        let word = token.text.to_lowercase();
        let names = |axis: &String| word == *axis || (axis.len() >= SHORT && word.contains(axis.as_str()));
        ["shape", "size", "sizes", "numel"].contains(&word.as_str()) || axes.iter().any(names)
    })
}

/// A word, a number or a sign.
#[derive(Debug, Clone, Copy)]
struct Token<'a> {
    text: &'a str,
    line: usize,
}

impl Token<'_> {
    /// The value of a decimal integer, with C's suffixes and either language's separators.
    fn number(&self) -> Option<u64> {
        let digits: String = self.text.chars().filter(|letter| !['\'', '_'].contains(letter)).collect();
        let digits = digits.trim_end_matches(['u', 'U', 'l', 'L']);
        digits.starts_with(|first: char| first.is_ascii_digit()).then(|| digits.parse().ok())?
    }
}

/// Signs at which an operand of a comparison ends.
const ENDS: &[&str] = &[
    ",", ";", "{", "}", "&&", "||", "?", ":", "=", "==", "!=", "<", ">", "&", "|", "!", "and", "or", "not",
    "if", "return", "while", "elif", "in",
];

/// The operand that ends where these tokens do.
fn before<'t, 'a>(tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    let mut depth = 0;
    let start = tokens.iter().rposition(|token| {
        match token.text {
            ")" | "]" => depth += 1,
            "(" | "[" => depth -= 1,
            _ => {}
        }
        depth < 0 || (depth == 0 && ENDS.contains(&token.text))
    });
    &tokens[start.map_or(0, |start| start + 1)..]
}

/// The operand that begins with these tokens.
fn after<'t, 'a>(tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    let mut depth = 0;
    let end = tokens.iter().position(|token| {
        match token.text {
            "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            _ => {}
        }
        depth < 0 || (depth == 0 && ENDS.contains(&token.text))
    });
    &tokens[..end.unwrap_or(tokens.len())]
}

/// The tokens up to the end of their line.
fn line_of<'t, 'a>(tokens: &'t [Token<'a>]) -> &'t [Token<'a>] {
    let line = tokens.first().map(|first| first.line);
    &tokens[..tokens.iter().position(|token| Some(token.line) != line).unwrap_or(tokens.len())]
}

/// The tokens of a source, without comments and strings.
fn tokens(text: &str, python: bool) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (text, 1);
    while let Some(first) = rest.chars().next() {
        let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
        let word = |rest: &str| rest.find(|letter| !is_word(letter)).unwrap_or(rest.len());
        let (length, counts) = if first.is_ascii_digit() {
            // 1'000 in C++, 1_000 in Python.
            let part = |letter: char| is_word(letter) || letter == '.' || (letter == '\'' && !python);
            (rest.find(|letter| !part(letter)).unwrap_or(rest.len()), true)
        } else if is_word(first) {
            (word(rest), true)
        } else if (python && first == '#') || (!python && rest.starts_with("//")) {
            (rest.find('\n').unwrap_or(rest.len()), false)
        } else if !python && rest.starts_with("/*") {
            (rest.find("*/").map_or(rest.len(), |end| end + 2), false)
        } else if first == '"' || first == '\'' {
            (string(rest, first, python), false)
        } else {
            let two = ["==", "!=", "&&", "||", "<=", ">="].iter().any(|sign| rest.starts_with(sign));
            (if two { 2 } else { first.len_utf8() }, !first.is_whitespace())
        };
        let (token, left) = rest.split_at(length);
        if counts {
            found.push(Token { text: token, line });
        }
        line += token.matches('\n').count();
        rest = left;
    }
    found
}

/// Bytes of the string literal at the start of a text.
fn string(text: &str, quote: char, python: bool) -> usize {
    let triple = if quote == '"' { "\"\"\"" } else { "'''" };
    if python && text.starts_with(triple) {
        return text[3..].find(triple).map_or(text.len(), |end| end + 6);
    }
    let mut escaped = false;
    for (place, letter) in text.char_indices().skip(1) {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            // A literal ends with its line.
            '\n' => return place,
            _ if letter == quote => return place + letter.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, python: bool) -> Vec<u64> {
        let lengths = BTreeSet::from([127, 512, 1000, 4096]);
        let axes = ["rows".to_owned(), "hidden".to_owned(), "m".to_owned()];
        compared(text, python, &lengths, &axes).into_iter().map(|one| one.length).collect()
    }

    #[test]
    fn comparisons_with_lengths_are_told() {
        assert_eq!(found("if (hidden == 4096) {", false), [4096]);
        assert_eq!(found("return 4096 != call.hidden;", false), [4096]);
        assert_eq!(found("const bool known = row_length == 1000u;", false), [1000]);
        assert_eq!(found("if constexpr (kHidden == 4'096) x();", false), [4096]);
        assert_eq!(
            found("switch (hidden) {\n  case 512: one();\n  case 4096: two();\n}", false),
            [512, 4096]
        );
        assert_eq!(found("if x.shape[-1] == 512 and y:", true), [512]);
        assert_eq!(found("if hidden in (512, 4096, 4097):", true), [512, 4096]);
        assert_eq!(found("match hidden:\n    case 512 | 4096:", true), [512, 4096]);
        assert_eq!(found("if (m == 512)", false), [512]);
    }

    #[test]
    fn other_numbers_are_not() {
        assert!(found("// if (hidden == 4096)\n/* hidden == 1000 */ \"hidden == 127\"", false).is_empty());
        assert!(found("if (threads == 512 || block == 4096)", false).is_empty());
        assert!(found("if (hidden <= 4096 && hidden % 1000 == 0)", false).is_empty());
        assert!(found("if (hidden == 4095)", false).is_empty());
        assert!(found("if (hidden == 4096.5)", false).is_empty());
        assert!(found("# hidden == 4096\n\"\"\"hidden == 1000\n'hidden == 127'\"\"\"\n", true).is_empty());
        assert!(found("for row in range(4096):\n    if items == 512:\n        pass", true).is_empty());
        assert!(found("int size_of_m = 4096; if (small == 512)", false).is_empty());
    }

    #[test]
    fn no_template_and_no_example_is_told_of() {
        for template in crate::scaffold::template::all().unwrap() {
            let sample = crate::scaffold::template::sample(&template, "fast-one".parse().unwrap());
            let set = crate::scaffold::template::render(&template, &sample).unwrap();
            let text = String::from_utf8(set.get("op.toml").unwrap().to_vec()).unwrap();
            let op = kernel_plan::spec::parse_op(kernel_plan::diagnostic::SourceFile::new("op.toml", text));
            let op = op.0.unwrap();
            let texts = set.iter().map(|(path, bytes)| {
                (path.display().to_string(), String::from_utf8_lossy(bytes).into_owned())
            });
            let texts: Vec<_> = texts
                .filter(|(path, _)| path.ends_with(".cuh") || path.ends_with(".cpp") || path.ends_with(".h"))
                .collect();
            let found = of_texts(&op, &texts);
            assert!(found.is_none(), "{}: {found:?}", template.name);
        }
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
        for example in
            ["add-rms-norm", "cross-entropy", "matmul-device", "rms-norm", "rms-norm-strided", "rope"]
        {
            let folder = examples.join(example);
            let text = files::read_text(&folder.join("op.toml")).unwrap();
            let op = kernel_plan::spec::parse_op(kernel_plan::diagnostic::SourceFile::new("op.toml", text));
            let found = of_project(&op.0.unwrap(), &folder).unwrap();
            assert!(found.is_none(), "{example}: {found:?}");
        }
    }
}
