//! Files that a build reads beside what its name was made of.
//!
//! The extension's name covers the sources that build.toml lists, every header of the project, and the tools. A compiler
//! may read more: `../common/x.h` of a repository with several kernels, a header with an unusual ending, data that the
//! assembler pulls in. Which files these are is known when the compiler has read them, from its own list of dependencies.
//! They become part of the name then, and those outside of the project are told: a package is made only of builds that
//! anyone with the project's source can repeat (docs/reference/project-folders.md, "Files outside of the project").
//!
//! Owns: which files these are. Never: refuses a build.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use kernel_plan::kit::{DeviceKit, Toolchain};
use kernel_plan::plan::{CommandLine, PLACEHOLDER, VariantPlan};

use super::naming::position;
use super::share::SYSTEM;
use super::{Job, Shop};
use crate::base::digest::{Digest, DigestBuilder};
use crate::base::{disk, files};
use crate::toolchain::prefix;

/// Folders besides [`SYSTEM`] that hold no user's files.
const NOBODYS: [&str; 5] =
    ["/nix/store", "/System", "/Library/Developer", "/Applications/Xcode", "/usr/share"];

/// Inputs of a variant that its name does not cover.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UnnamedInputs {
    /// The name of the extension with all of it; absent where there is nothing more.
    pub(super) extension: Option<String>,
    /// Files outside of the project, as the compiler named them.
    pub(super) outside: Vec<String>,
}

/// Looks at what the units of a variant have read.
pub(super) fn unnamed_inputs(shop: &Shop<'_>, job: &Job, kit: &Toolchain) -> UnnamedInputs {
    let plan = &job.plan;
    let project = disk::real(shop.project);
    let known = known_folders(kit);
    let mut digest = DigestBuilder::new("extension-more-1").field("name", &plan.extension);
    let mut more = UnnamedInputs::default();
    let mut any = false;
    for path in shop.read.by_variant(&plan.id) {
        let place = shop.project.join(&path);
        let real = disk::real(&place);
        let inside = real.strip_prefix(&project).ok();
        let covered = |below: &Path| below.to_str().is_some_and(|below| job.named.contains(below));
        let lexical = path.to_str().is_some_and(|path| job.named.contains(path));
        if inside.is_some_and(|below| covered(below) || below.starts_with(".kernelwright")) {
            continue;
        }
        if inside.is_none() {
            if is_known(&known, &place, &real) || shop.cache.is_named_by_content(&place) {
                continue;
            }
            more.outside.push(path.display().to_string());
        }
        // A link out of the project: its content is in the name already.
        if lexical {
            continue;
        }
        // The name must not depend on the path on this machine.
        let name =
            if path.is_relative() { path.as_path() } else { Path::new(path.file_name().unwrap_or_default()) };
        let content = files::read(&real).map(|bytes| Digest::blake3(&bytes).to_string()).unwrap_or_default();
        digest = digest.field("file", name.as_os_str().as_encoded_bytes()).field("content", content);
        any = true;
    }
    if any {
        let stem = &plan.extension[..plan.extension.len().saturating_sub(PLACEHOLDER.len())];
        more.extension = Some(format!("{stem}{}", digest.finish().short(PLACEHOLDER.len())));
    }
    more
}

/// Whether a file lies in one of the folders: by its path, or with its links resolved. A path with `..` says nothing of
/// where its file lies.
fn is_known(known: &[PathBuf], place: &Path, real: &Path) -> bool {
    let climbs = place.components().any(|part| part == Component::ParentDir);
    known.iter().any(|folder| real.starts_with(folder) || (!climbs && place.starts_with(folder)))
}

/// The folders whose files are part of the name through the identity of a tool, and those of the system.
fn known_folders(kit: &Toolchain) -> Vec<PathBuf> {
    let mut known: Vec<PathBuf> = SYSTEM.iter().chain(&NOBODYS).map(PathBuf::from).collect();
    known.push(kit.extension_include.clone());
    known.extend(kit.framework.include().iter().cloned());
    known.extend(kit.device.iter().flat_map(DeviceKit::include).cloned());
    known.extend(kit.libraries.iter().flat_map(|library| library.include.iter().cloned()));
    if let Some(cuda) = &kit.cuda {
        known.push(cuda.root.clone());
        known.extend(cuda.include.iter().cloned());
        known.extend(cuda.front.iter().map(|front| front.root.clone()));
    }
    // A compiler brings headers of its own.
    known.extend(prefix::folders_of(&kit.cxx.program));
    let real: Vec<PathBuf> = known.iter().map(|folder| disk::real(folder)).collect();
    known.extend(real);
    known
}

