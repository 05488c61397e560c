//! Machine code and its starts.
//!
//! Owns: the loaded modules, arguments as bytes, launch attributes. Never: computes a geometry.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::path::Path;
use std::ptr;

use cudarc::driver::sys;
use kernel_plan::spec::launch::{Interleave, L2Promotion, OobFill, Swizzle};
use kernel_plan::units::Dtype;

use super::driver::{Context, Outcome, done, senseless};
use super::memory::Memory;
use crate::base::files;
use crate::device::wire::{Argument, Call, Function, Kernel, OperationError, Start, TensorMap};

/// Blocks of a cluster that every device has; more must be asked for.
const PORTABLE_CLUSTER: u32 = 8;

/// Loaded machine code.
struct Module {
    handle: sys::CUmodule,
    /// With their mangled names.
    functions: Vec<(sys::CUfunction, String)>,
}

/// All machine code by its numbers.
#[derive(Default)]
pub(super) struct Modules {
    modules: BTreeMap<u32, Module>,
}

/// The bytes of one argument, aligned as strictly as any argument must be.
#[repr(C, align(128))]
#[derive(Clone, Copy)]
struct Bytes([u8; 128]);

impl Bytes {
    fn copied(bytes: &[u8]) -> Self {
        let mut all = [0; 128];
        all[..bytes.len()].copy_from_slice(bytes);
        Self(all)
    }
}

impl Modules {
    pub(super) fn load(&mut self, number: u32, cubin: &Path, names: &[String]) -> Outcome<Vec<Function>> {
        if self.modules.contains_key(&number) {
            return Err(senseless(format!("module {number} already exists")));
        }
        let image = files::read(cubin)?;
        let mut handle = ptr::null_mut();
        // SAFETY: the driver reads an ELF file whose length it finds in its headers; whoever asks made it by a compiler,
        // or by reading a file that one made.
        done(unsafe { sys::cuModuleLoadData(&raw mut handle, image.as_ptr().cast()) })?;
        let mut module = Module { handle, functions: vec![] };
        let found: Outcome<Vec<Function>> = names.iter().map(|name| module.find(name)).collect();
        match found {
            Ok(functions) => {
                self.modules.insert(number, module);
                Ok(functions)
            }
            Err(trouble) => {
                // SAFETY: nobody else has the handle.
                let _unloaded = unsafe { sys::cuModuleUnload(module.handle) };
                Err(trouble)
            }
        }
    }

    /// The address of a variable.
    pub(super) fn variable(&self, number: u32, name: &str) -> Outcome<sys::CUdeviceptr> {
        let module = self.modules.get(&number).ok_or_else(|| unknown(number))?;
        let text = CString::new(name).map_err(|_| senseless("a name with a zero byte"))?;
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: the driver writes an address and a size.
        done(unsafe {
            sys::cuModuleGetGlobal_v2(&raw mut address, &raw mut bytes, module.handle, text.as_ptr())
        })
        .map_err(|trouble| OperationError { text: format!("{}: `{name}`", trouble.text), ..trouble })?;
        Ok(address)
    }

    pub(super) fn unload(&mut self, number: u32) -> Outcome<()> {
        let module = self.modules.remove(&number).ok_or_else(|| unknown(number))?;
        // SAFETY: the handle is forgotten here, and nothing of it runs: every request ends with an idle device.
        done(unsafe { sys::cuModuleUnload(module.handle) })
    }

    /// Puts a call in the stream's queue.
    pub(super) fn start(&self, context: &Context, memory: &Memory, call: &Call) -> Outcome<()> {
        for start in call {
            match start {
                Start::Fill { at, bytes, byte } => memory.fill(context, *at, *bytes, *byte)?,
                Start::Copy { to, from, bytes } => memory.copy(context, *to, *from, *bytes)?,
                Start::Kernel(kernel) => self.launch(context, memory, kernel)?,
            }
        }
        Ok(())
    }

