//! The rules between the sections of op.toml.
//!
//! Owns: the rules that need all of a file that reads well: names that nothing uses, defaults and expressions under every
//! workload.
//! Never: looks at another file; those rules are in `rules`.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::diagnostic::{Problem, did_you_mean};
use crate::units::{Dtype, PythonName};

use super::codes;
use super::evaluate_launch::LaunchError;
use super::expr::{Bindings, Expr, NameUse, Value};
use super::launch::TemplateArgument;
use super::op::{AxisKind, Case, Device, Input, OpSpec, Purpose, TensorDtype, Values, Workload};
use super::tune::{Count, Tuning};

/// Cases of all workloads together; more are a mistake in `[dtypes]`.
const CASES: u64 = 10_000;
/// Settings of the tunables that satisfy the constraints; more are never searched.
pub(crate) const SETTINGS: u64 = 10_000_000;
/// The largest number of partial settings that are visited to count them.
const VISITS: u64 = 1_000_000;

/// Everything that is wrong; the file has no other error.
pub(crate) fn check(op: &OpSpec) -> Vec<Problem> {
    let mut problems = unused(op);
    problems.extend(words_of_cpp(op));
    problems.extend(all_held_out(op));
    problems.extend(leading(op));
    problems.extend(seeds(op));
    problems.extend(non_negative(op));
    problems.extend(tune_space(op));
    problems.extend(constant_default(op));
    if let Some(problem) = too_many_cases(op) {
        // Going through them would take as long as they are many.
        problems.push(problem);
        return problems;
    }
    let mut failures = Failures { op, problems };
    if let Some(launch) = &op.launch {
        for error in launch.constant_errors() {
            failures.add(&error, None);
        }
    }
    for workload in &op.workloads {
        for case in op.uncounted(workload) {
            under(op, workload, &case, &mut failures);
        }
    }
    failures.problems
}

/// Words of C++ that Python has as names.
const WORDS_OF_CPP: &str = "alignas alignof and_eq asm auto bitand bitor bool case catch char compl concept const consteval \
    constexpr constinit const_cast co_await co_return co_yield decltype default delete do double dynamic_cast enum explicit \
    export extern float friend goto inline int long mutable namespace new noexcept not_eq nullptr operator or_eq private \
    protected public register reinterpret_cast requires short signed sizeof static static_assert static_cast struct switch \
    template this thread_local throw typedef typeid typename union unsigned using virtual void volatile wchar_t xor xor_eq";

/// The names in generated code are those of op.toml, so none can be a word of C++.
fn words_of_cpp(op: &OpSpec) -> Vec<Problem> {
    if op.launch.is_none() && op.cpu.is_none() {
        return vec![];
    }
    let axes = op.axes.iter().map(|axis| ("an axis", &axis.name));
    let inputs = op.inputs.iter().map(|input| ("a tensor", &input.tensor.name));
    let outputs = op.outputs.iter().map(|output| ("a tensor", &output.tensor.name));
    let scalars = op.scalars.iter().map(|scalar| ("a scalar", &scalar.name));
    let tunables = op.tune.tunables.iter().map(|tunable| ("a tunable", &tunable.name));
    let named = axes.chain(inputs).chain(outputs).chain(scalars).chain(tunables);
    let taken =
        named.filter(|(_, name)| WORDS_OF_CPP.split_whitespace().any(|word| word == name.value.as_str()));
    taken
        .map(|(what, name)| {
            let message = format!("{what} is named `{}`, which is a word of C++", name.value);
            let help =
                format!("the generated code uses the name; rename it, for example to `{}_`", name.value);
            Problem::error(codes::BAD_VALUE, message).help(help).at(&op.file, &name.span, "a word of C++")
        })
        .collect()
}

/// A leading axis stands for several, so a shape can only begin with it, and only one can be told apart from the others.
fn leading(op: &OpSpec) -> Vec<Problem> {
    let mut leading = op.axes.iter().filter(|axis| axis.leading);
    let Some(first) = leading.next() else { return vec![] };
    let help = "only one axis can have `leading = true`; it stands for any number of leading axes";
    let mut problems: Vec<_> = leading
        .map(|second| {
            let message = format!("`{}` is a second leading axis", second.name.value);
            let problem = Problem::error(codes::LEADING_AXIS, message).help(help);
            problem.at(&op.file, &second.name.span, "the second").at(&op.file, &first.name.span, "the first")
        })
        .collect();
    let inputs = op.inputs.iter().map(|input| &input.tensor);
    for tensor in inputs.chain(op.outputs.iter().map(|output| &output.tensor)) {
        let inside = tensor.shape.iter().skip(1).find(|axis| axis.value == first.name.value);
        problems.extend(inside.map(|axis| {
            let message = format!(
                "`{}` has the leading axis `{}` at a later place in its shape",
                tensor.name.value, axis.value
            );
            let problem = Problem::error(codes::LEADING_AXIS, message).help(help);
            problem.at(&op.file, &axis.span, "not the first")
        }));
    }
    problems
}

