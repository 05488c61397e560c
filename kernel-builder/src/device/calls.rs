//! A launch of op.toml in the words of a worker.
//!
//! Owns: which argument is which address. Never: computes a geometry; by now everything is a number.

use std::collections::BTreeMap;

use kernel_plan::spec::launch::{self, ConcreteLaunch, KernelLaunch};
use kernel_plan::spec::op::Case;

use super::wire::{Argument, Call, Kernel, Place, Start, TensorMap};

/// Where the tensors of a call lie, by name; workspaces, too. An output in place lies where its input does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Addresses(pub BTreeMap<String, Place>);

impl Addresses {
    /// Those of a case whose inputs, own outputs and workspaces are given in their order.
    pub(crate) fn new(
        case: &Case,
        inputs: &[Option<Place>],
        own: &[Place],
        workspaces: impl IntoIterator<Item = (String, Place)>,
    ) -> Self {
        let mut places = BTreeMap::new();
        for (tensor, place) in case.inputs.iter().zip(inputs) {
            places.extend(place.map(|place| (tensor.name.to_string(), place)));
        }
        let mut own = own.iter();
        for output in &case.outputs {
            let place = match &output.inplace {
                Some(input) => places.get(input.as_str()).copied(),
                None => own.next().copied(),
            };
            places.extend(place.map(|place| (output.name.to_string(), place)));
        }
        places.extend(workspaces);
        Self(places)
    }
}

/// A name of the launch that nothing stands for: the launch belongs to another case.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no allocated memory has the name `{0}`")]
pub(crate) struct Unplaced(String);

/// What is started: workspaces that begin as zeros are filled, then the kernels run in order. `code` says where the
/// machine code of a kernel is.
pub(crate) fn call(
    launch: &ConcreteLaunch,
    addresses: &Addresses,
    code: impl Fn(&KernelLaunch) -> Option<(u32, u32)>,
) -> Result<Call, Unplaced> {
    let place = |name: &str| addresses.0.get(name).copied().ok_or_else(|| Unplaced(name.to_owned()));
    let mut call = Call::new();
    if launch.kernels.is_empty() {
        return Ok(call);
    }
    for workspace in launch.workspaces.iter().filter(|workspace| workspace.zero && workspace.bytes > 0) {
        call.push(Start::Fill { at: place(workspace.name.as_str())?, bytes: workspace.bytes, byte: 0 });
    }
    for kernel in &launch.kernels {
        let (module, function) = code(kernel).ok_or_else(|| Unplaced(kernel.name_expression()))?;
        let argument = |argument: &launch::Argument| {
            Ok(match argument {
                launch::Argument::Pointer(name) => Argument::Pointer(place(name.as_str())?),
                launch::Argument::Null => Argument::Null,
                launch::Argument::TensorMap(name) => {
                    let map = launch.tensor_maps.iter().find(|map| map.name == *name);
                    let map = map.ok_or_else(|| Unplaced(name.to_string()))?;
                    Argument::TensorMap(Box::new(TensorMap::new(map, place(map.tensor.as_str())?)))
                }
                launch::Argument::I32(value) => Argument::I32(*value),
                launch::Argument::I64(value) => Argument::I64(*value),
                launch::Argument::Bool(value) => Argument::Bool(*value),
                launch::Argument::F32(value) => Argument::F32(value.to_bits()),
                launch::Argument::F64(value) => Argument::F64(value.to_bits()),
            })
        };
        let arguments: Result<Vec<Argument>, Unplaced> = kernel.arguments.iter().map(argument).collect();
        call.push(Start::Kernel(Kernel {
            module,
            function,
            grid: kernel.grid,
            block: kernel.block,
            cluster: kernel.cluster,
            shared: kernel.shared,
            carveout: kernel.carveout,
            cooperative: kernel.cooperative,
            arguments: arguments?,
        }));
    }
    Ok(call)
}

#[cfg(test)]
mod tests {
    use kernel_plan::diagnostic::SourceFile;
    use kernel_plan::spec::op::{Device, Purpose};
    use kernel_plan::spec::tune::Tuning;

    use super::*;

    const OP: &str = r#"
        format = 1
        name = "add_scale"
        [axes]
        rows = { type = "var" }
        [inputs]
        x = { shape = ["rows"], dtype = "f32" }
        bias = { shape = ["rows"], dtype = "f32", optional = true }
        [scalars]
        factor = { type = "float", default = 0.5 }
        [outputs]
        x_out = { shape = ["rows"], dtype = "f32", inplace = "x" }
        y = { shape = ["rows"], dtype = "f32" }
        [reference]
        file = "reference.py"
        function = "add_scale"
        [call]
        function = "add_scale"
        [tolerance]
        accumulate = "f32"
        length = "rows"
        roundings = 1
        [launch]
        source = "add_scale.cu"
        [launch.workspace.counts]
        dtype = "i32"
        shape = ["rows"]
        zero = true
        [[launch.kernel]]
        entry = "add_scale"
        grid = ["rows"]
        block = [32]
        args = ["x_out", "y", "bias", "counts", { i32 = "rows" }, { f32 = "factor" }]
        [workload.bare]
        axes = { rows = 8 }
        without = ["bias"]
        devices = ["cuda"]
    "#;

    #[test]
    fn arguments_become_addresses() {
        let (op, problems) = kernel_plan::spec::parse_op(SourceFile::new("op.toml", OP));
        assert!(problems.is_empty(), "{problems:?}");
        let op = op.unwrap();
        let case = op.cases(Purpose::Verify, Device::Cuda).swap_remove(0);
        let launch = op.launch.unwrap().evaluate(&case, &Tuning::new()).unwrap();
        let (x, y, counts) = (Place::start(1).plus(16), Place::start(2), Place::start(3));
        let addresses = Addresses::new(&case, &[Some(x), None], &[y], [("counts".to_owned(), counts)]);
        let call = super::call(&launch, &addresses, |_| Some((7, 0))).unwrap();
        let [Start::Fill { at, bytes: 32, byte: 0 }, Start::Kernel(kernel)] = call.as_slice() else {
            panic!("{call:?}");
        };
        assert_eq!((*at, kernel.module, kernel.grid), (counts, 7, [8, 1, 1]));
        let expected = [
            Argument::Pointer(x),
            Argument::Pointer(y),
            Argument::Null,
            Argument::Pointer(counts),
            Argument::I32(8),
            Argument::F32(0.5f32.to_bits()),
        ];
        assert_eq!(kernel.arguments, expected);
        let missing = super::call(&launch, &Addresses::default(), |_| Some((7, 0))).unwrap_err();
        assert_eq!(missing.to_string(), "no allocated memory has the name `counts`");
    }
}
