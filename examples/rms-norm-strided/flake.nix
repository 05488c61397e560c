{
  description = "Rms Norm Strided: a kernel for the Hugging Face kernels library";

  # The builder of this checkout; elsewhere it is "github:kernelwright/kernelwright".
  inputs.kernelwright.url = "path:../..";

  outputs =
    { self, kernelwright }:
    kernelwright.lib.genKernelFlakeOutputs {
      inherit self;
      path = ./.;
    };
}
