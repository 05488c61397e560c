{
  description = "Kernelwright: from a PyTorch operation to a published GPU kernel";

  # The one input. What is taken of it is listed in docs/nix.md.
  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs =
    { self, nixpkgs }:
    let
      systems = [
        "x86_64-linux"
        "aarch64-linux"
      ];
      eachSystem =
        outputs:
        builtins.listToAttrs (
          map (system: {
            name = system;
            value = outputs system;
          }) systems
        );
      pkgsOf = system: nixpkgs.legacyPackages.${system};

      lib = import ./nix/lib.nix {
        inherit nixpkgs systems eachSystem;
        kernelwrightOf = system: self.packages.${system}.kernelwright;
      };

      # A project of this repository, as its own flake has it.
      example =
        path:
        lib.genKernelFlakeOutputs {
          inherit self path;
        };
      examples = {
        rms-norm = example ./examples/rms-norm;
      };
    in
    {
      inherit lib;

      packages = eachSystem (system: rec {
        kernelwright = import ./nix/package.nix { pkgs = pkgsOf system; };
        default = kernelwright;
      });

      apps = eachSystem (system: rec {
        kernelwright = {
          type = "app";
          program = "${self.packages.${system}.kernelwright}/bin/kernelwright";
          meta.description = "From a PyTorch operation to a published GPU kernel";
        };
        default = kernelwright;
      });

      checks = eachSystem (
        system:
        {
          version = (pkgsOf system).runCommand "kernelwright-version" { } ''
            ${self.packages.${system}.kernelwright}/bin/kernelwright --version > $out
          '';
        }
        // builtins.listToAttrs (
          builtins.concatMap (
            name:
            map (check: {
              name = "${name}-${check}";
              value = examples.${name}.checks.${system}.${check};
            }) (builtins.attrNames examples.${name}.checks.${system})
          ) (builtins.attrNames examples)
        )
      );

      devShells = eachSystem (
        system:
        let
          pkgs = pkgsOf system;
        in
        {
          default = pkgs.mkShell {
            packages = [
              pkgs.cargo
              pkgs.rustc
              pkgs.rustfmt
              pkgs.clippy
              pkgs.patchelf
              (pkgs.python3.withPackages (python: [ python.pip ]))
            ];
          };
        }
      );

      overlays.default = final: _: {
        kernelwright = import ./nix/package.nix { pkgs = final; };
      };

      templates = rec {
        kernel = {
          path = ./nix/template;
          description = "A small kernel for the CPU, to begin with";
        };
        default = kernel;
      };

      formatter = eachSystem (system: (pkgsOf system).nixfmt-tree);
    };
}
