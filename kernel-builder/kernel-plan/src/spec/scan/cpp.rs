//! Reads C, C++, CUDA, HIP, SYCL and Metal sources as far as rules ask: what is included, which macros register what,
//! which of torch's names are used.
//!
//! Owns: comments, string literals (raw ones too), preprocessor lines with the condition that they stand under.
//! Never: expands a macro, and never takes text in a comment or a string for code.

use std::ops::Range;
use std::sync::Arc;

use super::condition::Condition;

/// The includes and registrations of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Cpp {
    /// Every `#include` with a name, in file order.
    pub(crate) includes: Vec<Include>,
    /// Every use of a macro of `REGISTRATIONS`, in file order.
    pub(crate) registrations: Vec<Registration>,
    /// Every qualified name of torch's namespaces, and every macro of `EXPANDED`, in file order.
    pub(crate) names: Vec<Qualified>,
}

/// One name of torch's, `at::Tensor`, or a macro for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Qualified {
    /// With every part, without blanks.
    pub(crate) path: String,
    /// From the first part to the end of the last.
    pub(crate) span: Range<usize>,
    /// When the line is compiled.
    pub(crate) condition: Condition,
}

/// One `#include`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Include {
    /// The text between the brackets or quotes.
    pub(crate) path: String,
    /// Whether it is in `<>`.
    pub(crate) angled: bool,
    /// The name with its brackets or quotes.
    pub(crate) span: Range<usize>,
    /// When the line is compiled.
    pub(crate) condition: Condition,
}

/// One use of a macro that registers something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registration {
    /// The macro.
    pub(crate) name: String,
    /// Its first argument.
    pub(crate) argument: String,
    /// From the macro's name to the end of its first argument.
    pub(crate) span: Range<usize>,
    /// When the line is compiled.
    pub(crate) condition: Condition,
}

/// The macros that make a namespace of operators or a Python module.
const REGISTRATIONS: &[&str] = &[
    "TORCH_LIBRARY",
    "TORCH_LIBRARY_FRAGMENT",
    "TORCH_LIBRARY_IMPL",
    "STABLE_TORCH_LIBRARY",
    "STABLE_TORCH_LIBRARY_FRAGMENT",
    "STABLE_TORCH_LIBRARY_IMPL",
    "PYBIND11_MODULE",
];

/// The namespaces that torch's headers fill.
const NAMESPACES: &[&str] = &["at", "c10", "torch"];

/// The macros that register operators with the full ABI in an extension without a fixed name (registration.h).
const EXPANDED: &[&str] =
    &["TORCH_LIBRARY_EXPAND", "TORCH_LIBRARY_FRAGMENT_EXPAND", "TORCH_LIBRARY_IMPL_EXPAND"];

/// The largest number of nested conditions that are read; more would be slow, and no source has them.
const DEEPEST: usize = 16;

/// Characters of the longest first argument of a registration.
const LONGEST_ARGUMENT: usize = 200;

/// Reads one source. Any text gives a result: what cannot be understood is passed over.
pub(crate) fn scan(text: &str) -> Cpp {
    let mut scanner = Scanner { text, at: 0, frames: Vec::new(), found: Cpp::default() };
    scanner.run();
    scanner.found
}

/// One open `#if`.
struct Frame {
    /// The expressions of the branches that are over, all false now.
    before: Vec<Arc<str>>,
    /// The expression of this branch; absent in `#else`.
    now: Option<Arc<str>>,
    /// The macro of an `#ifndef` that may be the file's include guard.
    guard: Option<String>,
}

struct Scanner<'a> {
    text: &'a str,
    at: usize,
    frames: Vec<Frame>,
    found: Cpp,
}

