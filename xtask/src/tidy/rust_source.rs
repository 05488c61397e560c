//! The tokens of a Rust file, without comments, and without items that only tests compile.
//!
//! Owns: comments, strings, characters, lifetimes, `#[cfg(test)]`. Never: resolves a name.

/// One token. Numbers and lifetimes are left out: no rule needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'text> {
    /// An identifier or keyword; `r#type` is `type`.
    Word(&'text str),
    /// The content of a string literal, as written.
    Text(&'text str),
    /// `::`.
    Path,
    /// Any other punctuation.
    Mark(char),
}

/// The tokens of a file that the program itself is compiled from.
pub(super) fn tokens_outside_tests(text: &str) -> Vec<Token<'_>> {
    without_tests(&tokens(text))
}

/// All tokens of a file.
fn tokens(text: &str) -> Vec<Token<'_>> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let rest = &text[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            at += length_of_comment(rest);
        } else if let Some((content, length)) = string_literal(rest) {
            tokens.push(Token::Text(content));
            at += length;
        } else if byte == b'\'' {
            at += length_after_quote(rest);
        } else if rest.starts_with("::") {
            tokens.push(Token::Path);
            at += 2;
        } else if is_word_byte(byte) {
            let raw = if rest.starts_with("r#") { 2 } else { 0 };
            let length = rest[raw..].bytes().take_while(|byte| is_word_byte(*byte)).count();
            if !byte.is_ascii_digit() {
                tokens.push(Token::Word(&rest[raw..raw + length]));
            }
            at += raw + length;
        } else {
            let letter = rest.chars().next().unwrap_or(' ');
            if letter.is_ascii_punctuation() {
                tokens.push(Token::Mark(letter));
            }
            at += letter.len_utf8();
        }
    }
    tokens
}

fn is_word_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// The length of the block comment that `text` begins with; block comments nest.
fn length_of_comment(text: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        if text.as_bytes()[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if text.as_bytes()[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// The content and the whole length of the string literal that `text` begins with.
fn string_literal(text: &str) -> Option<(&str, usize)> {
    let prefix = ["br", "cr", "b", "c", "r", ""].into_iter().find(|prefix| {
        text.strip_prefix(prefix).is_some_and(|rest| {
            rest.starts_with('"') || (prefix.ends_with('r') && rest.trim_start_matches('#').starts_with('"'))
        })
    })?;
    let rest = &text[prefix.len()..];
    let hashes = rest.len() - rest.trim_start_matches('#').len();
    let begin = prefix.len() + hashes + 1;
    let body = &text[begin..];
    if prefix.ends_with('r') {
        let end = format!("\"{}", "#".repeat(hashes));
        let length = body.find(&end).unwrap_or(body.len());
        return Some((&body[..length], (begin + length + end.len()).min(text.len())));
    }
    let mut escaped = false;
    for (at, byte) in body.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return Some((&body[..at], begin + at + 1)),
            _ => {}
        }
    }
    Some((body, text.len()))
}

/// The length of the character literal that `text` begins with, or of the quote before a lifetime's name.
fn length_after_quote(text: &str) -> usize {
    let mut letters = text.char_indices().skip(1);
    match letters.next() {
        Some((_, '\\')) => {
            let close = text[2..].char_indices().skip(1).find(|(_, letter)| *letter == '\'');
            close.map_or(text.len(), |(at, _)| at + 3)
        }
        Some((_, _)) => match letters.next() {
            Some((at, '\'')) => at + 1,
            // The name of a lifetime is no word of the program.
            _ => 1 + text[1..].bytes().take_while(|byte| is_word_byte(*byte)).count(),
        },
        None => 1,
    }
}

/// Leaves out items with `#[cfg(test)]` or `#[test]`; a file with `#![cfg(test)]` has none left.
fn without_tests<'text>(tokens: &[Token<'text>]) -> Vec<Token<'text>> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if let Some(length) = test_attribute(&tokens[at..], &[Token::Mark('#'), Token::Mark('!')]) {
            let _ = length;
            return Vec::new();
        }
        if let Some(length) = test_attribute(&tokens[at..], &[Token::Mark('#')]) {
            at += length;
            at += length_of_item(&tokens[at..]);
        } else {
            kept.push(tokens[at]);
            at += 1;
        }
    }
    kept
}

