//! Tells cargo that the templates and the kernels of `selftest` are part of the program: a changed one is embedded anew.
#![expect(clippy::disallowed_macros, reason = "cargo reads a build script's standard output")]

fn main() {
    println!("cargo::rerun-if-changed=../templates");
    println!("cargo::rerun-if-changed=../tests/cheats");
}
