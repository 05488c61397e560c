//! Any text as an expression: parsed, printed, parsed again to the same tree, and evaluated without a panic.
#![no_main]

use kernel_plan::spec::expr::{Bindings, Value, parse_expression};

const VALUES: [i64; 5] = [0, 1, -7, i64::MAX, i64::MIN];

libfuzzer_sys::fuzz_target!(|text: &str| {
    // A seed is a line of a file.
    let text = text.strip_suffix('\n').unwrap_or(text);
    let Ok(tree) = parse_expression(text) else { return };
    let printed = tree.to_string();
    let again = parse_expression(&printed).expect("what is printed is an expression");
    assert!(tree == again, "`{printed}` is another tree than `{text}`");
    for value in VALUES {
        let mut bindings = Bindings::default();
        for name in ["a", "b", "rows", "hidden", "block"] {
            bindings.names.insert(name.parse().expect("a name"), Value::Integer(value));
        }
        // A value or an error are both an answer; the same tree has the same.
        assert_eq!(tree.evaluate(&bindings).ok(), again.evaluate(&bindings).ok());
    }
});
