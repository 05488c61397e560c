"""How PyTorch's own operators compute in float32.

Owns: its switches. Never: looks at a kernel.
"""

from types import ModuleType


def keep_float32(torch: ModuleType) -> None:
    """Keeps products and convolutions of float32 tensors in float32, in every process that judges.

    On GPUs, PyTorch rounds the operands of convolutions to TF32, with 10 bits of mantissa, unless this is switched off. A
    package with PyTorch's convolutions would then be refused for PyTorch's error, which is a thousand times float32's. What is
    timed computes as PyTorch does by default.
    """
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
