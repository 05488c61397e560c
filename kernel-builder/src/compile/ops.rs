//! `_ops.py`: how a package's own Python reaches what was built.
//!
//! Owns: the names that kernels of the hub import from it. Never: finds anything out when it is imported: the name of a
//! variant is fixed when it is built, so that variants of one kernel for two backends can be loaded side by side.

use kernel_plan::plan::VariantPlan;
use kernel_plan::variant::{Compiled, Framework, Variant};

/// The text of `_ops.py` for a variant.
pub(super) fn module(plan: &VariantPlan) -> String {
    match plan.variant {
        Variant::Compiled(Compiled { framework: Framework::TvmFfi(_), .. }) => tvm_ffi(plan),
        Variant::Compiled(_) => torch(&plan.extension, &format!("from . import {}\n", plan.extension)),
        Variant::Noarch(_) => torch(&plan.extension, ""),
    }
}

/// The operators that PyTorch knows under the extension's name, and that name for those that Python registers.
fn torch(extension: &str, import: &str) -> String {
    format!(
        r#"import torch

{import}
ops = torch.ops.{extension}


def add_op_namespace_prefix(op_name: str) -> str:
    """The full name of one of this build's operators, for torch.library."""
    return f"{extension}::{{op_name}}"
"#
    )
}

/// The functions of the library, and names that do not collide for those that register them with PyTorch or JAX.
fn tvm_ffi(plan: &VariantPlan) -> String {
    let (extension, library) = (&plan.extension, &plan.library);
    format!(
        r#"from importlib.util import find_spec
from pathlib import Path

import tvm_ffi

ops = tvm_ffi.load_module(str(Path(__file__).parent / "{library}"))

has_torch = find_spec("torch") is not None
has_jax = find_spec("jax") is not None and find_spec("jax_tvm_ffi") is not None


def torch_add_op_namespace_prefix(op_name: str) -> str:
    """The full name of one of this build's operators, for torch.library."""
    return f"{extension}::{{op_name}}"


def jax_add_ffi_target_name_prefix(name: str) -> str:
    """The full name of one of this build's functions, for JAX."""
    return f"{extension}.{{name}}"


def jax_register_ffi_target(name: str, *args, **kwargs):
    """Register a function with JAX under its full name; does nothing where JAX is not installed."""
    if not has_jax:
        return None
    import jax_tvm_ffi

    return jax_tvm_ffi.register_ffi_target(jax_add_ffi_target_name_prefix(name), *args, **kwargs)


def jax_ffi_call(name: str, *args, **kwargs):
    """What jax.ffi.ffi_call gives for a function that was registered here."""
    if not has_jax:
        raise RuntimeError("this needs jax and jax_tvm_ffi, which are not installed")
    import jax.ffi

    return jax.ffi.ffi_call(jax_add_ffi_target_name_prefix(name), *args, **kwargs)
"#
    )
}

#[cfg(test)]
mod tests {
    use kernel_plan::units::BackendId;

    use super::*;

    fn text(variant: &str) -> String {
        module(&VariantPlan {
            variant: variant.parse().unwrap(),
            backend: BackendId::Cpu,
            id: variant.to_owned(),
            package: "torch-ext/k".to_owned(),
            extension: "_k_cpu_ab".to_owned(),
            library: "_k_cpu_ab.so".to_owned(),
            units: Vec::new(),
            link: None,
            python: Vec::new(),
            capabilities: Vec::new(),
            route: None,
        })
    }

    #[test]
    fn each_framework_has_its_own() {
        let torch = text("torch211-cxx11-cpu-x86_64-linux");
        assert!(torch.contains("from . import _k_cpu_ab\n"), "{torch}");
        assert!(torch.contains("return f\"_k_cpu_ab::{op_name}\""), "{torch}");
        let python = text("torch-cpu");
        assert!(!python.contains("from .") && python.contains("torch.ops._k_cpu_ab"), "{python}");
        let tvm_ffi = text("tvm-ffi01-cpu-x86_64-linux");
        assert!(tvm_ffi.contains("/ \"_k_cpu_ab.so\"") && !tvm_ffi.contains("import torch"), "{tvm_ffi}");
        assert!(tvm_ffi.contains("return f\"_k_cpu_ab.{name}\""), "{tvm_ffi}");
    }
}
