//! Imports the package in a clean process, as a client would.
//!
//! Owns: the verdict on the import and on the operators that it registers, or loses. Never: calls a kernel.

use kernel_plan::units::PythonDependency;
use serde_json::json;

use super::super::channel::{self, RoleResult};
use super::super::evidence::{CheckResult, Outcome};
use super::super::findings::first_few;
use super::super::torches::{self, OTHER_TORCH, suits};
use super::super::{ImportReport, Subject, VerifyError, gpu_present, registration};
use crate::base::process::{Ending, Limits};
use crate::base::{confine, env, files};
use crate::protocol::verify::{self, CandidateJob, Event, Job};
use crate::toolchain::python;

const CODE: &str = "verify::load";
/// Of a system that cannot keep a package from the user's files.
const UNCONFINED: &str = "verify::unconfined";
/// Of an import that takes its users longer than it needs to.
const SLOW_IMPORT: &str = "verify::slow_import";
/// Of operators that are not where they should be.
const REGISTRATION: &str = "verify::registration";

/// The package imports, and its operators are registered under its own namespace. A warning says so if the package could
/// not be confined.
pub(crate) fn check(subject: &mut Subject<'_>) -> Result<Vec<CheckResult>, VerifyError> {
    let mut results = import(subject)?;
    subject.environment.confined = subject.loaded.is_some() && confine::is_possible();
    if subject.loaded.is_some() && !subject.environment.confined {
        let summary = "this system has no Landlock (Linux 5.13 and later): the package could write to every file of yours";
        results.push(CheckResult::new("confinement", UNCONFINED, Outcome::Skipped, summary, json!({})));
    }
    Ok(results)
}

fn import(subject: &mut Subject<'_>) -> Result<Vec<CheckResult>, VerifyError> {
    let result =
        |outcome, summary: String, facts| vec![CheckResult::new("load", CODE, outcome, summary, facts)];
    let Some(python) = subject.python else {
        let summary = "no Python with torch here: the package was not imported".to_owned();
        return Ok(result(Outcome::Skipped, summary, json!({})));
    };
    if !suits(&subject.artifact.variant, &python.torch) {
        // The Python is there, since it judges.
        let builds = python::torches(subject.session).unwrap_or_default();
        let served = torches::serving(subject.artifact, &builds);
        let then = match served.as_deref() {
            Ok([.., line]) => format!("`kernelwright verify --torch {line}` judges it"),
            Ok([]) => "no other torch supports it either".to_owned(),
            Err(missing) => missing.to_string(),
        };
        let summary =
            format!("this build does not support torch {}, which the judge has; {then}", python.torch);
        return Ok(vec![CheckResult::new("load", OTHER_TORCH, Outcome::Skipped, summary, json!({}))]);
    }
    let folder = files::scratch()?;
    let harness = channel::unpack(folder.path())?;
    let job = Job::Candidate(CandidateJob {
        package: env::absolute(&subject.artifact.dir).display().to_string(),
        namespace: subject.artifact.id.clone(),
        function: subject.op.map(|op| op.call.function.to_string()),
        device: subject.artifact.backend.clone(),
        threads: subject.options.threads,
        home: None,
        schedule: None,
    });
    let limits = Limits { resident: Some(subject.options.memory), ..Limits::wall(subject.options.deadline) };
    let (mut loaded, mut failed) = (None, None);
    let ended = channel::play(python, &harness, job, limits, &mut |event| match event {
        Event::Loaded(package) => loaded = Some(package),
        Event::LoadFailed { error } => failed = Some(error),
        _ => {}
    })?;
    let facts = json!({ "said": ended.last_words(), "ending": ended.process.ending.to_string() });
    let doubled = loaded.iter().flat_map(|package| &package.doubled).map(String::as_str);
    let lost = registration::lost(&ended.process.stderr_text(), &doubled.collect::<Vec<_>>());
    if !lost.is_empty() {
        let mut summary = format!("torch does not accept all that the import registers: {}", lost.join("; "));
        if !ended.done {
            summary += &format!("; then {}", failed.unwrap_or_else(|| silence(&ended)));
        }
        return Ok(vec![CheckResult::new("load", REGISTRATION, Outcome::Refused, summary, facts)]);
    }
    // Without a GPU the managed torch has stand-ins for its GPU libraries, with the names of the stable interface only.
    let stands_in = python.site.is_some() && subject.artifact.backend == "cuda" && !gpu_present();
    if let Some(error) = &failed
        && stands_in
        && error.contains("undefined symbol")
    {
        let summary = format!(
            "torch's GPU libraries are stand-ins here, without a name that the package uses: {error}"
        );
        return Ok(result(Outcome::Skipped, summary, facts));
    }
    if let Some(module) = failed.as_deref().and_then(lacking) {
        let summary = format!("this Python has no `{module}`, so the package was not imported");
        return Ok(result(Outcome::Skipped, summary, facts));
    }
    if let Some(error) = failed {
        return Ok(result(Outcome::Refused, format!("the package does not import: {error}"), facts));
    }
    let Some(package) = loaded else {
        return Ok(result(Outcome::Refused, silence(&ended), facts));
    };
    if !ended.done || !ended.process.ending.success() {
        return Ok(result(Outcome::Refused, silence(&ended), facts));
    }
    Ok(judge(subject, &package, stands_in))
}

