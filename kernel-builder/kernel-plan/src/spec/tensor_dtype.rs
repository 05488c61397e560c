//! The dtype of a tensor as op.toml has it.
//!
//! Owns: that it may be a variable. Never: knows which dtypes a variable stands for.

use serde::{Serialize, Serializer};

use crate::units::{Dtype, PythonName};

/// The dtype of a tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TensorDtype {
    /// Always this one.
    Fixed(Dtype),
    /// Whatever the variable stands for in the case at hand.
    Variable(PythonName),
}

impl Serialize for TensorDtype {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Fixed(dtype) => dtype.serialize(serializer),
            Self::Variable(name) => name.serialize(serializer),
        }
    }
}
