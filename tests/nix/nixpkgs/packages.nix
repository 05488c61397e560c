# Every name that Kernelwright's flake takes of nixpkgs, and no other, no laxer than there: an argument that nixpkgs' function
# does not have is an error here, too. Programs are the machine's own, so a store that this filled is for tests alone: what is
# in it does not follow from what it was made of.
system:

let
  shell = "/bin/sh";

  # With all that the machine has.
  make =
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
    make name { } ''
      mkdir -p $out/bin
      for program in ${builtins.concatStringsSep " " programs}; do
        ln -s "$(command -v "$program")" $out/bin/"$program"
      done
    '';

  coreutils = host "coreutils" [
    "basename"
    "cat"
    "cp"
    "dirname"
    "ls"
    "mkdir"
    "rm"
  ];

  # There it is stdenvNoCC: no compiler, no Python.
  runCommand =
    name: attributes: text:
    make name ({ PATH = "${coreutils}/bin"; } // attributes) text;

  # There `bash -n` looks at it, too.
  writeShellScriptBin =
    name: text:
    make name { inherit text; } ''
      mkdir -p $out/bin
      printf '#!/bin/bash\n%s\n' "$text" > $out/bin/${name}
      /bin/bash -n $out/bin/${name}
      chmod +x $out/bin/${name}
    '';

  # pkgs/build-support/bintools-wrapper/ld-wrapper.sh: the folder of each library that is linked becomes an RPATH, unless
  # this variable says otherwise, in which the target stands.
  suffixSalt = builtins.replaceStrings [ "-linux" ] [ "_unknown_linux_gnu" ] system;
  wrapped =
    program:
    builtins.toFile program ''
      #!/bin/bash
      program=$(PATH=/usr/bin:/bin command -v ${program})
      [ "''${NIX_DONT_SET_RPATH_${suffixSalt}:-}" = 1 ] || set -- "$@" -Wl,-rpath,/nix/store/none/lib
      exec "$program" "$@"
    '';

  # The names of pythonPackages that the flakes of the tests have.
  pythonPackages = builtins.listToAttrs (
    map
      (name: {
        inherit name;
        value = host name [ "true" ];
      })
      [
        "einops"
        "pip"
        "pytest"
      ]
  );

  isPackage = value: builtins.isAttrs value && (value.type or "") == "derivation";
in
{
  inherit coreutils runCommand writeShellScriptBin;

  # The programs as cargo built them before: `prebuilt/` is put beside this file in a copy of this folder, with the
  # certificates that this machine trusts.
  rustPlatform.buildRustPackage =
    {
      pname,
      version,
      src,
      cargoLock,
      cargoBuildFlags,
      doCheck,
      meta,
    }:
    # importCargoLock takes what a lock names from the registry, and wants hashes for what comes from elsewhere.
    assert builtins.all (
      package: !(package ? source) || builtins.substring 0 9 package.source == "registry+"
    ) (builtins.fromTOML (builtins.readFile cargoLock.lockFile)).package;
    assert !doCheck;
    make "${pname}-${version}" { inherit src cargoBuildFlags; } ''
      mkdir -p $out/bin
      cp ${./prebuilt/bin}/* $out/bin/
      chmod +x $out/bin/*
    ''
    // {
      inherit meta;
    };

  # No `bintools.dynamicLinker`: the sandbox of the tests has /lib64.
  stdenv.cc =
    make "cc" { } ''
      mkdir -p $out/bin
      cp ${wrapped "g++"} $out/bin/g++
      cp ${wrapped "gcc"} $out/bin/gcc
      chmod +x $out/bin/*
    ''
    // {
      inherit suffixSalt;
      bintools = host "binutils" [
        "ar"
        "as"
        "ld"
        "nm"
      ];
    };
  patchelf = host "patchelf" [ "true" ];
  python3.withPackages =
    choose:
    assert builtins.all isPackage (choose pythonPackages);
    host "python3" [ "python3" ];
  cacert = make "cacert" { } ''
    mkdir -p $out/etc/ssl/certs
    cp ${./prebuilt/ca-bundle.crt} $out/etc/ssl/certs/ca-bundle.crt
  '';
  cargo = host "cargo" [ "true" ];
  rustc = host "rustc" [ "true" ];
  rustfmt = host "rustfmt" [ "true" ];
  clippy = host "clippy" [ "true" ];
  nixfmt-tree = host "nixfmt-tree" [ "true" ];

  # Of the arguments that are not for the environment this one is used.
  mkShell =
    { packages, ... }@attributes:
    assert builtins.all isPackage packages;
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
        PATH = builtins.concatStringsSep ":" (
          map (package: "${package}/bin") packages
          ++ [
            "/usr/bin"
            "/bin"
          ]
        );
      }
    );
}
