//! What the harness is sent has a type: no file that speaks to it builds a message by hand.
//!
//! Owns: which files speak to the harness. Never: knows a message; `protocol` of kernel-builder does.

use super::repository::Repository;
use super::rust_source::{Token, tokens_outside_tests};

const SOURCES: &str = "kernel-builder/src/";
/// Where the types of all dialogues are.
const PROTOCOL: &str = "kernel-builder/src/protocol/";

/// A message that Python gets or sends is a type with serde, in `protocol` where the harness decodes it by `wire`.
pub(super) fn jobs_have_types(repository: &Repository) -> Vec<String> {
    let sources = repository.with_ending(&["rs"]).filter_map(|(path, text)| Some((path.to_str()?, text)));
    let outside = sources.filter(|(path, _)| path.starts_with(SOURCES) && !path.starts_with(PROTOCOL));
    outside
        .filter_map(|(path, text)| {
            let word = by_hand(&tokens_outside_tests(text))?;
            Some(format!(
                "{path}: `{word}` in a file that speaks to the harness: give the message a type, as those of {PROTOCOL}"
            ))
        })
        .collect()
}

/// What a file that speaks to the harness makes an untyped message with, if it does.
fn by_hand(tokens: &[Token<'_>]) -> Option<&'static str> {
    if !tokens.windows(3).any(speaks) {
        return None;
    }
    tokens.windows(4).find_map(|part| match part {
        [Token::Word("json"), Token::Mark('!'), ..] => Some("json!"),
        // To read an answer as a value first is fine; `protocol` gives it a type.
        [Token::Word("serde_json"), Token::Path, Token::Word("Value"), Token::Path] => {
            Some("serde_json::Value")
        }
        [Token::Word("serde_json"), Token::Path, Token::Word("Map"), ..] => Some("serde_json::Map"),
        _ => None,
    })
}

/// Whether these tokens embed a file of the harness or open a dialogue with it.
fn speaks(tokens: &[Token<'_>]) -> bool {
    match tokens {
        [Token::Mark('!'), Token::Mark('('), Token::Text(path)] => {
            path.contains("/harness/") && path.ends_with(".py")
        }
        [Token::Word("Opening" | "protocol"), Token::Path, Token::Word("line")] => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<&'static str> {
        by_hand(&tokens_outside_tests(text))
    }

    #[test]
    fn an_untyped_job_is_found() {
        assert_eq!(found("fn a() { Opening::line(nonce, json!({ \"role\": \"oracle\" })) }"), Some("json!"));
        assert_eq!(
            found("fn a() { say(&protocol::line(&serde_json::Map::new())) }"),
            Some("serde_json::Map")
        );
        let embedded = "const A: &str = include_str!(\"../../harness/api.py\");\n";
        assert_eq!(found(&format!("{embedded}fn a() {{ json!([1]) }}")), Some("json!"));
        assert_eq!(
            found(&format!("{embedded}fn a() {{ serde_json::Value::from(1) }}")),
            Some("serde_json::Value")
        );
    }

    #[test]
    fn types_tests_and_other_files_are_fine() {
        assert_eq!(found("fn a() { Opening::line(nonce, Job { role: Role::Oracle }) }"), None);
        assert_eq!(found("fn a() { report.result(\"x\", &json!({})) }"), None);
        assert_eq!(found("fn a(v: serde_json::Value) { Opening::line(nonce, job) }"), None);
        assert_eq!(
            found("fn a() { Opening::line(nonce, job) }\n#[cfg(test)]\nmod tests { fn b() { json!(1) } }"),
            None
        );
    }
}
