"""
import scipy
"""

import os, numpy as np
import cutlass.cute as cute
import einops
import torch
import triton

from . import layers

try:
    import flash_attn
except ImportError:
    flash_attn = None


def from_numpy(array):
    import pandas

    return pandas.DataFrame(array)
