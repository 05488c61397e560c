"""Runs huggingface_hub's own tests against `kernelwright-hub`, with hf_xet.

Usage: python3 tests/hub/upstream.py CHECKOUT [--json FILE] [--jobs N] [TEST_FILE ...]

CHECKOUT is a checkout of huggingface_hub. The script copies it to a temporary folder, installs the copy there into a virtual
environment with hf_xet and pytest, starts a hub on 127.0.0.1, runs the tests, prints counts, and removes the folder.

The tests make models; this hub has kernels. The same file is therefore a pytest plugin (upstream_plugin) that
- sends requests about models to the addresses of kernels, and hides that in answers;
- gives the tests the hub's address, names and tokens in place of those of Hugging Face's test server;
- refuses connections to all other machines, and skips tests that are marked for huggingface.co.

The exit code is 0 if the tests ran, also if some failed, and 1 if they could not run.
"""

import argparse
import collections
import contextlib
import datetime
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator

FILES = """
    test_cache_layout test_cache_no_symlinks test_commit_api test_commit_scheduler test_copy_files test_file_download test_hf_api
    test_hf_file_system test_hub_mixin test_kernels test_lfs test_local_folder test_snapshot_download test_tree_cache
    test_upload_large_folder test_upload_pipeline test_utils_cache test_utils_errors test_utils_http test_utils_pagination
    test_verification test_xet_download test_xet_progress_reporting test_xet_upload test_xet_utils
""".split()
USERS = {"USER": "upstream", "OTHER_USER": "upstream-other", "ENTERPRISE_USER": "upstream-enterprise"}
TOKENS = {"USER": "TOKEN", "OTHER_USER": "OTHER_TOKEN", "ENTERPRISE_USER": "ENTERPRISE_TOKEN"}

# Features that this hub does not have, in the order in which they are tried on the name of a test and on its failure.
FEATURES = [
    ("another host, such as huggingface.co", r"upstream\.py: no network"),
    ("time limit of a test", r"pytest-timeout"),
    ("pull requests and discussions", r"discussion|pull.?request|create_pr|_pr\b|_pr_|refs/pr|no pull requests"),
    ("buckets", r"bucket"),
    ("collections, likes, webhooks, jobs, users", r"collection|like|webhook|job|follow|user_|oauth|whoami"),
    ("private, gated and enterprise repositories, settings", r"private|visibility|gated|enterprise|access_request|/settings"),
    ("renaming, copying and squashing repositories", r"move_repo|duplicate|squash|rename"),
    ("datasets and spaces", r"kernels only|dataset|space"),
    ("downloads by xet", r"xet_file_data|refresh_route|skips_per_file_head|TestXetLargeUpload"),
    ("paths with a backslash", r"backslash"),
    (".gitignore of a repository", r"gitignore"),
    ("checks of a README's metadata", r"modelcard"),
    ("listing and deleting LFS files", r"lfs-files"),
    ("addresses that the test itself contains", r"hub-ci\.huggingface\.co|https://hugg|api/models/"),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=pathlib.Path, help="a checkout of huggingface_hub")
    parser.add_argument("tests", nargs="*", metavar="TEST_FILE", help="such as test_lfs.py; default: all that concern a hub")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write counts and failures to FILE")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="test processes (default: 1)")
    parser.add_argument("--timeout", type=int, default=120, metavar="SECONDS", help="limit of one test (default: 120)")
    parser.add_argument("--program", type=pathlib.Path, metavar="FILE", help="kernelwright-hub; default: of target/ or PATH")
    parser.add_argument("--python", type=pathlib.Path, metavar="FILE", help="a Python that has the packages; nothing is installed")
    options = parser.parse_args()
    if not (options.checkout / "tests/testing_constants.py").is_file():
        parser.error(f"not a checkout of huggingface_hub: {options.checkout}")
    program = options.program.absolute() if options.program else found()
    if program is None:
        parser.error("kernelwright-hub not found: cargo build -p kernel-hub")
    # A terminated script ends what it has started and removes its folder as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    names = [f"tests/{pathlib.Path(name).stem}.py" for name in options.tests or FILES]
    # Other versions have other files.
    names = [name for name in names if options.tests or (options.checkout / name).is_file()]
    with tempfile.TemporaryDirectory(prefix="kernelwright-upstream-") as folder:
        work = pathlib.Path(folder)
        source = work / "huggingface_hub"
        shutil.copytree(options.checkout, source, ignore=shutil.ignore_patterns(".git", "*.egg-info", "build"))
        python = options.python.absolute() if options.python else installed(work / "venv", source)
        with serving(program, work / "hub") as (url, tokens):
            run(python, source, work, url, tokens, names, options)
        lines = (work / "outcomes").read_text().splitlines() if (work / "outcomes").is_file() else []
        if not lines:
            print("error: no test ran", file=sys.stderr)
            return 1
        outcomes = [json.loads(line) for line in lines]
        summary = summed(outcomes, versions(python), commit_of(options.checkout))
    show(summary)
    if options.json:
        options.json.write_text(json.dumps(summary, indent=1) + "\n")
    return 0


