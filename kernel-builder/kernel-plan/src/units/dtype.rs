//! The element types of tensors.
//!
//! Owns: their names here, in PyTorch and in CUDA C++, and their sizes.
//! Never: converts a value.

super::named_values!(
    /// The element type of a tensor.
    Dtype, "a dtype", {
        /// 16 bits with the exponent of `f32`.
        Bf16 = "bf16",
        /// IEEE half precision.
        F16 = "f16",
        /// IEEE single precision.
        F32 = "f32",
        /// IEEE double precision.
        F64 = "f64",
        /// 8 bits, 4 of them exponent, without infinities: `E4M3` of the OCP 8-bit floating point specification, 2023.
        F8e4m3 = "f8e4m3",
        /// 8 bits, 5 of them exponent: `E5M2` of the OCP 8-bit floating point specification, 2023.
        F8e5m2 = "f8e5m2",
        /// 8-bit signed integer.
        I8 = "i8",
        /// 16-bit signed integer.
        I16 = "i16",
        /// 32-bit signed integer.
        I32 = "i32",
        /// 64-bit signed integer.
        I64 = "i64",
        /// One byte, false or true.
        Bool = "bool",
    }
);

impl Dtype {
    /// Bytes of one element.
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::F8e4m3 | Self::F8e5m2 | Self::I8 | Self::Bool => 1,
            Self::Bf16 | Self::F16 | Self::I16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 | Self::I64 => 8,
        }
    }

    /// What a name of torch, NumPy, C or Triton says: `bfloat16`, `fp32` and `half` are dtypes under other names.
    #[must_use]
    pub fn named_elsewhere(text: &str) -> Option<Self> {
        match text.strip_prefix("torch.").unwrap_or(text) {
            "fp16" | "half" => Some(Self::F16),
            "fp32" | "float" => Some(Self::F32),
            "fp64" | "double" => Some(Self::F64),
            "fp8" | "f8" | "fp8e4m3" | "float8_e4m3" => Some(Self::F8e4m3),
            "fp8e5m2" => Some(Self::F8e5m2),
            "int" => Some(Self::I32),
            "long" => Some(Self::I64),
            name => Self::ALL.iter().copied().find(|dtype| dtype.torch_name() == name),
        }
    }

    /// The attribute of the `torch` module: `torch.bfloat16` is `bfloat16` here.
    pub const fn torch_name(self) -> &'static str {
        match self {
            Self::Bf16 => "bfloat16",
            Self::F16 => "float16",
            Self::F32 => "float32",
            Self::F64 => "float64",
            Self::F8e4m3 => "float8_e4m3fn",
            Self::F8e5m2 => "float8_e5m2",
            Self::I8 => "int8",
            Self::I16 => "int16",
            Self::I32 => "int32",
            Self::I64 => "int64",
            Self::Bool => "bool",
        }
    }

    /// The type in CUDA C++, as a template argument is written: `__nv_bfloat16` of `cuda_bf16.h`, `long long`.
    pub const fn cuda_name(self) -> &'static str {
        match self {
            Self::Bf16 => "__nv_bfloat16",
            Self::F16 => "__half",
            Self::F32 => "float",
            Self::F64 => "double",
            Self::F8e4m3 => "__nv_fp8_e4m3",
            Self::F8e5m2 => "__nv_fp8_e5m2",
            Self::I8 => "signed char",
            Self::I16 => "short",
            Self::I32 => "int",
            Self::I64 => "long long",
            Self::Bool => "bool",
        }
    }

    /// Whether values are rounded: the floating-point types.
    pub const fn is_float(self) -> bool {
        matches!(self, Self::Bf16 | Self::F16 | Self::F32 | Self::F64 | Self::F8e4m3 | Self::F8e5m2)
    }
}
