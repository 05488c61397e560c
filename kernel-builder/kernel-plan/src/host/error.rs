//! Why no host side can be generated for an operation.
//!
//! Owns: this error. Never: decides.

/// An operation that no host side can be generated for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    /// Neither `[launch]` nor `[cpu]`.
    #[error(
        "op.toml says neither how device code is started ([launch]) nor what runs on the processor ([cpu])"
    )]
    NoCode,
    /// No `[launch]`, for a host side that starts device code alone.
    #[error("op.toml has no [launch], so there is no device code to start")]
    NoLaunch,
    /// Something of the format that generated code does not do.
    #[error("{what}, and a generated host side does not do that")]
    Unsupported {
        /// What op.toml asks for.
        what: String,
    },
    /// A gradient that no operator computes, or that PyTorch does not take.
    #[error("[gradient] is set, but {problem}")]
    Gradient {
        /// What is in the way.
        problem: &'static str,
    },
    /// A gradient that is promised and not computed.
    #[error("`{input}` has a gradient, but backward.toml has no output `grad_{input}`")]
    NoGradient {
        /// The input.
        input: String,
    },
    /// A macro that depends on lengths, so that no code compiled ahead of time can have it.
    #[error("the macro `{name}` of [launch.define] is `{expression}`, which lengths decide")]
    Define {
        /// The macro.
        name: String,
        /// Its value.
        expression: String,
    },
    /// A template argument or a condition that depends on what the search for instances does not try.
    #[error("`{expression}` of the kernel `{entry}` depends on what is known at a call alone")]
    Undecided {
        /// The expression.
        expression: String,
        /// The kernel.
        entry: String,
    },
    /// Too many instances of a kernel.
    #[error("the kernel `{entry}` has more than {most} instances over all lengths")]
    TooMany {
        /// The kernel.
        entry: String,
        /// The limit.
        most: usize,
    },
    /// No lengths start any kernel.
    #[error("no lengths were found that start a kernel of [launch]")]
    Never,
}

/// Something of the format that generated code does not do.
pub(super) fn unsupported(what: String) -> HostError {
    HostError::Unsupported { what }
}
