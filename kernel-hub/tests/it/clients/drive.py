"""Drives the stock clients against a hub: huggingface_hub, and `kernels` with its command line.

Started by kernel-hub/tests/clients.rs, with HF_ENDPOINT, HF_HOME and HF_TOKEN set. `write` needs no torch; `load` does.
Each step asserts what it found; the last line says how many there were.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

from huggingface_hub import CommitOperationAdd, CommitOperationCopy, CommitOperationDelete, HfApi, snapshot_download
from huggingface_hub.errors import (
    BadRequestError,
    EntryNotFoundError,
    HfHubHTTPError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

REPO = "me/fast-norm"
VARIANTS = ["torch-cpu", "torch-cuda"]
KERNEL = {"repo_id": REPO, "repo_type": "kernel"}
steps = 0


def step(holds, what):
    global steps
    assert holds, what
    steps += 1


def fails(kind, action, words=""):
    try:
        result = action()
    except kind as error:
        step(words in str(error), f"{words!r} is not in: {error}")
        return
    raise AssertionError(f"no {kind.__name__}, but {result!r}")


def command(*arguments):
    program = "import sys; from kernels.cli import main; sys.argv[0] = 'kernels'; main()"
    done = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, f"kernels {arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def package(root, answer):
    """A kernel of Python alone, with a binary file; returns the binary's bytes."""
    binary = b"\x7fELF\0" + os.urandom(300_000)
    for variant in VARIANTS:
        folder = root / "build" / variant
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "__init__.py").write_text(f"answer = {answer}\n")
        (folder / "data.bin").write_bytes(binary)
        backend = variant.removeprefix("torch-")
        metadata = {"name": "fast-norm", "id": f"_fast_norm_{backend}_{answer}", "version": 1, "license": "Apache-2.0",
                    "python-depends": [], "backend": {"type": backend}}
        (folder / "metadata.json").write_text(json.dumps(metadata))
    return binary


