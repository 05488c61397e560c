//! Reads Python sources as far as rules ask: what is imported where, and which operators are registered by name.
//!
//! Owns: comments, strings, logical lines, and the blocks that an import stands in.
//! Never: evaluates an expression, and never takes text in a comment or a string for code.

use std::ops::Range;

/// The imports and registrations of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Python {
    /// Every module that is imported, in file order.
    pub(crate) imports: Vec<Import>,
    /// Every call into `torch.library` whose first argument is a plain string, in file order.
    pub(crate) registrations: Vec<Registration>,
}

/// One imported module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Import {
    /// As written, without the dots of a relative import.
    pub(crate) module: String,
    /// Whether it begins with a dot.
    pub(crate) relative: bool,
    /// The module's name, dots included.
    pub(crate) span: Range<usize>,
    /// Whether the import runs when the file is loaded.
    pub(crate) place: Place,
}

/// The place of an import, which decides whether it runs when its file is loaded; the strongest counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// Nothing: it does.
    Plain,
    /// A function: it runs when that is called.
    Function,
    /// An `if`, `elif` or `else`.
    Conditional,
    /// It may fail (`try`, `except`, `suppress`), or never runs (`if TYPE_CHECKING`, `if False`).
    Guarded,
}

/// One operator that is named in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Registration {
    /// The function of `torch.library`.
    pub(crate) function: String,
    /// The text of the string.
    pub(crate) name: String,
    /// The string with its quotes.
    pub(crate) span: Range<usize>,
}

/// The functions of `torch.library` whose first argument is the name of an operator.
const REGISTERS: &[&str] = &[
    "custom_op",
    "define",
    "impl",
    "impl_abstract",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
];

/// Statements that hold other statements.
const COMPOUND: &[&str] =
    &["async", "class", "def", "elif", "else", "except", "finally", "for", "if", "try", "while", "with"];

/// Reads one source. Any text gives a result: what cannot be understood is passed over.
pub(crate) fn scan(text: &str) -> Python {
    let mut found = Python::default();
    let mut blocks: Vec<(usize, Place)> = Vec::new();
    let mut from_library = Vec::new();
    for line in lines(text) {
        while blocks.last().is_some_and(|(indent, _)| *indent >= line.indent) {
            blocks.pop();
        }
        let around = blocks.last().map_or(Place::Plain, |(_, place)| *place);
        let reader = Reader { text, tokens: &line.tokens };
        reader.statements(around, &mut found, &mut from_library);
        reader.registrations(&from_library, &mut found);
        if let Some(place) = reader.opens() {
            blocks.push((line.indent, around.max(place)));
        }
    }
    found
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Name,
    /// Without prefix: the only string whose text is known.
    PlainString,
    /// A number, an operator, a string with a prefix.
    Other,
}

#[derive(Debug, Clone)]
struct Token {
    kind: Kind,
    span: Range<usize>,
    /// How many brackets are open around it.
    depth: usize,
}

/// One logical line: brackets and backslashes have been followed.
#[derive(Debug, Default)]
struct Line {
    /// Columns of blanks before the first token.
    indent: usize,
    tokens: Vec<Token>,
}

