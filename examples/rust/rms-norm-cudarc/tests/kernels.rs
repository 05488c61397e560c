//! What the build script made. A GPU is used where there is one.

use std::process::Command;

use kernelwright_runtime::{Device, Error};
use rms_norm_cudarc::{kernels, reference};

#[test]
fn the_program_has_code_for_the_architectures_of_cargo_toml() {
    let program = std::fs::read(env!("CARGO_BIN_EXE_rms-norm-cudarc")).unwrap();
    let has = |text: &str| program.windows(text.len()).any(|bytes| bytes == text.as_bytes());
    // PTX is text; machine code is ELF for the machine 190, EM_CUDA.
    assert!(has(".target sm_120") && has("rms"), "no PTX");
    let is_cubin = |bytes: &[u8]| bytes.starts_with(b"\x7fELF\x02") && bytes[18..20] == [190, 0];
    let cubins = program.windows(20).filter(|bytes| is_cubin(bytes)).count();
    assert!(cubins >= 2, "{cubins} cubins");
}

#[test]
fn the_program_computes_or_says_what_is_missing() {
    let done = Command::new(env!("CARGO_BIN_EXE_rms-norm-cudarc")).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    match Device::new(0) {
        Ok(_) => assert!(done.status.success(), "{said}"),
        Err(Error::NoDriver { .. }) => assert!(said.contains("NoDriver"), "{said}"),
        Err(_) => assert!(!done.status.success(), "{said}"),
    }
}

#[test]
fn a_gpu_that_is_here_has_code() {
    match Device::new(0) {
        Ok(device) => kernels::rms_norm::load(device.context()).unwrap(),
        Err(error) => println!("skipped: {error}"),
    }
}

#[test]
fn the_reference_normalises_rows() {
    let out = reference(&[3.0, 4.0, 0.0, 0.0], &[1.0, 2.0], 0.0);
    let root = 12.5f64.sqrt();
    assert!((out[0] - 3.0 / root).abs() < 1e-12 && (out[1] - 8.0 / root).abs() < 1e-12);
    assert!(out[2].is_nan(), "a row of zeros without eps has no root mean square");
}
