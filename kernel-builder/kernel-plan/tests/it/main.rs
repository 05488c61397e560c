//! The tests of this crate, one binary: whole files in, rendered text or plain values out.

mod argv;
mod argv_devices;
mod build_toml;
mod errors;
mod exchange;
mod exchange_errors;
mod exchange_properties;
mod expr;
mod frameworks;
mod lets;
mod op;
mod preference;
mod project;
mod regions;
mod rules;
mod schema;
mod selector;
mod spec;
mod steps;
mod tidy;
mod translate;
mod units;
mod update;
mod update_drawn;
mod variant;
