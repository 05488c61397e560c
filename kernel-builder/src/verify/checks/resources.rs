//! Registers, local and shared memory of every kernel.
//!
//! Owns: the warning about local memory. Never: refuses; a kernel that spills is slow, not wrong.

use serde_json::json;

use super::super::code_error::CodeError;
use super::super::cubin;
pub(crate) use super::super::cubin::Usage;
use super::super::evidence::{CheckResult, Outcome};
use super::super::fatbin::Kind;
use super::super::findings::first_few;
use super::super::{Subject, VerifyError};
use crate::base::causes::chain;
use crate::base::files;
use crate::compile::nvrtc::Code;

const CODE: &str = "verify::resources";

/// Reports what every kernel uses on every architecture, and warns of local memory.
pub(in crate::verify) fn check(subject: &mut Subject<'_>) -> Result<Vec<CheckResult>, VerifyError> {
    let Some(library) = subject.artifact.library.as_ref().filter(|_| subject.artifact.backend == "cuda")
    else {
        return Ok(vec![]);
    };
    let bytes = files::read(library)?;
    let result =
        |outcome, summary: String, facts| vec![CheckResult::new("resources", CODE, outcome, summary, facts)];
    match usages(&bytes) {
        Err(error) => {
            let summary = format!("the resources of the kernels cannot be read: {}", chain(&error));
            Ok(result(Outcome::Warned, summary, json!({})))
        }
        Ok(kernels) => Ok(vec![report(&kernels)]),
    }
}

/// What the kernels of device code use.
///
/// # Errors
/// A file of machine code cannot be read, or is none.
pub(crate) fn of_code(code: &Code) -> Result<Vec<Usage>, CodeError> {
    let mut found = Vec::new();
    for cubin in &code.cubins {
        let bytes = files::read(&cubin.path)?;
        found.extend(cubin::usages(&bytes)?);
    }
    Ok(found)
}

/// What the kernels use, each on an architecture.
pub(crate) fn report(kernels: &[(String, Usage)]) -> CheckResult {
    let (outcome, summary) = judged(kernels);
    let facts = kernels.iter().map(|(arch, usage)| {
        json!({
            "arch": arch, "kernel": usage.kernel, "registers": usage.registers,
            "stack": usage.stack, "shared": usage.shared,
        })
    });
    CheckResult::new("resources", CODE, outcome, summary, json!({ "kernels": facts.collect::<Vec<_>>() }))
}

pub(in crate::verify) fn usages(library: &[u8]) -> Result<Vec<(String, Usage)>, CodeError> {
    let mut found = Vec::new();
    for entry in super::archs::entries(library)? {
        if entry.kind == Kind::Cubin {
            let arch = format!("sm_{}", entry.arch);
            found.extend(cubin::usages(&entry.payload)?.into_iter().map(|usage| (arch.clone(), usage)));
        }
    }
    Ok(found)
}

fn judged(kernels: &[(String, Usage)]) -> (Outcome, String) {
    let most = kernels.iter().map(|(_, usage)| usage.registers).max().unwrap_or(0);
    let local: Vec<_> = kernels.iter().filter(|(_, usage)| usage.stack > 0).collect();
    if local.is_empty() {
        let text = format!("{} kernels, at most {most} registers, no local memory", kernels.len());
        return (Outcome::Passed, text);
    }
    let named: Vec<_> = local
        .iter()
        .map(|(arch, usage)| format!("{} on {arch} ({} bytes)", short_name(&usage.kernel), usage.stack))
        .collect();
    let text = format!("local memory (spilled registers or indexed arrays): {}", first_few(&named));
    (Outcome::Warned, text)
}

/// The innermost name of a symbol of the Itanium C++ ABI, without parameters: enough to find the kernel in its source.
pub(crate) fn short_name(mangled: &str) -> String {
    let Some(mut rest) = mangled.strip_prefix("_Z") else { return mangled.to_owned() };
    let mut name = mangled;
    rest = rest.strip_prefix('N').unwrap_or(rest);
    loop {
        let digits = rest.len() - rest.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
        let Some((part, left)) =
            rest[..digits].parse::<usize>().ok().and_then(|length| rest[digits..].split_at_checked(length))
        else {
            return name.to_owned();
        };
        (name, rest) = (part, left);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_shortened() {
        assert_eq!(short_name("_Z5plainPfi"), "plain");
        assert_eq!(short_name("_ZN9namespace4rowsILi4EEEvPKv"), "rows");
        assert_eq!(short_name("rms_norm_rows"), "rms_norm_rows");
        assert_eq!(short_name("_Z99short"), "_Z99short");
    }

    #[test]
    fn local_memory_warns_with_names() {
        let usage = |kernel: &str, stack| {
            let usage = Usage { kernel: kernel.to_owned(), registers: 40, stack, shared: 0 };
            ("sm_80".to_owned(), usage)
        };
        let (outcome, text) = judged(&[usage("_Z5plainPfi", 0)]);
        assert_eq!(
            (outcome, text.as_str()),
            (Outcome::Passed, "1 kernels, at most 40 registers, no local memory")
        );
        let (outcome, text) = judged(&[usage("_Z5plainPfi", 0), usage("_Z6spillyPf", 256)]);
        assert_eq!(outcome, Outcome::Warned);
        assert!(text.ends_with("spilly on sm_80 (256 bytes)"), "{text}");
    }
}
