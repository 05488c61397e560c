# The program, built from this repository by nixpkgs' own Rust.
{ pkgs }:

pkgs.rustPlatform.buildRustPackage {
  pname = "kernelwright";
  version = (builtins.fromTOML (builtins.readFile ../Cargo.toml)).workspace.package.version;

  # What the program is made from, so that an edit elsewhere builds nothing.
  src = builtins.path {
    path = ../.;
    name = "kernelwright-source";
    filter =
      path: _:
      let
        inside = builtins.substring (builtins.stringLength (toString ../.) + 1) (-1) path;
        first = builtins.head (builtins.filter builtins.isString (builtins.split "/" inside));
        # The folder, what is above it and what is in it.
        within =
          folder:
          let
            begins = long: short: builtins.substring 0 (builtins.stringLength short) long == short;
          in
          begins "${folder}/" "${inside}/" || begins "${inside}/" "${folder}/";
      in
      builtins.elem first [
        ".cargo"
        "Cargo.lock"
        "Cargo.toml"
        "kernel-builder"
        "kernel-hub"
        "kernel-rust"
        "templates"
        "variants.toml"
        "xtask"
      ]
      || within "tests/cheats"
      || within "docs/reference";
  };

  cargoLock.lockFile = ../Cargo.lock;
  # `kernelwright serve` becomes the second one's program.
  cargoBuildFlags = [
    "--package"
    "kernel-builder"
    "--package"
    "kernel-hub"
  ];
  # `cargo xtask test` runs them: some need a compiler and a Python with torch beside this program.
  doCheck = false;

  meta = {
    description = "From a PyTorch operation to a published GPU kernel";
    mainProgram = "kernelwright";
  };
}
