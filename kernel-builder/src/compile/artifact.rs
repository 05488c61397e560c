//! What compile makes: one importable package a variant.
//!
//! Owns: the artifact's shape on disk and in memory.
//! Never: says whether the kernel is right; that is `Verified<Artifact>`, which only `verify` makes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use kernel_plan::kit::Toolchain;
use kernel_plan::plan::VariantPlan;
use kernel_plan::variant::{Compiled, Framework, Variant};
use serde::{Deserialize, Serialize};

use crate::base::digest::{Digest, DigestBuilder};
use crate::base::files::{self, FileError};

use super::ops;

/// One built variant: a folder that Python can import as a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Artifact {
    /// The variant's name, e.g. `torch-stable-abi211-cpu-x86_64-linux`.
    pub variant: String,
    /// The backend: `cpu`, `cuda`.
    pub backend: String,
    /// Where the package lies: `.kernelwright/artifacts/<variant>` of the project.
    pub dir: PathBuf,
    /// The unique name of the extension module or of the operator namespace, `_<module>_<backend>_<digest>`.
    pub id: String,
    /// The shared library inside `dir`; absent for a variant of Python only.
    pub library: Option<PathBuf>,
    /// Architectures that build.toml declares, as written (`9.0a`, `12.0+PTX`, `gfx942`); empty for cpu.
    pub capabilities: Vec<String>,
    /// Digest over the names and bytes of every file in `dir`.
    pub digest: Digest,
    /// The commit that the sources were at, with `-dirty` when they differed from it; absent outside of git.
    #[serde(default)]
    pub commit: Option<String>,
    /// What it was compiled and linked with, by role: identities that follow from content, the same on every machine.
    #[serde(default)]
    pub tools: BTreeMap<String, String>,
    /// Files outside of the project that were compiled in, as the compiler named them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<String>,
}

impl Artifact {
    /// Whether its functions are called through tvm_ffi, and not through PyTorch's registry.
    pub fn is_tvm_ffi(&self) -> bool {
        matches!(
            self.variant.parse(),
            Ok(Variant::Compiled(Compiled { framework: Framework::TvmFfi(_), .. }))
        )
    }
}

/// Puts the library, the Python files and the generated `_ops.py` into the variant's folder, as a whole.
pub fn assemble(
    plan: &VariantPlan,
    project: &Path,
    library: Option<PathBuf>,
    commit: Option<String>,
    kit: Option<&Toolchain>,
    outside: Vec<String>,
) -> Result<Artifact, FileError> {
    let dir = artifact_dir(project, &plan.id);
    let package = Path::new(&plan.package);
    let mut contents: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    for file in &plan.python {
        let path = Path::new(file.as_str());
        let name = path.strip_prefix(package).unwrap_or(path).to_owned();
        contents.push((name, files::read(&project.join(path))?));
    }
    contents.retain(|(name, _)| name != Path::new("_ops.py"));
    contents.push((PathBuf::from("_ops.py"), ops::module(plan).into_bytes()));
    if let Some(library) = &library {
        contents.push((PathBuf::from(&plan.library), files::read(library)?));
    }
    contents.sort();
    let digest = digest_of(&contents);
    if tree_digest(&dir).is_none_or(|there| there != digest) {
        let staged = files::staging_beside(&dir)?;
        for (name, bytes) in &contents {
            files::write(&staged.path().join(name), bytes)?;
        }
        files::replace_dir(staged, &dir)?;
    }
    let artifact = Artifact {
        variant: plan.id.clone(),
        backend: plan.backend.to_string(),
        library: library.map(|_| dir.join(&plan.library)),
        dir,
        id: plan.extension.clone(),
        capabilities: plan.capabilities.clone(),
        digest,
        commit,
        tools: kit.map(tools).unwrap_or_default(),
        outside,
    };
    let text = serde_json::to_string_pretty(&artifact).unwrap_or_default();
    files::write_if_changed(&record_path(project, &plan.id), text)?;
    Ok(artifact)
}

/// Copies an artifact and its description into a folder, where [`in_folder`] finds it. Nothing in it names where it was
/// built.
pub fn copy_into(artifact: &Artifact, folder: &Path) -> Result<(), FileError> {
    let dir = PathBuf::from(&artifact.variant);
    for name in files::walk(&artifact.dir, |folder| !folder.ends_with("__pycache__"))? {
        files::copy(&artifact.dir.join(&name), &folder.join(&dir).join(&name))?;
    }
    let library = artifact.library.as_ref().and_then(|library| Some(dir.join(library.file_name()?)));
    let moved = Artifact { dir, library, ..artifact.clone() };
    let text = serde_json::to_string_pretty(&moved).unwrap_or_default();
    files::write(&folder.join(format!("{}.json", artifact.variant)), text)
}

