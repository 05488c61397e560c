//! What a package offers to its users, and whether a new build still offers it.
//!
//! A name is of `__all__` (without one: what `__init__.py` defines without an underscore), with its parameters, read by
//! Python's `ast`. An operator is a schema in the data of the library, where `TORCH_LIBRARY` was given it; of tvm-ffi it is
//! an exported function.
//!
//! Owns: reading both, and what counts as a break. Never: imports the package or loads the library.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use kernel_plan::plan::CommandLine;
use serde::Deserialize;

use super::schema::{self, Schema};
use super::{ApiError, PublishError};
use crate::base::files;
use crate::base::process::{self, Limits};
use crate::verify;

/// Reads packages by `ast`.
const READER: &str = include_str!("../../harness/api.py");
/// Parsing is milliseconds; a folder that takes longer is no package.
const LIMIT: Duration = Duration::from_secs(60);

/// What one variant offers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Api {
    /// The Python names.
    pub names: BTreeMap<String, Name>,
    /// The operators of the library, by name.
    pub operators: BTreeMap<String, Option<Schema>>,
}

/// A name of a package.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Name {
    /// `function`, `class`, `module`, or `value` where nothing more is known.
    pub kind: String,
    /// What can be called: of a function by the empty name, of a class by the names of its methods.
    pub calls: BTreeMap<String, Vec<Parameter>>,
}

/// A parameter: its name, how it is given (`place`, `any`, `name`, or `places` and `names` for all further ones), and
/// whether it must be.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Parameter(String, ParameterKind, bool);

/// How an argument can be given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ParameterKind {
    Place,
    Any,
    Name,
    Places,
    Names,
}

#[derive(Deserialize)]
struct PackageNames {
    names: BTreeMap<String, Name>,
    read: bool,
}

/// What these folders of variants offer, in their order.
///
/// # Errors
/// Python does not run, a package cannot be parsed, or a library cannot be read.
pub fn read_packages(folders: &[PathBuf], python: &Path) -> Result<Vec<Api>, PublishError> {
    let line = CommandLine::new(python).args(["-I", "-c", READER]);
    let paths: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    let input = serde_json::to_string(&paths).unwrap_or_default() + "\n";
    let mut said: Vec<PackageNames> = Vec::new();
    let done = process::converse(&line, Limits::wall(LIMIT), input.as_bytes(), &mut |text| {
        said.extend(serde_json::from_str::<PackageNames>(text));
    })
    .map_err(ApiError::Process)?;
    if said.len() != folders.len() {
        let output = done.stderr_text().lines().last().unwrap_or("it printed nothing").to_owned();
        return Err(ApiError::Reader { program: python.to_owned(), output }.into());
    }
    let mut apis = Vec::new();
    for (folder, said) in folders.iter().zip(said) {
        if !said.read {
            return Err(ApiError::Unread { file: folder.join("__init__.py") }.into());
        }
        apis.push(Api { names: said.names, operators: operators(folder)? });
    }
    Ok(apis)
}

/// The operators of the libraries in a folder.
fn operators(folder: &Path) -> Result<BTreeMap<String, Option<Schema>>, PublishError> {
    let mut found = BTreeMap::new();
    for name in files::walk(folder, crate::package::is_shipped)? {
        if !name.to_string_lossy().ends_with(".so") {
            continue;
        }
        let bytes = files::read(&folder.join(&name))?;
        let functions = verify::tvm_ffi_functions(&bytes);
        found.extend(functions.into_iter().map(|function| (function, None)));
        for schema in schema::all(&verify::constants(&bytes)) {
            found.insert(schema.name.clone(), Some(schema));
        }
    }
    Ok(found)
}

/// What a user of the old one loses with the new one, a sentence each.
pub fn breaks(old: &Api, new: &Api) -> BTreeSet<String> {
    let mut lost = BTreeSet::new();
    for (name, was) in &old.names {
        let Some(is) = new.names.get(name) else {
            lost.insert(format!("`{name}` is gone"));
            continue;
        };
        // A value may be a function that was made; what is not known is not judged.
        if was.kind != "value" && is.kind != "value" && was.kind != is.kind {
            lost.insert(format!("`{name}` was a {} and is a {}", was.kind, is.kind));
            continue;
        }
        for (method, before) in &was.calls {
            let shown = if method.is_empty() { name.clone() } else { format!("{name}.{method}") };
            match is.calls.get(method) {
                Some(after) => lost.extend(call_breaks(&shown, before, after)),
                None if is.kind == "value" => {}
                // An `__init__` that is gone is inherited.
                None if method == "__init__" => {}
                None => {
                    lost.insert(format!("`{shown}` is gone"));
                }
            }
        }
    }
    for (name, was) in &old.operators {
        match (was, new.operators.get(name)) {
            // Linkers keep a text that another one ends with inside of that one, where it is not seen.
            (Some(was), None) if new.operators.values().flatten().any(|is| is.ends_with(was)) => {}
            (_, None) => {
                lost.insert(format!("the operator `{name}` is gone"));
            }
            (Some(was), Some(Some(is))) => {
                lost.extend(
                    was.lost_in(is).map(|why| format!("the operator `{name}` {why}: `{was}` became `{is}`")),
                );
            }
            _ => {}
        }
    }
    lost
}

