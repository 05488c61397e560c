"""Publishes a package with Hugging Face's own client, for kernel-builder/tests/it/publishing_stock.rs.

Usage: stock.py PROJECT OWNER/NAME SUMMARY, with HF_ENDPOINT and HF_TOKEN set, and HF_HUB_DISABLE_XET=1.
"""

import sys
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi


def main(project: str, repo: str, summary: str) -> None:
    root, api = Path(project), HfApi()
    kind = {"repo_id": repo, "repo_type": "kernel"}
    api.create_repo(**kind, private=True)
    api.create_branch(**kind, branch="v1", exist_ok=True)
    heads = {ref.name: ref.target_commit for ref in api.list_repo_refs(**kind).branches}
    names = sorted(
        path.relative_to(root).as_posix()
        for folder in ("benchmarks", "build")
        for path in (root / folder).rglob("*")
        if path.is_file() and path.name != "CARD.md"
    )
    adds = [CommitOperationAdd(name, str(root / name)) for name in names]
    gone = [
        CommitOperationDelete(path)
        for path in api.list_repo_files(**kind, revision="v1")
        if path.startswith("build/") and path not in names
    ]
    api.create_commit(
        **kind, operations=adds + gone, commit_message=summary, revision="v1", parent_commit=heads["v1"]
    )
    card = [CommitOperationAdd("README.md", str(root / "build/CARD.md"))]
    api.create_commit(
        **kind, operations=card, commit_message=summary, revision="main", parent_commit=heads["main"]
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
