//! The codes of everything that can be wrong with build.toml and op.toml.
//!
//! Owns: the names, which are stable once released.
//! Never: holds a message; those are written where the problem is found.

crate::diagnostic::codes! {
    /// The text is not TOML.
    SYNTAX = "spec::syntax",
    /// A key that the format does not have.
    UNKNOWN_KEY = "spec::unknown_key",
    /// A key that has to be there is not.
    MISSING_KEY = "spec::missing_key",
    /// A value of another TOML type.
    WRONG_TYPE = "spec::wrong_type",
    /// A value of the right type that means nothing here.
    BAD_VALUE = "spec::bad_value",
    /// A list that needs at least one entry.
    EMPTY_LIST = "spec::empty_list",
    /// A name that Python could not use.
    NOT_AN_IDENTIFIER = "spec::not_an_identifier",
    /// A path that leaves the project.
    SOURCE_OUTSIDE = "spec::source_outside",
    /// A text that is no CUDA capability.
    BAD_CAPABILITY = "spec::bad_capability",
    /// A lower bound above its upper bound.
    EMPTY_RANGE = "spec::empty_range",
    /// build.toml is of another edition.
    EDITION = "spec::edition",
    /// build.toml is of edition 4, and was read as edition 5.
    EDITION_UPGRADED = "spec::edition_upgraded",
    /// The license is an empty text.
    EMPTY_LICENSE = "spec::empty_license",
    /// A text that is no repository of the hub.
    HUB_REPO_ID = "spec::hub_repo_id",
    /// A Python package that a kernel may not depend on, or not there.
    PYTHON_DEPENDS = "spec::python_depends",
    /// The name of a kernel section cannot be part of the name of a file or target.
    SECTION_NAME = "spec::section_name",
    /// A text that is no ROCm architecture.
    BAD_ROCM_ARCH = "spec::bad_rocm_arch",
    /// build.toml has no section for a framework.
    NO_FRAMEWORK = "spec::no_framework",
    /// build.toml has more than one section for a framework.
    SEVERAL_FRAMEWORKS = "spec::several_frameworks",
    /// A kernel dependency with both a version and a revision, or neither.
    KERNEL_PIN = "spec::kernel_pin",
    /// op.toml is of another format.
    OP_FORMAT = "spec::op_format",
    /// The same name for two things that must differ.
    DUPLICATE_NAME = "spec::duplicate_name",
    /// An axis that `[axes]` does not define.
    UNKNOWN_AXIS = "spec::unknown_axis",
    /// A leading axis that is not the first of a shape, or a second one.
    LEADING_AXIS = "spec::leading_axis",
    /// Neither a dtype nor a type variable, or a dtype outside a variable's range.
    UNKNOWN_DTYPE = "spec::unknown_dtype",
    /// A workload without a length for an axis.
    WORKLOAD_AXIS = "spec::workload_axis",
    /// A length that the axis does not allow.
    AXIS_VALUE = "spec::axis_value",
    /// A tensor, workspace or tensor map that is not defined.
    UNKNOWN_TENSOR = "spec::unknown_tensor",
    /// A scalar that `[scalars]` does not define.
    UNKNOWN_SCALAR = "spec::unknown_scalar",
    /// A value outside of a scalar's range.
    SCALAR_VALUE = "spec::scalar_value",
    /// A workload without an input that has to be passed.
    NOT_OPTIONAL = "spec::not_optional",
    /// An output that cannot be written into the input it names.
    INPLACE = "spec::inplace",
    /// A gradient that does not exist.
    GRADIENT = "spec::gradient",
    /// A text that is no expression.
    EXPRESSION = "spec::expression",
    /// An expression with a name that is not defined.
    EXPRESSION_NAME = "spec::expression_name",
    /// A number where a condition is needed, or the reverse.
    EXPRESSION_TYPE = "spec::expression_type",
    /// An expression that has no value for a workload.
    EXPRESSION_VALUE = "spec::expression_value",
    /// Names of `[let]` that use each other in a circle.
    LET_CYCLE = "spec::let_cycle",
    /// More cases than can be run.
    CASE_COUNT = "spec::case_count",
    /// A default of a tunable that is not allowed.
    TUNE_DEFAULT = "spec::tune_default",
    /// More settings of the tunables than can be searched.
    TUNE_SPACE = "spec::tune_space",
    /// An argument of a kernel without a type.
    KERNEL_ARGUMENT = "spec::kernel_argument",
    /// A launch beyond what CUDA can start.
    LAUNCH_LIMIT = "spec::launch_limit",
    /// An axis, a type variable, a tunable or a name of `[let]` that nothing uses.
    UNUSED_NAME = "spec::unused_name",
    /// More or fewer output keywords than outputs.
    OUT_COUNT = "spec::out_count",
    /// No workload to verify with.
    NO_WORKLOAD = "spec::no_workload",
    /// A file that is named and not there.
    SOURCE_MISSING = "spec::source_missing",
    /// A kernel for a backend that is not declared.
    UNDECLARED_BACKEND = "spec::undeclared_backend",
    /// A declared backend without compiled code.
    BACKEND_WITHOUT_KERNEL = "spec::backend_without_kernel",
    /// A backend that is declared twice.
    DUPLICATE_BACKEND = "spec::duplicate_backend",
    /// A well-formed capability that no CUDA toolkit compiles for.
    UNKNOWN_CAPABILITY = "spec::unknown_capability",
    /// The header of a binding lies in the project and is not listed.
    UNLISTED_HEADER = "spec::unlisted_header",
    /// A path that differs from a file in upper and lower case.
    SOURCE_CASE = "spec::source_case",
    /// A file or folder that one list names twice.
    REPEATED_SOURCE = "spec::repeated_source",
    /// A source whose text is not known.
    UNREAD_SOURCE = "spec::unread_source",
    /// A source that is not a regular file, or that may not be read.
    UNREADABLE_SOURCE = "spec::unreadable_source",
    /// A capability that the project's CUDA releases do not compile for.
    CAPABILITY_TOOLKIT = "spec::capability_toolkit",
    /// A capability that a kernel lists twice.
    DUPLICATE_CAPABILITY = "spec::duplicate_capability",
    /// PTX that runs on no other GPU.
    USELESS_PTX = "spec::useless_ptx",
    /// An architecture that AMD's compiler has lost.
    WITHDRAWN_ARCH = "spec::withdrawn_arch",
    /// A kernel that asks for a newer CUDA than the project is built with.
    CUDA_MINVER = "spec::cuda_minver",
    /// Bounds for CUDA that no variant lies between.
    CUDA_RANGE = "spec::cuda_range",
    /// Bounds for torch that no variant lies between.
    TORCH_RANGE = "spec::torch_range",
    /// A header of a dependency that is not listed.
    MISSING_DEPENDENCY = "spec::missing_dependency",
    /// A dependency of which nothing is included.
    UNUSED_DEPENDENCY = "spec::unused_dependency",
    /// A dependency for another backend.
    FOREIGN_DEPENDENCY = "spec::foreign_dependency",
    /// A header outside of torch's stable ABI.
    UNSTABLE_HEADER = "spec::unstable_header",
    /// Operators in a namespace that the source names itself.
    FIXED_NAMESPACE = "spec::fixed_namespace",
    /// pybind11, which does not compile for Python's limited API.
    PYBIND = "spec::pybind",
    /// Python that imports its own kernel by name.
    SELF_IMPORT = "spec::self_import",
    /// Python that imports what need not be installed.
    FOREIGN_IMPORT = "spec::foreign_import",
    /// No Python package of the name that follows from the kernel's.
    MISSING_PACKAGE = "spec::missing_package",
}
