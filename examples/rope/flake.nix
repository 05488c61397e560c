{
  description = "Rope: a kernel for the Hugging Face kernels library";

  # The builder of this checkout; elsewhere it is "github:kernelwright/kernelwright".
  inputs.kernelwright.url = "path:../..";

  # Output by output: Nix 2.26 must know these names before it reads an input that lies in the same checkout.
  outputs =
    { self, kernelwright }:
    {
      inherit
        (kernelwright.lib.genKernelFlakeOutputs {
          inherit self;
          path = ./.;
        })
        apps
        checks
        devShells
        formatter
        packages
        testShells
        variants
        ;
    };
}
