# The outputs of one kernel project on one system.
{
  path,
  commit,
  pythonCheckInputs,
  pythonNativeCheckInputs,
}:
{
  system,
  pkgs,
  kernelwright,
}:

let
  build = builtins.fromTOML (builtins.readFile (path + "/build.toml"));
  name = build.general.name;

  # `kernelwright lock` writes it: the variants, and what each is built from.
  lockPath = path + "/kernelwright.lock";
  lock = if builtins.pathExists lockPath then builtins.fromTOML (builtins.readFile lockPath) else { };
  lockFile = builtins.path {
    path = lockPath;
    name = "kernelwright.lock";
  };

  endsIn =
    suffix: text:
    let
      length = builtins.stringLength suffix;
      start = builtins.stringLength text - length;
    in
    start >= 0 && builtins.substring start length text == suffix;
  # One of Python alone is for every system.
  isOf = id: endsIn "-${system}" id || builtins.match ".*-(linux|darwin|windows)" id == null;
  rows = builtins.filter (row: isOf row.id) (lock.variant or [ ]);
  ids = map (row: row.id) rows;

  # What decides a build. `kernelwright` leaves the rest out by itself; here it is so that an edit of it builds nothing.
  source = builtins.path {
    inherit path;
    name = "${name}-source";
    filter =
      file: type:
      let
        inside = builtins.substring (builtins.stringLength (toString path) + 1) (-1) file;
        made = "([.]git|[.]kernelwright|build|dist|target|flake[.](nix|lock)|[^/]*[.]md)";
        # Links that `nix build` leaves; a folder or a source may have such a name, too.
        link = type == "symlink" && builtins.match "result(-[^/]*)?" inside != null;
      in
      builtins.match made inside == null && !link;
  };

  program = "${kernelwright}/bin/kernelwright";
  compiler = pkgs.stdenv.cc;
  # Else nixpkgs' linker writes the place of every library that it is given into what it links, as RPATH: with this builder
  # those are empty stand-ins, and a kernel with an RPATH is refused (verify::search_paths). Of the names that the linker
  # reads this is the one that needs no setup hook.
  noSearchPaths = "NIX_DONT_SET_RPATH_${compiler.suffixSalt}";
  # Programs of wheels name the loader of common distributions, which is not in a sandbox.
  loader = compiler.bintools.dynamicLinker or "";
  python = pkgs.python3.withPackages (packages: [ packages.pip ]);
  certificates = "${pkgs.cacert}/etc/ssl/certs/ca-bundle.crt";
  binaries = packages: builtins.concatStringsSep ":" (map (package: "${package}/bin") packages);

  # The program is the builder: no shell, no phases, nothing of stdenv's environment.
  run =
    {
      name,
      args,
      ...
    }@attributes:
    derivation (
      {
        inherit system;
        builder = program;
        outputs = [ "out" ];
        # In the folder of the build.
        KERNELWRIGHT_CACHE = "cache";
        ${noSearchPaths} = "1";
        PATH = binaries [
          compiler
          compiler.bintools
          python
          pkgs.coreutils
          pkgs.patchelf
        ];
      }
      // attributes
    );

  # What is taken of one wheel: some members, fetched by byte range. The hash is of that folder, so that no whole wheel need
  # be fetched for a few headers, and nothing of it depends on how it was fetched.
  tree =
    key:
    run {
      name = key;
      args = [
        "toolchain"
        "export"
        "--lock"
        "${lockFile}"
        "--only"
        key
        "--to"
        (placeholder "out")
      ];
      outputHashMode = "recursive";
      outputHashAlgo = "sha256";
      outputHash =
        lock.tree.${key} or (throw "kernelwright.lock has no hash of ${key}: run `kernelwright lock`, by hand or as `nix run .#lock`");
      preferLocalBuild = true;
      SSL_CERT_FILE = certificates;
      PIP_CERT = certificates;
      # Where pip's index is, and how it is reached, is the machine's business.
      impureEnvVars = [
        "http_proxy"
        "https_proxy"
        "ftp_proxy"
        "all_proxy"
        "no_proxy"
        "HTTP_PROXY"
        "HTTPS_PROXY"
        "FTP_PROXY"
        "ALL_PROXY"
        "NO_PROXY"
        "PIP_CONFIG_FILE"
        "PIP_INDEX_URL"
        "PIP_EXTRA_INDEX_URL"
      ];
    };

  # A build as `kernelwright build` makes it: judged by what can be read from it, not verified. It is the same for every
  # commit with the same sources.
  built =
    row:
    run {
      name = "${name}-${row.id}-build";
      args = [
        "build"
        "--locked"
        "--offline"
        "--variant"
        row.id
        "--to"
        (placeholder "out")
        "${source}"
      ];
      KERNELWRIGHT_WHEELS = builtins.concatStringsSep ":" (map (key: "${tree key}") row.wheels);
      KERNELWRIGHT_LOADER = loader;
    };

  # In the hub's layout, with the commit in metadata.json.
  laidOut =
    label: alone: rows:
    run {
      name = "${name}-${label}";
      args = [
        "layout"
        "${source}"
        "--to"
        (placeholder "out")
      ]
      ++ (if alone then [ "--alone" ] else [ ])
      ++ builtins.concatMap (row: [
        "--from"
        "${built row}"
      ]) rows;
      KERNELWRIGHT_COMMIT = if commit == null then "" else commit;
    };

  notHere = "kernelwright.lock lists no variant of ${name} for ${system}: run `kernelwright lock` on such a machine";
  needsLock =
    value:
    if rows != [ ] then
      value
    else if lock ? variant then
      throw notHere
    else
      throw "${name} has no kernelwright.lock that lists variants: run `nix run .#lock` in its folder, add the file to git, and try again";

  bundle = needsLock (laidOut "bundle" false rows);

  # The word of an id that says what its code runs on, without the toolkit's version: `cu130` is of `cuda`.
  backendOf =
    id:
    let
      words = builtins.filter builtins.isString (builtins.split "-" id);
      matched = map (word: builtins.match "(cpu|cuda|cu|rocm|xpu|metal|neuron|tpu|npu)[0-9]*" word) words;
      word = builtins.head (builtins.head (builtins.filter (found: found != null) matched));
    in
    if word == "cu" then "cuda" else word;
  ofBackend = backend: builtins.filter (row: backendOf row.id == backend) rows;
  backends = builtins.filter (backend: ofBackend backend != [ ]) [
    "cpu"
    "cuda"
    "rocm"
    "xpu"
    "metal"
    "neuron"
    "tpu"
    "npu"
  ];
  # The one that a check builds: the quickest there is.
  first = builtins.head (ofBackend (builtins.head backends));

  # As `needsLock`, of a script. Where another system is listed it says so when it is run, so that `nix flake check
  # --all-systems` has nothing to say of a lock that was written for one.
  needsRows =
    text:
    if rows == [ ] && lock ? variant then "echo '${notHere}' >&2\nexit 1\n" else needsLock text;

  script = name: text: pkgs.writeShellScriptBin name ("set -euo pipefail\n" + text);
  tools = ''
    export PATH=${
      binaries [
        kernelwright
        compiler
        compiler.bintools
        python
        pkgs.coreutils
        pkgs.patchelf
      ]
    }:$PATH
    export KERNELWRIGHT_LOADER=${loader} ${noSearchPaths}=1
  '';
  # Where `--prebuilt` looks.
  bringBuilds = ''
    if [ ! -e build.toml ]; then
      echo "run this in the folder of build.toml" >&2
      exit 2
    fi
    mkdir -p .kernelwright/artifacts
    for built in ${builtins.concatStringsSep " " (map (row: "${built row}") rows)}; do
      # The library of an earlier build has another name: both together would be no build at all.
      for record in "$built"/*.json; do
        rm -rf ".kernelwright/artifacts/$(basename "$record" .json)"
      done
      cp -r --no-preserve=mode "$built"/. .kernelwright/artifacts/
    done
  '';

  scripts = {
    build-and-copy = script "build-and-copy" (
      needsRows ''
        export PATH=${binaries [ pkgs.coreutils ]}:$PATH
        mkdir -p build
        # What an earlier build left: a variant that is listed no more would go on to be loaded, and a card would say of what
        # nobody verified that it can be published.
        rm -f build/CARD.md
        for metadata in build/*/metadata.json; do
          rm -rf "$(dirname "$metadata")"
        done
        cp -r --no-preserve=mode ${bundle}/. build/
        ls -d build/*/
      ''
    );
    build-and-upload = script "build-and-upload" (
      needsRows ''
        if [ $# -eq 0 ]; then
          echo "say where to publish to: nix run .#build-and-upload -- --to DIR" >&2
          exit 2
        fi
        ${tools}${bringBuilds}
        kernelwright package --prebuilt .
        exec kernelwright publish "$@" .
      ''
    );
    make = script "make" (
      needsRows ''
        ${tools}${bringBuilds}
        exec kernelwright make --prebuilt "$@"
      ''
    );
    lock = script "lock" ''
      ${tools}
      exec kernelwright lock "$@"
    '';
  };

  app = description: package: {
    type = "app";
    program = "${package}/bin/${package.name}";
    meta.description = description;
  };

  shell =
    inputs: row:
    pkgs.mkShell {
      packages = [
        kernelwright
        pkgs.patchelf
      ]
      ++ inputs;
      KERNELWRIGHT_WHEELS = builtins.concatStringsSep ":" (map (key: "${tree key}") row.wheels);
      KERNELWRIGHT_LOADER = loader;
      ${noSearchPaths} = "1";
    };
  devShell = shell [ python ];
  testShell =
    row:
    shell
      [
        (pkgs.python3.withPackages (
          packages: [ packages.pip ] ++ pythonCheckInputs packages ++ pythonNativeCheckInputs packages
        ))
      ]
      row;
  byId =
    make:
    builtins.listToAttrs (
      map (row: {
        name = row.id;
        value = make row;
      }) rows
    );
  none = {
    id = "none";
    wheels = [ ];
  };
  best = if rows == [ ] then none else first;
in
{
  variants = ids;

  packages =
    # `.#ID.build` is the build without the layout.
    byId (row: laidOut row.id true [ row ] // { build = built row; })
    // builtins.listToAttrs (
      map (backend: {
        name = "bundle-${backend}";
        value = laidOut "bundle-${backend}" false (ofBackend backend);
      }) backends
    )
    // (
      if rows == [ ] then
        { }
      else
        {
          inherit bundle;
          inherit (scripts) build-and-copy build-and-upload make;
          default = bundle;
        }
    )
    // {
      inherit kernelwright;
      inherit (scripts) lock;
    };

  apps = {
    lock = app "Write the variants, and what each is built from, into kernelwright.lock" scripts.lock;
    build-and-copy = app "Build every variant and copy it to build/" scripts.build-and-copy;
    build-and-upload = app "Build and verify every variant, and publish it" scripts.build-and-upload;
    make = app "Build every variant, then verify, measure, package, publish and load it" scripts.make;
    default = app "Build every variant and copy it to build/" scripts.build-and-copy;
  };

  checks =
    if rows == [ ] then
      { }
    else
      {
        # That what the lock lists is right for the project.
        lock = pkgs.runCommand "${name}-lock" { } ''
          export KERNELWRIGHT_CACHE=$TMPDIR/cache KERNELWRIGHT_OFFLINE=1
          ${program} lock --check --fewer ${source} > $out
        '';
        build = laidOut first.id true [ first ];
      };

  devShells = byId devShell // {
    default = devShell best;
    test = testShell best;
  };
  testShells = byId testShell;

  formatter = pkgs.nixfmt-tree;
}
