//! Black-box tests: the real program, in a temporary home, with neither network nor GPU.
//!
//! One binary, so that the program's dependencies are linked once.
#![expect(clippy::disallowed_methods, reason = "a test stands outside and uses the same doors as a person")]
#![expect(clippy::disallowed_macros, reason = "a skipped test says why")]

mod abi;
mod agents;
mod build_devices;
mod build_fakes;
mod build_pool;
mod build_releases;
mod build_shared;
mod cargo;
mod check;
mod ci;
mod cli;
mod client;
mod device_code;
mod device_reads;
mod elsewhere;
mod examples;
mod exchange;
mod fake_hub;
mod filling;
mod first_screen;
mod fixtures;
mod frameworks;
mod full_disk;
mod gates;
mod generate;
mod hub;
mod judged;
mod judging;
mod kept;
mod lighter;
mod lint;
mod logging;
mod mcp;
mod mistakes;
mod new;
mod odd_files;
mod official;
#[path = "../../src/archive/old_records.rs"]
mod old_records;
mod operands;
mod oracle;
mod outside;
mod own_hub;
mod packaged;
mod publish;
mod publishing_hub;
mod publishing_stock;
mod real_agents;
mod recorded;
mod records;
mod rust_kernels;
mod sandbox;
mod schema;
mod selftest;
mod signals;
mod signing;
mod skill;
mod starting;
mod update;
mod variants;
