//! Makes concrete calls of workloads.
//!
//! Owns: the product of a workload with its dtypes, and the substitution of lengths and dtypes.
//! Never: reads text; by now every name is known to be defined.

use std::collections::BTreeMap;

use crate::units::{Dtype, PythonName};

use super::op::{
    AxisKind, Case, CaseScalar, CaseTensor, Device, OpSpec, Purpose, Tensor, TensorDtype, Workload,
};

impl OpSpec {
    /// Every concrete call for `purpose` on `device`: workloads in file order, the dtypes of the last type variable
    /// changing fastest.
    ///
    /// A spec that was read with errors yields the calls that can still be told.
    pub fn cases(&self, purpose: Purpose, device: Device) -> Vec<Case> {
        self.workloads
            .iter()
            .filter(|workload| workload.purposes.contains(&purpose) && workload.devices.contains(&device))
            .flat_map(|workload| {
                assignments(workload).into_iter().filter_map(|dtypes| self.case(workload, dtypes))
            })
            .collect()
    }

    fn case(&self, workload: &Workload, dtypes: BTreeMap<PythonName, Dtype>) -> Option<Case> {
        let mut axes = workload.axes.clone();
        for axis in &self.axes {
            if let AxisKind::Const(length) = axis.kind {
                axes.insert(axis.name.value.clone(), length);
            }
        }
        let choice: Vec<_> = dtypes.iter().map(|(variable, dtype)| format!("{variable}={dtype}")).collect();
        let id = match choice.as_slice() {
            [] => workload.name.to_string(),
            choice => format!("{}/{}", workload.name.value, choice.join(",")),
        };
        let tensors = |declared: &[Tensor]| {
            declared.iter().map(|tensor| concrete(tensor, &axes, &dtypes)).collect::<Option<Vec<_>>>()
        };
        Some(Case {
            id,
            workload: workload.name.value.clone(),
            inputs: tensors(&self.inputs)?,
            scalars: self
                .scalars
                .iter()
                .map(|scalar| CaseScalar { name: scalar.name.value.clone(), value: scalar.default.value })
                .collect(),
            outputs: tensors(&self.outputs)?,
            accumulated: *axes.get(&self.tolerance.length.value)?,
            axes,
            dtypes,
        })
    }
}

fn concrete(
    tensor: &Tensor,
    axes: &BTreeMap<PythonName, u64>,
    dtypes: &BTreeMap<PythonName, Dtype>,
) -> Option<CaseTensor> {
    let dtype = match &tensor.dtype.value {
        TensorDtype::Fixed(dtype) => *dtype,
        TensorDtype::Variable(variable) => *dtypes.get(variable)?,
    };
    let shape = tensor.shape.iter().map(|axis| axes.get(&axis.value).copied()).collect::<Option<_>>()?;
    Some(CaseTensor { name: tensor.name.value.clone(), shape, dtype })
}

/// Every way to choose one dtype per type variable.
fn assignments(workload: &Workload) -> Vec<BTreeMap<PythonName, Dtype>> {
    workload.dtypes.iter().fold(vec![BTreeMap::new()], |partial, (variable, dtypes)| {
        partial
            .iter()
            .flat_map(|chosen| {
                dtypes.iter().map(|dtype| {
                    let mut chosen = chosen.clone();
                    chosen.insert(variable.clone(), *dtype);
                    chosen
                })
            })
            .collect()
    })
}
