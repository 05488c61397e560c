//! The stages of a project, and which may call which.

pub(crate) mod build;
pub(crate) mod create;
pub(crate) mod judge;
pub(crate) mod make;
pub(crate) mod measure;
pub mod project;
pub(crate) mod ship;
pub(crate) mod tune;
