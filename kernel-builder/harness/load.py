"""Loads a published folder with the stock `kernels` client; one JSON line a backend on standard output.

Owns: the conversation with the client. Never: judges what the kernel computes.
Argument: the folder. Runs as `python -I [-S] -c <this text> FOLDER`.
"""

import json
import os
import site
import sys
from pathlib import Path
from typing import TypedDict


class Loaded(TypedDict, total=False):
    """What the client did with a backend: `Loaded` of pipeline/ship/load.rs."""

    backend: str
    variant: str | None
    names: list[str]
    reason: str
    skipped: bool


def backend_of(variant: str) -> str | None:
    """The backend token of a variant's name, as `get_local_kernel(backend=...)` takes it."""
    for part in variant.split("-"):
        if (part.startswith("cu") and part[2:].isdigit()) or part == "cuda":
            return "cuda"
        if part in ("cpu", "metal", "xpu", "rocm", "npu", "tpu", "neuron"):
            return part
    return None


def nothing_fits(folder: Path, backend: str) -> str | None:
    """Why the client takes none of the folder's variants; nothing when it takes one, or does not say."""
    try:
        from kernels.variants import get_variants_local, resolve_variants

        taken, decisions = resolve_variants(get_variants_local(folder / "build"), backend)
        refused = [decision for decision in decisions if backend_of(decision.variant.variant_str) == backend]
        reasons = [str(getattr(decision, "reason", "")) for decision in refused]
        return None if taken else "; ".join(sorted(set(reasons))) or "no variant"
    except Exception:
        return None


def main(folder: Path) -> None:
    managed = os.environ.get("KERNELWRIGHT_SITE")
    if managed:
        site.addsitedir(managed)
    sys.path[:0] = filter(None, os.environ.get("KERNELWRIGHT_BESIDE", "").split(":"))
    import torch
    from kernels import get_local_kernel  # pyright: ignore[reportUnknownVariableType]

    variants = sorted(path.parent.name for path in folder.glob("build/*/metadata.json"))
    backends = sorted({backend for backend in map(backend_of, variants) if backend})
    torch_backend = "cuda" if torch.version.cuda else "rocm" if torch.version.hip else "cpu"
    for backend in backends:
        result: Loaded = {"backend": backend, "variant": None}
        if backend not in ("cpu", torch_backend):
            result |= {"skipped": True, "reason": f"this torch ({torch.__version__}) is built for {torch_backend}"}
        else:
            try:
                kernel = get_local_kernel(folder, backend=backend)
                place = Path(kernel.__file__ or "").resolve()
                result["variant"] = next(part.name for part in place.parents if part.name in variants)
                result["names"] = sorted(getattr(kernel, "__all__", None) or [n for n in dir(kernel) if n[0] != "_"])
            except Exception as error:
                unfit = nothing_fits(folder, backend)
                words = f"this torch ({torch.__version__}) takes none of them: {unfit}"
                result |= (
                    {"skipped": True, "reason": words} if unfit else {"reason": f"{type(error).__name__}: {error}"}
                )
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
