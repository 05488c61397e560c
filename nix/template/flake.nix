{
  description = "Scale: a kernel for the Hugging Face kernels library";

  inputs.kernelwright.url = "github:kernelwright/kernelwright";

  outputs =
    { self, kernelwright }:
    kernelwright.lib.genKernelFlakeOutputs {
      inherit self;
      path = ./.;
    };
}