impl Scanner<'_> {
    fn run(&mut self) {
        let mut line_start = true;
        while let Some(letter) = self.rest().chars().next() {
            if self.skip_comment() {
                continue;
            }
            match letter {
                '\n' => {
                    line_start = true;
                    self.at += 1;
                    continue;
                }
                '#' if line_start => self.directive(),
                '"' | '\'' => self.literal(letter),
                _ if letter.is_ascii_digit() => self.number(),
                _ if is_name(letter) => self.name(),
                _ => {
                    self.at += letter.len_utf8();
                    if letter.is_whitespace() {
                        continue;
                    }
                }
            }
            line_start = false;
        }
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Moves behind a comment that begins here; says whether there was one.
    fn skip_comment(&mut self) -> bool {
        let rest = self.rest();
        let length = if rest.starts_with("//") {
            logical_line_length(rest)
        } else if let Some(comment) = rest.strip_prefix("/*") {
            comment.find("*/").map_or(rest.len(), |end| end + 4)
        } else {
            return false;
        };
        self.at += length;
        true
    }

    /// Moves behind a string or character that begins here. An unfinished one ends with its line.
    fn literal(&mut self, quote: char) {
        let mut letters = self.rest().char_indices().skip(1);
        let mut end = self.rest().len();
        while let Some((offset, letter)) = letters.next() {
            if letter == '\\' {
                letters.next();
            } else if letter == quote || letter == '\n' {
                end = offset + usize::from(letter == quote);
                break;
            }
        }
        self.at += end;
    }

    /// Moves behind a raw string whose first quote is here.
    fn raw_string(&mut self) {
        let rest = self.rest();
        // A delimiter has at most 16 characters, none of them a bracket, a blank or a backslash (C++ [lex.string]).
        let open = rest.bytes().take(18).position(|byte| byte == b'(');
        let Some(open) = open else { return self.literal('"') };
        let close = format!("){}\"", &rest[1..open]);
        // One without an end goes to the end of the file, as for a compiler.
        self.at += rest[open..].find(&close).map_or(rest.len(), |at| open + at + close.len());
    }

    /// Moves behind a number: the `'` in `1'000` begins no character.
    fn number(&mut self) {
        let in_number = |letter: char| is_name(letter) || letter.is_ascii_digit() || ".'".contains(letter);
        let end = self.rest().find(|letter| !in_number(letter)).unwrap_or(self.rest().len());
        self.at += end;
    }

    /// Reads a name: the prefix of a raw string, a macro that registers, or anything else.
    fn name(&mut self) {
        let start = self.at;
        self.at += name_length(self.rest());
        let name = &self.text[start..self.at];
        if matches!(name, "R" | "LR" | "uR" | "UR" | "u8R") && self.rest().starts_with('"') {
            return self.raw_string();
        }
        if NAMESPACES.contains(&name) {
            return self.qualified(start);
        }
        if EXPANDED.contains(&name) {
            let (path, span) = (name.to_owned(), start..self.at);
            self.found.names.push(Qualified { path, span, condition: self.condition() });
            return;
        }
        if !REGISTRATIONS.contains(&name) {
            return;
        }
        let after = self.rest().trim_start();
        let Some(inner) = after.strip_prefix('(') else { return };
        let mut letters = inner.char_indices().take(LONGEST_ARGUMENT);
        let Some((end, _)) = letters.find(|(_, letter)| matches!(letter, ',' | ')')) else { return };
        let argument = inner[..end].trim().to_owned();
        let end = self.text.len() - inner.len() + inner[..end].trim_end().len();
        let registration =
            Registration { name: name.to_owned(), argument, span: start..end, condition: self.condition() };
        self.found.registrations.push(registration);
    }

    /// Reads the parts of a name behind the namespace that begins at `start` and ends here. A namespace of the same name
    /// inside of another one is not torch's.
    fn qualified(&mut self, start: usize) {
        let nested = self.text[..start].strip_suffix("::");
        let nested = nested.is_some_and(|before| before.ends_with(is_word));
        while let Some(length) = self.rest().strip_prefix("::").map(name_length).filter(|length| *length > 0)
        {
            self.at += 2 + length;
        }
        let path = &self.text[start..self.at];
        if !nested && path.contains("::") {
            let name = Qualified { path: path.to_owned(), span: start..self.at, condition: self.condition() };
            self.found.names.push(name);
        }
    }

    /// Reads a preprocessor line. Its `#` is here.
    fn directive(&mut self) {
        self.at += 1;
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
        let length = name_length(self.rest());
        let word = self.rest()[..length].to_owned();
        self.at += length;
        match word.as_str() {
            "include" | "import" | "include_next" => self.include(),
            "if" | "ifdef" | "ifndef" | "elif" | "else" | "endif" | "define" => {
                let line = self.take_line();
                self.branch(&word, line.trim());
            }
            // Nothing of the line is code: `#pragma`, `#error` with an apostrophe in its text, ...
            _ => {
                self.take_line();
            }
        }
    }

    /// Reads the name of an include; what is computed by a macro is passed over.
    fn include(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches([' ', '\t']).len();
        let rest = self.rest();
        let close = match rest.chars().next() {
            Some('<') => '>',
            Some('"') => '"',
            _ => return,
        };
        let line = rest.lines().next().unwrap_or_default();
        let Some(end) = line.get(1..).and_then(|inner| inner.find(close)) else { return };
        let span = self.at..self.at + end + 2;
        let path = line[1..=end].to_owned();
        let include = Include { path, angled: close == '>', span: span.clone(), condition: self.condition() };
        self.found.includes.push(include);
        self.at = span.end;
    }

    fn branch(&mut self, word: &str, line: &str) {
        let name = || line.split_whitespace().next().unwrap_or_default().to_owned();
        let open = |now: &str| Frame { before: Vec::new(), now: Some(now.into()), guard: None };
        match word {
            "if" => self.frames.push(open(line)),
            "ifdef" => self.frames.push(open(&format!("defined({})", name()))),
            "ifndef" => {
                let guard = Some(name());
                self.frames.push(Frame { guard, ..open(&format!("!defined({})", name())) });
            }
            "elif" | "else" => {
                if let Some(frame) = self.frames.last_mut() {
                    frame.before.extend(frame.now.take());
                    frame.now = (word == "elif").then(|| line.into());
                    frame.guard = None;
                }
            }
            "endif" => {
                self.frames.pop();
            }
            // `#ifndef X`, `#define X`: what follows is compiled once, so always.
            _ => {
                let name: String = line.chars().take_while(|letter| is_word(*letter)).collect();
                if let Some(frame) = self.frames.last_mut()
                    && frame.guard.as_ref() == Some(&name)
                {
                    frame.now = None;
                }
            }
        }
    }

    /// The condition under which the current line is compiled.
    fn condition(&self) -> Condition {
        let mut clauses = Vec::new();
        for frame in self.frames.iter().take(DEEPEST) {
            let before = frame.before.iter().take(DEEPEST).map(|text| (Arc::clone(text), false));
            clauses.extend(before.chain(frame.now.iter().map(|text| (Arc::clone(text), true))));
        }
        clauses.truncate(DEEPEST);
        Condition { clauses }
    }

    /// The rest of the line, with lines that a backslash continues, without comments. Moves behind it.
    fn take_line(&mut self) -> String {
        let mut line = String::new();
        while let Some(letter) = self.rest().chars().next() {
            if letter == '\n' {
                break;
            } else if self.rest().starts_with("//") {
                self.at += logical_line_length(self.rest());
            } else if self.skip_comment() {
                line.push(' ');
            } else if let Some(continued) = continuation(self.rest()) {
                self.at += continued;
                line.push(' ');
            } else {
                line.push(letter);
                self.at += letter.len_utf8();
            }
        }
        line
    }
}

