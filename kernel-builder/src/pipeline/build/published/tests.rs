//! Published kernels in folders, with a library whose code is PTX.

use super::*;
use crate::base::causes::chain;
use crate::base::report::{MessageFormat, Report};
use crate::package::{LauncherSource, launchers};
use crate::pipeline::build::embed::{self, Code, Request};
use crate::verify::fatbin::samples;

const OP: &str = "format = 1\nname = \"gate\"\n[axes]\nn = { type = \"var\" }\n[dtypes]\nT = [\"f32\"]\n\
    [inputs]\ninput = { shape = [\"n\"], dtype = \"T\" }\n[outputs]\nout = { shape = [\"n\"], dtype = \"T\" }\n\
    [reference]\nfile = \"reference.py\"\nfunction = \"gate\"\n[call]\nfunction = \"gate\"\nout = [\"out\"]\n[tolerance]\naccumulate = \"f32\"\nlength = 1\nroundings = 1\n\
    [launch]\nsource = \"gate.cu\"\n[[launch.kernel]]\nentry = \"gate::run\"\ntemplate = [\"T\"]\n\
    grid = [\"n\"]\nblock = [32]\nargs = [\"out\", \"input\"]\n";
const PTX: &str =
    ".version 9.0\n.target sm_120\n.visible .entry _ZN13gate_macros_04gate3runIfEEvPT_PKS2_(\n)\n{ ret; }\n";
const VARIANT: &str = "torch-stable-abi210-cu130-x86_64-linux";

/// A shared library with nothing but a section of device code: header, the section, its name, section headers.
fn library(ptx: &str) -> Vec<u8> {
    let container = samples::container(&[samples::entry(1, 120, 0x11, ptx.as_bytes(), None)]);
    let names = b"\0.nv_fatbin\0.shstrtab\0";
    let (start, names_at) = (64u64, 64 + container.len() as u64);
    let headers_at = (names_at + names.len() as u64).next_multiple_of(8);
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0".to_vec();
    bytes.extend(3u16.to_le_bytes());
    bytes.extend(62u16.to_le_bytes());
    bytes.extend(1u32.to_le_bytes());
    bytes.extend([0u64, 0, headers_at].map(u64::to_le_bytes).concat());
    bytes.extend(0u32.to_le_bytes());
    bytes.extend([64u16, 56, 0, 64, 3, 2].map(u16::to_le_bytes).concat());
    bytes.extend(&container);
    bytes.extend(names);
    bytes.resize(headers_at as usize, 0);
    for (name, kind, at, size) in
        [(0u32, 0u32, 0, 0), (1, 1, start, container.len() as u64), (12, 3, names_at, names.len() as u64)]
    {
        bytes.extend([name, kind].map(u32::to_le_bytes).concat());
        // Flags, address, place, size; link and information (32 bits each); alignment, size of an entry.
        bytes.extend([0, 0, at, size, 0, 8, 0].map(u64::to_le_bytes).concat());
    }
    bytes
}

/// A folder as `publish` writes it, a lock, and a session without a network.
struct Site {
    folder: tempfile::TempDir,
    session: Session,
}