/// The package's function draws a seed as one number, and passes it always.
fn seeds(op: &OpSpec) -> Vec<Problem> {
    let is_one = |name: &PythonName| {
        op.axes.iter().any(|axis| axis.name.value == *name && matches!(axis.kind, AxisKind::Const(1)))
    };
    let of_input = |input: &Input| {
        let is_number = input.tensor.dtype.value == TensorDtype::Fixed(Dtype::I64);
        let has_one = matches!(input.tensor.shape.as_slice(), [axis] if is_one(&axis.value));
        let reason = match (is_number && has_one, input.optional || input.computed.is_some()) {
            (false, _) => "is not an i64 tensor of one element",
            (true, true) => "has `optional` or `computed`",
            (true, false) => return None,
        };
        let message = format!("`{}` cannot be a seed: it {reason}", input.tensor.name.value);
        let problem = Problem::error(codes::BAD_VALUE, message)
            .help("for example: one = { type = \"const\", value = 1 } in [axes], and { shape = [\"one\"], dtype = \"i64\", seed = true }");
        Some(problem.at(&op.file, &input.tensor.name.span, "the seed"))
    };
    op.inputs.iter().filter(|input| input.values == Values::Seed).filter_map(of_input).collect()
}

/// Values can be kept from being negative if they are floating-point numbers that `verify` draws.
fn non_negative(op: &OpSpec) -> Vec<Problem> {
    let of_input = |input: &Input| {
        let reason = match (&input.tensor.dtype.value, &input.computed) {
            (TensorDtype::Fixed(dtype), _) if !dtype.is_float() => "its dtype is not a floating-point dtype",
            (_, Some(_)) => "it has `computed`",
            _ => return None,
        };
        let message = format!("`{}` cannot have `non-negative`: {reason}", input.tensor.name.value);
        let problem = Problem::error(codes::BAD_VALUE, message).help("remove `non-negative`");
        Some(problem.at(&op.file, &input.tensor.name.span, "the input"))
    };
    op.inputs.iter().filter(|input| input.values == Values::NonNegative).filter_map(of_input).collect()
}

/// The places without a value for some workload, each once.
struct Failures<'a> {
    op: &'a OpSpec,
    problems: Vec<Problem>,
}

impl Failures<'_> {
    fn add(&mut self, error: &LaunchError, case: Option<(&Workload, &Case)>) {
        let (code, help) = match error {
            LaunchError::Expression(_) => (
                codes::EXPRESSION_VALUE,
                "make it hold for every workload, or exclude the workload".to_owned(),
            ),
            LaunchError::Limit { help, .. } => (codes::LAUNCH_LIMIT, help.clone()),
        };
        let used = match error {
            LaunchError::Expression(error) => error.through.last(),
            LaunchError::Limit { .. } => None,
        };
        self.push(Problem::error(code, error.to_string()).help(help), &error.span(), used, case);
    }

    /// Adds a problem at a place, with the use of a name of `[let]` that led there.
    fn push(
        &mut self,
        problem: Problem,
        span: &Range<usize>,
        used: Option<&NameUse>,
        case: Option<(&Workload, &Case)>,
    ) {
        let is_known = |known: &Problem| {
            known.code == problem.code && known.labels.first().is_some_and(|(place, _)| place == span)
        };
        if self.problems.iter().any(is_known) {
            return;
        }
        let label = match case {
            Some((workload, case)) => format!("for workload `{}`{}", workload.name.value, values(case)),
            None => "for every workload".to_owned(),
        };
        let problem = problem.at(&self.op.file, span, label);
        self.problems.push(match used {
            Some(used) => problem.at(&self.op.file, &used.span, format!("`{}` is used here", used.name)),
            None => problem,
        });
    }
}

