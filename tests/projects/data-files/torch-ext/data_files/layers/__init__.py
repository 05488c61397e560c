from .inner.deep import Lookup

__all__ = ["Lookup"]
