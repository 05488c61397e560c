//! Operators that torch did not take when a library was loaded.
//!
//! Owns: finding them in what a process wrote to standard error, and in what its dispatcher has. Never: runs one.
//!
//! No exception passes torch's stable interface: what is thrown behind it is printed (torch 2.10 and 2.11:
//! `shim_common.cpp`) or not even that (2.15), and the library goes on as if the operator were there. Two kernels for one
//! operator are a warning in both interfaces, told once in a process, and the last one counts. So an import that raises
//! nothing may still have lost an operator.

/// What torch prints before the message of an exception that does not pass its stable interface.
const CAUGHT: &str = "Exception in aoti_torch: ";
/// Functions that register, in the message or in the list of callers that follows it. Whatever else fails at import may
/// have been tried on purpose.
const REGISTERING: &[&str] = &[
    "aoti_torch_library_",
    "torch_library_impl",
    "from registerDef",
    "from registerLibrary",
    "from registerImpl",
    "Tried to register",
    "Only a single TORCH_LIBRARY",
];
/// Letters of a message that this file does not know.
const LETTERS: usize = 300;

/// What was lost, a sentence each: by what the process said, and by the operators that have more than one kernel for a
/// dispatch key (`NAME for KEY`).
pub(crate) fn lost(said: &str, doubled: &[&str]) -> Vec<String> {
    let mut told: Vec<String> = Vec::new();
    let mut twice: Vec<&str> = Vec::new();
    for piece in
        said.split(CAUGHT).skip(1).filter(|piece| REGISTERING.iter().any(|name| piece.contains(name)))
    {
        let message = piece.lines().next().unwrap_or_default();
        let sentence = if let Some(operator) =
            between(message, "Tried to register an operator (", ") with the same")
        {
            twice.extend(operator.split('(').next());
            format!(
                "operator `{operator}` is defined twice, and the second definition has no effect; define it once, or \
                 give one of them its own overload name"
            )
        } else if let Some(namespace) = between(message, "to register the namespace ", ";") {
            format!(
                "the namespace `{namespace}` has two STABLE_TORCH_LIBRARY blocks, and the second one has no \
                 effect; make it a STABLE_TORCH_LIBRARY_FRAGMENT, or merge the blocks"
            )
        } else {
            format!("a registration failed: {}", cut(message))
        };
        if !told.contains(&sentence) {
            told.push(sentence);
        }
    }
    for (operator, key) in doubled.iter().filter_map(|one| one.split_once(" for ")) {
        if !twice.contains(&operator) {
            told.push(format!(
                "operator `{operator}` has two kernels for {key}, and only the last one is called; define and \
                 implement it once"
            ));
        }
    }
    told
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    Some(text.split_once(before)?.1.split_once(after)?.0.trim())
}

fn cut(message: &str) -> &str {
    message.char_indices().nth(LETTERS).map_or(message, |(end, _)| &message[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What torch 2.11 printed for an operator of two fragments, with most of the callers left out.
    const TWICE: &str = "\
[E1121 21:37:52.076370640 shim_common.cpp:1458] Exception in aoti_torch: Tried to register an operator (_k_0::one() -> \
int) with the same name and overload name multiple times. Each overload's schema should only be registered with a \
single call to def(). Duplicate registration: registered at b.cpp:4. Original registration: registered at a.cpp:4
Exception raised from registerDef at /pytorch/aten/src/ATen/core/dispatch/Dispatcher.cpp:248 (most recent call first):
frame #4: aoti_torch_library_def + 0x99 (0x7f3710cc75d9 in libtorch_cpu.so)
";
    const NOTHING: Vec<String> = Vec::new();

    #[test]
    fn an_operator_that_is_defined_twice_is_told_once() {
        let told = lost(TWICE, &["_k_0::one for CPU"]);
        assert_eq!(told.len(), 1, "{told:?}");
        assert!(told[0].starts_with("operator `_k_0::one() -> int` is defined twice"), "{told:?}");
    }

    #[test]
    fn two_kernels_are_told_where_nothing_is_said() {
        let told = lost("", &["_k_0::one for CompositeExplicitAutograd"]);
        assert!(
            told[0].starts_with("operator `_k_0::one` has two kernels for CompositeExplicitAutograd"),
            "{told:?}"
        );
    }

    #[test]
    fn two_blocks_of_one_namespace_and_what_is_not_known() {
        let blocks = "x] Exception in aoti_torch: Only a single TORCH_LIBRARY can be used to register the namespace \
                      _k_0; please put all of your definitions in a single TORCH_LIBRARY block.\n";
        assert!(lost(blocks, &[])[0].contains("`_k_0` has two STABLE_TORCH_LIBRARY blocks"));
        let schema =
            "Exception in aoti_torch: expected identifier\nframe #3: aoti_torch_library_def + 0x99\n";
        assert_eq!(lost(schema, &[]), ["a registration failed: expected identifier"]);
    }

    #[test]
    fn what_else_an_import_tries_is_nobodys_loss() {
        let probed =
            "Exception in aoti_torch: no device\nframe #3: aoti_torch_get_current_device_index + 0x9\n";
        assert_eq!(lost(probed, &[]), NOTHING);
        assert_eq!(lost("a warning of another library\n", &[]), NOTHING);
    }
}