/// The package of others that an import asks for and this Python lacks: one that `python-depends` may list, or Triton,
/// which comes with a torch for GPUs.
fn lacking(error: &str) -> Option<&str> {
    let name = error.strip_prefix("ModuleNotFoundError: No module named '")?.split('\'').next()?;
    let module = name.split('.').next()?;
    let known = PythonDependency::ALL.iter().flat_map(|dependency| dependency.modules());
    known.chain(&["triton"]).any(|known| *known == module).then_some(module)
}

fn silence(ended: &RoleResult) -> String {
    match ended.process.ending {
        Ending::Exit(code) => format!("the import ended the process with status {code}"),
        other => format!("the process {other} during the import"),
    }
}

fn judge(subject: &mut Subject<'_>, package: &verify::Loaded, stands_in: bool) -> Vec<CheckResult> {
    subject.environment.torch = Some(package.torch.clone());
    subject.environment.python = Some(package.python.clone());
    subject.environment.device = Some(package.device.clone());
    let operators = package.operators.len();
    let has_function = package.has_function;
    subject.loaded = Some(ImportReport { cuda_available: package.cuda_available, has_function });
    let (id, torch) = (&subject.artifact.id, &package.torch);
    let facts = json!({ "operators": package.operators, "torch": torch, "stand-ins": stands_in });
    let tvm_ffi = subject.artifact.is_tvm_ffi();
    let (outcome, summary) = match subject.op {
        _ if operators == 0 && subject.artifact.library.is_some() && !tvm_ffi => {
            (Outcome::Refused, format!("the import registers no operator under `{id}`"))
        }
        Some(op) if !has_function => {
            let name = &op.call.function.value;
            (
                Outcome::Refused,
                format!("the package has no function `{name}`, which `[call]` of op.toml names"),
            )
        }
        _ if tvm_ffi => (Outcome::Passed, format!("imports beside torch {torch}, through tvm_ffi")),
        _ => {
            let plural = if operators == 1 { "" } else { "s" };
            let caveat = if stands_in { " (its GPU libraries stood in for by name)" } else { "" };
            (Outcome::Passed, format!("imports under torch {torch}, {operators} operator{plural}{caveat}"))
        }
    };
    let mut results = vec![CheckResult::new("load", CODE, outcome, summary, facts)];
    results.extend(elsewhere(&package.elsewhere, id));
    if package.imports_compiler {
        let summary =
            "importing the package imports torch._dynamo, which costs every user a second; import it where \
                       it is needed, and use torch.library in place of decorators of torch.compiler"
                .to_owned();
        results.push(CheckResult::new("load", SLOW_IMPORT, Outcome::Warned, summary, json!({})));
    }
    results
}

/// Operators that the package's library defines in a namespace that is not its own: another version of the package, or
/// any that takes the same name, and one of the two is not there.
fn elsewhere(operators: &[String], id: &str) -> Option<CheckResult> {
    // A namespace that begins with the package's is as much its own: `TORCH_EXTENSION_NAME` with something behind it.
    let others = operators.iter().filter(|name| !name.starts_with(id));
    let names: Vec<_> = others.map(|name| format!("`{name}`")).collect();
    if names.is_empty() {
        return None;
    }
    let summary = format!(
        "defines {} outside of its own namespace, so two versions of it cannot be loaded together: torch keeps \
         those of the first; define them under TORCH_EXTENSION_NAME",
        first_few(&names),
    );
    let facts = json!({ "operators": operators });
    Some(CheckResult::new("load", REGISTRATION, Outcome::Warned, summary, facts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_outside_of_the_namespace_are_a_warning() {
        let own = ["_k_cpu_0::one", "_k_cpu_0_exact::one"].map(str::to_owned);
        assert!(elsewhere(&own, "_k_cpu_0").is_none() && elsewhere(&[], "_k_cpu_0").is_none());
        let other = ["_k_cpu_0::one", "k::one", "k::two", "k::three", "k::four"].map(str::to_owned);
        let warned = elsewhere(&other, "_k_cpu_0").unwrap();
        assert_eq!(warned.outcome, Outcome::Warned);
        assert!(warned.summary.contains("`k::one`, `k::two`, `k::three` and 1 more"), "{}", warned.summary);
    }

    #[test]
    fn a_module_of_others_may_be_lacking_here() {
        assert_eq!(lacking("ModuleNotFoundError: No module named 'triton.language'"), Some("triton"));
        assert_eq!(lacking("ModuleNotFoundError: No module named 'einops'"), Some("einops"));
        assert_eq!(lacking("ModuleNotFoundError: No module named 'kernel_package.left_out'"), None);
        assert_eq!(lacking("NameError: name 'triton' is not defined"), None);
    }
}
