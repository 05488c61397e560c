# What the flake of a kernel project calls. All that it decides is which command of `kernelwright` makes what: the variants,
# what each is built from, and every command line of a compiler are the program's (docs/nix.md).
{
  nixpkgs,
  systems,
  eachSystem,
  kernelwrightOf,
}:

let
  genKernelFlakeOutputs =
    {
      # The project: the folder of build.toml and kernelwright.lock.
      path,
      # The flake, for the commit that it is of.
      self ? null,
      # The commit, where there is no `self`; what is none, such as a short one or a date, is passed over.
      rev ? null,
      # Packages of Python beside the test shells' own.
      pythonCheckInputs ? _: [ ],
      pythonNativeCheckInputs ? _: [ ],
      # Arguments of Hugging Face's builder that mean nothing here; docs/nix.md says why.
      doGetKernelCheck ? true,
      torchVersions ? null,
    }:
    let
      kernel = import ./kernel.nix {
        inherit
          path
          pythonCheckInputs
          pythonNativeCheckInputs
          ;
        # A commit, or one with `-dirty` behind it; Nix before 2.14 tells nothing of a changed tree.
        commit =
          let
            isWhole = rev != null && builtins.match "[0-9a-f]{40}(-dirty)?" rev != null;
          in
          if self != null then
            self.rev or (self.dirtyRev or null)
          else if isWhole then
            rev
          else
            null;
      };
      of = eachSystem (
        system:
        kernel {
          inherit system;
          pkgs = nixpkgs.legacyPackages.${system};
          kernelwright = kernelwrightOf system;
        }
      );
      output = name: builtins.mapAttrs (_: outputs: outputs.${name}) of;
    in
    {
      packages = output "packages";
      apps = output "apps";
      checks = output "checks";
      devShells = output "devShells";
      testShells = output "testShells";
      formatter = output "formatter";
      # The ids, for other programs.
      variants = output "variants";
    };
in
{
  inherit systems genKernelFlakeOutputs;

  # The name before 2025, by which old flakes still call it.
  genFlakeOutputs =
    _:
    throw "`genFlakeOutputs` is now called `genKernelFlakeOutputs`: write `kernelwright.lib.genKernelFlakeOutputs { inherit self; path = ./.; }`";
}
