"""Looks numbers up in tables that are shipped with the kernel."""

from . import layers
from .tables import by_name, by_index

__all__ = ["by_index", "by_name", "layers"]
