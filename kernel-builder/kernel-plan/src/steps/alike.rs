//! When two preprocessed texts are the same program, although they differ.
//!
//! Headers choose by architecture: a constant that nobody uses, the body of a function that nobody calls. Such texts make
//! the same code, and the front end, which is most of the work, needs to read only one of them.
//!
//! Owns: a strict comparison, token by token. Two kinds of difference are let through: the number in the definition of a
//! constant whose name stands nowhere else, and the inside of the body of a plain function. The caller then looks whether
//! that function was generated. Never: lets a difference through in a template, a class, a declaration, or anything that
//! is evaluated while compiling.

use std::collections::BTreeSet;

/// The functions whose bodies differ, by their unqualified names: the texts are alike as long as none of them is
/// generated. Nothing when the texts are different programs.
pub fn alike(one: &[u8], other: &[u8]) -> Option<BTreeSet<String>> {
    let mut pair = [Tokens::new(one), Tokens::new(other)];
    let mut functions = BTreeSet::new();
    let mut constants = BTreeSet::new();
    let mut declaration: Vec<&[u8]> = Vec::new();
    // Braces of namespaces that are open, and parentheses of the declaration.
    let (mut namespaces, mut nested) = (0_usize, 0_usize);
    loop {
        let [left, right] = pair.each_mut().map(Iterator::next);
        if left != right {
            let (left, right) = (left?, right?);
            let name = constant(&declaration, left, right).filter(|_| nested == 0)?;
            constants.insert(name);
            declaration.push(left);
            continue;
        }
        let Some(token) = left else { break };
        match token {
            b"{" if nested == 0 && opens_namespace(&declaration) => {
                namespaces += 1;
                declaration.clear();
            }
            b"{" => {
                let starts = pair.each_ref().map(|tokens| tokens.at);
                let [left, right] = pair.each_mut().map(Tokens::skip_body);
                let (left, right) = (left?, right?);
                if !same_tokens(&one[starts[0]..left], &other[starts[1]..right]) {
                    functions.insert(plain_function(&declaration).filter(|_| nested == 0)?);
                }
                // What stands behind a body belongs to it or begins something new; nothing is decided by it.
                if nested == 0 {
                    declaration.clear();
                }
            }
            b"}" => {
                namespaces = namespaces.checked_sub(1)?;
                declaration.clear();
            }
            b";" if nested == 0 => declaration.clear(),
            _ => {
                match token {
                    b"(" => nested += 1,
                    b")" => nested = nested.checked_sub(1)?,
                    _ => {}
                }
                declaration.push(token);
            }
        }
    }
    let counted = |text| Tokens::new(text).filter(|token| constants.contains(*token)).count();
    (namespaces == 0 && counted(one) == constants.len() && counted(other) == constants.len())
        .then_some(functions)
}

fn same_tokens(one: &[u8], other: &[u8]) -> bool {
    one == other || Tokens::new(one).eq(Tokens::new(other))
}

/// `namespace a {`, `inline namespace b __attribute__((..)) {`, `extern "C" {`.
fn opens_namespace(declaration: &[&[u8]]) -> bool {
    declaration.iter().take(2).any(|token| *token == b"namespace")
        || (declaration.first() == Some(&b"extern".as_slice()) && declaration.len() == 2)
}

/// The name in `constexpr T NAME =`, where two different numbers follow.
fn constant<'t>(declaration: &[&'t [u8]], left: &[u8], right: &[u8]) -> Option<&'t [u8]> {
    let number = |token: &[u8]| token.first().is_some_and(u8::is_ascii_digit);
    let (equals, before) = declaration.split_last()?;
    let (name, head) = before.split_last()?;
    let plain = |token: &&[u8]| is_word(token) && *token != b"template" && *token != b"extern";
    let constant = matches!(head.first().copied(), Some(b"constexpr" | b"const"))
        || matches!(head, [b"static", b"constexpr" | b"const", ..]);
    let fits = number(left) && number(right) && *equals == b"=" && is_word(name);
    (fits && constant && head.iter().all(plain)).then_some(*name)
}