/// The values that a case gives, to go on after its name.
fn values(case: &Case) -> String {
    let dtypes = case.dtypes.iter().map(|(name, dtype)| format!("{name} = {dtype}"));
    let axes = case.axes.iter().map(|(name, length)| format!("{name} = {length}"));
    let values: Vec<_> = axes.chain(dtypes).collect();
    if values.is_empty() { String::new() } else { format!(": {}", values.join(", ")) }
}

/// Every expression of the file under one case and the default of every tunable.
fn under(op: &OpSpec, workload: &Workload, case: &Case, failures: &mut Failures<'_>) {
    if let Err(error) = op.terms(case) {
        failures.add(&error, Some((workload, case)));
    }
    let bindings = Bindings::new(case, &op.tune.default_tuning());
    for constraint in &op.constraints {
        match constraint.evaluate(&bindings) {
            Ok(true) => {}
            Ok(false) => {
                let message =
                    format!("the workload `{}` violates a constraint of the operation", workload.name.value);
                // One case of a workload is enough.
                if failures.problems.iter().any(|known| known.message == message) {
                    return;
                }
                let problem = Problem::error(codes::AXIS_VALUE, message)
                    .help("change the lengths of the workload, or the constraint")
                    .at(&op.file, &constraint.tree().span, "does not hold")
                    .at(&op.file, &workload.name.span, format!("for this workload{}", values(case)));
                failures.problems.push(problem);
                return;
            }
            Err(error) => failures.add(&error.into(), Some((workload, case))),
        }
    }
    op.tune.all_defaults().iter().for_each(|tuning| under_defaults(op, workload, case, tuning, failures));
}

/// The values of `[tune]` and `[launch]` in one case, with the defaults of every GPU or of one capability.
fn under_defaults(
    op: &OpSpec,
    workload: &Workload,
    case: &Case,
    tuning: &Tuning,
    failures: &mut Failures<'_>,
) {
    let bindings = Bindings::new(case, tuning);
    let mut admitted = true;
    // A tunable that does not matter may have the default of a capability.
    let is_default = *tuning == op.tune.default_tuning();
    let conditions = if is_default { op.tune.conditions() } else { &op.tune.constraints };
    for constraint in conditions {
        match constraint.evaluate(&bindings) {
            Ok(true) => {}
            Ok(false) => {
                admitted = false;
                let message = "the defaults of [tune] do not satisfy this constraint for a workload";
                let problem = Problem::warning(codes::TUNE_DEFAULT, message)
                    .help("the untuned kernel cannot start for this workload; choose other defaults");
                failures.push(problem, &constraint.tree().span, None, Some((workload, case)));
            }
            Err(error) => {
                admitted = false;
                failures.add(&error.into(), Some((workload, case)));
            }
        }
    }
    let Some(launch) = op.launch.as_ref().filter(|_| admitted && workload.devices.contains(&Device::Cuda))
    else {
        return;
    };
    if let Err(error) = launch.evaluate(case, tuning) {
        failures.add(&error, Some((workload, case)));
    }
}

fn too_many_cases(op: &OpSpec) -> Option<Problem> {
    let cases = op.workloads.iter().map(|workload| {
        let dtypes = workload.dtypes.iter().map(|(_, dtypes)| dtypes.len() as u64);
        (workload, dtypes.fold(1u64, u64::saturating_mul))
    });
    let total = cases.clone().fold(0u64, |total, (_, cases)| total.saturating_add(cases));
    let (largest, _) = cases.max_by_key(|(_, cases)| *cases).filter(|_| total > CASES)?;
    let message = format!("the workloads make {total} cases; the limit is {CASES}");
    let problem = Problem::error(codes::CASE_COUNT, message)
        .help("a workload makes one case for each combination of its dtypes; select fewer with `dtypes`");
    Some(problem.at(&op.file, &largest.name.span, "makes the most"))
}

/// Agents and tuners see workloads that are not held out, so there must be one.
fn all_held_out(op: &OpSpec) -> Option<Problem> {
    let mut verifying = op.workloads.iter().filter(|workload| workload.purposes.contains(&Purpose::Verify));
    let first = verifying.next()?;
    if !first.held_out || verifying.any(|workload| !workload.held_out) {
        return None;
    }
    let message = "every workload for verifying is held out, so none is left for development";
    let problem = Problem::warning(codes::NO_WORKLOAD, message)
        .help("remove `held-out` from at least one workload, or add a workload");
    Some(problem.at(&op.file, &first.name.span, "held out, like all others"))
}

