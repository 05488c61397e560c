"""Python of a project that runs from a text which the judge read before any candidate ran.

Owns: how such a text becomes a module. Never: reads the file or bytecode beside it, which a candidate can write.
"""

from __future__ import annotations

import linecache
import sys
from types import ModuleType

from protocol import SourceText


def module_of(source: SourceText, name: str) -> ModuleType:
    """The module `name` that a text defines."""
    code = compile(source.text, source.file, "exec", dont_inherit=True)
    module = ModuleType(name)
    module.__file__ = source.file
    # Tracebacks and `inspect` show this text, too. An entry without a time is not compared with the disk.
    linecache.cache[source.file] = (len(source.text), None, source.text.splitlines(keepends=True), source.file)
    sys.modules[name] = module
    exec(code, module.__dict__)
    return module
