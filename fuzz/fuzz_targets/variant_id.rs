//! Any text as the id of a variant: what is read prints back to an id that means the same.
#![no_main]

use kernel_plan::variant::Variant;

libfuzzer_sys::fuzz_target!(|text: &str| {
    // A seed is a line of a file.
    let text = text.strip_suffix('\n').unwrap_or(text);
    let Ok(variant) = text.parse::<Variant>() else { return };
    let id = variant.id().to_string();
    assert_eq!(id.parse::<Variant>().ok(), Some(variant), "`{text}` became `{id}`");
});
