"""Translates CUDA sources of a project to HIP, in a copy of the project.

Owns: the copy, and the place of what is translated: SOURCE.hip beside the copy of SOURCE. Never: writes into the project's
sources, imports torch. The translator is `torch.utils.hipify`, read from its folder: it needs nothing else of torch.
Arguments: --package FOLDER --to FOLDER [--include FOLDER]... SOURCE...; runs in the project as `python -I hipify.py ...`.
"""

import argparse
import contextlib
import glob
import importlib
import importlib.util
import io
import os
import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType

# What a source may include; the translator reads some of them, the rest must lie where they did.
ENDINGS = {
    ".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".hip", ".inc", ".inl", ".ipp", ".tpp",
    ".def", ".in", ".txt",
}  # fmt: skip


def translator(package: Path) -> ModuleType:
    """`torch.utils.hipify.hipify_python` without `torch`."""
    init = package / "__init__.py"
    spec = importlib.util.spec_from_file_location("hipify", init, submodule_search_locations=[str(package)])
    if spec is None or spec.loader is None:
        sys.exit(f"there is no translator in {package}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["hipify"] = module
    spec.loader.exec_module(module)
    return importlib.import_module("hipify.hipify_python")


def copy(project: Path, to: Path) -> None:
    """Copies what can be source text; hidden folders and `build` are none of it."""
    for folder, folders, names in os.walk(project):
        here = Path(folder).relative_to(project)
        top = here == Path()
        folders[:] = [name for name in folders if not name.startswith(".") and not (top and name == "build")]
        wanted = [name for name in names if Path(name).suffix in ENDINGS]
        if wanted:
            (to / here).mkdir(parents=True, exist_ok=True)
        for name in wanted:
            shutil.copyfile(Path(folder) / name, to / here / name)


def follow(to: Path) -> None:
    """A header in a folder `x_cuda` goes to `x_hip`. What it includes and what was not translated has to lie there too:
    as the same file, or `#pragma once` would not see that it is."""
    for folder in sorted(path for path in to.rglob("*") if path.is_dir()):
        here = folder.relative_to(to).as_posix()
        moved = to / here.replace("cuda", "hip").replace("CUDA", "HIP")
        if moved == folder or not moved.is_dir():
            continue
        for path in folder.iterdir():
            if path.is_file() and not (moved / path.name).exists():
                os.link(path, moved / path.name)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--package", type=Path, required=True)
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--include", action="append", default=[])
    parser.add_argument("sources", nargs="+")
    args = parser.parse_args()
    project = Path.cwd()
    to = project / args.to
    to.parent.mkdir(parents=True, exist_ok=True)
    # Whole or not at all: the next run must not find half a translation.
    staging = Path(tempfile.mkdtemp(prefix=".hipify-", dir=to.parent))
    try:
        copy(project, staging)
        module = translator(args.package)
        includes = [folder for folder in args.include if (staging / folder).is_dir()]
        talk = io.StringIO()
        with contextlib.redirect_stdout(talk), contextlib.redirect_stderr(talk):
            results = module.hipify(
                project_directory=str(staging),
                output_directory=str(staging),
                includes=[f"{glob.escape(str(staging))}/*"],
                header_include_dirs=includes,
                extra_files=[str(staging / source) for source in args.sources],
                show_detailed=True,
                is_pytorch_extension=True,
                hipify_extra_files_only=True,
            )
        follow(staging)
        for source in args.sources:
            result = results.get(str(staging / source))
            made = result.hipified_path if result is not None else None
            shutil.copyfile(made or staging / source, staging / f"{source}.hip")
        shutil.rmtree(to, ignore_errors=True)
        staging.rename(to)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


main()
