//! The codes of what can be wrong with variants.toml and with a choice from it.
//!
//! Owns: the names, which are stable once released.
//! Never: holds a message; those are written where the problem is found.

crate::diagnostic::codes! {
    /// The id of a row does not follow from its axes.
    ID_MISMATCH = "variant::id_mismatch",
    /// A row with a toolkit where its backend has none, or without one where it needs it.
    TOOLKIT = "variant::toolkit",
    /// Two rows are the same variant.
    DUPLICATE_ROW = "variant::duplicate_row",
    /// No row is right for the project.
    NOTHING_SELECTED = "variant::nothing_selected",
}