impl Site {
    fn new() -> Self {
        let folder = files::scratch().unwrap();
        let report = Report::new(MessageFormat::Json, true);
        let session = Session { report, cache: folder.path().join("cache"), offline: true, jobs: 1 };
        let site = Self { folder, session };
        site.publish(1, OP, PTX);
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn variant(&self, name: &str) -> PathBuf {
        self.path("published/build").join(VARIANT).join(name)
    }

    /// Publishes the operation with this code.
    fn publish(&self, version: u64, op: &str, ptx: &str) {
        let (spec, problems) = parse_op(SourceFile::new("op.toml", op));
        let plan = rust::of_library(&spec.unwrap_or_else(|| panic!("{problems:?}")), &[]).unwrap();
        let source =
            LauncherSource { file: "op.toml".to_owned(), text: op.to_owned(), settings: vec![], plan };
        files::write(&self.variant("lib.so"), library(ptx)).unwrap();
        let artifact = crate::compile::artifact::Artifact {
            variant: VARIANT.to_owned(),
            backend: "cuda".to_owned(),
            library: Some(self.variant("lib.so")),
            id: "_gate".to_owned(),
            capabilities: vec!["12.0+PTX".to_owned()],
            digest: crate::base::digest::Digest::blake3(b""),
            commit: None,
            tools: BTreeMap::new(),
            outside: vec![],
            dir: self.path("published/build").join(VARIANT),
        };
        launchers::write(&[source], &artifact, &self.variant("")).unwrap();
        let digests = crate::package::metadata::digests(&self.variant("")).unwrap();
        let digests: BTreeMap<String, String> = digests.into_iter().collect();
        let metadata = serde_json::json!({
            "name": "gate", "version": version, "backend": { "type": "cuda", "archs": ["12.0+PTX"] },
            "digest": { "algorithm": "sha256", "files": digests },
        });
        files::write(&self.variant(METADATA), metadata.to_string()).unwrap();
    }

    fn dependency(&self) -> Dependency {
        Dependency {
            name: "gate".to_owned(),
            version: 1,
            variant: None,
            place: Place::Folder(self.path("published")),
        }
    }

    fn pin(&self) -> Result<Locked, String> {
        pin(&self.dependency(), &self.session).map_err(messages)
    }

    /// Locks what is published.
    fn locked(self) -> Self {
        Lock::new(vec![self.pin().unwrap()]).write(&self.path("rust-kernels.lock")).unwrap();
        self
    }

    fn embed(&self, code: Code) -> Result<embed::Embedded, String> {
        let request = Request {
            kernels: vec![],
            dependencies: vec![self.dependency()],
            lock: self.path("rust-kernels.lock"),
            out: self.path("out"),
            archs: vec!["12.0".parse().unwrap()],
            tool: crate::compile::nvrtc::Tool::Nvrtc,
            code,
        };
        embed::embed(&request, &self.session).map_err(messages)
    }

    #[track_caller]
    fn refused(&self, message: &str) {
        let error = self.embed(Code::Compiled).unwrap_err();
        assert_eq!(error.replace(&self.folder.path().display().to_string(), ""), message);
    }
}

fn messages(failure: Failure) -> String {
    failure.reports.iter().map(|report| chain(&**report)).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_program_gets_the_bytes_of_the_library_and_the_functions_of_the_package() {
    let site = Site::new().locked();
    let embedded = site.embed(Code::Compiled).unwrap();
    assert_eq!((embedded.ops.as_slice(), embedded.files.len()), (&["gate".to_owned()][..], 2));
    // The driver needs a zero byte at the end of a text.
    let code = files::read(&site.path("out/gate-0.compute_120.ptx")).unwrap();
    assert_eq!(code, [PTX.as_bytes(), b"\0"].concat());
    let module = files::read_text(&site.path("out/kernels.rs")).unwrap();
    assert!(module.contains("_ZN13gate_macros_04gate3runIfEEvPT_PKS2_") && module.contains("gate 1"));
    for path in [site.path("rust-kernels.lock"), site.variant(METADATA), site.variant("lib.so")] {
        assert!(embedded.reads.contains(&path), "{}", path.display());
    }
    let stubs = site.embed(Code::Stubs).unwrap();
    assert_eq!((stubs.bytes, stubs.ops), (0, vec!["gate".to_owned()]));
}

#[test]
fn a_lock_is_needed_and_has_what_was_published() {
    let site = Site::new();
    site.refused("lock file `/rust-kernels.lock` is out of date: it does not exist");
    let locked = site.pin().unwrap();
    assert_eq!((locked.variant.as_str(), locked.revision), (VARIANT, None));
    assert_eq!(locked.functions, ["gate<T: f32>(out: &mut TensorMut<T>, input: &Tensor<T>)"]);
}

#[test]
fn files_that_are_not_those_of_the_lock_are_refused() {
    let site = Site::new().locked();
    files::write(&site.variant("lib.so"), library("changed")).unwrap();
    let [then, now] = [library(PTX), library("changed")].map(|bytes| launchers::sha256(&bytes));
    site.refused(&format!("hash mismatch for `lib.so` of `/published`: expected {then}, got {now}"));
    files::remove_file(&site.variant("lib.so")).unwrap();
    site.refused(&format!("hash mismatch for `lib.so` of `/published`: expected {then}, got no file"));
}

#[test]
fn another_build_with_the_same_functions_needs_a_new_lock() {
    let site = Site::new().locked();
    site.publish(1, OP, &format!("{PTX}// another build\n"));
    let error = site.embed(Code::Compiled).unwrap_err();
    assert!(error.contains("hash mismatch for `metadata.json`"), "{error}");
    let site = site.locked();
    assert!(site.embed(Code::Compiled).is_ok());
}

#[test]
fn a_function_with_another_signature_is_told() {
    let site = Site::new().locked();
    site.publish(
        1,
        &OP.replace("[outputs]", "[scalars]\nscale = { type = \"float\", default = 1.0 }\n[outputs]"),
        PTX,
    );
    site.refused(
        "`/published` has other functions than those in the lock file:\n  \
         - gate<T: f32>(out: &mut TensorMut<T>, input: &Tensor<T>)\n  \
         + gate<T: f32>(out: &mut TensorMut<T>, input: &Tensor<T>, scale: f64)",
    );
}

#[test]
fn a_kernel_that_is_not_there_or_not_for_rust_is_told() {
    let site = Site::new();
    site.publish(2, OP, PTX);
    let place = site.path("published").display().to_string();
    let expected = format!("`{place}` has no kernel `gate` of version 1: it has `gate` of version 2");
    assert_eq!(site.pin().unwrap_err(), expected);
    site.publish(1, OP, PTX);
    files::remove_file(&site.variant(launchers::FILE)).unwrap();
    let expected = format!("`{place}` has nothing that a Rust program can start ({VARIANT})");
    assert_eq!(site.pin().unwrap_err(), expected);
    files::remove_dir(&site.path("published")).unwrap();
    let expected = format!("`{place}` has no kernel `gate` of version 1: no folder `build` in it");
    assert_eq!(site.pin().unwrap_err(), expected);
}

#[test]
fn launchers_of_another_format_are_told() {
    let site = Site::new();
    let text = files::read_text(&site.variant(launchers::FILE)).unwrap();
    files::write(&site.variant(launchers::FILE), text.replace("\"format\": 1", "\"format\": 2")).unwrap();
    let error = site.pin().unwrap_err();
    assert!(error.ends_with("its format is another one than this program reads"), "{error}");
}

#[test]
fn the_variant_of_most_architectures_is_taken_then_that_of_the_oldest_toolkit() {
    let variant = |archs: &[&str], launchers: bool| Variant {
        metadata: serde_json::json!({ "backend": { "archs": archs } }).to_string().into_bytes(),
        launchers: launchers.then(Vec::new),
    };
    let found: BTreeMap<String, Variant> = [
        ("torch-cpu", variant(&[], false)),
        ("torch-cu126", variant(&["8.0", "9.0a"], true)),
        ("torch-cu128", variant(&["8.0", "9.0a", "10.0"], true)),
        ("torch-cu130", variant(&["8.0", "9.0a", "10.0"], true)),
        ("torch-cu132", variant(&["8.0", "9.0a", "10.0", "12.0"], false)),
    ]
    .map(|(name, variant)| (name.to_owned(), variant))
    .into();
    assert_eq!(choose(&found, |_| true).unwrap().0, "torch-cu128");
    assert_eq!(choose(&found, |name| name == "torch-cu130").unwrap().0, "torch-cu130");
    assert!(choose(&found, |name| name == "torch-cpu").is_none());
}