/// The logical lines of a text that hold something.
fn lines(text: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut line = Line::default();
    let (mut at, mut depth, mut indent, mut at_start) = (0, 0_usize, 0, true);
    while let Some(letter) = text[at..].chars().next() {
        let start = at;
        at += letter.len_utf8();
        match letter {
            '\n' if depth == 0 => {
                if !line.tokens.is_empty() {
                    lines.push(std::mem::take(&mut line));
                }
                (indent, at_start) = (0, true);
            }
            // A tab goes to the next multiple of eight, as Python has it.
            '\t' if at_start => indent = indent / 8 * 8 + 8,
            ' ' if at_start => indent += 1,
            _ if letter.is_whitespace() => {}
            '#' => at += text[at..].find('\n').unwrap_or(text.len() - at),
            '\\' => at += text[at..].find('\n').map_or(0, |newline| newline + 1),
            _ => {
                if at_start {
                    (line.indent, at_start) = (indent, false);
                }
                let kind = match letter {
                    '"' | '\'' => {
                        at = string_end(text, start);
                        Kind::PlainString
                    }
                    _ if letter.is_alphabetic() || letter == '_' => {
                        at += word_length(&text[at..]);
                        if is_prefix(&text[start..at]) && text[at..].starts_with(['"', '\'']) {
                            at = string_end(text, at);
                            Kind::Other
                        } else {
                            Kind::Name
                        }
                    }
                    _ if letter.is_ascii_digit() => {
                        at += word_length(&text[at..]);
                        Kind::Other
                    }
                    _ => Kind::Other,
                };
                if matches!(letter, ')' | ']' | '}') {
                    depth = depth.saturating_sub(1);
                }
                line.tokens.push(Token { kind, span: start..at, depth });
                if matches!(letter, '(' | '[' | '{') {
                    depth += 1;
                }
            }
        }
    }
    if !line.tokens.is_empty() {
        lines.push(line);
    }
    lines
}

fn word_length(text: &str) -> usize {
    text.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(text.len())
}

fn is_prefix(word: &str) -> bool {
    word.len() <= 2 && word.bytes().all(|byte| b"rRbBfFuUtT".contains(&byte))
}

/// The end of the string whose first quote is at `start`. One with single quotes ends with its line at the latest, so
/// that a mistake (or a quote inside of an f-string's braces) is over soon.
fn string_end(text: &str, start: usize) -> usize {
    let rest = &text[start..];
    let quote = &rest[..1];
    let triple = quote.repeat(3);
    let (open, close) = if rest.starts_with(&triple) { (3, triple.as_str()) } else { (1, quote) };
    let mut letters = rest.char_indices().skip(open);
    while let Some((offset, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if rest[offset..].starts_with(close) {
            return start + offset + open;
        } else if letter == '\n' && open == 1 {
            return start + offset;
        }
    }
    text.len()
}

struct Reader<'a> {
    text: &'a str,
    tokens: &'a [Token],
}

