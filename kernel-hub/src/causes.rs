//! The text of an error with its causes, on one line.
//!
//! Owns: how an error and its causes are joined. Never: prints.

use std::error::Error;

/// The message of an error and of each of its causes, the outermost first.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let part = format!(": {cause}");
        // Errors that name a place before their cause have it in their own message.
        if !text.ends_with(&part) {
            text += &part;
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::StoreError;

    #[test]
    fn a_damaged_file_is_named_with_the_place_in_it() {
        let cause = serde_json::from_str::<u8>("{").unwrap_err();
        let error = StoreError::Unreadable { path: "trees/a".into(), cause };
        let text = chain(&error);
        assert!(text.starts_with("trees/a is damaged: ") && text.contains("line 1 column"), "{text}");
    }
}
