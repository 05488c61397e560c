//! What must hold between the sections of op.toml.
//!
//! Owns: the rules that need all of a file that reads well: names that nothing uses, defaults and expressions under every
//! workload.
//! Never: looks at another file; those rules are in `rules`.

use crate::diagnostic::Problem;
use crate::units::PythonName;

use super::expr::Expr;
use super::launch::TemplateArgument;
use super::op::{OpSpec, TensorDtype};
use super::{codes, flashinfer};

/// Everything that is wrong; the file has no other error.
pub(crate) fn check(op: &OpSpec) -> Vec<Problem> {
    let mut problems = unused(op);
    problems.extend(flashinfer::check(op));
    problems
}

/// Axes, type variables and tunables that nothing uses.
fn unused(op: &OpSpec) -> Vec<Problem> {
    let expressions = expressions(op);
    let named =
        |name: &PythonName| expressions.iter().any(|expr| expr.names().iter().any(|(used, _)| *used == name));
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
    let found = axes.map(|name| (name, "axis", "no shape and no expression has it"));
    let found = found.chain(dtypes.map(|name| (name, "type variable", "no tensor has it")));
    let found = found.chain(tunables.map(|name| (name, "tunable", "no expression has it")));
    found
        .map(|(name, what, label)| {
            Problem::warning(codes::UNUSED_NAME, format!("nothing uses the {what} `{}`", name.value))
                .help("use it, or take it away")
                .at(&op.file, &name.span, label)
        })
        .collect()
}

/// Every expression of the file.
fn expressions(op: &OpSpec) -> Vec<&Expr> {
    let mut found = vec![op.tolerance.length.tree()];
    found.extend(op.tune.constraints.iter().map(|constraint| constraint.tree()));
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
