//! Times RMSNorm, softmax and SwiGLU at 4096 x 4096 in bf16, by candle and by the kernels, and compares both with float64.

use std::error::Error;

#[cfg(feature = "cuda")]
mod times;

#[cfg(feature = "cuda")]
fn main() -> Result<(), Box<dyn Error>> {
    times::run()
}

#[cfg(not(feature = "cuda"))]
fn main() -> Result<(), Box<dyn Error>> {
    Err("this program was built without a GPU: build it with --features cuda".into())
}