def found() -> pathlib.Path | None:
    """The program that cargo has built last, or the installed one."""
    root = pathlib.Path(__file__).resolve().parents[2]
    built = [root / "target" / profile / "kernelwright-hub" for profile in ("debug", "release")]
    built = sorted((path for path in built if path.is_file()), key=lambda path: path.stat().st_mtime)
    on_path = shutil.which("kernelwright-hub")
    return built[-1] if built else pathlib.Path(on_path) if on_path else None


def installed(folder: pathlib.Path, source: pathlib.Path) -> pathlib.Path:
    """The Python of a new virtual environment with the tests' dependencies."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"{source}[testing]", "hf_xet", "pytest-timeout"], check=True)
    return python


@contextlib.contextmanager
def serving(program: pathlib.Path, folder: pathlib.Path) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of a hub with a token for each user of the tests."""
    tokens = {}
    for key, user in USERS.items():
        line = [program, "token", "new", folder, user, "--scope", "write", "--org", user]
        tokens[key] = subprocess.run(line, check=True, capture_output=True, text=True).stdout.strip()
    line = [program, folder, "--bind", "127.0.0.1:0", "--log", "none"]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as hub:
        try:
            yield hub.stdout.readline().strip(), tokens
        finally:
            hub.terminate()


def run(python, source, work, url, tokens, names, options) -> None:
    """Runs pytest; `work/outcomes` gets a line of JSON for each test."""
    shutil.copy(__file__, work / "upstream_plugin.py")
    inherited = ("PATH", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
    environment = {name: os.environ[name] for name in inherited if name in os.environ}
    environment |= {
        "HOME": str(work),
        "HF_HOME": str(work / "hf"),
        "HF_ENDPOINT": url,
        "PYTHONPATH": os.pathsep.join([str(work), str(source)]),
        "UPSTREAM_OUTCOMES": str(work / "outcomes"),
        "UPSTREAM_TOKENS": json.dumps(tokens),
    }
    line = [python, "-m", "pytest", "-p", "upstream_plugin", "-p", "no:env", "-p", "no:cacheprovider", "-o", "addopts="]
    # As in the project's own runs: a deprecated call is a failure.
    line += ["--strict-markers", "-W", "error::FutureWarning", "--timeout", str(options.timeout), "--tb=short", "-q"]
    line += ["-n", str(options.jobs)] if options.jobs > 1 else []
    subprocess.run([*line, *names], cwd=source, env=environment, stdout=sys.stderr)


def versions(python: pathlib.Path) -> dict[str, str]:
    """Versions of the packages that were tested with."""
    code = "import importlib.metadata as m, json; print(json.dumps({n: m.version(n) for n in ('huggingface_hub', 'hf_xet', 'pytest')}))"
    return json.loads(subprocess.run([python, "-c", code], check=True, capture_output=True, text=True).stdout)


def commit_of(checkout: pathlib.Path) -> str | None:
    """The commit of the checkout, if it has one."""
    done = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True)
    top = subprocess.run(["git", "-C", checkout, "rev-parse", "--show-toplevel"], capture_output=True, text=True)
    own = top.returncode == 0 and pathlib.Path(top.stdout.strip()) == checkout.resolve()
    return done.stdout.strip() if own else None


def summed(outcomes: list[dict], packages: dict[str, str], commit: str | None) -> dict:
    """Counts by file and failures by group, with what was tested."""
    files: dict[str, collections.Counter] = {}
    groups: dict[str, list[dict]] = {}
    for outcome in outcomes:
        name = outcome["test"].partition("::")[0].removeprefix("tests/")
        files.setdefault(name, collections.Counter())[outcome["outcome"]] += 1
        if outcome["outcome"] in ("failed", "error"):
            groups.setdefault(group(outcome), []).append({key: outcome[key] for key in ("test", "outcome", "reason")})
    total = sum(files.values(), collections.Counter())
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        "packages": packages,
        "commit": commit,
        "total": dict(total),
        "files": {name: dict(counts) for name, counts in sorted(files.items())},
        "failures": dict(sorted(groups.items(), key=lambda item: -len(item[1]))),
    }


def group(outcome: dict) -> str:
    """The feature that a failed test needs, or `other`."""
    text = f"{outcome['test'].partition('::')[2]}\n{outcome['reason']}"
    return next((name for name, pattern in FEATURES if re.search(pattern, text, re.IGNORECASE)), "other")


def show(summary: dict) -> None:
    """Prints the summary as a table and a list."""
    kinds = ("passed", "failed", "error", "skipped")
    print(" ".join(f"{name} {version}" for name, version in summary["packages"].items()), summary["commit"] or "")
    for name, counts in [*summary["files"].items(), ("total", summary["total"])]:
        print(f"{name:36}" + "".join(f"{counts.get(kind, 0):6} {kind}" for kind in kinds))
    for name, failures in summary["failures"].items():
        print(f"\n{name}: {len(failures)}")
        for failure in failures:
            print(f"  {failure['outcome']} {failure['test'].removeprefix('tests/')}\n      {failure['reason']}")