fn is_name(letter: char) -> bool {
    letter.is_alphabetic() || letter == '_'
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

fn name_length(text: &str) -> usize {
    text.find(|letter| !is_word(letter)).unwrap_or(text.len())
}

/// The length of a backslash at the end of a line with its newline, if `text` begins with one.
fn continuation(text: &str) -> Option<usize> {
    ["\\\n", "\\\r\n"].iter().find(|end| text.starts_with(**end)).map(|end| end.len())
}

/// Bytes up to the newline that ends the line, which a backslash before it does not do.
fn logical_line_length(text: &str) -> usize {
    let mut from = 0;
    while let Some(newline) = text[from..].find('\n') {
        let before = text[..from + newline].trim_end_matches('\r');
        if !before.ends_with('\\') {
            return from + newline;
        }
        from += newline + 1;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts are made of these by `any_text_is_read`.
    const PIECES: &[&str] = &[
        "#include ",
        "<a.h>",
        "\"b.h\"",
        "<",
        "\"",
        "'",
        "R\"x(",
        ")x\"",
        "/*",
        "*/",
        "//",
        "\\\n",
        "\n",
        "#if ",
        "#else\n",
        "#endif\n",
        "TORCH_LIBRARY(",
        "a, m)",
        "at::",
        "Tensor",
        " ",
        "{",
        "}",
        "\u{e4}",
    ];
    use crate::units::BackendId;

    /// The includes that are compiled for cuda (`?` if unknown), then the registrations.
    #[track_caller]
    fn check(text: &str, want: &[&str]) {
        let found = scan(text);
        let mark = |condition: &Condition| match condition.under(BackendId::Cuda) {
            Some(true) => "",
            Some(false) => "no ",
            None => "? ",
        };
        let includes = found.includes.iter().map(|include| {
            assert_eq!(include.path, text[include.span.clone()][1..include.span.len() - 1]);
            format!("{}{}", mark(&include.condition), &text[include.span.clone()])
        });
        let registrations = found.registrations.iter().map(|registration| {
            assert!(text[registration.span.clone()].starts_with(&registration.name));
            assert!(text[registration.span.clone()].ends_with(&registration.argument));
            format!("{}{}({})", mark(&registration.condition), registration.name, registration.argument)
        });
        assert_eq!(includes.chain(registrations).collect::<Vec<_>>(), want, "{text}");
    }

    #[test]
    fn comments_and_strings_are_not_code() {
        check("// #include <a.h>\n/* #include <b.h>\n#include <c.h> */ #include <d.h>\n", &["<d.h>"]);
        check("// a comment that goes on \\\n#include <a.h>\n#include <b.h>", &["<b.h>"]);
        check("auto s = \"/*\";\n#include <a.h>\n", &["<a.h>"]);
        check("auto s = \"\\\"\"; auto c = '\"';\n#include <a.h>\n", &["<a.h>"]);
        check("auto s = R\"x(\n#include <a.h>\n)\" )x\";\n#include <b.h>\n", &["<b.h>"]);
        check("auto s = u8R\"(TORCH_LIBRARY(a, m))\"; TORCH_LIBRARY(b, m) {}", &["TORCH_LIBRARY(b)"]);
        check("int n = 1'000'000; // it's\n#include <a.h>\n", &["<a.h>"]);
        check("#error it's broken\n#include <a.h>\n", &["<a.h>"]);
        check("x # y\n  #  include \"a.h\" // why\n", &["\"a.h\""]);
    }

    #[test]
    fn lines_stand_under_conditions() {
        check("#ifndef A_H\n#define A_H\n#include <a.h>\n#endif\n", &["<a.h>"]);
        check("#ifdef CPU_KERNEL\n#include <a.h>\n#else\n#include <b.h>\n#endif\n", &["no <a.h>", "<b.h>"]);
        let chain = "#if defined(CPU_KERNEL)\n#include <a.h>\n#elif \\\n defined(CUDA_KERNEL) /* x */\n#include <b.h>\n\
                     #else\n#include <c.h>\n#endif\n#include <d.h>";
        check(chain, &["no <a.h>", "<b.h>", "no <c.h>", "<d.h>"]);
        check("#if 0\nTORCH_LIBRARY(a, m) {}\n#endif\n", &["no TORCH_LIBRARY(a)"]);
        check("#ifdef MINE\n#include <a.h>\n#endif\n#endif\n#else\n#elif\n", &["? <a.h>"]);
    }

    #[test]
    fn registrations_have_their_first_argument() {
        check("TORCH_LIBRARY_IMPL ( my_ops , CUDA, m) {", &["TORCH_LIBRARY_IMPL(my_ops)"]);
        check("TORCH_LIBRARY_EXPAND(TORCH_EXTENSION_NAME, m)", &[]);
        check("#define MINE(a) TORCH_LIBRARY(a, m)\n", &[]);
        check("#define MINE(a) \\\n TORCH_LIBRARY(a, m)\nPYBIND11_MODULE(x, m) {}", &["PYBIND11_MODULE(x)"]);
    }

    #[test]
    fn names_of_torch_are_qualified() {
        let names = |text: &str| -> Vec<String> {
            let found = scan(text).names;
            found.iter().for_each(|name| assert_eq!(name.path, text[name.span.clone()]));
            found.into_iter().map(|name| name.path).collect()
        };
        let text = "at::Tensor f(const ::torch::stable::Tensor& x) { return x.at(c10::kCUDA); } // at::x\n";
        assert_eq!(names(text), ["at::Tensor", "torch::stable::Tensor", "c10::kCUDA"]);
        assert_eq!(names("mine::at::Tensor t; chat::x; at(0); torch :: x; at::; \"at::x\""), [] as [&str; 0]);
        assert_eq!(names("TORCH_LIBRARY_EXPAND(NAME, m) {}"), ["TORCH_LIBRARY_EXPAND"]);
        assert_eq!(names("using namespace torch::indexing;\n#define T at::Tensor\n"), ["torch::indexing"]);
    }

    #[test]
    fn any_text_ends() {
        for text in [
            "",
            "\"",
            "'",
            "/*",
            "R\"(",
            "R\"",
            "#",
            "#include",
            "#include <",
            "#if",
            "ä\\",
            "TORCH_LIBRARY(",
        ] {
            scan(text);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..24)) {
            let text = pieces.concat();
            let found = scan(&text);
            let includes = found.includes.iter().map(|include| &include.span);
            let registrations = found.registrations.iter().map(|registration| &registration.span);
            let spans = includes.chain(registrations).chain(found.names.iter().map(|name| &name.span));
            for span in spans {
                assert!(text.get(span.clone()).is_some_and(|part| !part.is_empty()), "{text:?}: {span:?}");
            }
        }
    }
}
