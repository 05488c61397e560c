//! The memory that device code keeps between launches, and the clocks that it reads.
//!
//! Owns: the refusal of state in device candidates, the warnings for packages. Never: reads machine code; `verify::state`
//! does.
//!
//! A device candidate is called with tensors and workspaces and needs no other memory. Memory of its own could hold results
//! of earlier calls, so it is refused. A package may have good reasons for such memory, such as semaphores, so it is only
//! reported; its results are checked with kept memory scrambled (harness/kept.py).

use serde_json::json;

use super::super::evidence::{CheckResult, Outcome};
use super::super::fatbin::Kind;
use super::super::findings::first_few;
use super::super::lab::CandidateRefusal;
use super::super::state::State;
use super::super::{Subject, VerifyError};
use super::resources::short_name;
use crate::base::causes::chain;
use crate::base::files;

const STATE: &str = "verify::state";
const CLOCK: &str = "verify::clock";
/// Initialized data of device code is compared after every call, up to this size.
pub(in crate::verify) const MOST_DATA: u64 = 1 << 20;

/// Reports the state and the clocks of a package's device code.
pub(in crate::verify) fn check(subject: &mut Subject<'_>) -> Result<Vec<CheckResult>, VerifyError> {
    let Some(library) = subject.artifact.library.as_ref().filter(|_| subject.artifact.backend == "cuda")
    else {
        return Ok(vec![]);
    };
    let library = files::read(library)?;
    let found = super::archs::entries(&library).and_then(|entries| {
        let cubins = entries.iter().filter(|entry| entry.kind == Kind::Cubin);
        cubins
            .map(|entry| State::of_cubin(&entry.payload))
            .try_fold(State::default(), |all, one| Ok(all.with(one?)))
    });
    Ok(match found {
        Err(error) => {
            let text = format!("the state of the kernels cannot be read: {}", chain(&error));
            vec![CheckResult::new("state", STATE, Outcome::Warned, text, json!({}))]
        }
        Ok(state) => vec![of_package(&state), clocks(&state, subject.options.strict)],
    })
}

/// The state and the clocks of a device candidate.
pub(in crate::verify) fn of_device(state: &State, strict: bool) -> Vec<CheckResult> {
    let facts = facts(state);
    let result = match refusal(state) {
        Some(reason) => CheckResult::new("state", STATE, Outcome::Refused, reason, facts),
        None if state.prints => {
            let text = "it prints; `printf` slows a kernel down and uses a buffer of the driver".to_owned();
            CheckResult::new("state", STATE, Outcome::Warned, text, facts)
        }
        None => CheckResult::new("state", STATE, Outcome::Passed, kept_nothing(state), facts),
    };
    vec![result, clocks(state, strict)]
}

/// The first reason to refuse a candidate of an agent, which may read no clock either.
pub(crate) fn complaint(state: &State) -> Option<CandidateRefusal> {
    let refused = of_device(state, true).into_iter().find(|check| check.outcome == Outcome::Refused)?;
    let code = if refused.code == CLOCK { CLOCK } else { STATE };
    Some(CandidateRefusal { code, text: refused.summary })
}

fn kept_nothing(state: &State) -> String {
    match state.data.iter().map(|data| data.bytes).sum::<u64>() {
        0 => "no memory of its own".to_owned(),
        bytes => {
            format!("no memory of its own but {bytes} bytes of initialized data, compared after every call")
        }
    }
}

fn refusal(state: &State) -> Option<String> {
    let data: u64 = state.data.iter().map(|data| data.bytes).sum();
    if !state.kept.is_empty() {
        return Some(format!(
            "keeps memory between launches: {}; declare it as a workspace of [launch]",
            variables(state)
        ));
    }
    if state.allocates {
        return Some("allocates memory on the device (`malloc`, `free`), which outlives a launch".to_owned());
    }
    if !state.textures.is_empty() {
        let kernels = names(&state.textures);
        return Some(format!("uses textures or surfaces, which [launch] cannot pass: {kernels}"));
    }
    (data > MOST_DATA).then(|| {
        format!("has {data} bytes of initialized data, more than the {MOST_DATA} bytes that can be checked")
    })
}