# From here on: the plugin, in pytest's processes.


def as_kernel(path: str) -> str:
    """The address of a kernel in place of that of a model: of all that is below `/api/models/ORG/NAME`."""
    return re.sub(r"^/api/models/(?=[^/]+/[^/]+)", "/api/kernels/", path)


def translate(request):
    """The request as this hub takes it; `None` if it is not about a model."""
    path = request.url.raw_path.decode()
    if path.partition("?")[0] in ("/api/repos/create", "/api/repos/delete"):
        body = json.loads(request.read())
        if body.get("type", "model") != "model":
            return None
        request.headers.pop("content-length", None)
        new = type(request)(request.method, request.url, headers=request.headers, json=body | {"type": "kernel"})
        new.extensions = request.extensions
        return new
    if as_kernel(path) == path:
        return None
    request.url = request.url.copy_with(raw_path=as_kernel(path).encode())
    return request


def translated_back(request, response):
    """The answer, with addresses of models in place of those of kernels."""
    path = request.url.path
    if path == "/api/repos/create" or "/commit/" in path and request.method == "POST":
        response._content = response.content.replace(b"/kernels/", b"/")
    return response


def redirect_client(url: str) -> None:
    """Sends what httpx and hf_xet ask about models to the addresses of kernels."""
    import httpx

    send, send_later = httpx.Client.send, httpx.AsyncClient.send

    def ours(request) -> bool:
        return str(request.url).startswith(url + "/")

    def sent(self, request, **options):
        kernel = translate(request) if ours(request) else None
        if kernel is None:
            return send(self, request, **options)
        response = send(self, kernel, **options)
        if not options.get("stream"):
            translated_back(kernel, response)
        return response

    async def sent_later(self, request, **options):
        kernel = translate(request) if ours(request) else None
        return await send_later(self, kernel or request, **options)

    httpx.Client.send, httpx.AsyncClient.send = sent, sent_later

    # Before the modules that import the function are imported.
    from huggingface_hub.utils import _xet

    refresh = _xet.xet_connection_info_refresh_url

    def refresh_url(**options):
        made = refresh(**options)
        return made.replace("/api/models/", "/api/kernels/", 1) if made.startswith(url + "/") else made

    _xet.xet_connection_info_refresh_url = refresh_url


def stay_here() -> None:
    """Refuses to look up names of other machines."""
    import socket

    look_up = socket.getaddrinfo

    def local(host, *rest, **options):
        name = host.decode() if isinstance(host, bytes) else host
        if name not in (None, "", "localhost", "127.0.0.1", "0.0.0.0", "::1"):
            # Not an OSError: clients try those again.
            raise RuntimeError(f"upstream.py: no network: {name}")
        return look_up(host, *rest, **options)

    socket.getaddrinfo = local


def point_at_hub() -> None:
    """Points the tests at the hub."""
    from tests import testing_constants as constants

    url, tokens = os.environ["HF_ENDPOINT"], json.loads(os.environ["UPSTREAM_TOKENS"])
    for key, user in USERS.items():
        setattr(constants, key, user)
        setattr(constants, TOKENS[key], tokens[key])
    constants.ENDPOINT_STAGING = url
    stay_here()
    redirect_client(url)


def pytest_collection_modifyitems(items) -> None:
    """Skips what is marked for huggingface.co."""
    import pytest

    for item in items:
        if item.get_closest_marker("production") or "api_prod" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.skip(reason="needs huggingface.co"))


SEEN: dict[str, dict] = {}


def pytest_runtest_logreport(report) -> None:
    """Keeps the worst of what a test's set-up, call and end came to."""
    if os.environ.get("PYTEST_XDIST_WORKER") or report.outcome == "rerun":
        return
    outcome = "error" if report.failed and report.when != "call" else report.outcome
    if report.when == "call" or outcome != "passed":
        crash = getattr(report.longrepr, "reprcrash", None)
        text = str(report.longrepr or "")
        reason = crash.message if crash else text
        short = " ".join(reason.split())[:300]
        SEEN[report.nodeid] = {"test": report.nodeid, "outcome": outcome, "reason": short}


def pytest_collectreport(report) -> None:
    """A file that cannot be collected is an error."""
    if report.failed and not os.environ.get("PYTEST_XDIST_WORKER"):
        text = str(report.longrepr)
        SEEN[report.nodeid] = {"test": report.nodeid, "outcome": "error", "reason": text[-300:]}


def pytest_sessionfinish() -> None:
    """Writes the outcomes for the script."""
    if SEEN and not os.environ.get("PYTEST_XDIST_WORKER"):
        text = "".join(json.dumps(outcome) + "\n" for outcome in SEEN.values())
        pathlib.Path(os.environ["UPSTREAM_OUTCOMES"]).write_text(text)


if __name__ == "__main__":
    sys.exit(main())
elif __name__ == "upstream_plugin":
    # pytest imports its plugins before the tests' conftest.py, which imports the constants.
    point_at_hub()
