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
        within = folder: inside == "tests" || builtins.substring 0 (builtins.stringLength folder) inside == folder;
      in
      builtins.elem first [
        ".cargo"
        "Cargo.lock"
        "Cargo.toml"
        "bench"
        "kernel-builder"
        "templates"
        "variants.toml"
        "xtask"
      ]
      || within "tests/cheats";
  };

  cargoLock.lockFile = ../Cargo.lock;
  cargoBuildFlags = [
    "--package"
    "kernel-builder"
  ];
  # `cargo xtask test` runs them: some need a compiler and a Python with torch beside this program.
  doCheck = false;

  meta = {
    description = "From a PyTorch operation to a published GPU kernel";
    mainProgram = "kernelwright";
  };
}
