import layers
from . import layers as own