fn of_package(state: &State) -> CheckResult {
    let mut found = Vec::new();
    if !state.kept.is_empty() {
        found.push(format!("memory that outlives a launch: {}", variables(state)));
    }
    if state.allocates {
        found.push("memory from the device's heap (`malloc`, `free`)".to_owned());
    }
    if !state.textures.is_empty() {
        found.push(format!("textures or surfaces in {}", names(&state.textures)));
    }
    let facts = facts(state);
    if found.is_empty() {
        let text = "the device code has no memory of its own".to_owned();
        return CheckResult::new("state", STATE, Outcome::Passed, text, facts);
    }
    let text = format!("the device code has {}", found.join(", "));
    CheckResult::new("state", STATE, Outcome::Warned, text, facts)
}

fn clocks(state: &State, strict: bool) -> CheckResult {
    let facts = json!({ "kernels": state.clocks });
    if state.clocks.is_empty() {
        return CheckResult::new("clock", CLOCK, Outcome::Passed, "reads no clock".to_owned(), facts);
    }
    let outcome = if strict { Outcome::Refused } else { Outcome::Warned };
    let text = format!("reads a clock in {}; results must not depend on time", names(&state.clocks));
    CheckResult::new("clock", CLOCK, outcome, text, facts)
}

fn facts(state: &State) -> serde_json::Value {
    let kept = state.kept.iter().map(|variable| json!({ "name": variable.name, "bytes": variable.bytes }));
    json!({
        "kept": kept.collect::<Vec<_>>(),
        "data": state.data.iter().map(|data| data.bytes).sum::<u64>(),
        "allocates": state.allocates,
        "textures": state.textures,
        "prints": state.prints,
    })
}

fn variables(state: &State) -> String {
    let named = state.kept.iter();
    first_few(
        &named.map(|one| format!("`{}` ({} bytes)", short_name(&one.name), one.bytes)).collect::<Vec<_>>(),
    )
}

fn names(kernels: &std::collections::BTreeSet<String>) -> String {
    first_few(&kernels.iter().map(|kernel| format!("`{}`", short_name(kernel))).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::super::super::state::Variable;
    use super::*;

    fn outcomes(state: &State, strict: bool) -> Vec<Outcome> {
        of_device(state, strict).iter().map(|check| check.outcome).collect()
    }

    #[test]
    fn device_candidates_keep_nothing() {
        let none = State::default();
        assert_eq!(outcomes(&none, true), [Outcome::Passed, Outcome::Passed]);
        let kept = vec![Variable { name: "_ZL7counter".to_owned(), bytes: 4 }];
        let keeps = State { kept, ..none.clone() };
        let found = of_device(&keeps, false);
        assert_eq!(found[0].outcome, Outcome::Refused);
        assert!(found[0].summary.contains("(4 bytes); declare it as a workspace"), "{}", found[0].summary);
        assert_eq!(of_package(&keeps).outcome, Outcome::Warned);
        for refused in [
            State { allocates: true, ..none.clone() },
            State { textures: ["k".to_owned()].into(), ..none.clone() },
            State { data: vec![data(MOST_DATA + 1)], ..none.clone() },
        ] {
            assert_eq!(outcomes(&refused, false)[0], Outcome::Refused, "{refused:?}");
        }
        assert_eq!(outcomes(&State { data: vec![data(64)], ..none.clone() }, true)[0], Outcome::Passed);
        assert_eq!(outcomes(&State { prints: true, ..none }, true)[0], Outcome::Warned);
    }

    fn data(bytes: u64) -> Variable {
        Variable { name: "table".to_owned(), bytes }
    }

    #[test]
    fn a_clock_is_refused_where_the_judge_is_strict() {
        let reads = State { clocks: ["k".to_owned()].into(), ..State::default() };
        assert_eq!(
            (outcomes(&reads, false)[1], outcomes(&reads, true)[1]),
            (Outcome::Warned, Outcome::Refused)
        );
        assert_eq!(complaint(&reads).unwrap().code, CLOCK);
        assert_eq!(complaint(&State::default()), None);
    }
}
