//! `[package.metadata.kernelwright]` of Cargo.toml.
//!
//! Owns: the keys, their forms, inheritance from `[workspace.metadata.kernelwright]`. Never: reads a file; the caller brings
//! texts.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml_edit::{Document, Item, TableLike};

use crate::error::Error;

/// The keys of the section.
const KEYS: [&str; 6] = ["archs", "compiler", "dependencies", "kernels", "source", "stubs"];
/// The keys of a dependency.
const DEPENDENCY_KEYS: [&str; 3] = ["from", "variant", "version"];
/// Begins places on a hub.
const HUB: &str = "hf:";

/// A manifest with its place.
#[derive(Debug)]
pub(crate) struct Manifest {
    path: PathBuf,
    text: String,
    document: Document<String>,
}

/// What is built.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Folders with an op.toml, or files of that format, absolute.
    pub(crate) kernels: Vec<PathBuf>,
    /// Compute capabilities; the program's choice if there are none.
    pub(crate) archs: Vec<String>,
    /// `nvrtc` or `nvcc`; the program's choice without one.
    pub(crate) compiler: Option<String>,
    /// Folder with generated functions for builds without kernels, absolute.
    pub(crate) stubs: Option<PathBuf>,
    /// Published kernels, as the program takes them: `NAME@VERSION=PLACE` or `NAME@VERSION/VARIANT=PLACE`.
    pub(crate) dependencies: Vec<String>,
}

impl Manifest {
    /// Parses a manifest.
    pub(crate) fn parse(path: PathBuf, text: String) -> Result<Self, Error> {
        match Document::parse(text.clone()) {
            Ok(document) => Ok(Self { path, text, document }),
            Err(error) => {
                let at = error.span().map_or(0, |span| span.start);
                Err(Error::Manifest { line: line(&text, at), message: error.message().to_owned(), path })
            }
        }
    }

    /// Its folder.
    pub(crate) fn folder(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Whether it is the root of a workspace.
    pub(crate) fn is_workspace(&self) -> bool {
        self.document.get("workspace").is_some()
    }

    /// The root of its workspace, where the manifest names it.
    pub(crate) fn named_workspace(&self) -> Option<PathBuf> {
        let named = self.document.get("package")?.get("workspace")?.as_str()?;
        Some(self.folder().join(named).join("Cargo.toml"))
    }

    fn section(&self, root: &str) -> Result<Option<&dyn TableLike>, Error> {
        let section = self.document.get(root).and_then(|item| item.get("metadata")?.get("kernelwright"));
        let Some(section) = section else { return Ok(None) };
        match section.as_table_like() {
            Some(table) => Ok(Some(table)),
            None => {
                Err(self.wrong(section.span(), format!("[{root}.metadata.kernelwright] must be a table")))
            }
        }
    }

    fn wrong(&self, span: Option<Range<usize>>, message: String) -> Error {
        let at = span.map_or(0, |span| span.start);
        Error::Manifest { path: self.path.clone(), line: line(&self.text, at), message }
    }
}

fn line(text: &str, at: usize) -> usize {
    text.get(..at).unwrap_or(text).matches('\n').count() + 1
}

/// One value with the manifest that it is in.
struct Found<'a> {
    manifest: &'a Manifest,
    key: &'static str,
    item: &'a Item,
}

impl Found<'_> {
    fn wrong(&self, form: &str) -> Error {
        self.manifest.wrong(self.item.span(), format!("`{}` must be {form}", self.key))
    }

    fn text(&self, form: &str) -> Result<String, Error> {
        self.item.as_str().map(str::to_owned).ok_or_else(|| self.wrong(form))
    }

    fn texts(&self, form: &str) -> Result<Vec<String>, Error> {
        let list = self.item.as_array().ok_or_else(|| self.wrong(form))?;
        list.iter().map(|value| value.as_str().map(str::to_owned).ok_or_else(|| self.wrong(form))).collect()
    }

    fn path(&self, text: &str) -> PathBuf {
        self.manifest.folder().join(text)
    }
}

