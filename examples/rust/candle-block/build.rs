//! Compiles the kernels that Cargo.toml lists.

fn main() {
    kernelwright_build::compile();
}
