//! An error keeps its cause: no field of an error type is a text named after one.
//!
//! Owns: what an error type is in a source, and the names that such a text may not have. Never: reads a message.

use super::repository::Repository;
use super::rust_source::{Token, tokens_outside_tests};

/// Names that say "the cause" or "what was said"; as a text, such a field has lost the error that it was made of.
const NAMES: &[&str] = &["cause", "reason", "said", "why"];
/// Types that hold nothing but a text.
const TEXTS: &[&str] = &["String", "str", "Cow"];

/// A cause is a `#[source]`; what a program printed is `output`, what this one composes is `problem`.
pub(super) fn errors_keep_their_cause(repository: &Repository) -> Vec<String> {
    let sources = repository.with_ending(&["rs"]);
    sources
        .flat_map(|(path, text)| flattened(text).map(move |found| format!("{}: {found}", path.display())))
        .collect()
}

/// Every field of an error type that flattens a cause.
fn flattened(text: &str) -> impl Iterator<Item = String> + use<'_> {
    let tokens = tokens_outside_tests(text);
    let mut found = Vec::new();
    let mut is_error = false;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Word("derive") => is_error = derives_error(&tokens[at + 1..]),
            Token::Word("enum" | "struct") if is_error => {
                is_error = false;
                let Some(Token::Word(name)) = tokens.get(at + 1) else { continue };
                found.extend(fields(&tokens[at + 2..]).map(|field| {
                    format!(
                        "`{field}` of `{name}` is a text: keep the error as `#[source]`, or name what another program \
                         printed `output` and what this one says `problem`"
                    )
                }));
            }
            _ => {}
        }
    }
    found.into_iter()
}

/// Whether the list of a `derive` has `Error`.
fn derives_error(tokens: &[Token<'_>]) -> bool {
    tokens.iter().take_while(|token| **token != Token::Mark(')')).any(|token| *token == Token::Word("Error"))
}

/// The fields of a type, from behind its name, that are texts with a name of [`NAMES`].
fn fields<'text>(tokens: &[Token<'text>]) -> impl Iterator<Item = &'text str> {
    let mut depth = 0_usize;
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Mark('{' | '(' | '[') => depth += 1,
            Token::Mark('}' | ')' | ']') => {
                depth = depth.saturating_sub(1);
                if depth == 0 && *token == Token::Mark('}') {
                    break;
                }
            }
            // A type without named fields.
            Token::Mark(';') if depth == 0 => break,
            Token::Word(name) if NAMES.contains(name) && tokens.get(at + 1) == Some(&Token::Mark(':')) => {
                let of_field = |token: &&Token<'_>| !matches!(token, Token::Mark(',' | '}'));
                let is_text = |token: &Token<'_>| matches!(token, Token::Word(word) if TEXTS.contains(word));
                if tokens[at + 2..].iter().take_while(of_field).any(is_text) {
                    found.push(*name);
                }
            }
            _ => {}
        }
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let name = |problem: String| problem.split(" is a text").next().unwrap_or_default().to_owned();
        flattened(text).map(name).collect()
    }

    #[test]
    fn a_flattened_cause_is_named_with_its_type() {
        let text = "#[derive(Debug, Error)]\npub enum BakeError {\n    #[error(\"{why}\")]\n    Cold { why: String },\n    \
                    #[error(\"a\")]\n    Wet { #[source] cause: io::Error, said: Option<String> },\n}\n\
                    #[derive(Debug, thiserror::Error, Diagnostic)]\nstruct Cake { reason: &'static str }\n";
        assert_eq!(found(text), ["`why` of `BakeError`", "`said` of `BakeError`", "`reason` of `Cake`"]);
    }

    #[test]
    fn sources_other_types_and_tests_may_have_such_names() {
        let text = "#[derive(Debug, Error)]\nenum A { B { #[source] cause: Cause, problem: String }, C(String) }\n\
                    #[derive(Debug)]\nstruct Skipped { reason: String }\n\
                    #[derive(Error)]\nstruct D(String);\nstruct E { why: String }\n\
                    fn f() { let why: String = String::new(); }\n\
                    #[cfg(test)]\nmod tests { #[derive(Error)] struct F { why: String } }\n";
        assert_eq!(found(text), Vec::<String>::new());
    }
}