/// What calls of a function there were that the new one does not take.
fn call_breaks(shown: &str, old: &[Parameter], new: &[Parameter]) -> Vec<String> {
    let by_place = |of: &[Parameter]| -> Vec<String> {
        of.iter()
            .filter(|it| matches!(it.1, ParameterKind::Place | ParameterKind::Any))
            .map(|it| it.0.clone())
            .collect()
    };
    let takes_all = |how: ParameterKind| new.iter().any(|it| it.1 == how);
    let (before, after) = (by_place(old), by_place(new));
    let mut lost = Vec::new();
    for (place, name) in before.iter().enumerate() {
        match after.get(place) {
            Some(is) if is == name => {
                let by_place_alone =
                    |of: &[Parameter]| of.iter().any(|it| it.0 == *name && it.1 == ParameterKind::Place);
                if by_place_alone(new) && !by_place_alone(old) {
                    lost.push(format!("`{shown}` takes `{name}` as a positional argument only"));
                }
            }
            Some(_) if old.iter().any(|it| it.0 == *name && it.1 == ParameterKind::Place) => {}
            None if takes_all(ParameterKind::Places) && takes_all(ParameterKind::Names) => {}
            _ if after.contains(name) => lost.push(format!("`{shown}` takes `{name}` at another position")),
            _ if new.iter().any(|it| it.0 == *name) => {
                lost.push(format!("`{shown}` takes `{name}` as a keyword argument only"))
            }
            _ => lost.push(format!("`{shown}` takes no `{name}` any more")),
        }
    }
    for Parameter(name, how, required) in old {
        let is = new.iter().find(|it| it.0 == *name);
        match (how, is) {
            (ParameterKind::Name, None) if !takes_all(ParameterKind::Names) => {
                lost.push(format!("`{shown}` takes no `{name}` any more"));
            }
            (ParameterKind::Name, Some(is)) if is.1 == ParameterKind::Place => {
                lost.push(format!("`{shown}` takes `{name}` as a positional argument only"));
            }
            (ParameterKind::Places, _) if !takes_all(ParameterKind::Places) => {
                lost.push(format!("`{shown}` takes no further positional arguments"));
            }
            (ParameterKind::Names, _) if !takes_all(ParameterKind::Names) => {
                lost.push(format!("`{shown}` takes no further keyword arguments"));
            }
            (_, Some(is)) if is.2 && !required => {
                lost.push(format!("`{shown}` has no default for `{name}` any more"))
            }
            _ => {}
        }
    }
    // What had to be given by place has another name now, which nobody could use before.
    let given = |name: &String| {
        let place = after.iter().position(|after| after == name);
        let was = place.and_then(|place| before.get(place));
        was.is_some_and(|was| old.contains(&Parameter(was.clone(), ParameterKind::Place, true)))
    };
    let unknown = |it: &&Parameter| it.2 && !old.iter().any(|was| was.0 == it.0) && !given(&it.0);
    for Parameter(name, _, _) in new.iter().filter(unknown) {
        lost.push(format!("`{shown}` requires `{name}`, which callers do not pass"));
    }
    lost
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a, /, b=, *, c, d=, *args, **more`: what must be given has no `=`.
    fn function(text: &str) -> Name {
        let mut by_name = false;
        let mut parameters: Vec<Parameter> = Vec::new();
        for part in text.split(", ").filter(|part| !part.is_empty()) {
            let (how, name) = match part {
                "/" => {
                    parameters.iter_mut().for_each(|it| it.1 = ParameterKind::Place);
                    continue;
                }
                "*" => {
                    by_name = true;
                    continue;
                }
                part if part.starts_with("**") => (ParameterKind::Names, &part[2..]),
                part if part.starts_with('*') => (ParameterKind::Places, &part[1..]),
                part if by_name => (ParameterKind::Name, part),
                part => (ParameterKind::Any, part),
            };
            let required = !name.ends_with('=') && matches!(how, ParameterKind::Name | ParameterKind::Any);
            parameters.push(Parameter(name.trim_end_matches('=').to_owned(), how, required));
        }
        Name { kind: "function".to_owned(), calls: [(String::new(), parameters)].into() }
    }

    #[track_caller]
    fn check(old: &str, new: &str, want: &[&str]) {
        let api = |text: &str| Api { names: [("f".to_owned(), function(text))].into(), ..Api::default() };
        let lost: Vec<_> = breaks(&api(old), &api(new)).into_iter().collect();
        assert_eq!(lost, want, "{old} -> {new}");
    }

    #[test]
    fn calls_that_work_go_on_to_work() {
        check("x, y", "x, y", &[]);
        check("x", "x, y=", &[]);
        check("x", "x, *, y=", &[]);
        check("x, *, y", "x, *, y=, z=", &[]);
        check("x, y", "*args, **more", &[]);
        check("x, /, y", "a, /, y", &[]);
        check("x, /", "x, y=", &[]);
    }

    #[test]
    fn calls_that_fail_are_told() {
        check("x, y", "x", &["`f` takes no `y` any more"]);
        check("x, y", "y, x", &["`f` takes `x` at another position", "`f` takes `y` at another position"]);
        check("x, y", "x, *, y", &["`f` takes `y` as a keyword argument only"]);
        check("x", "x, y", &["`f` requires `y`, which callers do not pass"]);
        check("x, y=", "x, y", &["`f` has no default for `y` any more"]);
        check("x, *, y", "x", &["`f` takes no `y` any more"]);
        check("x, *args", "x", &["`f` takes no further positional arguments"]);
        check("x, **more", "x", &["`f` takes no further keyword arguments"]);
        check("x, y", "x, /, y", &["`f` takes `x` as a positional argument only"]);
        check(
            "x, *, y",
            "x, y, /",
            &["`f` takes `x` as a positional argument only", "`f` takes `y` as a positional argument only"],
        );
        check("x, /", "x, y, /", &["`f` requires `y`, which callers do not pass"]);
        check("x, y=, /", "x, z, /", &["`f` requires `z`, which callers do not pass"]);
    }

    #[test]
    fn a_name_that_is_gone_or_another_thing_is_told() {
        let value = Name { kind: "value".to_owned(), calls: BTreeMap::new() };
        let class = Name { kind: "class".to_owned(), calls: [("forward".to_owned(), vec![])].into() };
        let api =
            |name: &str, of: &Name| Api { names: [(name.to_owned(), of.clone())].into(), ..Api::default() };
        let told = |old: &Api, new: &Api| breaks(old, new).into_iter().collect::<Vec<_>>();
        assert_eq!(told(&api("f", &value), &Api::default()), ["`f` is gone"]);
        assert_eq!(told(&Api::default(), &api("f", &value)), Vec::<String>::new());
        assert_eq!(told(&api("f", &function("x")), &api("f", &class)), ["`f` was a function and is a class"]);
        assert_eq!(told(&api("f", &function("x")), &api("f", &value)), Vec::<String>::new());
        let bare = Name { calls: BTreeMap::new(), ..class.clone() };
        assert_eq!(told(&api("C", &class), &api("C", &bare)), ["`C.forward` is gone"]);
    }

    #[test]
    fn operators_are_compared() {
        let api = |schemas: &[&str]| {
            let parsed = schemas.iter().map(|text| Schema::parse(text).unwrap());
            Api { operators: parsed.map(|it| (it.name.clone(), Some(it))).collect(), ..Api::default() }
        };
        let old = api(&["norm(Tensor x, float eps) -> Tensor", "more(Tensor x) -> Tensor"]);
        let new = api(&["norm(Tensor x, float eps, int k=1) -> Tensor"]);
        let lost: Vec<_> = breaks(&old, &new).into_iter().collect();
        assert_eq!(lost, ["the operator `more` is gone"]);
        // The text of one may lie in that of another, as the linker leaves it; not where it goes on differently.
        let longer = api(&["rms_norm(Tensor x, float eps) -> Tensor", "no_more(Tensor y) -> Tensor"]);
        let lost: Vec<_> = breaks(&old, &longer).into_iter().collect();
        assert_eq!(lost, ["the operator `more` is gone"]);
    }
}