def write(api, root):
    step(api.whoami()["auth"]["accessToken"]["role"] == "write", "the token's scope")
    url = api.create_repo(**KERNEL)
    step(url.repo_id == REPO and url.repo_type == "kernel", url)
    step(api.create_repo(**KERNEL, exist_ok=True).repo_id == REPO, "exist_ok")
    fails(HfHubHTTPError, lambda: api.create_repo(**KERNEL), "409")
    fails(BadRequestError, lambda: api.create_repo("me/model"), "kernels only")
    api.create_branch(**KERNEL, branch="v1")
    api.create_branch(**KERNEL, branch="v1", exist_ok=True)

    binary = package(root, 42)
    sent = api.upload_folder(**KERNEL, revision="v1", folder_path=root, commit_message="first")
    heads = {branch.name: branch.target_commit for branch in api.list_repo_refs(**KERNEL).branches}
    step(heads["v1"] == sent.oid and set(heads) == {"main", "v1"}, heads)
    again = api.upload_folder(**KERNEL, revision="v1", folder_path=root, commit_message="the same")
    step(again.oid == sent.oid, "what has not changed makes no commit")

    tree = list(api.list_repo_tree(**KERNEL, revision="v1", recursive=True))
    files = {entry.path: entry for entry in tree if hasattr(entry, "blob_id")}
    step(len(files) == 7 and files["build/torch-cpu/data.bin"].lfs.size == len(binary), files)
    step(files["build/torch-cpu/__init__.py"].lfs is None, "text is no large file")
    folders = [entry.path for entry in api.list_repo_tree(**KERNEL, revision=sent.oid, path_in_repo="build")]
    step(folders == ["build/torch-cpu", "build/torch-cuda"], folders)
    info = api.get_paths_info(**KERNEL, paths=["build", "build/torch-cpu/data.bin", "gone"], revision="v1")
    step([entry.path for entry in info] == ["build", "build/torch-cpu/data.bin"], info)
    step(api.repo_info(**KERNEL, revision="v1").sha == sent.oid, "repo_info")
    titles = [commit.title for commit in api.list_repo_commits(**KERNEL, revision="v1")]
    step(titles == ["first", "initial commit"], titles)

    local = pathlib.Path(snapshot_download(**KERNEL, revision="v1"))
    step((local / "build/torch-cpu/data.bin").read_bytes() == binary, "what came is what was sent")
    step(local.name == sent.oid, local)

    # Larger than a commit may be, from memory and from a file; the second shares its first half with the first.
    half = os.urandom(20_000_000)
    large = {"large/a.so": half + b"\0" * 30_000_000, "large/b.so": half + os.urandom(20_000_000)}
    (root / "b.so").write_bytes(large["large/b.so"])
    api.create_commit(**KERNEL, revision="v1", commit_message="large", operations=[
        CommitOperationAdd("large/a.so", large["large/a.so"]), CommitOperationAdd("large/b.so", str(root / "b.so"))])
    (root / "b.so").unlink()
    for name, content in large.items():
        local = pathlib.Path(api.hf_hub_download(**KERNEL, filename=name, revision="v1"))
        step(local.read_bytes() == content, f"{name} came as it was sent")
    api.delete_folder("large", **KERNEL, revision="v1")

    copied = api.create_commit(**KERNEL, revision="v1", commit_message="copy and delete", operations=[
        CommitOperationCopy("build/torch-cpu/data.bin", "copy.bin", src_revision="v1"),
        CommitOperationAdd("note.txt", b""),
        CommitOperationDelete("build/torch-cuda/", is_folder=True),
    ])
    names = api.list_repo_files(**KERNEL, revision="refs/heads/v1")
    step("copy.bin" in names and "note.txt" in names and not any("torch-cuda" in name for name in names), names)
    fails(HfHubHTTPError, lambda: api.create_commit(**KERNEL, revision="v1", commit_message="late", operations=[
        CommitOperationAdd("x", b"x")], parent_commit=sent.oid), "412")
    api.create_commit(**KERNEL, revision="v1", commit_message="on time", parent_commit=copied.oid, operations=[
        CommitOperationAdd("x", b"x")])
    api.upload_folder(**KERNEL, revision="v1", folder_path=root, delete_patterns=["copy.bin", "note.txt", "x"])
    names = api.list_repo_files(**KERNEL, revision="v1")
    step(len(names) == 7 and "x" not in names, names)
    api.upload_file(**KERNEL, path_in_repo="README.md", path_or_fileobj=b"---\nlicense: apache-2.0\n---\n# fast-norm\n")
    api.delete_file("README.md", **KERNEL)
    fails(EntryNotFoundError, lambda: api.delete_file("README.md", **KERNEL), "doesn't exist")
    fails(EntryNotFoundError, lambda: api.hf_hub_download(**KERNEL, filename="gone"))
    fails(RevisionNotFoundError, lambda: api.repo_info(**KERNEL, revision="v9"))
    fails(RepositoryNotFoundError, lambda: api.repo_info("me/gone", repo_type="kernel"))
    step(api.file_exists(**KERNEL, filename="build/torch-cpu/__init__.py", revision="v1"), "file_exists")
    step(not api.file_exists(**KERNEL, filename="gone", revision="v1"), "file_exists")
    api.create_tag(**KERNEL, tag="v1.0", revision="v1")
    step([tag.name for tag in api.list_repo_refs(**KERNEL).tags] == ["v1.0"], "tags")
    api.delete_tag(**KERNEL, tag="v1.0")
    api.create_branch(**KERNEL, branch="try/x", revision="v1")
    api.delete_branch(**KERNEL, branch="try/x")

    def one(number):
        api.create_commit(**KERNEL, revision="v1", commit_message=f"parallel {number}", operations=[
            CommitOperationAdd(f"parallel/{number}", str(number).encode())])

    threads = [threading.Thread(target=one, args=(number,)) for number in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    names = api.list_repo_files(**KERNEL, revision="v1")
    step(sum(name.startswith("parallel/") for name in names) == 8, "no commit is lost among others")
    api.delete_folder("parallel", **KERNEL, revision="v1")

    for token, words in [("kwhub_wrong", "401"), (False, "401")]:
        fails(HfHubHTTPError, lambda: HfApi(token=token).create_commit(**KERNEL, commit_message="no", operations=[
            CommitOperationAdd("x", b"x")]), words)

    project = pathlib.Path(tempfile.mkdtemp())
    (project / "pyproject.toml").write_text(f'[tool.kernels.dependencies]\n"{REPO}" = 1\n')
    step("torch-cpu" in command("versions", REPO), "kernels versions")
    command("lock", project)
    locked = json.loads((project / "kernels.lock").read_text())
    head = next(b.target_commit for b in api.list_repo_refs(**KERNEL).branches if b.name == "v1")
    step(head in json.dumps(locked), f"{head} is not in {locked}")
    command("download", "--all-variants", project)

    api.create_repo("me/brief", repo_type="kernel")
    api.delete_repo("me/brief", repo_type="kernel")
    step(not api.repo_exists("me/brief", repo_type="kernel"), "delete_repo")
    fails(RepositoryNotFoundError, lambda: api.delete_repo("me/brief", repo_type="kernel"))


def load(api, root):
    """Online by version and revision, then offline by what was cached."""
    package(root, 7)
    api.create_repo(**KERNEL)
    api.create_branch(**KERNEL, branch="v1")
    sent = api.upload_folder(**KERNEL, revision="v1", folder_path=root)
    endpoint = os.environ["HF_ENDPOINT"]

    def get_kernel(home, arguments, **more):
        program = f"from kernels import get_kernel; print('answer', get_kernel({REPO!r}, {arguments}).answer)"
        environment = {**os.environ, "HF_HOME": str(root / home), **more}
        return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)

    def loads(*arguments, **more):
        done = get_kernel(*arguments, **more)
        step("answer 7" in done.stdout, f"{arguments}: {done.stdout}\n{done.stderr}")

    loads("bare", "version=1")
    loads("plain", "revision='v1', backend='cpu'")
    loads("plain", f"revision={sent.oid!r}")
    loads("named", "version=1", HF_ENDPOINT=f"{endpoint}/offline")
    # Offline, with nobody there: what the address ending in /offline led the client to keep is enough ...
    away = {"HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9"}
    loads("named", "version=1", **away)
    # ... and what it keeps otherwise is not, whatever this hub does; should this fail, the client has learned it.
    done = get_kernel("bare", "version=1", **away)
    step(done.returncode != 0 and "not available in the local cache" in done.stderr, done)
    # Without that address: the whole branch, by name.
    program = f"from huggingface_hub import snapshot_download as get; get({REPO!r}, repo_type='kernel', revision='v1')"
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "HF_HOME": str(root / "whole")})
    loads("whole", "version=1", **away)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        {"write": write, "load": load}[sys.argv[1]](HfApi(), pathlib.Path(scratch))
    print(f"{steps} steps passed")
