//! Makes numbers of `[launch]` for one case and one tuning.
//!
//! Owns: the order of evaluation, and the limits of CUDA that a launch must keep.
//! Never: asks which GPU there is; what only some GPUs allow is for the one who starts the kernel.
//!
//! Limits: CUDA C++ programming guide, technical specifications per compute capability (5.0 and later); tensor maps:
//! CUDA driver API, `cuTensorMapEncodeTiled`.

use std::ops::Range;

use crate::units::{Dtype, PythonName};

use super::expr::{Bindings, ExprError, IntExpr};
use super::launch::{
    Argument, ConcreteLaunch, ConcreteWorkspace, Kernel, KernelArgument, KernelLaunch, Launch,
    TemplateArgument, TemplateValue, Workspace,
};
use super::op::{Case, ScalarValue, TensorDtype};
use super::tune::Tuning;

mod tensor_map;

/// Blocks in x; in y and z.
const GRID: [i64; 3] = [0x7fff_ffff, 65_535, 65_535];
/// Threads in x, y, z.
const BLOCK: [i64; 3] = [1024, 1024, 64];
/// Threads of a block.
const THREADS: i64 = 1024;
/// Blocks of a cluster: 8 everywhere, 16 where the kernel asks for it.
const CLUSTER: i64 = 16;
/// Bytes of shared memory that a block can have on GPUs of capability 9.0 and 10.0: 227 KiB.
pub(crate) const SHARED: i64 = 227 << 10;
/// Bytes of one workspace: more than any GPU has.
const WORKSPACE: u64 = 1 << 40;

/// A launch that has no numbers, or numbers that CUDA does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// An expression without a value.
    #[error(transparent)]
    Expression(#[from] ExprError),
    /// A number beyond a limit.
    #[error("{message}")]
    Limit {
        /// Lower-case fragment, no full stop.
        message: String,
        /// What to do about it.
        help: String,
        /// The place in the file.
        span: Range<usize>,
    },
}

impl LaunchError {
    /// The place in op.toml.
    pub fn span(&self) -> Range<usize> {
        match self {
            Self::Expression(error) => error.span.clone(),
            Self::Limit { span, .. } => span.clone(),
        }
    }

    fn limit(message: String, help: impl Into<String>, span: &Range<usize>) -> Self {
        Self::Limit { message, help: help.into(), span: span.clone() }
    }
}

impl Launch {
    /// What is started for `case`, with these tunables. Kernels whose `when` does not hold, and those with an empty
    /// grid, are left out.
    ///
    /// # Errors
    /// An expression without a value, or a number that CUDA does not take.
    pub fn evaluate(&self, case: &Case, tuning: &Tuning) -> Result<ConcreteLaunch, LaunchError> {
        let context = Context { case, bindings: Bindings::of(case, tuning) };
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

/// What everything is evaluated under.
struct Context<'a> {
    case: &'a Case,
    bindings: Bindings,
}

impl Context<'_> {
    /// The number, which must lie between the bounds; `what` names it, with its article.
    fn number(&self, expr: &IntExpr, least: i64, most: i64, what: &str) -> Result<i64, LaunchError> {
        let number = expr.evaluate(&self.bindings)?;
        if (least..=most).contains(&number) {
            return Ok(number);
        }
        let message = format!("{what} cannot be {number}");
        Err(LaunchError::limit(message, format!("it is between {least} and {most}"), &expr.tree().span))
    }

    fn numbers(
        &self,
        exprs: &[IntExpr],
        least: i64,
        most: [i64; 3],
        what: &str,
    ) -> Result<[u32; 3], LaunchError> {
        let mut lengths = [1; 3];
        for (((length, expr), most), axis) in lengths.iter_mut().zip(exprs).zip(most).zip(["x", "y", "z"]) {
            *length = self.number(expr, least, most, &format!("the {what} in {axis}"))? as u32;
        }
        Ok(lengths)
    }

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
            shape.push(self.number(length, 0, i64::MAX, "a length")?.unsigned_abs());
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
        let grid = self.numbers(&kernel.grid, 0, GRID, "grid")?;
        if grid.contains(&0) {
            return Ok(None);
        }
        let block = self.numbers(&kernel.block, 1, BLOCK, "block")?;
        product(&block, THREADS, "threads of a block", &kernel.block.span)?;
        let cluster = match &kernel.cluster {
            Some(cluster) => {
                let lengths = self.numbers(cluster, 1, [CLUSTER; 3], "cluster")?;
                product(&lengths, CLUSTER, "blocks of a cluster", &cluster.span)?;
                if grid.iter().zip(&lengths).any(|(blocks, length)| !blocks.is_multiple_of(*length)) {
                    let message = format!(
                        "a grid of {} does not divide into clusters of {}",
                        times(&grid),
                        times(&lengths)
                    );
                    let help =
                        "the grid is a multiple of the cluster in x, y and z, as in ceil_div(rows, 2) * 2";
                    return Err(LaunchError::limit(message, help, &kernel.grid.span));
                }
                Some(lengths)
            }
            None => None,
        };
        let shared = match &kernel.shared {
            Some(shared) => self.number(shared, 0, SHARED, "dynamic shared memory")? as u32,
            None => 0,
        };
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
                let number = self.number(expr, i64::from(i32::MIN), i64::from(i32::MAX), "an i32")?;
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
        "a type variable stands for nothing here".to_owned(),
        "evaluate the launch with a case of the same op.toml",
        span,
    )
}

/// Holds the product against its limit.
fn product(lengths: &[u32; 3], most: i64, what: &str, span: &Range<usize>) -> Result<(), LaunchError> {
    let product: i64 = lengths.iter().map(|length| i64::from(*length)).product();
    if product <= most {
        return Ok(());
    }
    let message = format!("{} are {product} {what}", times(lengths));
    Err(LaunchError::limit(message, format!("at most {most} are possible"), span))
}

fn times(lengths: &[u32; 3]) -> String {
    format!("{} x {} x {}", lengths[0], lengths[1], lengths[2])
}
