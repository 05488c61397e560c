from typing import TYPE_CHECKING

import fast_norm.layers
import fast_normal  # another module

from ._ops import ops

if TYPE_CHECKING:
    from fast_norm.types import Norm