/// The settings of a package; `None` if it has no section. `workspace` reads the manifest of its workspace.
///
/// # Errors
/// An unknown key, a value of another form, or a key that is inherited from nowhere.
pub(crate) fn settings(
    package: &Manifest,
    workspace: impl FnOnce() -> Result<Option<Manifest>, Error>,
) -> Result<Option<Settings>, Error> {
    let Some(section) = package.section("package")? else { return Ok(None) };
    for (key, item) in section.iter() {
        known(package, key, item, section)?;
    }
    let inherits = |key: &str| {
        let table = section.get(key).and_then(Item::as_table_like);
        table.and_then(|table| table.get("workspace")).and_then(Item::as_bool) == Some(true)
    };
    let root = match KEYS.iter().find(|key| inherits(key)) {
        None => None,
        Some(key) => {
            let span = section.get(key).and_then(Item::span);
            let no_workspace = || Error::NoWorkspace {
                path: package.path.clone(),
                line: line(&package.text, span.map_or(0, |span| span.start)),
                key: (*key).to_owned(),
            };
            Some(workspace()?.ok_or_else(no_workspace)?)
        }
    };
    let shared = match &root {
        None => None,
        Some(root) => root.section("workspace")?.map(|section| (root, section)),
    };
    let find = |key: &'static str| -> Result<Option<Found<'_>>, Error> {
        let Some(item) = section.get(key) else { return Ok(None) };
        if !inherits(key) {
            return Ok(Some(Found { manifest: package, key, item }));
        }
        let found =
            shared.and_then(|(root, section)| Some(Found { manifest: root, key, item: section.get(key)? }));
        let root = root.as_ref().map_or_else(String::new, |root| root.path.display().to_string());
        let message =
            format!("`{key}` is inherited, but [workspace.metadata.kernelwright] of {root} has none");
        found.map(Some).ok_or_else(|| package.wrong(item.span(), message))
    };
    let mut settings = Settings::default();
    if let Some(found) = find("kernels")? {
        let texts = found.texts("a list of folders, as in [\"kernels/rms-norm\"]")?;
        settings.kernels = texts.iter().map(|text| found.path(text)).collect();
    }
    let source = match find("source")? {
        Some(found) => Some(place(&found, found.item, "hf:OWNER")?),
        None => None,
    };
    if let Some(found) = find("dependencies")? {
        settings.dependencies = dependencies(&found, source.as_deref())?;
    }
    if settings.kernels.is_empty() && settings.dependencies.is_empty() {
        let span = section.get("kernels").and_then(Item::span);
        let message = "[package.metadata.kernelwright] needs `kernels`, a list of folders with an op.toml, \
                       as in [\"kernels/rms-norm\"], or `dependencies`";
        return Err(package.wrong(span, message.to_owned()));
    }
    if let Some(found) = find("archs")? {
        settings.archs =
            found.texts("a list of compute capabilities, as in [\"8.0\", \"9.0a\", \"12.0+PTX\"]")?;
    }
    if let Some(found) = find("compiler")? {
        let form = "\"nvrtc\" or \"nvcc\"";
        let compiler = found.text(form)?;
        if !matches!(compiler.as_str(), "nvrtc" | "nvcc") {
            return Err(found.wrong(form));
        }
        settings.compiler = Some(compiler);
    }
    if let Some(found) = find("stubs")? {
        settings.stubs = Some(found.path(&found.text("a folder, as in \"stubs\"")?));
    }
    Ok(Some(settings))
}

/// The place of published kernels: one on a hub stays as it is, a folder becomes absolute.
fn place(found: &Found<'_>, item: &Item, hub: &str) -> Result<String, Error> {
    let wrong = || {
        let message = format!("a place of published kernels is a folder or \"{hub}\"");
        found.manifest.wrong(item.span(), message)
    };
    let text = item.as_str().filter(|text| !text.is_empty()).ok_or_else(wrong)?;
    let Some(rest) = text.strip_prefix(HUB) else { return Ok(found.path(text).display().to_string()) };
    let parts = rest.split('/').filter(|part| !part.is_empty()).count();
    if parts == rest.split('/').count() && parts == hub.split('/').count() {
        Ok(text.to_owned())
    } else {
        Err(wrong())
    }
}

