"""Artifacts of a workflow as zip files: what actions/upload-artifact and actions/download-artifact do with their inputs.

Owns: names, patterns, hidden files, lost modes. Never: talks to a server.
"""

import fnmatch
import os
import pathlib
import sys
import zipfile


def fail(message: str) -> None:
    sys.exit(f"::error::{message}")


def flag(name: str) -> bool:
    value = os.environ[name]
    if value not in ("true", "false"):
        fail(f"{name} is not true or false: {value}")
    return value == "true"


def store() -> pathlib.Path:
    """The artifacts of this run."""
    folder = pathlib.Path(os.environ["RELEASE_STORE"], "artifacts")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def upload() -> None:
    name, source = os.environ["NAME"], pathlib.Path(os.environ["FROM"])
    if any(letter in name for letter in '":<>|*?\r\n\\/'):
        fail(f"not a valid artifact name: {name}")
    if any(letter in str(source) for letter in "*?[\n!"):
        fail(f"this stand-in knows one file or folder, and no pattern: {source}")
    target = store() / f"{name}.zip"
    if target.exists() and not flag("OVERWRITE"):
        fail(f"an artifact `{name}` exists already")
    hidden = flag("HIDDEN")
    root = source if source.is_dir() else source.parent
    found = sorted(path for path in source.rglob("*") if path.is_file()) if source.is_dir() else [source]
    names = [path.relative_to(root) for path in found if path.is_file()]
    names = [path for path in names if hidden or not any(part.startswith(".") for part in path.parts)]
    if not names:
        message = f"no files were found at {source}"
        fail(message) if os.environ["NONE"] == "error" else print(f"::warning::{message}")
        return
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for path in names:
            archive.writestr(zipfile.ZipInfo(path.as_posix()), (root / path).read_bytes())
    print(f"uploaded {name}: {len(names)} files")


def download() -> None:
    name, pattern, target = os.environ["NAME"], os.environ["PATTERN"], pathlib.Path(os.environ["TO"])
    there = sorted(path.stem for path in store().glob("*.zip"))
    chosen = [one for one in there if (one == name if name else fnmatch.fnmatchcase(one, pattern or "*"))]
    if name and not chosen:
        fail(f"artifact not found: {name}")
    for one in chosen:
        folder = target if name or flag("MERGE") else target / one
        with zipfile.ZipFile(store() / f"{one}.zip") as archive:
            for entry in archive.namelist():
                file = folder / entry
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(archive.read(entry))
        print(f"downloaded {one}")
    print(f"{len(chosen)} artifacts")


{"upload": upload, "download": download}[sys.argv[1]]()
