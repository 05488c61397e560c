//! The step `generated`: the host side that is generated, on the processor. Every template with code for it is built,
//! judged and timed beside PyTorch on the first of its workloads, and its committed files are up to date. Some are
//! packaged and loaded by the stock client, too.
//!
//! Owns: which templates, and how long each may take. Never: judges; `make` and `bench` do.

use std::fs;
use std::path::Path;

use super::folders;
use super::run::Run;
use crate::talk::Talk;

/// The item that is `TVM_TEMPLATE` with a binding for tvm-ffi.
pub(crate) const FOR_TVM_FFI: &str = "for-tvm-ffi";
/// Its template.
pub(crate) const TVM_TEMPLATE: &str = "swiglu";
/// Templates whose package the stock client loads, too.
const LOADED: &[&str] =
    &["rms-norm", "add-rms-norm", "softmax", "swiglu", "rope", "cross-entropy", FOR_TVM_FFI];
/// Templates with code for the processor, at least; fewer means that the search is wrong.
const FEWEST: usize = 18;
const CPU: &str = "[cpu]";
/// The code of a run whose samples say nothing well enough.
const NOT_MEASURED: &str = "bench::not_measured";
/// The code of a warning that no generated package may have: each of its users would wait a second.
const SLOW_IMPORT: &str = "verify::slow_import";

/// The templates with code for the processor, and the one for tvm-ffi.
pub(crate) fn items(root: &Path) -> Result<Vec<String>, String> {
    let mut items = folders::templates(root)?;
    items.retain(|name| folders::has_line(&root.join("templates").join(name).join("op.toml.j2"), CPU));
    if items.len() < FEWEST {
        return Err(format!("only {} templates have `{CPU}`: {}", items.len(), items.join(", ")));
    }
    items.push(FOR_TVM_FFI.to_owned());
    Ok(items)
}

/// Builds, judges and times each item.
pub(crate) fn run(run: &Run<'_>) -> Result<Vec<String>, String> {
    let rendered = run.site.ready.templates()?;
    let listed = items(&run.site.root)?;
    for name in folders::templates(&run.site.root)? {
        if folders::has_line(&rendered.join(&name).join("op.toml"), CPU) != listed.contains(&name) {
            return Err(format!("the template {name} and its project differ on whether there is `{CPU}`"));
        }
    }
    let packages = run.site.ready.scratch("loaded")?;
    run.each(|item, talk| {
        let mut variant = "torch-stable-abi210-cpu-x86_64-linux";
        if item == FOR_TVM_FFI {
            variant = "tvm-ffi01-cpu-x86_64-linux";
            run.site.ready.render_one(TVM_TEMPLATE, FOR_TVM_FFI, &["--framework", "tvm-ffi"])?;
        }
        on_the_processor(run, item, variant, &packages, talk)
    })
}

fn on_the_processor(
    run: &Run<'_>,
    item: &str,
    variant: &str,
    packages: &Path,
    talk: &mut Talk,
) -> Result<(), String> {
    let project = run.site.ready.templates()?.join(item);
    let op = project.join("op.toml");
    let text =
        fs::read_to_string(&op).map_err(|error| format!("failed to read {}: {error}", op.display()))?;
    let workload =
        first_workload(&text).ok_or_else(|| format!("{} has no workload `cpu-...`", op.display()))?;
    let loaded = LOADED.contains(&item);
    let mut command = run.site.ready.kernelwright(&[if loaded { "make" } else { "bench" }])?;
    command.args(["--variant", variant, "--workload", workload, "--budget", "0.1"]);
    command.args(["--without", "compile", "--without", "compile-max"]);
    // Another item is judged beside this one: more threads would wait for each other, and on a slow machine all calls take
    // longer than a user would wait for.
    command.args(["--threads", "1", "--deadline", "900"]);
    if loaded {
        command.arg("--to").arg(packages.join(item));
    }
    let (said, ended) = talk.heard(command.arg(&project));
    // On a busy machine no figure may be a result. `bench` says so last, when all is judged and timed.
    if !said.contains(NOT_MEASURED) {
        ended?;
    }
    let verdict = project.join(".kernelwright/verdicts").join(format!("{variant}.json"));
    let verdict = fs::read_to_string(&verdict)
        .map_err(|error| format!("failed to read {}: {error}", verdict.display()))?;
    if verdict.contains(SLOW_IMPORT) {
        return Err(format!("{SLOW_IMPORT}: importing the package imports torch._dynamo"));
    }
    talk.run(run.site.ready.kernelwright(&["generate", "--check"])?.arg(&project))
}

/// The first workload of op.toml for the processor.
fn first_workload(op: &str) -> Option<&str> {
    let names = op.lines().filter_map(|line| line.strip_prefix("[workload."));
    names.filter_map(|rest| rest.split(']').next()).find(|name| name.starts_with("cpu-"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;

    #[test]
    fn the_first_workload_of_the_processor() {
        let op = "[workload.large]\nrows = 1\n[workload.cpu-small]\n[workload.cpu-large]\n";
        assert_eq!(first_workload(op), Some("cpu-small"));
        assert_eq!(first_workload("[workload.large]"), None);
    }

    #[test]
    fn the_loaded_ones_are_items() {
        let items = items(&repo::root()).unwrap();
        assert!(LOADED.iter().all(|name| items.iter().any(|item| item == name)), "{items:?}");
    }
}
