{
  description = "What Kernelwright's flake takes of nixpkgs, from the machine that it runs on: for tests without a network";

  outputs =
    { self }:
    {
      legacyPackages = builtins.listToAttrs (
        map
          (system: {
            name = system;
            value = import ./packages.nix system;
          })
          [
            "x86_64-linux"
            "aarch64-linux"
          ]
      );
    };
}
