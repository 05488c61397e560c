//! The codes of what can be wrong with variants.toml, with a selector and with a choice from the matrix.
//!
//! Owns: the names, which are stable once released.
//! Never: holds a message; those are written where the problem is found.

crate::diagnostic::codes! {
    /// The id of a row does not follow from its axes.
    ID_MISMATCH = "variant::id_mismatch",
    /// A row with axes that do not go together.
    AXES = "variant::axes",
    /// A row with a toolkit where its backend has none, or without one where it needs it.
    TOOLKIT = "variant::toolkit",
    /// Two rows are the same variant.
    DUPLICATE_ROW = "variant::duplicate_row",
    /// No row is right for the project.
    NOTHING_SELECTED = "variant::nothing_selected",
    /// Rows are right for the project, and none can be built on this machine.
    NOT_BUILDABLE = "variant::not_buildable",
    /// A selector that is no expression.
    SELECTOR_SYNTAX = "variant::selector_syntax",
    /// A selector with a word that it does not know.
    SELECTOR_NAME = "variant::selector_name",
    /// A selector that compares with a value that means nothing there.
    SELECTOR_VALUE = "variant::selector_value",
}