/// What decides the bytes of a build beside its sources. A compiler has its version, too, since nothing fetches it.
fn tools(kit: &Toolchain) -> BTreeMap<String, String> {
    let short = |id: &str| id.chars().take(32).collect::<String>();
    let mut tools = BTreeMap::from([
        ("cxx".to_owned(), kit.cxx.described()),
        ("framework".to_owned(), short(kit.framework.id())),
    ]);
    let cuda = kit.cuda.as_ref().map(|cuda| ("cuda", format!("{} {}", cuda.version, short(&cuda.id))));
    let device = kit.device.as_ref().map(|device| ("device", short(device.id())));
    let portable = kit.portable.as_ref().map(|portable| ("portable", short(&portable.id)));
    tools.extend([cuda, device, portable].into_iter().flatten().map(|(role, id)| (role.to_owned(), id)));
    tools.extend(kit.libraries.iter().map(|library| (library.name.to_string(), short(&library.id))));
    tools
}

/// Where an artifact's description is kept, beside its folder.
fn record_path(project: &Path, variant: &str) -> PathBuf {
    artifact_dir(project, variant).with_extension("json")
}

/// Takes away the artifact of a variant, so that nothing finds it.
pub fn discard(project: &Path, variant: &str) -> Result<(), FileError> {
    let record = record_path(project, variant);
    if files::exists(&record) {
        files::remove_file(&record)?;
    }
    let dir = artifact_dir(project, variant);
    if files::is_dir(&dir) { files::remove_dir(&dir) } else { Ok(()) }
}

/// The builds that lie in a folder.
#[derive(Debug, Default)]
pub struct Builds {
    /// Those whose files are the ones that were built.
    pub sound: Vec<Artifact>,
    /// Variants of which something lies there that is not what was built: a file was changed, or a copy was cut short.
    pub damaged: Vec<String>,
}

/// The builds that lie in a project, made here or brought from another machine.
pub fn existing(project: &Path) -> Result<Builds, FileError> {
    in_folder(&project.join(".kernelwright/artifacts"))
}

/// The builds that lie in a folder, each beside its description.
pub fn in_folder(root: &Path) -> Result<Builds, FileError> {
    let mut found = Builds::default();
    if !files::is_dir(root) {
        return Ok(found);
    }
    let hidden = |name: &Path| name.to_string_lossy().starts_with('.');
    let names = files::walk(root, |folder| folder.components().count() == 1 && !hidden(folder))?;
    let is_record =
        |name: &&PathBuf| name.components().count() == 1 && name.extension() == Some("json".as_ref());
    for name in names.iter().filter(is_record) {
        let text = files::read(&root.join(name))?;
        let Ok(mut artifact) = serde_json::from_slice::<Artifact>(&text) else {
            found.damaged.push(name.with_extension("").display().to_string());
            continue;
        };
        // The folder may have been moved since.
        artifact.dir = root.join(&artifact.variant);
        artifact.library = artifact.library.and_then(|library| Some(artifact.dir.join(library.file_name()?)));
        if tree_digest(&artifact.dir) == Some(artifact.digest) {
            found.sound.push(artifact);
        } else {
            found.damaged.push(artifact.variant);
        }
    }
    // A folder without a description.
    let folders =
        names.iter().filter(|name| name.components().count() > 1).filter_map(|name| name.iter().next());
    let folders = folders.map(|folder| folder.to_string_lossy().into_owned());
    let known = |folder: &String| {
        found.sound.iter().any(|one| one.variant == *folder) || found.damaged.contains(folder)
    };
    let alone: BTreeSet<String> = folders.filter(|folder| !known(folder)).collect();
    found.damaged.extend(alone);
    Ok(found)
}

/// The digest of a folder's files, by name and content; `None` when it cannot be read. Python's caches do not count.
pub fn tree_digest(dir: &Path) -> Option<Digest> {
    let names = files::walk(dir, |folder| !folder.ends_with("__pycache__")).ok()?;
    let contents: Option<Vec<_>> =
        names.into_iter().map(|name| files::read(&dir.join(&name)).ok().map(|bytes| (name, bytes))).collect();
    Some(digest_of(&contents?))
}

fn digest_of(contents: &[(PathBuf, Vec<u8>)]) -> Digest {
    let builder = DigestBuilder::new("artifact-1");
    contents
        .iter()
        .fold(builder, |builder, (name, bytes)| builder.field(&name.display().to_string(), bytes))
        .finish()
}

/// The folder of a variant's package inside the project.
pub fn artifact_dir(project: &Path, variant: &str) -> PathBuf {
    project.join(".kernelwright/artifacts").join(variant)
}
