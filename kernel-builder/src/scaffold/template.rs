//! Templates: folders that are embedded in the program, rendered strictly.
//!
//! Owns: the format of `template.toml` (documented in templates/README.md), the variables.
//! Never: knows a template by name.

use include_dir::{Dir, include_dir};
use kernel_plan::units::KernelName;
use minijinja::syntax::SyntaxConfig;
use minijinja::{Environment, UndefinedBehavior, context};
use serde::{Deserialize, Serialize};

use super::{FileSet, ScaffoldError};

static TEMPLATES: Dir<'_> = include_dir!("$CARGO_MANIFEST_DIR/../templates");

/// What a template offers: `template.toml`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Template {
    /// The folder's name.
    pub name: String,
    /// One line on what it is for.
    pub description: String,
    /// The operations that it defines.
    pub ops: Vec<String>,
    /// The backends that it has code for.
    pub backends: Vec<String>,
    /// Paths that are written for one backend only.
    #[serde(default)]
    when: Vec<When>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct When {
    backend: String,
    paths: Vec<String>,
}

/// What a person answered.
#[derive(Debug, Clone)]
pub struct Answers {
    /// The user or organisation on the hub.
    pub owner: String,
    /// The kernel's name.
    pub name: KernelName,
    /// The licence, as an SPDX identifier.
    pub license: String,
    /// The backends, in the template's order.
    pub backends: Vec<String>,
    /// For the card.
    pub year: i64,
}

/// Every template, by name.
pub fn all() -> Result<Vec<Template>, ScaffoldError> {
    let mut templates = Vec::new();
    for folder in TEMPLATES.dirs() {
        let name = folder.path().display().to_string();
        let text = folder.get_file(folder.path().join("template.toml")).and_then(|file| file.contents_utf8());
        let template = toml::from_str(text.unwrap_or_default())
            .map_err(|cause| ScaffoldError::Manifest { name, cause })?;
        templates.push(template);
    }
    Ok(templates)
}

/// The template of that name.
pub fn find(name: &str) -> Result<Template, ScaffoldError> {
    let templates = all()?;
    let names: Vec<String> = templates.iter().map(|template| template.name.clone()).collect();
    templates.into_iter().find(|template| template.name == name).ok_or_else(|| {
        ScaffoldError::UnknownTemplate {
            name: name.to_owned(),
            hint: format!("the templates are: {}", names.join(", ")),
        }
    })
}

/// Renders every file of a template.
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
    };
    let render = |file: &str, text: &str| {
        engine
            .render_str(text, &variables)
            .map_err(|cause| ScaffoldError::Render { file: file.to_owned(), cause })
    };
    let mut left_out = Vec::new();
    for when in template.when.iter().filter(|when| !answers.backends.contains(&when.backend)) {
        for path in &when.paths {
            left_out.push(render("template.toml", path)?);
        }
    }
    let mut set = FileSet::default();
    let mut pending: Vec<&Dir<'_>> = TEMPLATES.get_dir(&template.name).into_iter().collect();
    while let Some(folder) = pending.pop() {
        pending.extend(folder.dirs());
        for file in folder.files() {
            let inside =
                file.path().strip_prefix(&template.name).unwrap_or(file.path()).display().to_string();
            let path = render(&inside, &inside)?;
            let skipped = left_out.iter().any(|prefix| std::path::Path::new(&path).starts_with(prefix));
            if inside == "template.toml" || skipped {
                continue;
            }
            match (path.strip_suffix(".j2"), file.contents_utf8()) {
                (Some(path), Some(text)) => set.insert(path, render(&inside, text)?)?,
                _ => set.insert(path, file.contents())?,
            }
        }
    }
    Ok(set)
}

/// How templates are written: as minijinja's, with the last line break kept.
pub(super) fn syntax(name: &str) -> Result<SyntaxConfig, ScaffoldError> {
    let syntax = SyntaxConfig::builder().keep_trailing_newline(true).build();
    syntax.map_err(|cause| ScaffoldError::Render { file: name.to_owned(), cause })
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
            year: 2026,
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

    /// The example is what `new kernelwright/rms-norm --template rms-norm` writes; its folder name is the kernel's.
    #[test]
    fn the_example_is_the_template() {
        let examples = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/rms-norm");
        let answers = Answers {
            owner: "kernelwright".to_owned(),
            name: "rms-norm".parse().unwrap(),
            ..answers(&["cpu", "cuda"])
        };
        for (path, bytes) in render(&find("rms-norm").unwrap(), &answers).unwrap().iter() {
            let there = crate::base::files::read(&examples.join(path)).unwrap();
            let path = path.display();
            assert!(there == bytes, "examples/rms-norm/{path} differs; render it again: kernelwright new");
        }
    }

    #[test]
    fn an_unknown_backend_is_named() {
        let template = find("rms-norm").unwrap();
        let error = render(&template, &answers(&["tpu"])).unwrap_err();
        assert_eq!(error.to_string(), "the template `rms-norm` has no code for the backend `tpu`");
    }

    #[test]
    fn titles() {
        assert_eq!(title("rms-norm"), "Rms Norm");
    }
}