/// The values that the file sets by itself.
fn constants(op: &OpSpec) -> Bindings {
    let axes = op.axes.iter().filter_map(|axis| match axis.kind {
        AxisKind::Const(length) => {
            Some((axis.name.value.clone(), Value::Integer(i64::try_from(length).unwrap_or(i64::MAX))))
        }
        AxisKind::Var { .. } => None,
    });
    Bindings { names: axes.collect(), ..Bindings::default() }
}

fn tune_space(op: &OpSpec) -> Option<Problem> {
    let sizes = op.tune.tunables.iter().map(|tunable| tunable.values.len() as u64);
    if sizes.fold(1u64, u64::saturating_mul) <= SETTINGS {
        return None;
    }
    let Count::MoreThan(_) = op.tune.count(&constants(op), VISITS, SETTINGS) else { return None };
    let largest = op.tune.tunables.iter().max_by_key(|tunable| tunable.values.len())?;
    let message = format!("the tunables have more than {SETTINGS} settings, or too many to count");
    let problem = Problem::error(codes::TUNE_SPACE, message)
        .help("remove values, or exclude combinations with `constraints`");
    Some(problem.at(&op.file, &largest.name.span, "has the most values"))
}

/// Constraints that no workload changes must hold for the defaults.
fn constant_default(op: &OpSpec) -> Vec<Problem> {
    let mut bindings = constants(op);
    let decided = op.tune.conditions().iter().filter(|constraint| op.tune.is_decided(constraint, &bindings));
    let decided: Vec<_> = decided.collect();
    bindings.names.extend(op.tune.default_tuning());
    let broken = decided.into_iter().filter(|constraint| constraint.evaluate(&bindings) == Ok(false));
    broken
        .map(|constraint| {
            let values = constraint
                .tree()
                .names()
                .into_iter()
                .filter_map(|(name, _)| Some(format!("{name} = {}", bindings.names.get(name)?)));
            let values: BTreeSet<_> = values.collect();
            let values: Vec<_> = values.into_iter().collect();
            let problem =
                Problem::error(codes::TUNE_DEFAULT, "the defaults of [tune] do not satisfy this constraint")
                    .help(format!(
                        "choose other defaults, or correct the constraint; the defaults are {}",
                        values.join(", ")
                    ));
            problem.at(&op.file, &constraint.tree().span, "does not hold")
        })
        .collect()
}

/// Axes, type variables, tunables and names of `[let]` that nothing uses.
fn unused(op: &OpSpec) -> Vec<Problem> {
    let expressions = expressions(op);
    let used: BTreeSet<&PythonName> =
        expressions.iter().flat_map(|expr| expr.names()).map(|(name, _)| name).collect();
    let named = |name: &PythonName| used.contains(name);
    let defined: BTreeSet<&PythonName> =
        expressions.iter().flat_map(|expr| expr.definitions()).map(|found| &found.name.value).collect();
    let tensors = || {
        let inputs = op.inputs.iter().map(|input| &input.tensor);
        inputs.chain(op.outputs.iter().map(|output| &output.tensor))
    };
    let axes = op.axes.iter().map(|axis| &axis.name).filter(|name| {
        !tensors().any(|tensor| tensor.shape.iter().any(|axis| axis.value == name.value))
            && !named(name)
            && !op.flashinfer.as_ref().is_some_and(|section| section.constrains(name))
    });
    let dtypes = op.dtypes.iter().map(|variable| &variable.name).filter(|name| {
        let is = |dtype: &TensorDtype| matches!(dtype, TensorDtype::Variable(used) if *used == name.value);
        let launch = op.launch.iter();
        let workspaces =
            launch.clone().flat_map(|launch| &launch.workspaces).map(|workspace| &workspace.dtype.value);
        let templates = launch.flat_map(|launch| &launch.kernels).flat_map(|kernel| &kernel.template);
        let mut types = templates.filter_map(|argument| match argument {
            TemplateArgument::Type(dtype) => Some(dtype),
            TemplateArgument::Value(_) => None,
        });
        !tensors().map(|tensor| &tensor.dtype.value).chain(workspaces).any(is)
            && !types.any(is)
            && !named(name)
    });
    let tunables = op.tune.tunables.iter().map(|tunable| &tunable.name).filter(|name| !named(name));
    let definitions = op.definitions.iter().map(|found| &found.name);
    let definitions = definitions.filter(|name| !defined.contains(&name.value));
    let found = axes.map(|name| (name, "axis", "not used in a shape or an expression"));
    let found = found.chain(dtypes.map(|name| (name, "type variable", "not used by a tensor")));
    let found = found.chain(tunables.map(|name| (name, "tunable", "not used in an expression")));
    let found = found.chain(
        definitions.map(|name| (name, "name of [let]", "not used in an expression of [tune] or [launch]")),
    );
    found
        .map(|(name, what, label)| {
            Problem::warning(codes::UNUSED_NAME, format!("unused {what} `{}`", name.value))
                .help("use it, or remove it")
                .at(&op.file, &name.span, label)
        })
        .collect()
}