/// The length of the attribute that `tokens` begin with, if it keeps an item out of the program.
fn test_attribute(tokens: &[Token<'_>], opening: &[Token<'_>]) -> Option<usize> {
    let rest = tokens.strip_prefix(opening)?;
    if rest.first() != Some(&Token::Mark('[')) {
        return None;
    }
    let length = length_of_group(rest);
    let inside = &rest[1..length.max(2) - 1];
    let has = |word: &str| inside.contains(&Token::Word(word));
    let is_test = match inside.first() {
        Some(Token::Word("cfg")) => has("test") && !has("not"),
        Some(Token::Word("test")) => inside.len() == 1,
        _ => false,
    };
    is_test.then_some(opening.len() + length)
}

/// The length of a bracketed group, with both brackets.
fn length_of_group(tokens: &[Token<'_>]) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark('(' | '[' | '{') => depth += 1,
            Token::Mark(')' | ']' | '}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// The length of the item, statement, field or variant that `tokens` begin with, further attributes included.
fn length_of_item(tokens: &[Token<'_>]) -> usize {
    const ITEMS: &[&str] = &[
        "mod",
        "fn",
        "use",
        "struct",
        "enum",
        "union",
        "impl",
        "const",
        "static",
        "type",
        "trait",
        "let",
        "async",
        "unsafe",
        "extern",
        "macro_rules",
    ];
    let mut at = 0;
    while tokens.get(at) == Some(&Token::Mark('#')) {
        at += 1 + length_of_group(&tokens[at + 1..]);
    }
    let mut first = at;
    if tokens.get(first) == Some(&Token::Word("pub")) {
        first += 1;
        if tokens.get(first) == Some(&Token::Mark('(')) {
            first += length_of_group(&tokens[first..]);
        }
    }
    let is_item = matches!(tokens.get(first), Some(Token::Word(word)) if ITEMS.contains(word));
    while let Some(token) = tokens.get(at) {
        match token {
            Token::Mark(';') => return at + 1,
            Token::Mark(',') if !is_item => return at + 1,
            // The end of what the last field or variant stands in.
            Token::Mark(')' | ']' | '}') => return at,
            Token::Mark('{') => return at + length_of_group(&tokens[at..]),
            Token::Mark('(' | '[') => at += length_of_group(&tokens[at..]),
            _ => at += 1,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<&str> {
        let word = |token| match token {
            Token::Word(word) => Some(word),
            _ => None,
        };
        tokens_outside_tests(text).into_iter().filter_map(word).collect()
    }

    #[test]
    fn comments_strings_characters_and_lifetimes_are_no_code() {
        assert_eq!(words("a // b\n/* c /* d */ e */ f"), ["a", "f"]);
        assert_eq!(words(r###"a "b \" c" d r#"e " f"# g br"h" i b"j" k"###), ["a", "d", "g", "i", "k"]);
        assert_eq!(words(r"a 'b' c '\'' d '\u{1f}' e &'static f '{' g"), ["a", "c", "d", "e", "f", "g"]);
        assert_eq!(words("r#type 10u8 0x1f 1.max(2)"), ["type", "max"]);
        assert_eq!(tokens("\"a::b\""), [Token::Text("a::b")]);
    }

    #[test]
    fn items_of_tests_are_left_out() {
        assert_eq!(words("#[cfg(test)]\nmod tests { use a; }\nfn b() {}"), ["fn", "b"]);
        assert_eq!(words("#[cfg(test)]\n#[path = \"x.rs\"]\nmod tests;\nfn b() {}"), ["fn", "b"]);
        assert_eq!(
            words("#[cfg(all(test, unix))]\npub(crate) fn a(b: B, c: C) -> D {}\nfn e() {}"),
            ["fn", "e"]
        );
        assert_eq!(words("struct A { b: B, #[cfg(test)] c: C, d: D }"), ["struct", "A", "b", "B", "d", "D"]);
        assert_eq!(
            words("struct A { b: B, #[cfg(test)] c: C }\nfn d() {}"),
            ["struct", "A", "b", "B", "fn", "d"]
        );
        assert_eq!(words("#[cfg(not(test))]\nfn a() {}"), ["cfg", "not", "test", "fn", "a"]);
        assert_eq!(words("#![cfg(test)]\nfn a() {}"), Vec::<&str>::new());
        assert_eq!(words("fn a() { #[cfg(test)] let b = c(d, e); f(); }"), ["fn", "a", "f"]);
    }
}
