//! What a shared library must be linked with to load on every system of the manylinux_2_28 age or newer.
//!
//! A linker takes from the libraries that it is shown the newest version of every symbol, so a library that is linked
//! on a new system needs a new system. Here it is shown stand-ins instead, which have this machine's symbols without
//! what came later; the newer parts of the C++ library come from its static archive, hidden, and the few newer parts of
//! the C library that headers use by themselves come from the shim. (The idea of Red Hat's developer toolsets.)
//!
//! What moved into libc.so.6 with glibc 2.34 is found on older systems in libpthread, libdl and librt, which torch's own
//! libraries bring into the process.
//!
//! Owns: `<cache>/portable`. Never: links a kernel; the order of the link is in `kernel_plan::backend`.

mod error;
mod inputs;
mod needs;
mod stub;
mod symbols;
mod version;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel_plan::kit::{Compiler, PortableKit};
use kernel_plan::plan::CommandLine;
use serde::{Deserialize, Serialize};

pub use error::PortableError;
pub use needs::{Need, beyond};

use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files;
use crate::base::process::{self, Limits};

/// Changes when the recipe changes, so that what an older program made is not used.
const RECIPE: &str = "portable-2";

/// The sources of the shim, one archive member each: a library takes only those that it uses.
const SHIM: &[(&str, &str)] = &[
    ("numbers", include_str!("../../../resources/portable/numbers.cpp")),
    ("random", include_str!("../../../resources/portable/random.cpp")),
    ("single_threaded", include_str!("../../../resources/portable/single_threaded.cpp")),
    ("status", include_str!("../../../resources/portable/status.cpp")),
    ("streams", include_str!("../../../resources/portable/streams.cpp")),
    ("waits", include_str!("../../../resources/portable/waits.cpp")),
];

/// What a kernel library exports: the entry point for Python's import, or the functions that tvm_ffi looks up by name
/// (tvm/ffi/extra/module.h).
const EXPORTS: &str = "{\n  global: PyInit_*; __tvm_ffi_*;\n  local: *;\n};\n";

/// What was made for a compiler, and the stamps of the files that it was made from.
#[derive(Debug, Serialize, Deserialize)]
struct Memo {
    inputs: Vec<(PathBuf, (u64, i128))>,
    kit: PortableKit,
}

/// The kit for a compiler: made on the first call, in about a second, and found in the cache later.
///
/// It is made again when the system's libraries change, not only the compiler.
pub fn provide(cache: &Path, cxx: &Compiler) -> Result<PortableKit, PortableError> {
    let root = cache.join("portable");
    let compiler = DigestBuilder::new(RECIPE)
        .field("cxx", &cxx.id)
        .field("program", cxx.program.display().to_string())
        .finish();
    let memo_path = root.join("compilers").join(format!("{}.json", compiler.short(16)));
    let memo = files::read_text(&memo_path).ok().and_then(|text| serde_json::from_str::<Memo>(&text).ok());
    if let Some(memo) = memo.filter(is_current) {
        return Ok(memo.kit);
    }
    let found = SystemFiles::on_this_machine(cxx)?;
    let kit = found.kit(&root)?;
    if !files::is_dir(&kit.stubs) {
        make(&found, &kit, cxx)?;
    }
    let mut inputs = Vec::new();
    for path in found.cut.values().flatten().chain(found.whole.values()) {
        inputs.push((path.clone(), files::stamp(path)?));
    }
    let memo = Memo { inputs, kit };
    // Plain values with text keys: JSON has them all.
    let text = serde_json::to_string(&memo).unwrap_or_default();
    files::write(&memo_path, text)?;
    Ok(memo.kit)
}

fn is_current(memo: &Memo) -> bool {
    files::is_dir(&memo.kit.stubs)
        && memo.inputs.iter().all(|(path, stamp)| files::stamp(path).is_ok_and(|now| now == *stamp))
}

/// The files of this machine.
struct SystemFiles {
    /// Libraries that get a stand-in, by SONAME; absent where an empty one is made.
    cut: BTreeMap<&'static str, Option<PathBuf>>,
    whole: BTreeMap<&'static str, PathBuf>,
    loader: &'static str,
}

impl SystemFiles {
    fn on_this_machine(cxx: &Compiler) -> Result<Self, PortableError> {
        let mut cut = BTreeMap::new();
        for name in inputs::CUT {
            cut.insert(*name, Some(inputs::must_find(cxx, name)?));
        }
        for name in inputs::CUT_IF_THERE {
            cut.insert(*name, inputs::find(cxx, name)?);
        }
        let libc = inputs::must_find(cxx, "libc.so.6")?;
        let is_arm = symbols::read(&libc, &files::read(&libc)?)?.is_arm;
        let loader = if is_arm { "ld-linux-aarch64.so.1" } else { "ld-linux-x86-64.so.2" };
        cut.insert(loader, Some(inputs::must_find(cxx, loader)?));
        let mut whole = BTreeMap::new();
        for name in inputs::WHOLE {
            whole.insert(*name, inputs::must_find(cxx, name)?);
        }
        Ok(Self { cut, whole, loader })
    }