/// Every expression of the file.
fn expressions(op: &OpSpec) -> Vec<&Expr> {
    let mut found = vec![op.tolerance.length.tree()];
    found.extend(op.constraints.iter().map(|constraint| constraint.tree()));
    found.extend(op.tune.constraints.iter().map(|constraint| constraint.tree()));
    found.extend(op.tune.tunables.iter().filter_map(|tunable| tunable.when.as_ref()).map(|when| when.tree()));
    let Some(launch) = &op.launch else { return found };
    found.extend(launch.defines.iter().map(|define| define.value.tree()));
    found.extend(launch.workspaces.iter().flat_map(|workspace| &workspace.shape).map(|expr| expr.tree()));
    for map in &launch.tensor_maps {
        let lists = [map.shape.as_ref(), Some(&map.box_shape), map.element_strides.as_ref()];
        found.extend(lists.into_iter().flatten().flatten().map(|expr| expr.tree()));
    }
    for kernel in &launch.kernels {
        found.extend(kernel.expressions());
    }
    found
}

/// Names in `[flashinfer]` that nothing else in the file defines; the file has no other error.
pub(crate) fn flashinfer(op: &OpSpec) -> Vec<Problem> {
    let Some(section) = &op.flashinfer else { return Vec::new() };
    let axes: Vec<_> = op.axes.iter().map(|axis| axis.name.as_str()).collect();
    let inputs: Vec<_> = op.inputs.iter().map(|input| input.tensor.name.as_str()).collect();
    let scalars: Vec<_> = op.scalars.iter().map(|scalar| scalar.name.as_str()).collect();
    let outputs: Vec<_> = op.outputs.iter().map(|output| output.tensor.name.as_str()).collect();
    let workloads: Vec<_> = op.workloads.iter().map(|workload| workload.name.as_str()).collect();
    let arguments: Vec<_> = inputs.iter().chain(&scalars).copied().collect();
    let everything: Vec<_> = arguments.iter().chain(&outputs).copied().collect();
    let mut problems = Vec::new();
    let mut known = |name: &str, span: &Range<usize>, names: &[&str], what: &str| {
        if names.contains(&name) {
            return;
        }
        let label = did_you_mean(name, names.iter().copied(), "unknown here");
        let help = match names {
            [] => format!("the file has no {what}"),
            names => format!("valid names: {}", names.join(", ")),
        };
        let problem = Problem::error(codes::BAD_VALUE, format!("`{name}` is not the name of {what}"));
        problems.push(problem.at(&op.file, span, label).help(help));
    };
    let lists = [
        (&section.axes, &axes, "an axis"),
        (&section.tensors, &everything, "an input, scalar or output"),
        (&section.scalars, &scalars, "a scalar"),
        (&section.uuids, &workloads, "a workload"),
    ];
    for (list, names, what) in lists {
        list.iter().for_each(|(key, _)| known(&key.value, &key.span, names, what));
    }
    for (workload, tensors) in &section.stored {
        known(&workload.value, &workload.span, &workloads, "a workload");
        tensors.iter().for_each(|tensor| known(&tensor.input.value, &tensor.input.span, &inputs, "an input"));
    }
    section.numbers.iter().for_each(|name| known(name.as_str(), &name.span, &outputs, "an output"));
    section
        .arguments
        .iter()
        .for_each(|name| known(name.as_str(), &name.span, &arguments, "an input or scalar"));
    let named: BTreeSet<_> = section.arguments.iter().map(|name| name.as_str()).collect();
    if let (Some(first), Some(last)) = (section.arguments.first(), section.arguments.last())
        && (named.len() != arguments.len() || section.arguments.len() != arguments.len())
    {
        let problem =
            Problem::error(codes::BAD_VALUE, "`arguments` must name every input and scalar exactly once")
                .at(&op.file, &(first.span.start..last.span.end), "here")
                .help(format!("list {} in the order in which `run` takes them", arguments.join(", ")));
        problems.push(problem);
    }
    problems
}
