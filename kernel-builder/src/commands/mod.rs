//! The verbs: a file each.
//!
//! Owns: the arguments of each verb, and what it prints at its end. Never: does the work, which a stage of `pipeline` does;
//! calls another verb.

mod arguments;
pub mod bench;
pub mod build;
pub mod candidates;
pub mod check;
pub mod check_abi;
pub mod doctor;
pub mod embed;
pub mod explain;
pub mod export;
pub mod fill;
pub mod generate;
pub mod gpu;
pub mod hub;
pub mod import;
pub mod inject;
pub mod layout;
pub mod lint;
pub mod load;
pub mod lock;
pub mod make;
pub mod mcp;
pub mod new;
pub mod package;
pub mod pin;
pub mod profile;
pub mod publish;
pub mod report;
pub mod reproduce;
pub mod schema;
pub mod screen;
pub mod selftest;
pub mod serve;
pub mod shell;
pub mod sign;
pub mod skill;
pub mod submit;
pub mod templates;
pub mod toolchain;
pub mod update;
pub mod variants;
pub mod verify;
pub mod verify_build;
pub mod worker;
