//! The verbs. The only place where stages meet.
//!
//! Owns: what each verb does with the stages, in which order, and what it prints.
//! Never: does a stage's work itself.

pub mod check;
pub mod check_abi;
pub mod doctor;
pub mod export;
pub mod hub;
pub mod import;
pub mod lint;
pub mod new;
pub mod publish;
pub mod report;
pub mod schema;
pub mod selftest;
pub mod serve;
pub mod shell;
pub mod sign;
pub mod templates;
pub mod toolchain;
pub mod update;
pub mod variants;
pub mod worker;