    /// The kit as it will be; its folder is named by the content of everything in it.
    fn kit(&self, root: &Path) -> Result<PortableKit, PortableError> {
        let mut content = DigestBuilder::new(RECIPE).field("exports", EXPORTS);
        for (name, source) in SHIM {
            content = content.field(name, source);
        }
        let cut = self.cut.iter().filter_map(|(name, path)| Some((name, path.as_ref()?)));
        for (name, path) in cut.chain(&self.whole) {
            content = content.field(name, Digest::blake3(&files::read(path)?).to_string());
        }
        let id = content.finish().short(16);
        let folder = root.join(&id);
        let whole = |name: &str| self.whole.get(name).cloned().unwrap_or_default();
        Ok(PortableKit {
            stubs: folder.join("stubs"),
            loader: self.loader.to_owned(),
            shim: folder.join("libshim.a"),
            exports: folder.join("exports.map"),
            newer: folder.join("newer.txt"),
            crti: whole("crti.o"),
            crtn: whole("crtn.o"),
            crtbegin: whole("crtbeginS.o"),
            crtend: whole("crtendS.o"),
            libstdcxx: whole("libstdc++.a"),
            libgcc: whole("libgcc.a"),
            libc_nonshared: whole("libc_nonshared.a"),
            id,
        })
    }
}

/// Makes the kit's folder, whole or not at all.
fn make(found: &SystemFiles, kit: &PortableKit, cxx: &Compiler) -> Result<(), PortableError> {
    let target = kit.stubs.parent().unwrap_or(&kit.stubs);
    let staged = files::staging_beside(target)?;
    let mut newer = BTreeMap::new();
    for (name, path) in &found.cut {
        let exports = match path {
            Some(path) => symbols::read(path, &files::read(path)?)?.symbols,
            None => Vec::new(),
        };
        let half_static = inputs::HALF_STATIC.contains(name);
        let cut = symbols::cut(&if half_static { symbols::without_retired(exports) } else { exports });
        link_stub(staged.path(), name, &stub::render(&cut.kept), cxx)?;
        newer.extend(cut.newer);
    }
    let newer: String = newer.iter().map(|(name, version)| format!("{name} {version}\n")).collect();
    files::write(&staged.path().join("newer.txt"), newer)?;
    files::write(&staged.path().join("exports.map"), EXPORTS)?;
    make_shim(staged.path(), cxx)?;
    files::replace_dir(staged, target)?;
    Ok(())
}

fn link_stub(folder: &Path, name: &str, stub: &stub::Stub, cxx: &Compiler) -> Result<(), PortableError> {
    files::write(&folder.join("work/stub.s"), &stub.assembly)?;
    files::write(&folder.join("work/stub.map"), &stub.script)?;
    files::create_dirs(&folder.join("stubs"))?;
    let line = CommandLine::new(&cxx.program)
        .args(["-shared", "-nostdlib", "-Wl,--build-id=none", "-Wl,--hash-style=gnu", "-Wl,--no-gc-sections"])
        .arg(format!("-Wl,-soname,{name}"))
        .args(["-Wl,--version-script=stub.map", "stub.s", "-o"])
        .arg(format!("../stubs/{name}"))
        .cwd(folder.join("work"));
    run(&line, name)?;
    files::remove_dir(&folder.join("work")).map_err(Into::into)
}

fn make_shim(folder: &Path, cxx: &Compiler) -> Result<(), PortableError> {
    let work = folder.join("work");
    let mut compile = CommandLine::new(&cxx.program)
        .args(["-c", "-O2", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-fno-exceptions"])
        .cwd(&work);
    let mut pack = CommandLine::new(inputs::archiver(cxx)?).args(["rcsD", "../libshim.a"]).cwd(&work);
    for (name, source) in SHIM {
        files::write(&work.join(format!("{name}.cpp")), source)?;
        compile = compile.arg(format!("{name}.cpp"));
        pack = pack.arg(format!("{name}.o"));
    }
    run(&compile, "the shim")?;
    run(&pack, "the shim")?;
    files::remove_dir(&work).map_err(Into::into)
}

fn run(line: &CommandLine, what: &str) -> Result<(), PortableError> {
    let done = process::run(line, Limits::wall(Duration::from_secs(120)))?;
    if done.ending.success() {
        return Ok(());
    }
    Err(PortableError::Tool {
        what: what.to_owned(),
        program: line.program.clone(),
        ending: done.ending,
        output: done.stderr_text().trim_end().to_owned(),
    })
}

#[cfg(test)]
mod tests;
