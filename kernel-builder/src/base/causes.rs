//! The text of an error with its causes, on one line.
//!
//! Owns: how an error and its causes are joined. Never: prints.

use std::error::Error;

/// A cause of any type; a text that says what is wrong is one, too.
pub type Cause = Box<dyn Error + Send + Sync>;

/// The messages of an error and of its causes, outermost first: ``failed to read `a`: permission denied``.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string().trim_end().to_owned();
    let mut next = error.source();
    while let Some(cause) = next {
        let part = format!(": {}", cause.to_string().trim_end());
        // Errors of some libraries repeat their cause in their own message.
        if !text.ends_with(&part) {
            text += &part;
        }
        next = cause.source();
    }
    text
}

/// What is wrong with a TOML file, without the lines around it.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.message())]
pub struct TomlError(#[from] toml::de::Error);

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Layer {
        #[error("cannot bake")]
        Bake(#[source] Box<Layer>),
        #[error("cannot heat: {0}")]
        Heat(#[source] Box<Layer>),
        #[error(transparent)]
        Oven(Box<Layer>),
        #[error("no wood")]
        Wood,
    }

    #[test]
    fn every_cause_is_told_once() {
        let wood = || Box::new(Layer::Wood);
        assert_eq!(chain(&Layer::Wood), "no wood");
        assert_eq!(chain(&Layer::Bake(Box::new(Layer::Heat(wood())))), "cannot bake: cannot heat: no wood");
        assert_eq!(chain(&Layer::Oven(Box::new(Layer::Bake(wood())))), "cannot bake: no wood");
    }
}
