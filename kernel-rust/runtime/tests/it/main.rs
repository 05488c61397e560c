//! The modules that the generator makes, compiled against this runtime. kernel-builder's tests hold them against the generator.

use std::sync::Arc;

use kernelwright_runtime::cudarc::driver::{CudaContext, CudaStream};
use kernelwright_runtime::{Device, Error, Tensor, TensorMut, half};

mod tuned {
    include!("generated/rms_norm.txt");
}

mod every {
    include!("generated/every_form.txt");
}

mod stub {
    include!("generated/stub.txt");
}

type Stream = Arc<CudaStream>;
type Norm<T> = fn(&Stream, &mut TensorMut<'_, T>, &Tensor<'_, T>, &Tensor<'_, T>, f64) -> Result<(), Error>;

#[test]
fn functions_have_the_signature_of_op_toml() {
    // Each dtype of op.toml, and the same one for all tensors of a type variable.
    let _: Norm<f32> = tuned::rms_norm;
    let _: Norm<half::f16> = tuned::rms_norm;
    let _: Norm<half::bf16> = stub::rms_norm;
    let _: fn(&Arc<CudaContext>) -> Result<(), Error> = tuned::rms_norm::load;
    // Results, then inputs: one that is overwritten, one that may be left out, one of a dtype of its own; scalars.
    #[expect(clippy::type_complexity, reason = "the signature is what is tested")]
    let _: fn(
        &Stream,
        &mut TensorMut<'_, f64>,
        &Tensor<'_, half::bf16>,
        &mut TensorMut<'_, half::bf16>,
        Option<&Tensor<'_, half::bf16>>,
        &Tensor<'_, i64>,
        f64,
        i64,
        bool,
    ) -> Result<(), Error> = every::every_form;
}

/// Whether a type may stand for `T`: the constant of the type comes before that of the trait, where its bound holds.
struct Probe<T>(std::marker::PhantomData<T>);

trait Refused {
    const TAKEN: bool = false;
}

impl<T> Refused for Probe<T> {}

impl<T: tuned::rms_norm::DtypeT> Probe<T> {
    const TAKEN: bool = true;
}

#[test]
fn a_dtype_that_op_toml_does_not_list_does_not_compile() {
    const { assert!(Probe::<f32>::TAKEN && Probe::<half::bf16>::TAKEN && Probe::<half::f16>::TAKEN) };
    const { assert!(!Probe::<f64>::TAKEN && !Probe::<i32>::TAKEN && !Probe::<u8>::TAKEN) };
}

#[test]
fn a_machine_without_a_driver_is_an_error_that_says_so() {
    // With a driver there may be a GPU or none; what is never there is a panic.
    match Device::new(0) {
        Ok(device) => assert!(device.stream().is_ok()),
        Err(error @ Error::NoDriver { .. }) => {
            let text = error.to_string();
            assert!(
                text.contains("no CUDA driver was found") && text.contains("install the driver"),
                "{text}"
            );
        }
        Err(error) => assert!(matches!(error, Error::Driver(_)), "{error}"),
    }
}
