//! A preprocessed text as tokens.
//!
//! Owns: where a token begins and ends. Never: says what one means.

/// The tokens of a preprocessed text. Line markers are none of them; pragmas are.
pub(super) struct Tokens<'t> {
    pub(super) text: &'t [u8],
    pub(super) at: usize,
}

impl<'t> Tokens<'t> {
    pub(super) fn new(text: &'t [u8]) -> Self {
        Self { text, at: 0 }
    }

    /// Goes behind the brace that closes the one just read; gives back the place of the closing brace.
    pub(super) fn skip_body(&mut self) -> Option<usize> {
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

/// A name or a keyword.
pub(super) fn is_word(token: &[u8]) -> bool {
    token.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_')
}