    fn launch(&self, context: &Context, memory: &Memory, kernel: &Kernel) -> Outcome<()> {
        let module = self.modules.get(&kernel.module).ok_or_else(|| unknown(kernel.module))?;
        let (function, name) = module.functions.get(kernel.function as usize).ok_or_else(|| {
            senseless(format!("module {} was not loaded with that function", kernel.module))
        })?;
        let arguments: Outcome<Vec<Bytes>> =
            kernel.arguments.iter().map(|argument| bytes_of(argument, memory)).collect();
        let mut arguments = arguments?;
        let mut pointers: Vec<*mut c_void> =
            arguments.iter_mut().map(|bytes| ptr::from_mut(bytes).cast()).collect();
        let mut attributes = attributes(kernel);
        let config = sys::CUlaunchConfig_st {
            gridDimX: kernel.grid[0],
            gridDimY: kernel.grid[1],
            gridDimZ: kernel.grid[2],
            blockDimX: kernel.block[0],
            blockDimY: kernel.block[1],
            blockDimZ: kernel.block[2],
            sharedMemBytes: kernel.shared,
            hStream: context.stream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        let of_launch = |trouble: OperationError| OperationError {
            text: format!("{}: {}", trouble.text, words(name, kernel)),
            ..trouble
        };
        allow(*function, kernel).map_err(of_launch)?;
        // SAFETY: arguments and attributes outlive the call, which copies them. That there are as many as the function
        // takes, and of its types, is what op.toml says; the driver copies as many bytes as the function declares, none
        // of which lies outside of `Bytes` unless a parameter is longer than 128 bytes.
        done(unsafe {
            sys::cuLaunchKernelEx(&raw const config, *function, pointers.as_mut_ptr(), ptr::null_mut())
        })
        .map_err(of_launch)
    }
}

impl Module {
    fn find(&mut self, name: &str) -> Outcome<Function> {
        let text = CString::new(name).map_err(|_| senseless("a name with a zero byte"))?;
        let mut function = ptr::null_mut();
        // SAFETY: the driver writes one handle.
        done(unsafe { sys::cuModuleGetFunction(&raw mut function, self.handle, text.as_ptr()) })
            .map_err(|trouble| OperationError { text: format!("{}: `{name}`", trouble.text), ..trouble })?;
        self.functions.push((function, name.to_owned()));
        let number = |attribute| number(function, attribute);
        use sys::CUfunction_attribute as Of;
        Ok(Function {
            name: name.to_owned(),
            registers: number(Of::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            shared: number(Of::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            local: number(Of::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            threads: number(Of::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
        })
    }
}

/// What the driver says of a function.
fn number(function: sys::CUfunction, attribute: sys::CUfunction_attribute) -> Outcome<u32> {
    let mut value = 0;
    // SAFETY: the driver writes one integer.
    done(unsafe { sys::cuFuncGetAttribute(&raw mut value, attribute, function) })?;
    Ok(u32::try_from(value).unwrap_or_default())
}

/// A start, for whom the driver's few words leave in the dark.
fn words(name: &str, kernel: &Kernel) -> String {
    let times = |[x, y, z]: [u32; 3]| format!("{x} x {y} x {z}");
    let mut words = format!("`{name}` with a grid of {} blocks", times(kernel.grid));
    if let Some(cluster) = kernel.cluster {
        words += &format!(" in clusters of {}", times(cluster));
    }
    words += &format!(" of {} threads", times(kernel.block));
    if kernel.shared > 0 {
        words += &format!(" and {} bytes of dynamic shared memory", kernel.shared);
    }
    if let Some(percent @ 0..) = kernel.carveout {
        words += &format!(", a carveout of {percent} %");
    }
    words + if kernel.cooperative { ", cooperative" } else { "" }
}

/// Lets a function have what its launch asks for beyond what every device gives.
fn allow(function: sys::CUfunction, kernel: &Kernel) -> Outcome<()> {
    use sys::CUfunction_attribute as Of;
    let set = |attribute, value: i32| {
        // SAFETY: the handle is one that the driver gave.
        done(unsafe { sys::cuFuncSetAttribute(function, attribute, value) })
    };
    // It is only raised: a start of the same function that is in a graph by now may need more than this one.
    if kernel.shared > number(function, Of::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)? {
        set(Of::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel.shared.cast_signed())?;
    }
    if let Some(percent) = kernel.carveout {
        set(Of::CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT, percent)?;
    }
    if kernel.cluster.is_some_and(|cluster| cluster.iter().product::<u32>() > PORTABLE_CLUSTER) {
        set(Of::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)?;
    }
    Ok(())
}

fn attributes(kernel: &Kernel) -> Vec<sys::CUlaunchAttribute> {
    use sys::CUlaunchAttributeID_enum as Id;
    let attribute = |id, fill: &dyn Fn(&mut sys::CUlaunchAttributeValue)| {
        let mut value = sys::CUlaunchAttributeValue { pad: [0; 64] };
        fill(&mut value);
        sys::CUlaunchAttribute { id, pad: [0; 4], value }
    };
    let cluster = kernel.cluster.map(|[x, y, z]| {
        attribute(Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &|value| {
            value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
        })
    });
    let cooperative = kernel
        .cooperative
        .then(|| attribute(Id::CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &|value| value.cooperative = 1));
    cluster.into_iter().chain(cooperative).collect()
}

fn bytes_of(argument: &Argument, memory: &Memory) -> Outcome<Bytes> {
    Ok(match argument {
        Argument::Pointer(place) => Bytes::copied(&memory.range(*place, 0)?.to_le_bytes()),
        Argument::Null => Bytes::copied(&0u64.to_le_bytes()),
        Argument::I32(value) => Bytes::copied(&value.to_le_bytes()),
        Argument::I64(value) => Bytes::copied(&value.to_le_bytes()),
        Argument::Bool(value) => Bytes::copied(&[u8::from(*value)]),
        Argument::F32(bits) => Bytes::copied(&bits.to_le_bytes()),
        Argument::F64(bits) => Bytes::copied(&bits.to_le_bytes()),
        Argument::TensorMap(map) => encode(map, memory)?,
    })
}

fn encode(map: &TensorMap, memory: &Memory) -> Outcome<Bytes> {
    let rank = map.lengths.len();
    let same = [map.strides.len() + 1, map.box_lengths.len(), map.element_strides.len()];
    if same.iter().any(|length| *length != rank) {
        return Err(senseless("a tensor map whose lists have different lengths"));
    }
    let mut encoded = sys::CUtensorMap_st { opaque: [0; 16] };
    let address = memory.range(map.at, 0)?;
    // SAFETY: every list has `rank` elements (strides one less, as the driver reads them), checked above; the driver
    // writes one map.
    done(unsafe {
        sys::cuTensorMapEncodeTiled(
            &raw mut encoded,
            type_of(map.dtype)?,
            rank as u32,
            address as *mut c_void,
            map.lengths.as_ptr(),
            map.strides.as_ptr(),
            map.box_lengths.as_ptr(),
            map.element_strides.as_ptr(),
            match map.interleave {
                Interleave::None => sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                Interleave::B16 => sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_16B,
                Interleave::B32 => sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_32B,
            },
            match map.swizzle {
                Swizzle::None => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_NONE,
                Swizzle::B32 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_32B,
                Swizzle::B64 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_64B,
                Swizzle::B128 => sys::CUtensorMapSwizzle::CU_TENSOR_MAP_SWIZZLE_128B,
            },
            match map.l2_promotion {
                L2Promotion::None => sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_NONE,
                L2Promotion::B64 => sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
                L2Promotion::B128 => sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                L2Promotion::B256 => sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
            },
            match map.oob_fill {
                OobFill::Zero => sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
                OobFill::Nan => {
                    sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA
                }
            },
        )
    })
    .map_err(|trouble| OperationError {
        text: format!(
            "{}: a tensor map of {:?} elements of {}, {:?} bytes apart, with a box of {:?}, innermost first",
            trouble.text, map.lengths, map.dtype, map.strides, map.box_lengths
        ),
        ..trouble
    })?;
    let words: Vec<u8> = encoded.opaque.iter().flat_map(|word| word.to_ne_bytes()).collect();
    Ok(Bytes::copied(&words))
}

fn type_of(dtype: Dtype) -> Outcome<sys::CUtensorMapDataType> {
    use sys::CUtensorMapDataType as Type;
    Ok(match dtype {
        Dtype::Bf16 => Type::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        Dtype::F16 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Dtype::F32 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        Dtype::F64 => Type::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        Dtype::I32 => Type::CU_TENSOR_MAP_DATA_TYPE_INT32,
        Dtype::I64 => Type::CU_TENSOR_MAP_DATA_TYPE_INT64,
        // The unit copies bits; what has no type of its own travels as unsigned integers of its size.
        Dtype::I16 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        Dtype::I8 | Dtype::Bool | Dtype::F8e4m3 | Dtype::F8e5m2 => Type::CU_TENSOR_MAP_DATA_TYPE_UINT8,
    })
}

fn unknown(number: u32) -> OperationError {
    senseless(format!("module {number} not found"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_start_that_fails_is_described() {
        let kernel = Kernel {
            module: 1,
            function: 0,
            grid: [64, 2, 1],
            block: [128, 1, 1],
            cluster: Some([4, 1, 1]),
            shared: 1024,
            carveout: Some(25),
            cooperative: true,
            arguments: vec![],
        };
        assert_eq!(
            words("f", &kernel),
            "`f` with a grid of 64 x 2 x 1 blocks in clusters of 4 x 1 x 1 of 128 x 1 x 1 threads and 1024 bytes of \
             dynamic shared memory, a carveout of 25 %, cooperative"
        );
        let plain = Kernel { cluster: None, shared: 0, carveout: Some(-1), cooperative: false, ..kernel };
        assert_eq!(words("f", &plain), "`f` with a grid of 64 x 2 x 1 blocks of 128 x 1 x 1 threads");
    }
}
