//! A function can be searched for: none is called by a word that every other line has.
//!
//! Owns: the words. Never: judges whether a name is a good one.

use super::repository::Repository;
use super::rust_source::{Token, tokens_outside_tests};

/// Pronouns, and words that say nothing of what is made or done.
const WORDS: &[&str] = &["it", "of", "one", "said", "told", "what", "which", "who"];

/// Functions of the programs; a helper of a test may have a short name.
pub(super) fn functions_can_be_searched_for(repository: &Repository) -> Vec<String> {
    let sources = repository.with_ending(&["rs"]);
    sources
        .filter(|(path, _)| !path.components().any(|part| part.as_os_str() == "tests"))
        .flat_map(|(path, text)| {
            let found = unsearchable(&tokens_outside_tests(text));
            found.into_iter().map(move |name| {
                format!("{}: `fn {name}`: say by its name what it makes or does", path.display())
            })
        })
        .collect()
}

fn unsearchable<'text>(tokens: &[Token<'text>]) -> Vec<&'text str> {
    let named = tokens.windows(2).filter_map(|pair| match pair {
        [Token::Word("fn"), Token::Word(name)] if WORDS.contains(name) => Some(*name),
        _ => None,
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pronouns_are_found_outside_of_tests() {
        let text = "fn of() {}\nimpl A { pub(crate) const fn told(&self) { let of = 1; } }\nfn of_case() {}\n\
                    type B = fn(of: u8);\n#[cfg(test)]\nmod tests { fn said() {} }\n";
        assert_eq!(unsearchable(&tokens_outside_tests(text)), ["of", "told"]);
    }
}
