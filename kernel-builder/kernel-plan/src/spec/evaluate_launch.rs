//! Makes numbers of `[launch]` for one case and one tuning.
//!
//! Owns: the order of evaluation, workspaces and arguments; the limits of CUDA are in `geometry` and `tensor_map`.
//! Never: asks which GPU there is; what only some GPUs allow is for the one who starts the kernel.

use std::ops::Range;

use crate::units::{Dtype, PythonName};

use super::expr::Bindings;
use super::launch::{
    Argument, ConcreteLaunch, ConcreteWorkspace, Kernel, KernelArgument, KernelLaunch, Launch,
    TemplateArgument, TemplateValue, Workspace,
};
use super::op::{Case, ScalarValue, TensorDtype};
use super::tune::Tuning;

mod error;
mod geometry;
mod tensor_map;

pub use error::LaunchError;
use geometry::number;

/// Bytes of one workspace: more than any GPU has.
const WORKSPACE: u64 = 1 << 40;

impl Launch {
    /// What is started for `case`, with these tunables. Kernels whose `when` does not hold, and those with an empty
    /// grid, are left out.
    ///
    /// # Errors
    /// An expression without a value, or a number that CUDA does not take.
    pub fn evaluate(&self, case: &Case, tuning: &Tuning) -> Result<ConcreteLaunch, LaunchError> {
        let context = Context { case, bindings: Bindings::new(case, tuning) };
        let mut defines = Vec::new();
        for define in &self.defines {
            defines.push((define.name.value.clone(), define.value.evaluate(&context.bindings)?));
        }
        let mut workspaces = Vec::new();
        for workspace in &self.workspaces {
            workspaces.push(context.workspace(workspace)?);
        }
        let mut kernels = Vec::new();
        for (place, kernel) in self.kernels.iter().enumerate() {
            kernels.extend(context.kernel(place, kernel)?);
        }
        let mut tensor_maps = Vec::new();
        for map in &self.tensor_maps {
            let taken = |argument: &Argument| matches!(argument, Argument::TensorMap(name) if *name == map.name.value);
            if kernels.iter().any(|kernel| kernel.arguments.iter().any(taken)) {
                tensor_maps.push(context.tensor_map(map, &workspaces)?);
            }
        }
        Ok(ConcreteLaunch { defines, workspaces, tensor_maps, kernels })
    }
}

impl Launch {
    /// Numbers of kernels that are beyond a limit whatever the workload and the tuning.
    pub(crate) fn constant_errors(&self) -> Vec<LaunchError> {
        self.kernels.iter().flat_map(geometry::constant_errors).collect()
    }
}

/// What everything is evaluated under.
struct Context<'a> {
    case: &'a Case,
    bindings: Bindings,
}

impl Context<'_> {
    fn dtype(&self, dtype: &TensorDtype) -> Option<Dtype> {
        match dtype {
            TensorDtype::Fixed(dtype) => Some(*dtype),
            TensorDtype::Variable(name) => self.case.dtypes.get(name).copied(),
        }
    }

    fn workspace(&self, workspace: &Workspace) -> Result<ConcreteWorkspace, LaunchError> {
        let place = &workspace.name.span;
        let dtype = self.dtype(&workspace.dtype.value).ok_or_else(|| unknown_dtype(&workspace.dtype.span))?;
        let mut shape = Vec::new();
        for length in &workspace.shape {
            shape.push(number(length, &self.bindings, 0, i64::MAX, "a length")?.unsigned_abs());
        }
        let elements = shape.iter().try_fold(1u64, |elements, length| elements.checked_mul(*length));
        let bytes = elements.and_then(|elements| elements.checked_mul(dtype.size_bytes() as u64));
        let bytes = bytes.filter(|bytes| *bytes <= WORKSPACE).ok_or_else(|| {
            let message = format!("the workspace `{}` is larger than 1 TiB", workspace.name.value);
            LaunchError::limit(message, "make its shape smaller", place)
        })?;
        Ok(ConcreteWorkspace {
            name: workspace.name.value.clone(),
            dtype,
            shape,
            bytes,
            zero: workspace.zero,
        })
    }

    /// One start, or none.
    fn kernel(&self, place: usize, kernel: &Kernel) -> Result<Option<KernelLaunch>, LaunchError> {
        if let Some(when) = &kernel.when
            && !when.evaluate(&self.bindings)?
        {
            return Ok(None);
        }
        let grid = geometry::grid(kernel, &self.bindings)?;
        if grid.contains(&0) {
            return Ok(None);
        }
        let block = geometry::block(kernel, &self.bindings)?;
        let cluster = geometry::cluster(kernel, &grid, &self.bindings)?;
        let shared = geometry::shared(kernel, &self.bindings)?;
        let carveout = geometry::carveout(kernel, &self.bindings)?;
        let mut template = Vec::new();
        for argument in &kernel.template {
            template.push(match argument {
                TemplateArgument::Type(dtype) => {
                    TemplateValue::Type(self.dtype(dtype).ok_or_else(|| unknown_dtype(&kernel.entry.span))?)
                }
                TemplateArgument::Value(value) => TemplateValue::Value(value.evaluate(&self.bindings)?),
            });
        }
        let mut arguments = Vec::new();
        for argument in &kernel.arguments {
            arguments.push(self.argument(argument)?);
        }
        let entry = kernel.entry.value.clone();
        let cooperative = kernel.cooperative;
        Ok(Some(KernelLaunch {
            place,
            entry,
            template,
            grid,
            block,
            cluster,
            shared,
            carveout,
            cooperative,
            arguments,
        }))
    }

    fn argument(&self, argument: &KernelArgument) -> Result<Argument, LaunchError> {
        Ok(match argument {
            KernelArgument::Pointer(name) if self.is_omitted(&name.value) => Argument::Null,
            KernelArgument::Pointer(name) => Argument::Pointer(name.value.clone()),
            KernelArgument::TensorMap(name) => Argument::TensorMap(name.value.clone()),
            KernelArgument::I32(expr) => {
                let number =
                    number(expr, &self.bindings, i64::from(i32::MIN), i64::from(i32::MAX), "an i32")?;
                Argument::I32(number as i32)
            }
            KernelArgument::I64(expr) => Argument::I64(expr.evaluate(&self.bindings)?),
            KernelArgument::Bool(expr) => Argument::Bool(expr.evaluate(&self.bindings)?),
            KernelArgument::F32(name) => Argument::F32(self.float(name)? as f32),
            KernelArgument::F64(name) => Argument::F64(self.float(name)?),
        })
    }

    fn is_omitted(&self, name: &PythonName) -> bool {
        self.case.inputs.iter().any(|input| input.omitted && input.name == *name)
    }

    fn float(&self, name: &super::Spanned<PythonName>) -> Result<f64, LaunchError> {
        let scalar = self.case.scalars.iter().find(|scalar| scalar.name == name.value);
        match scalar.map(|scalar| scalar.value) {
            Some(ScalarValue::Float(value)) => Ok(value),
            _ => {
                let message = format!("`{}` is not a scalar of type float", name.value);
                Err(LaunchError::limit(message, "define it in [scalars]", &name.span))
            }
        }
    }
}

fn unknown_dtype(span: &Range<usize>) -> LaunchError {
    LaunchError::limit(
        "a type variable has no dtype here".to_owned(),
        "evaluate the launch with a case of the same op.toml",
        span,
    )
}
