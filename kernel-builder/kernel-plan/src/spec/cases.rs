//! Makes concrete calls of workloads.
//!
//! Owns: the product of a workload with its dtypes, and the substitution of lengths and dtypes.
//! Never: reads text; by now every name is known to be defined.

use std::collections::BTreeMap;

use crate::units::{Dtype, PythonName, WorkloadName};

use super::Spanned;
use super::evaluate_launch::LaunchError;
use super::expr::Bindings;
use super::op::{
    AxisKind, Case, CaseScalar, CaseTensor, Device, OpSpec, Purpose, Tensor, TensorDtype, Values, Workload,
};
use super::tune::Tuning;

impl OpSpec {
    /// Every concrete call for `purpose` on `device`: workloads in file order, the dtypes of the last type variable
    /// changing fastest.
    ///
    /// A spec that was read with errors yields the calls that can still be told.
    pub fn cases(&self, purpose: Purpose, device: Device) -> Vec<Case> {
        let workloads = self.workloads.iter();
        workloads
            .filter(|workload| workload.purposes.contains(&purpose) && workload.devices.contains(&device))
            .flat_map(|workload| self.uncounted(workload))
            .filter_map(|case| Some(Case { accumulated: self.terms(&case).ok()?, ..case }))
            .collect()
    }

    /// A case of the same workload and dtypes with other lengths of its variable axes, named after them
    /// (`drawn-3x4097/T=bf16`), or `None` where the operation has no such call.
    ///
    /// Every variable axis needs a length in `lengths`; others are ignored.
    pub fn at(&self, like: &Case, lengths: &BTreeMap<PythonName, u64>) -> Option<Case> {
        let workload = self.workloads.iter().find(|workload| workload.name.value == like.workload)?;
        let axes = self.variable(lengths)?;
        let words: Vec<String> = axes.iter().map(|(_, length)| length.to_string()).collect();
        let axes = axes.into_iter().collect();
        let case = self.case(&Workload { axes, ..workload.clone() }, like.dtypes.clone())?;
        let choice = case.id.strip_prefix(workload.name.as_str()).unwrap_or_default();
        let id = format!("drawn-{}{choice}", words.join("x"));
        let case = Case { id, accumulated: self.terms(&case).ok()?, drawn: true, ..case };
        self.admits(&case).then_some(case)
    }

    /// A call that is not of a workload, under a name of its own. Scalars have their defaults, and the inputs in
    /// `without` are left out. `None` if the operation has no such call, but for `constraints`: see [`Self::admits`].
    ///
    /// Every variable axis needs a length in `lengths`; others are ignored.
    pub fn call(
        &self,
        name: WorkloadName,
        lengths: &BTreeMap<PythonName, u64>,
        dtypes: &BTreeMap<PythonName, Dtype>,
        without: &[Spanned<PythonName>],
    ) -> Option<Case> {
        let workload = Workload {
            name: Spanned::new(name, 0..0),
            axes: self.variable(lengths)?.into_iter().collect(),
            dtypes: vec![],
            purposes: vec![],
            devices: vec![],
            weight: 1.0,
            held_out: false,
            without: without.to_vec(),
            scalars: BTreeMap::new(),
        };
        let case = self.case(&workload, dtypes.clone())?;
        Some(Case { accumulated: self.terms(&case).ok()?, drawn: true, ..case })
    }

    /// The variable axes in file order, with their lengths; `None` if one has none, or one that it does not allow.
    fn variable(&self, lengths: &BTreeMap<PythonName, u64>) -> Option<Vec<(PythonName, u64)>> {
        let axes = self.axes.iter().filter(|axis| matches!(axis.kind, AxisKind::Var { .. }));
        axes.map(|axis| {
            let length = *lengths.get(&axis.name.value)?;
            axis.kind.allows(length).then(|| (axis.name.value.clone(), length))
        })
        .collect()
    }

    /// Whether `constraints` hold for a case; false where one has no value.
    pub fn admits(&self, case: &Case) -> bool {
        let bindings = Bindings::new(case, &Tuning::new());
        self.constraints.iter().all(|constraint| constraint.evaluate(&bindings) == Ok(true))
    }

    /// The cases of one workload, without the number of terms that they accumulate.
    pub(crate) fn uncounted(&self, workload: &Workload) -> Vec<Case> {
        assignments(workload).into_iter().filter_map(|dtypes| self.case(workload, dtypes)).collect()
    }

    /// How many terms a case accumulates: the value of `tolerance.length`.
    pub(crate) fn terms(&self, case: &Case) -> Result<u64, LaunchError> {
        let length = &self.tolerance.length;
        let terms = length.evaluate(&Bindings::new(case, &Tuning::new()))?;
        u64::try_from(terms).map_err(|_| LaunchError::Limit {
            message: format!("the number of accumulated terms cannot be {terms}"),
            help: "`length` is the number of terms in the sum of one result: zero or more".to_owned(),
            span: length.tree().span.clone(),
        })
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
        let inputs = self.inputs.iter().map(|input| {
            let omitted = workload.without.iter().any(|name| name.value == input.tensor.name.value);
            let computed = input.computed.as_ref().map(|function| function.value.clone());
            let tensor = concrete(&input.tensor, &axes, &dtypes)?;
            Some(CaseTensor { omitted, strided: input.strided, computed, values: input.values, ..tensor })
        });
        let outputs = self.outputs.iter().map(|output| {
            let inplace = output.inplace.as_ref().map(|name| name.value.clone());
            Some(CaseTensor { inplace, ..concrete(&output.tensor, &axes, &dtypes)? })
        });
        let scalars = self.scalars.iter().map(|scalar| {
            let name = scalar.name.value.clone();
            let value = workload.scalars.get(&name).copied().unwrap_or(scalar.default.value);
            CaseScalar { name, value }
        });
        Some(Case {
            id,
            workload: workload.name.value.clone(),
            inputs: inputs.collect::<Option<_>>()?,
            scalars: scalars.collect(),
            outputs: outputs.collect::<Option<_>>()?,
            accumulated: 0,
            axes,
            dtypes,
            weight: workload.weight,
            held_out: workload.held_out,
            drawn: false,
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
    Some(CaseTensor {
        name: tensor.name.value.clone(),
        shape,
        dtype,
        omitted: false,
        strided: false,
        computed: None,
        values: Values::Any,
        strides: None,
        inplace: None,
    })
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
