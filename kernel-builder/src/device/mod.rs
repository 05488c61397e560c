//! The GPU behind a process of its own: memory, kernels and clocks, as the judge tells it.
//!
//! Owns: the worker, the words it is asked with, and what becomes of one that dies or hangs.
//! Never: judges a result.

pub(crate) mod calls;
pub(crate) mod gpu;
pub(crate) mod wire;
pub(crate) mod worker;

pub(crate) use gpu::ROLE;
pub(crate) use worker::serve;
