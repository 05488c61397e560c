//! Templates: folders that are embedded in the program, rendered strictly.
//!
//! Owns: the variables; `template.toml` is documented in templates/README.md.
//! Never: knows a template by name.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use include_dir::{Dir, include_dir};
use kernel_plan::units::KernelName;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, UndefinedBehavior, context};

use super::hole::{Hole, Kind};
use super::host::framework::Framework;
use super::{FileSet, ScaffoldError, settings};

pub(super) mod manifest;

pub(crate) use super::claims::find;
use manifest::Shared;
pub(crate) use manifest::Sources;
pub use manifest::{Answers, Indexes, Serves, Template};

static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../templates");

/// The folder with files that several templates take; no template.
const SHARED: &str = "_shared";
const MANIFEST: &str = "template.toml";

/// Every template, by name.
///
/// # Errors
/// One of them is none: its `template.toml` cannot be read.
pub fn all() -> Result<Vec<Template>, ScaffoldError> {
    let common = TEMPLATES.get_dir(SHARED).map(sources).unwrap_or_default();
    let common = Arc::new(common);
    let folders = TEMPLATES.dirs().filter(|folder| folder.path() != Path::new(SHARED));
    folders.map(|folder| read(&folder.path().display().to_string(), sources(folder), &common)).collect()
}

/// A template of files that were made for one function, with the parts that all share.
///
/// # Errors
/// The manifest among them is none.
pub(crate) fn from_sources(name: &str, files: Sources) -> Result<Template, ScaffoldError> {
    let common = TEMPLATES.get_dir(SHARED).map(sources).unwrap_or_default();
    read(name, files, &Arc::new(common))
}

/// A template of these files, which include `template.toml`.
pub(crate) fn read(name: &str, mut files: Sources, common: &Arc<Sources>) -> Result<Template, ScaffoldError> {
    let manifest = files.remove(MANIFEST).unwrap_or_default();
    let mut template: Template = toml::from_str(&String::from_utf8_lossy(&manifest))
        .map_err(|cause| ScaffoldError::Manifest { name: name.to_owned(), cause })?;
    template.files = Arc::new(files);
    template.common = Arc::clone(common);
    Ok(template)
}

/// All files below an embedded folder, by their path inside it.
fn sources(folder: &Dir<'_>) -> Sources {
    let mut found = Sources::new();
    let mut pending = vec![folder];
    while let Some(next) = pending.pop() {
        pending.extend(next.dirs());
        for file in next.files() {
            let inside = file.path().strip_prefix(folder.path()).unwrap_or(file.path());
            found.insert(inside.display().to_string(), file.contents().to_vec());
        }
    }
    found
}

/// Renders paths and texts with the variables of one project, strictly.
struct Renderer {
    engine: Environment<'static>,
    variables: minijinja::Value,
}

impl Renderer {
    fn new(template: &Template, answers: &Answers) -> Result<Self, ScaffoldError> {
        let mut engine = Environment::new();
        engine.set_undefined_behavior(UndefinedBehavior::Strict);
        engine.set_syntax(syntax(&template.name)?);
        let name = answers.name.as_str();
        let variables = context! {
            name,
            module => answers.name.module(),
            owner => answers.owner.clone(),
            repo_id => format!("{}/{name}", answers.owner),
            license => answers.license.clone(),
            backends => answers.backends.clone(),
            title => title(name),
            year => answers.year,
            extension => answers.framework.folder(),
            operators => answers.framework.operators(),
        };
        Ok(Self { engine, variables })
    }

    fn text(&self, file: &str, text: &str) -> Result<String, ScaffoldError> {
        self.engine
            .render_str(text, &self.variables)
            .map_err(|cause| ScaffoldError::Render { file: file.to_owned(), cause })
    }

    /// Adds a file of the template to the project: rendered without the suffix `.j2`, else as it is.
    fn place(&self, set: &mut FileSet, from: &str, to: &str, bytes: &[u8]) -> Result<(), ScaffoldError> {
        let bytes = match (from.ends_with(".j2"), std::str::from_utf8(bytes)) {
            (true, Ok(text)) => self.text(from, text)?.into_bytes(),
            _ => bytes.to_vec(),
        };
        set.insert(to.strip_suffix(".j2").unwrap_or(to), bytes)
    }
}

