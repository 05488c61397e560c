//! The codes of everything that can be wrong with a definition of flashinfer-bench, and with making one.
//!
//! Owns: the names, which are stable once released.
//! Never: holds a message; those are written where the problem is found.

crate::diagnostic::codes! {
    /// The text is not JSON.
    SYNTAX = "exchange::syntax",
    /// A key that has to be there is not.
    MISSING_KEY = "exchange::missing_key",
    /// A value of another JSON type.
    WRONG_TYPE = "exchange::wrong_type",
    /// A value of the right type that means nothing here.
    BAD_VALUE = "exchange::bad_value",
    /// The same name for two things that must differ.
    DUPLICATE = "exchange::duplicate",
    /// A shape with an axis that `axes` does not define.
    UNKNOWN_AXIS = "exchange::unknown_axis",
    /// A workload that does not fit the definition.
    WORKLOAD = "exchange::workload",
    /// Something that the other format has no counterpart for, and without which the operation would be another.
    UNSUPPORTED = "exchange::unsupported",
    /// The reference cannot be called as flashinfer-bench calls it, by `run`.
    RUN = "exchange::run",
    /// Something that op.toml needs and a definition does not say.
    ASSUMED = "exchange::assumed",
    /// Something that the other format has no place for; the operation stays the same.
    DROPPED = "exchange::dropped",
    /// Nothing is left to export.
    NOTHING = "exchange::nothing",
}