/// The name of a function whose body matters only where its code is.
fn plain_function(head: &[&[u8]]) -> Option<String> {
    /// What a body may be evaluated for while compiling, or what is no function at all.
    const OTHERS: &[&[u8]] = &[
        b"constexpr",
        b"consteval",
        b"constinit",
        b"template",
        b"auto",
        b"decltype",
        b"operator",
        b"class",
        b"struct",
        b"union",
        b"enum",
        b"namespace",
        b"using",
        b"typedef",
        b"requires",
        b"concept",
        b"=",
        b":",
        b"[",
        b"<",
        b"~",
    ];
    const WITH_PARENTHESES: &[&[u8]] =
        &[b"__attribute__", b"alignas", b"noexcept", b"__declspec", b"asm", b"__asm__"];
    if head.iter().any(|token| OTHERS.contains(token)) {
        return None;
    }
    let mut nested = 0_usize;
    for (at, token) in head.iter().enumerate() {
        match *token {
            b"(" if nested == 0 => {
                let before = *head.get(at.checked_sub(1)?)?;
                if is_word(before) && !WITH_PARENTHESES.contains(&before) {
                    return String::from_utf8(before.to_vec()).ok();
                }
                nested += 1;
            }
            b"(" => nested += 1,
            b")" => nested = nested.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

fn is_word(token: &[u8]) -> bool {
    token.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
}

/// The tokens of a preprocessed text. Line markers are none of them; pragmas are.
struct Tokens<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Tokens<'t> {
    fn new(text: &'t [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Goes behind the brace that closes the one just read; gives back the place of the closing brace.
    fn skip_body(&mut self) -> Option<usize> {
        let mut open = 1_usize;
        loop {
            match self.next()? {
                b"{" => open += 1,
                b"}" if open == 1 => return Some(self.at - 1),
                b"}" => open -= 1,
                _ => {}
            }
        }
    }

    /// The end of a literal in these quotes, which begins at `start`.
    fn quoted(&self, start: usize, quote: u8) -> usize {
        let mut at = start + 1;
        while at < self.text.len() && self.text[at] != quote {
            at += if self.text[at] == b'\\' { 2 } else { 1 };
        }
        (at + 1).min(self.text.len())
    }

    /// The end of `R"x( .. )x"`, whose quote is at `quote`.
    fn raw(&self, quote: usize) -> usize {
        let rest = &self.text[quote + 1..];
        let Some(open) = rest.iter().position(|byte| *byte == b'(') else { return self.text.len() };
        let close = [b")", &rest[..open], b"\""].concat();
        let body = rest[open..].windows(close.len()).position(|window| window == close);
        body.map_or(self.text.len(), |body| quote + 1 + open + body + close.len())
    }

    fn end_of_line(&self, from: usize) -> usize {
        self.text[from..]
            .iter()
            .position(|byte| *byte == b'\n')
            .map_or(self.text.len(), |length| from + length)
    }
}

impl<'t> Iterator for Tokens<'t> {
    type Item = &'t [u8];

    fn next(&mut self) -> Option<&'t [u8]> {
        loop {
            while self.text.get(self.at).is_some_and(u8::is_ascii_whitespace) {
                self.at += 1;
            }
            let start = self.at;
            let first = *self.text.get(start)?;
            let word =
                |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$') || *byte >= 0x80;
            let run = |from: usize, part: &dyn Fn(&u8) -> bool| {
                self.text[from..]
                    .iter()
                    .position(|byte| !part(byte))
                    .map_or(self.text.len(), |length| from + length)
            };
            let end = match first {
                b'#' => {
                    let end = self.end_of_line(start);
                    if self.text.get(start + 2).is_some_and(u8::is_ascii_digit) {
                        self.at = end;
                        continue;
                    }
                    end
                }
                b'"' | b'\'' => self.quoted(start, first),
                digit if digit.is_ascii_digit() => {
                    run(start, &|byte| word(byte) || matches!(byte, b'.' | b'\''))
                }
                _ if word(&first) => {
                    let end = run(start, &word);
                    match (self.text.get(end), self.text[start..end].ends_with(b"R")) {
                        (Some(b'"'), true) if end - start <= 3 => self.raw(end),
                        _ => end,
                    }
                }
                b':' if self.text.get(start + 1) == Some(&b':') => start + 2,
                _ => start + 1,
            };
            self.at = end;
            return Some(&self.text[start..end]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(one: &str, other: &str, want: Option<&[&str]>) {
        let found = alike(one.as_bytes(), other.as_bytes());
        let found: Option<Vec<&str>> = found.as_ref().map(|names| names.iter().map(String::as_str).collect());
        assert_eq!(found.as_deref(), want, "{one} / {other}");
    }

    /// The same text with another value in place of `@`.
    #[track_caller]
    fn varied(text: &str, want: Option<&[&str]>) {
        check(&text.replace('@', "1"), &text.replace('@', "22"), want);
    }

    #[test]
    fn markers_and_blanks_are_no_difference() {
        check("# 1 \"a.h\"\nint  a;\n", "# 7 \"b.h\" 3\n\nint a ;", Some(&[]));
        check("#pragma once\nint a;", "#pragma twice\nint a;", None);
        check("int a;", "int a; int b;", None);
    }

    #[test]
    fn a_number_that_nobody_asks_for() {
        varied("namespace n { constexpr unsigned MAX = @; } int f();", Some(&[]));
        varied("constexpr unsigned MAX = @; int a[MAX];", None);
        varied("template <int N> constexpr int MAX = @;", None);
        varied("int MAX = @;", None);
        varied("constexpr int MAX = 3 + @;", None);
        varied("int f(int a = @);", None);
        varied("extern const int MAX = @;", None);
    }

    #[test]
    fn a_body_counts_when_its_code_is_there() {
        varied(
            "extern \"C\" { static __attribute__((device)) int f(int a) { if (a) { return @; } return 0; } }",
            Some(&["f"]),
        );
        varied("namespace n { inline int g() noexcept { return @; } int h() { return 2; } }", Some(&["g"]));
        varied("int N::f(int a) const { return @; }", Some(&["f"]));
    }

    #[test]
    fn what_is_evaluated_while_compiling_is_a_difference() {
        for text in [
            "constexpr int f() { return @; }",
            "template <class T> int f() { return @; }",
            "auto f() { return @; }",
            "struct S { int a[@]; };",
            "struct S { int f() { return @; } };",
            "enum E { A = @ };",
            "int a[] = { @ };",
            "bool operator<(T, T) { return @; }",
            "S::S() : a{@} { }",
            "S::S() : a(1) { g(@); }",
            "int g(int a = [] { return @; }());",
        ] {
            varied(text, None);
        }
    }

    #[test]
    fn literals_hold_braces() {
        varied(
            "const char* a = \"{\\\"\"; char b = '{'; const char* c = R\"x({)\")x\"; int f() { return @; }",
            Some(&["f"]),
        );
        varied("const char* a = R\"(\" } @ )\";", None);
    }
}