/// Renders every file of a template, and writes what was set into them.
///
/// # Errors
/// A backend, a hole or a value that the template has not; a defect of the template.
pub fn render(template: &Template, answers: &Answers) -> Result<FileSet, ScaffoldError> {
    for backend in &answers.backends {
        if !template.backends.contains(backend) {
            return Err(ScaffoldError::UnknownBackend {
                template: template.name.clone(),
                backend: backend.clone(),
                offered: template.backends.clone(),
            });
        }
    }
    settings::refuse_unknown(template, &answers.set)?;
    let renderer = Renderer::new(template, answers)?;
    let mut left_out = Vec::new();
    for when in template.when.iter().filter(|when| !answers.backends.contains(&when.backend)) {
        for path in &when.paths {
            left_out.push(renderer.text(MANIFEST, path)?);
        }
    }
    let skipped = |path: &str| left_out.iter().any(|prefix| Path::new(path).starts_with(prefix));
    let mut set = FileSet::default();
    let alternatives: Vec<&str> = template.holes.iter().filter_map(Hole::folder).collect();
    for (inside, bytes) in template.files.iter() {
        let path = renderer.text(inside, inside)?;
        let chosen_from = alternatives.iter().any(|folder| Path::new(inside).starts_with(folder));
        if !skipped(&path) && !chosen_from {
            renderer.place(&mut set, inside, &path, bytes)?;
        }
    }
    for hole in &template.holes {
        let Kind::Choice { from, to, .. } = &hole.kind else { continue };
        let file = format!("{from}/{}", settings::chosen(template, hole, &answers.set)?);
        let path = renderer.text(MANIFEST, to)?;
        let bytes =
            template.files.get(&file).ok_or_else(|| template.defect(format!("it has no `{file}`")))?;
        if !skipped(&path) {
            renderer.place(&mut set, &file, &path, bytes)?;
        }
    }
    for Shared { from, to } in &template.shared {
        let path = renderer.text(MANIFEST, to)?;
        let bytes = template
            .common
            .get(from)
            .ok_or_else(|| template.defect(format!("`_shared` has no `{from}`, which `[[shared]]` names")))?;
        if !skipped(&path) {
            renderer.place(&mut set, from, &path, bytes)?;
        }
    }
    settings::write_values(template, &answers.set, &mut set)?;
    Ok(set)
}

/// How templates are written: as minijinja's, with the last line break kept.
pub(super) fn syntax(name: &str) -> Result<SyntaxConfig, ScaffoldError> {
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
    syntax.map_err(|cause| ScaffoldError::Render { file: name.to_owned(), cause })
}

/// The path of the project that a text of `template.toml` stands for.
pub(crate) fn path_of(template: &Template, answers: &Answers, text: &str) -> Result<String, ScaffoldError> {
    Renderer::new(template, answers)?.text(MANIFEST, text)
}

/// Answers that stand for any, with all backends.
pub(crate) fn sample(template: &Template, name: KernelName) -> Answers {
    Answers {
        owner: "me".to_owned(),
        name,
        license: "Apache-2.0".to_owned(),
        backends: template.backends.clone(),
        framework: Framework::Torch,
        year: 2026,
        set: BTreeMap::new(),
    }
}

/// `rms-norm` → `Rms Norm`.
pub(super) fn title(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters
            .next()
            .map(|first| first.to_ascii_uppercase().to_string() + letters.as_str())
            .unwrap_or_default()
    };
    name.split('-').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(backends: &[&str]) -> Answers {
        Answers {
            owner: "me".to_owned(),
            name: "fast-norm".parse().unwrap(),
            license: "Apache-2.0".to_owned(),
            backends: backends.iter().map(ToString::to_string).collect(),
            framework: Framework::Torch,
            year: 2026,
            set: BTreeMap::new(),
        }
    }

    #[test]
    fn every_template_renders_for_every_backend_with_nothing_left_over() {
        for template in all().unwrap() {
            for backend in &template.backends {
                let set = render(&template, &answers(&[backend])).unwrap();
                for (path, bytes) in set.iter() {
                    let path = path.display().to_string();
                    assert!(!path.contains("{{") && !path.ends_with(".j2"), "{path}");
                    let text = String::from_utf8_lossy(bytes);
                    assert!(!text.contains("{%"), "{path} has template code left over");
                }
                for other in template.backends.iter().filter(|other| *other != backend) {
                    let foreign = format!("fast_norm_{other}");
                    assert!(set.iter().all(|(path, _)| !path.starts_with(&foreign)), "{foreign}");
                }
            }
        }
    }

    /// The example is what `new kernelwright/rms-norm-strided --template rms-norm-strided` writes.
    #[test]
    fn the_example_is_the_template() {
        let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/rms-norm-strided");
        let answers = Answers {
            owner: "kernelwright".to_owned(),
            name: "rms-norm-strided".parse().unwrap(),
            ..answers(&["cpu", "cuda"])
        };
        for (path, bytes) in render(&find("rms-norm-strided").unwrap(), &answers).unwrap().iter() {
            // An example is built by the builder of its own checkout: tests/it/generate.rs has its flake.
            if path.ends_with("flake.nix") {
                continue;
            }
            let there = crate::base::files::read(&examples.join(path)).unwrap();
            let path = path.display();
            assert!(
                there == bytes,
                "examples/rms-norm-strided/{path} differs; render it again: kernelwright new"
            );
        }
    }

    #[test]
    fn an_unknown_backend_is_named() {
        let template = find("rms-norm-strided").unwrap();
        let error = render(&template, &answers(&["tpu"])).unwrap_err();
        assert_eq!(error.to_string(), "template `rms-norm-strided` does not support the backend `tpu`");
    }

    #[test]
    fn titles() {
        assert_eq!(title("rms-norm"), "Rms Norm");
    }
}
