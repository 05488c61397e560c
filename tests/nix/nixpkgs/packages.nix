# Every name that Kernelwright's flake takes of nixpkgs, and no other. Programs are the machine's own, so a store that this
# filled is for tests alone: what is in it does not follow from what it was made of.
system:

let
  shell = "/bin/sh";

  runCommand =
    name: attributes: text:
    derivation (
      {
        inherit name system;
        builder = shell;
        outputs = [ "out" ];
        PATH = "/usr/bin:/bin";
        # Not the last command itself: Nix ends a builder that closes its output before it ends (NixOS/nix#2176).
        args = [
          "-ec"
          (text + "\nexit 0\n")
        ];
      }
      // attributes
    );

  # A package that is programs of the machine.
  host =
    name: programs:
    runCommand name { } ''
      mkdir -p $out/bin
      for program in ${builtins.concatStringsSep " " programs}; do
        ln -s "$(command -v "$program")" $out/bin/"$program"
      done
    '';

  writeShellScriptBin =
    name: text:
    runCommand name { inherit text; } ''
      mkdir -p $out/bin
      printf '#!/bin/bash\n%s' "$text" > $out/bin/${name}
      chmod +x $out/bin/${name}
    '';
in
{
  inherit runCommand writeShellScriptBin;

  # The program as cargo built it before: `prebuilt/` is put beside this file in a copy of this folder, with the certificates
  # that this machine trusts.
  rustPlatform.buildRustPackage =
    { pname, version, ... }:
    runCommand "${pname}-${version}" { } ''
      mkdir -p $out/bin
      cp ${./prebuilt/kernelwright} $out/bin/${pname}
      chmod +x $out/bin/${pname}
    '';

  # No `bintools.dynamicLinker`: the sandbox of the tests has /lib64.
  stdenv.cc =
    host "cc" [
      "g++"
      "gcc"
    ]
    // {
      bintools = host "binutils" [
        "ar"
        "as"
        "ld"
        "nm"
      ];
    };
  coreutils = host "coreutils" [ "cp" ];
  patchelf = host "patchelf" [ "true" ];
  python3.withPackages = _: host "python3" [ "python3" ];
  cacert = runCommand "cacert" { } ''
    mkdir -p $out/etc/ssl/certs
    cp ${./prebuilt/ca-bundle.crt} $out/etc/ssl/certs/ca-bundle.crt
  '';
  cargo = host "cargo" [ "true" ];
  rustc = host "rustc" [ "true" ];
  rustfmt = host "rustfmt" [ "true" ];
  clippy = host "clippy" [ "true" ];
  nixfmt-tree = host "nixfmt-tree" [ "true" ];

  mkShell =
    { packages, ... }@attributes:
    derivation (
      builtins.removeAttrs attributes [ "packages" ]
      // {
        name = "shell";
        inherit system;
        builder = "/bin/bash";
        outputs = [ "out" ];
        args = [
          "-c"
          "echo > $out; exit 0"
        ];
        PATH = builtins.concatStringsSep ":" (map (package: "${package}/bin") packages ++ [ "/usr/bin" "/bin" ]);
      }
    );
}
