//! What the tokens in front of a body, or of a semicolon, declare.
//!
//! Owns: telling functions, classes and constants that may differ from all that may not. Never: guesses: what is not
//! understood is nothing that may differ.

use super::super::tokens::is_word;

/// `namespace a {`, `inline namespace b __attribute__((..)) {`, `extern "C" {`.
pub(super) fn opens_namespace(declaration: &[&[u8]]) -> bool {
    declaration.iter().take(2).any(|token| *token == b"namespace")
        || (declaration.first() == Some(&b"extern".as_slice()) && declaration.len() == 2)
}

/// Name and head of `constexpr T NAME = 1;`.
pub(super) fn constant<'t, 'd>(declaration: &'d [&'t [u8]]) -> Option<(&'t [u8], &'d [&'t [u8]])> {
    let [head @ .., name, b"=", number, b";"] = declaration else { return None };
    let plain = |token: &&[u8]| is_word(token) && *token != b"template" && *token != b"extern";
    let constant = matches!(head, [b"constexpr" | b"const", ..] | [b"static", b"constexpr" | b"const", ..]);
    let number = number.first().is_some_and(u8::is_ascii_digit);
    (number && constant && is_word(name) && head.iter().all(plain))
        .then_some((*name, &declaration[..declaration.len() - 2]))
}

/// Where the declaration begins behind `template <..>`. Nothing for a specialisation, which changes what something else
/// means.
pub(super) fn behind_parameters(head: &[&[u8]]) -> Option<usize> {
    if head.first() != Some(&b"template".as_slice()) {
        return Some(0);
    }
    let mut angles = Angles::default();
    let end = (1..head.len()).find(|at| {
        angles.read(head, *at);
        angles.outside() && head[*at] == b">"
    })?;
    (head[1] == b"<" && end > 2 && head.get(end + 1) != Some(&b"template".as_slice())).then_some(end + 1)
}

/// Where the declaration begins behind `[[..]]`.
pub(super) fn behind_attributes(head: &[&[u8]]) -> Option<usize> {
    let mut at = 0;
    while let [b"[", b"[", rest @ ..] = &head[at..] {
        at += 4 + rest.windows(2).position(|pair| pair == [b"]", b"]"])?;
    }
    Some(at)
}

/// The name of a class that is defined or declared.
pub(super) fn type_of<'t>(head: &[&'t [u8]], body: bool) -> Option<&'t [u8]> {
    let [b"struct" | b"class", rest @ ..] = &head[behind_parameters(head)?..] else { return None };
    let mut rest = rest;
    while let [b"__attribute__" | b"alignas", b"(", ..] = rest {
        let mut angles = Angles::default();
        let end = (1..rest.len()).find(|at| {
            angles.read(rest, *at);
            angles.outside()
        })?;
        rest = &rest[end + 1..];
    }
    let (name, rest) = rest.split_first()?;
    let ends = match rest.first().copied() {
        None => true,
        Some(b"<" | b":" | b"final") => body && !rest.contains(&b"(".as_slice()),
        Some(_) => false,
    };
    (is_word(name) && ends).then_some(*name)
}

/// Where the name of a function stands whose body matters only where its code is.
pub(super) fn name_of(head: &[&[u8]]) -> Option<usize> {
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
        b"concept",
        b"=",
        b":",
        b"[",
        b"~",
    ];
    const WITH_PARENTHESES: &[&[u8]] =
        &[b"__attribute__", b"alignas", b"noexcept", b"requires", b"__declspec", b"asm", b"__asm__"];
    let mut angles = Angles::default();
    let mut found = None;
    for (at, token) in head.iter().enumerate() {
        // Within the arguments of a template stands what is the same in both texts.
        if angles.outside() && OTHERS.contains(token) {
            return None;
        }
        if *token == b"(" && angles.outside() && found.is_none() {
            let before = *head.get(at.checked_sub(1)?)?;
            if is_word(before) && !WITH_PARENTHESES.contains(&before) {
                found = Some(at - 1);
            }
        }
        angles.read(head, at);
    }
    found
}

/// How deep the arguments of templates, and parentheses, are nested.
#[derive(Default)]
struct Angles {
    open: Vec<u8>,
}

impl Angles {
    fn outside(&self) -> bool {
        self.open.is_empty()
    }

    fn read(&mut self, tokens: &[&[u8]], at: usize) {
        match tokens[at] {
            b"(" | b"<" => self.open.push(tokens[at][0]),
            b")" => while self.open.pop().is_some_and(|open| open != b'(') {},
            b">" if self.open.last() == Some(&b'<') && tokens[at - 1] != b"-" => {
                self.open.pop();
            }
            _ => {}
        }
    }
}