/// The published kernels of a table.
fn dependencies(found: &Found<'_>, source: Option<&str>) -> Result<Vec<String>, Error> {
    let table = found.item.as_table_like();
    let table = table.ok_or_else(|| found.wrong("a table, as in rms-norm = \"1\""))?;
    table.iter().map(|(name, item)| dependency(found, name, item, source)).collect()
}

/// `rms-norm = "1"`, or a table with `version` and `from`.
fn dependency(found: &Found<'_>, name: &str, item: &Item, source: Option<&str>) -> Result<String, Error> {
    let wrong = |message: String| found.manifest.wrong(item.span(), message);
    let table = item.as_table_like();
    for (key, _) in table.into_iter().flat_map(TableLike::iter) {
        if !DEPENDENCY_KEYS.contains(&key) {
            return Err(wrong(format!("`{name}` has no key `{key}`; it has {}", DEPENDENCY_KEYS.join(", "))));
        }
    }
    let version = table.map_or(Some(item), |table| table.get("version")).and_then(Item::as_str);
    let version = version.filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()));
    let Some(version) = version else {
        return Err(wrong(format!(
            "`{name}` needs a version, which is a whole number: {name} = \"1\", or \
             {name} = {{ version = \"1\", from = \"hf:OWNER/{name}\" }}"
        )));
    };
    let place = match (table.and_then(|table| table.get("from")), source) {
        (Some(from), _) => place(found, from, "hf:OWNER/NAME")?,
        (None, Some(owner)) if owner.starts_with(HUB) => format!("{owner}/{name}"),
        (None, Some(folder)) => Path::new(folder).join(name).display().to_string(),
        (None, None) => {
            return Err(wrong(format!(
                "`{name}` has no place: add source = \"hf:OWNER\" to [package.metadata.kernelwright], or write \
                 {name} = {{ version = \"{version}\", from = \"hf:OWNER/{name}\" }}; a place can also be a folder that \
                 `kernelwright publish` wrote"
            )));
        }
    };
    let variant = match table.and_then(|table| table.get("variant")) {
        Some(item) => {
            let variant = item.as_str().filter(|text| !text.is_empty() && !text.contains(['/', '=']));
            let message =
                || format!("`variant` of `{name}` must be the name of a folder in `build` of the package");
            format!("/{}", variant.ok_or_else(|| wrong(message()))?)
        }
        None => String::new(),
    };
    Ok(format!("{name}@{version}{variant}={place}"))
}

