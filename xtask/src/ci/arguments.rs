//! The command line of `cargo xtask ci`.
//!
//! Owns: which words go together. Never: knows the items of a step.

/// A request, as typed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    /// Every step in order.
    Whole(Whole),
    /// One step, with all its items or those named.
    One { step: &'a str, items: Vec<&'a str> },
    /// Write .ci/proven.toml from earlier runs in this tree.
    Record,
    /// Print the steps.
    List,
}

/// The choices of a run of every step.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Whole {
    /// Leave nothing out.
    pub(crate) full: bool,
    /// Go on after a step that fails.
    pub(crate) keep_going: bool,
    /// Write .ci/proven.toml when everything passed.
    pub(crate) record: bool,
}

/// Reads the words after `ci`; `steps` are the names of all steps.
///
/// # Errors
/// A word is not known, or some do not go together.
pub(crate) fn parse<'a>(words: &[&'a str], steps: &[&str]) -> Result<Request<'a>, String> {
    match words {
        ["--list"] => return Ok(Request::List),
        ["--record"] => return Ok(Request::Record),
        [step, items @ ..] if !step.starts_with('-') => {
            if !steps.contains(step) {
                return Err(format!("`{step}` is not a step of CI; steps: {}", steps.join(", ")));
            }
            if let Some(option) = items.iter().find(|item| item.starts_with('-')) {
                return Err(format!("`{option}` is for a run of all steps, not for `{step}` alone"));
            }
            return Ok(Request::One { step, items: items.to_vec() });
        }
        _ => {}
    }
    let mut whole = Whole::default();
    for word in words {
        match *word {
            "--full" => whole.full = true,
            "--keep-going" => whole.keep_going = true,
            "--record" => whole.record = true,
            "--list" => return Err("`--list` cannot be combined with other options".to_owned()),
            step if !step.starts_with('-') => {
                return Err(format!("options are for a run of all steps, not for `{step}` alone"));
            }
            other => {
                return Err(format!(
                    "`{other}` is not an option of CI; options: --full, --keep-going, --record, --list"
                ));
            }
        }
    }
    Ok(Request::Whole(whole))
}

/// The named items in the order of `all`, or all of them when nothing is named.
///
/// # Errors
/// An item is not there; all that are there are in the message.
pub(crate) fn chosen(step: &str, all: &[String], named: &[&str]) -> Result<Vec<String>, String> {
    if let Some(unknown) = named.iter().find(|name| !all.iter().any(|item| item == *name)) {
        return Err(format!("`{unknown}` is not an item of the step {step}; items: {}", all.join(", ")));
    }
    let wanted = |item: &&String| named.is_empty() || named.contains(&item.as_str());
    Ok(all.iter().filter(wanted).cloned().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: &[&str] = &["test", "generated"];

    #[test]
    fn whole_runs_single_steps_and_the_rest() {
        assert_eq!(parse(&[], STEPS), Ok(Request::Whole(Whole::default())));
        let all = Whole { full: true, keep_going: true, record: true };
        assert_eq!(parse(&["--full", "--keep-going", "--record"], STEPS), Ok(Request::Whole(all)));
        assert_eq!(parse(&["--record"], STEPS), Ok(Request::Record));
        assert_eq!(parse(&["--list"], STEPS), Ok(Request::List));
        let one = Request::One { step: "generated", items: vec!["swiglu"] };
        assert_eq!(parse(&["generated", "swiglu"], STEPS), Ok(one));
    }

    #[test]
    fn wrong_words_are_refused() {
        let refused = |words: &[&str]| parse(words, STEPS).unwrap_err();
        assert_eq!(refused(&["tests"]), "`tests` is not a step of CI; steps: test, generated");
        assert!(refused(&["--fast"]).starts_with("`--fast` is not an option of CI"));
        assert!(refused(&["test", "--full"]).contains("not for `test` alone"));
        assert!(refused(&["--full", "test"]).contains("not for `test` alone"));
        assert!(refused(&["--list", "--full"]).contains("--list"));
    }

    #[test]
    fn items_are_named_exactly() {
        let all = ["rope".to_owned(), "rope-3d".to_owned()];
        assert_eq!(chosen("generated", &all, &[]).unwrap().len(), 2);
        assert_eq!(chosen("generated", &all, &["rope"]).unwrap(), ["rope"]);
        let message = "`rop` is not an item of the step generated; items: rope, rope-3d";
        assert_eq!(chosen("generated", &all, &["rop"]), Err(message.to_owned()));
    }
}
