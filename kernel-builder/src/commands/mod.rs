//! The verbs. The only place where stages meet.
//!
//! Owns: what each verb does with the stages, in which order, and what it prints.
//! Never: does a stage's work itself.

pub mod about;
mod against;
pub mod bench;
pub mod build;
pub mod build_summary;
pub mod check;
pub mod check_abi;
mod destination;
mod device;
pub mod doctor;
mod elsewhere;
pub mod export;
pub mod fill;
pub mod full_abi;
pub mod gates;
pub mod generate;
pub mod gpu;
pub mod hub;
pub mod import;
pub mod judges;
pub mod layout;
pub mod libraries;
pub mod lint;
pub mod load;
pub mod lock;
pub mod make;
pub mod new;
pub mod package;
pub mod project;
pub mod prove;
pub mod publish;
pub mod report;
pub mod reproduce;
pub mod reproducible;
pub mod schema;
pub mod screen;
mod screening;
pub mod selection;
pub mod selftest;
pub mod serve;
pub mod shell;
pub mod sign;
pub mod templates;
pub mod toolchain;
mod tracing;
#[cfg(test)]
mod tracing_tests;
mod tuned;
pub mod update;
pub mod variants;
pub mod verify;
pub mod verify_build;
pub mod worker;