/// The plan with the name that covers everything.
pub(super) fn renamed(plan: &VariantPlan, extension: &str) -> VariantPlan {
    let mut plan = plan.clone();
    let before = std::mem::replace(&mut plan.extension, extension.to_owned());
    plan.library = plan.library.replace(&before, extension);
    let rename = |command: &mut CommandLine| {
        command.args.iter_mut().for_each(|arg| *arg = arg.replace(&before, extension));
    };
    plan.before_link.iter_mut().for_each(|step| rename(&mut step.command));
    plan.link.iter_mut().for_each(rename);
    plan
}

/// Directives of the assembler that read a file.
const PULLING: [&[u8]; 2] = [b".incbin", b".include"];

/// The files that the assembler pulls in because of this text, and because of those files: no dependency file has them.
pub(super) fn pulled_in(project: &Path, text: &[u8]) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut open = named_in(text);
    while let Some(name) = open.pop() {
        let path = project.join(&name);
        if files::exists(&path) && found.insert(name) {
            // An assembler's text; data can hold no directive of it that is read.
            open.extend(named_in(&files::read(&path).unwrap_or_default()));
        }
    }
    found
}

/// The files that directives of the assembler in this text name.
fn named_in(text: &[u8]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = position(rest, b".inc") {
        let Some(word) = PULLING.iter().find(|word| rest[at..].starts_with(word)) else {
            rest = &rest[at + 1..];
            continue;
        };
        rest = &rest[at + word.len()..];
        let line = rest.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line).replace("\\t", " ").replace('\\', "");
        let named = line.trim_start().strip_prefix('"').and_then(|line| line.split_once('"'));
        found.extend(named.map(|(name, _)| PathBuf::from(name)));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_assembler_pulls_in_is_read_from_the_text() {
        let text =
            b"asm(\".incbin \\\"data/table.bin\\\"\\n\");\nasm(\".incbin \\\"x\\\", 4\"); included.incbin";
        assert_eq!(named_in(text), [PathBuf::from("data/table.bin"), PathBuf::from("x")]);
        let text = b"asm(\".include \\\"../parts/a.s\\\"\\n\t.incbin\\t\\\"x\\\"\");\nx.included \"y\"\n";
        assert_eq!(named_in(text), [PathBuf::from("../parts/a.s"), PathBuf::from("x")]);
    }

    #[test]
    fn files_that_the_assembler_includes_are_followed() {
        let project = files::scratch().unwrap();
        files::write(&project.path().join("a.s"), ".include \"b.s\"\n.include \"a.s\"\n").unwrap();
        files::write(&project.path().join("b.s"), "\t.incbin \"table.bin\"\n").unwrap();
        files::write(&project.path().join("table.bin"), "1").unwrap();
        let found =
            pulled_in(project.path(), b"asm(\".include \\\"a.s\\\"\");\nasm(\".include \\\"gone.s\\\"\");\n");
        assert_eq!(found, ["a.s", "b.s", "table.bin"].map(PathBuf::from).into());
    }

    #[test]
    fn a_path_that_climbs_out_of_a_system_folder_is_not_below_it() {
        let known = [PathBuf::from("/usr/include"), PathBuf::from("/opt/kit")];
        let is_known = |place: &str, real: &str| is_known(&known, Path::new(place), Path::new(real));
        assert!(is_known("/usr/include/stdio.h", "/elsewhere/stdio.h"), "a link that an administrator made");
        assert!(is_known("/usr/lib/gcc/../../include/x.h", "/usr/include/x.h"));
        assert!(!is_known("/usr/include/../../home/me/x.h", "/home/me/x.h"));
    }
}