impl<'a> Reader<'a> {
    fn word(&self, index: usize) -> &'a str {
        self.tokens.get(index).map_or("", |token| &self.text[token.span.clone()])
    }

    /// The place of the `:` that ends the head of a compound statement.
    fn colon(&self) -> Option<usize> {
        // `match` and `case` are names elsewhere; a line that ends in a colon is a head all the same.
        let compound =
            COMPOUND.contains(&self.word(0)) || self.word(self.tokens.len().wrapping_sub(1)) == ":";
        let outside = |index: &usize| self.tokens[*index].depth == 0 && self.word(*index) == ":";
        compound.then(|| (0..self.tokens.len()).find(outside)).flatten()
    }

    /// The place that a head gives its block.
    fn head(&self, colon: usize) -> Place {
        match self.word(0) {
            "try" | "except" => Place::Guarded,
            "if" if (0..colon).any(|index| self.word(index) == "TYPE_CHECKING") => Place::Guarded,
            "if" if colon == 2 && matches!(self.word(1), "False" | "0") => Place::Guarded,
            "with" if (1..colon).any(|index| self.word(index) == "suppress") => Place::Guarded,
            "if" | "elif" | "else" => Place::Conditional,
            "def" | "async" => Place::Function,
            _ => Place::Plain,
        }
    }

    /// The place of the lines below, if this one is the head of a block.
    fn opens(&self) -> Option<Place> {
        let colon = self.colon().filter(|colon| colon + 1 == self.tokens.len())?;
        Some(self.head(colon))
    }

    /// Reads the simple statements of the line: those behind a head, or separated by `;`.
    fn statements(&self, around: Place, found: &mut Python, from_library: &mut Vec<&'static str>) {
        let (mut start, mut place) = (0, around);
        if let Some(colon) = self.colon() {
            (start, place) = (colon + 1, around.max(self.head(colon)));
        }
        for index in start..self.tokens.len() {
            if index > start && self.word(index - 1) != ";" {
                continue;
            }
            match self.word(index) {
                "import" => self.import(index + 1, place, found),
                "from" => self.from(index + 1, place, found, from_library),
                _ => {}
            }
        }
    }

    /// `import a.b as c, d`.
    fn import(&self, mut index: usize, place: Place, found: &mut Python) {
        while let Some((next, import)) = self.module(index, place) {
            found.imports.push(import);
            index = next;
            if self.word(index) == "as" {
                index += 2;
            }
            if self.word(index) != "," {
                return;
            }
            index += 1;
        }
    }

    /// `from .a import b, c`.
    fn from(&self, index: usize, place: Place, found: &mut Python, from_library: &mut Vec<&'static str>) {
        let Some((next, import)) = self.module(index, place) else { return };
        if self.word(next) != "import" {
            return;
        }
        if import.module == "torch.library" {
            let words = (next..self.tokens.len()).map(|index| self.word(index));
            from_library.extend(words.filter_map(|word| REGISTERS.iter().find(|name| **name == word)));
            from_library.sort_unstable();
            from_library.dedup();
        }
        found.imports.push(import);
    }

    /// The dotted name at `index`, and what is behind it.
    fn module(&self, mut index: usize, place: Place) -> Option<(usize, Import)> {
        let start = self.tokens.get(index)?.span.start;
        let relative = self.word(index) == ".";
        let mut end = start;
        while let Some(token) = self.tokens.get(index) {
            let word = self.word(index);
            if word != "." && (token.kind != Kind::Name || word == "import" || word == "as") {
                break;
            }
            end = token.span.end;
            index += 1;
        }
        let module: String = self.text[start..end].chars().filter(|letter| !letter.is_whitespace()).collect();
        let module = module.trim_start_matches('.').to_owned();
        (end > start).then_some((index, Import { module, relative, span: start..end, place }))
    }

    /// Calls of `torch.library.NAME("...", ...)`, and of a NAME that was imported from there.
    fn registrations(&self, from_library: &[&str], found: &mut Python) {
        for index in 2..self.tokens.len() {
            let string = &self.tokens[index];
            let function = self.word(index - 2);
            if string.kind != Kind::PlainString
                || self.word(index - 1) != "("
                || !REGISTERS.contains(&function)
                // Several strings in a row, or an operator behind it, make another text.
                || !matches!(self.word(index + 1), "," | ")")
            {
                continue;
            }
            let before = |back: usize| index.checked_sub(back).map_or("", |index| self.word(index));
            let dotted = before(3) == ".";
            let called = if dotted {
                before(4) == "library" && before(5) == "." && before(6) == "torch"
            } else {
                from_library.contains(&function)
            };
            if called {
                let quoted = &self.text[string.span.clone()];
                found.registrations.push(Registration {
                    function: function.to_owned(),
                    name: quoted.trim_matches(['"', '\'']).to_owned(),
                    span: string.span.clone(),
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Texts are made of these by `any_text_is_read`.
    const PIECES: &[&str] = &[
        "import ",
        "from ",
        "a",
        ".b",
        ", ",
        " as ",
        "(",
        ")",
        "\"",
        "'",
        "\"\"\"",
        "#",
        "\\\n",
        "\n",
        "    ",
        "\t",
        "try:\n",
        "def f():\n",
        "if a:\n",
        "torch.library.define(",
        "r\"",
        "f'",
        "{",
        "}",
        "\u{e4}",
    ];

    /// The imports (`()` in a function, `?` conditional, `!` guarded), then the registrations.
    #[track_caller]
    fn check(text: &str, want: &[&str]) {
        let found = scan(text);
        let imports = found.imports.iter().map(|import| {
            let mark = match import.place {
                Place::Plain => "",
                Place::Function => "()",
                Place::Conditional => "?",
                Place::Guarded => "!",
            };
            assert!(text[import.span.clone()].starts_with('.') == import.relative, "{text}");
            format!("{mark}{}{}", if import.relative { "." } else { "" }, import.module)
        });
        let registrations = found
            .registrations
            .iter()
            .map(|registration| format!("{}({})", registration.function, registration.name));
        assert_eq!(imports.chain(registrations).collect::<Vec<_>>(), want, "{text}");
    }

    #[test]
    fn every_form_of_an_import() {
        check("import a\nimport b.c as d, e\nfrom f.g import h\n", &["a", "b.c", "e", "f.g"]);
        check(
            "from . import a\nfrom .b import c\nfrom ...d.e import (\n    f,\n    g,\n)\n",
            &[".", ".b", ".d.e"],
        );
        check("import a; import b\nx = 1; from c import d", &["a", "b", "c"]);
        check(
            "def f():\n    import a\n\n\tb = 1\n\nclass C:\n    def g(self):\n        from b import c\n",
            &["()a", "()b"],
        );
        check("import \\\n  a\n", &["a"]);
        check("from __future__ import annotations\n", &["__future__"]);
    }

    #[test]
    fn comments_and_strings_are_not_code() {
        check("# import a\nimport b  # import c\n", &["b"]);
        check("\"\"\"\nimport a\n\"\"\"\nimport b\n", &["b"]);
        check("x = '''\nimport a\n'''\nr'''\nimport b\n''' \nimport c\n", &["c"]);
        check("x = 'it\\'s'\nimport a\n", &["a"]);
        check("x = 'unfinished\nimport a\n", &["a"]);
        check("f(\nimport_ = 1,\n)\nyield_from = x\nraise E from e\n", &[]);
        check("x = [\n  'import a',\n]\nimport b\n", &["b"]);
    }

    #[test]
    fn places() {
        check(
            "try:\n    import a\nexcept ImportError:\n    import b\nelse:\n    import c\nimport d",
            &["!a", "!b", "?c", "d"],
        );
        check("if TYPE_CHECKING:\n    import a\nelse:\n    import b\n", &["!a", "?b"]);
        check("if False:\n    import a\nif 0: import b\n", &["!a", "!b"]);
        check("with contextlib.suppress(ImportError):\n    import a\nwith x:\n    import b\n", &["!a", "b"]);
        check("if typing.TYPE_CHECKING: import a\nif x: import b\n", &["!a", "?b"]);
        check("if x:\n    def f(y: int = {1: 2}[1]) -> z:\n        import a\nimport b\n", &["?a", "b"]);
        check("try:\n  if x:\n    import a\nfinally: import b\n", &["!a", "b"]);
    }

    #[test]
    fn registrations_by_name() {
        check(
            "import torch\n@torch.library.custom_op(\"a::b\", mutates_args=())\ndef f(): ...\n",
            &["torch", "custom_op(a::b)"],
        );
        check("torch.library.register_fake(add_op_namespace_prefix('b'))\n", &[]);
        check("torch.library.register_fake(f'{ns}::b')\nmine.register_fake('a::b')\n", &[]);
        check("torch.library.register_fake('a::' + name)\n", &[]);
        check(
            "from torch.library import triton_op as t, wrap_triton, register_fake\n@register_fake('a::b')\ndef f(): ...\n",
            &["torch.library", "register_fake(a::b)"],
        );
    }

    #[test]
    fn any_text_ends() {
        for text in
            ["", "'", "'''", "\\", "(", ")", "import", "from", "from .", "import ,", "from x", "ä:", ":", "@"]
        {
            scan(text);
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read(pieces in proptest::collection::vec(proptest::sample::select(PIECES), 0..24)) {
            let text = pieces.concat();
            let found = scan(&text);
            let spans = found.imports.iter().map(|import| &import.span);
            let spans = spans.chain(found.registrations.iter().map(|registration| &registration.span));
            for span in spans {
                assert!(text.get(span.clone()).is_some_and(|part| !part.is_empty()), "{text:?}: {span:?}");
            }
        }
    }
}