fn known(package: &Manifest, key: &str, item: &Item, section: &dyn TableLike) -> Result<(), Error> {
    if KEYS.contains(&key) {
        return Ok(());
    }
    let place = section.get_key_value(key).and_then(|(key, _)| key.span()).or_else(|| item.span());
    let message = format!("[package.metadata.kernelwright] has no key `{key}`; it has {}", KEYS.join(", "));
    Err(package.wrong(place, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(path: &str, text: &str) -> Manifest {
        Manifest::parse(PathBuf::from(path), text.to_owned()).unwrap()
    }

    fn told(package: &str, workspace: Option<&str>) -> Result<Option<Settings>, String> {
        let root = || Ok(workspace.map(|text| manifest("/ws/Cargo.toml", text)));
        settings(&manifest("/ws/app/Cargo.toml", package), root).map_err(|error| error.to_string())
    }

    const SECTION: &str = "[package]\nname = \"app\"\n\n[package.metadata.kernelwright]\n";

    #[track_caller]
    fn refused(lines: &str, message: &str) {
        assert_eq!(told(&format!("{SECTION}{lines}"), None), Err(message.to_owned()));
    }

    #[test]
    fn paths_are_those_of_the_manifest_that_says_them() {
        let package = format!("{SECTION}kernels = [\"k/norm\"]\narchs.workspace = true\nstubs = \"stubs\"\n");
        let workspace = "[workspace.metadata.kernelwright]\narchs = [\"9.0a\"]\nkernels = [\"shared\"]\n";
        let found = told(&package, Some(workspace)).unwrap().unwrap();
        assert_eq!(found.kernels, [PathBuf::from("/ws/app/k/norm")]);
        assert_eq!((found.archs, found.compiler), (vec!["9.0a".to_owned()], None));
        assert_eq!(found.stubs, Some(PathBuf::from("/ws/app/stubs")));
        let package = format!("{SECTION}kernels = {{ workspace = true }}\ncompiler = \"nvcc\"\n");
        let found = told(&package, Some(workspace)).unwrap().unwrap();
        assert_eq!(
            (found.kernels, found.compiler),
            (vec![PathBuf::from("/ws/shared")], Some("nvcc".to_owned()))
        );
        assert_eq!(told("[package]\nname = \"app\"\n", None), Ok(None));
    }

    #[test]
    fn published_kernels_have_a_version_and_a_place() {
        let lines = "source = \"hf:me\"\n[package.metadata.kernelwright.dependencies]\nrms-norm = \"1\"\n\
                     softmax = { version = \"2\", from = \"hf:you/fast-softmax\" }\n\
                     gate = { version = \"3\", variant = \"torch-cuda\", from = \"../published/gate\" }\n";
        let found = told(&format!("{SECTION}{lines}"), None).unwrap().unwrap();
        let expected = [
            "rms-norm@1=hf:me/rms-norm",
            "softmax@2=hf:you/fast-softmax",
            "gate@3/torch-cuda=/ws/app/../published/gate",
        ];
        assert_eq!(found.dependencies, expected);
        let package = format!("{SECTION}source.workspace = true\ndependencies = {{ gate = \"1\" }}\n");
        let workspace = "[workspace.metadata.kernelwright]\nsource = \"published\"\n";
        let found = told(&package, Some(workspace)).unwrap().unwrap();
        assert_eq!(found.dependencies, ["gate@1=/ws/published/gate"]);
    }

    #[test]
    fn a_published_kernel_without_a_place_or_a_version_is_refused() {
        let at = "/ws/app/Cargo.toml:5";
        let refused = |line: &str| told(&format!("{SECTION}dependencies.gate = {line}\n"), None).unwrap_err();
        assert_eq!(
            refused("\"1\""),
            format!(
                "{at}: `gate` has no place: add source = \"hf:OWNER\" to [package.metadata.kernelwright], or write \
                 gate = {{ version = \"1\", from = \"hf:OWNER/gate\" }}; a place can also be a folder that \
                 `kernelwright publish` wrote"
            )
        );
        for line in ["\"1.0\"", "\"\"", "1", "{ from = \"k\" }"] {
            let message = format!("{at}: `gate` needs a version, which is a whole number: gate = \"1\"");
            assert!(refused(line).starts_with(&message), "{}", refused(line));
        }
        for from in ["\"hf:me\"", "\"hf:me/\"", "\"\"", "3"] {
            let error = refused(&format!("{{ version = \"1\", from = {from} }}"));
            assert_eq!(error, format!("{at}: a place of published kernels is a folder or \"hf:OWNER/NAME\""));
        }
        assert!(
            refused("{ version = \"1\", path = \"k\" }")
                .ends_with("no key `path`; it has from, variant, version")
        );
    }

    #[test]
    fn mistakes_have_a_line() {
        let at = "/ws/app/Cargo.toml";
        refused(
            "kernels = [\"k\"]\narch = [\"9.0\"]\n",
            &format!(
                "{at}:6: [package.metadata.kernelwright] has no key `arch`; it has archs, compiler, dependencies, \
                 kernels, source, stubs"
            ),
        );
        refused(
            "kernels = \"k\"\n",
            &format!("{at}:5: `kernels` must be a list of folders, as in [\"kernels/rms-norm\"]"),
        );
        refused(
            "kernels = [\"k\"]\ncompiler = \"clang\"\n",
            &format!("{at}:6: `compiler` must be \"nvrtc\" or \"nvcc\""),
        );
        refused(
            "kernels.workspace = true\n",
            &format!("{at}:5: `kernels` is inherited, but no Cargo.toml above has a [workspace]"),
        );
        let package = format!("{SECTION}kernels.workspace = true\n");
        let message = format!(
            "{at}:5: `kernels` is inherited, but [workspace.metadata.kernelwright] of /ws/Cargo.toml has none"
        );
        assert_eq!(told(&package, Some("[workspace]\n")), Err(message));
        let error = Manifest::parse(PathBuf::from(at), "a = 1\nb = [\n".to_owned()).unwrap_err().to_string();
        assert!(error.starts_with(&format!("{at}:")), "{error}");
    }
}
