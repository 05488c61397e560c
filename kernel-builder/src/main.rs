//! The `kernelwright` program.
fn main() {}
