"""The first use of a managed torch: shows that it imports and computes, and leaves compiled Python files behind.

Owns: what is imported, so that no later process compiles these files from their source again; without them, tracing a
function takes twice as long. Never: writes into a Python of the user's, runs with code of a project.

Run as `python -c TEXT` with the folder of packages in KERNELWRIGHT_SITE. Prints torch's version. Only what every
use needs may fail it.
"""

import contextlib
import importlib
import os
import site

# What the judge, the tracer and the benchmark import beyond torch itself; older and newer releases may lack one.
LATER = (
    "torch._dynamo",
    "torch._functorch._aot_autograd.logging_utils",
    "torch.fx.experimental.proxy_tensor",
    "torch.fx.experimental.symbolic_shapes",
    "torch.profiler",
    "torch.utils._python_dispatch",
    "torch.utils.cpp_extension",
)


def main() -> None:
    """Import and compute; then everything that torch imports when it is needed."""
    site.addsitedir(os.environ["KERNELWRIGHT_SITE"])
    importlib.import_module("kernels")
    importlib.import_module("numpy")
    import torch

    if float(torch.ones(3).sum()) != 3.0:
        raise SystemExit("torch adds three ones to something else than 3")
    torch.cuda.is_available()
    for name in LATER:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    # An export and a gradient import the rest.
    with contextlib.suppress(Exception):
        from torch.export import Dim, export

        rows = torch.ones(3, 4)
        export(torch.nn.Softmax(dim=-1), (rows,), dynamic_shapes=({0: Dim("rows")},)).run_decompositions()
        leaf = torch.ones(3, requires_grad=True)
        torch.autograd.grad((leaf * leaf,), (leaf,), (torch.ones(3),))
    print(torch.__version__)


if __name__ == "__main__":
    main()
