#!/usr/bin/env python3
"""The package of every example and of every template, judged on a GPU from the bytes that were built elsewhere.

    cargo build --bin kernelwright
    python3 bench/packages.py carry FOLDER                      # without a GPU: builds, then packs FOLDER/packages.tar.xz
    python3 bench/packages.py judge FOLDER --out OUT            # with a GPU: no network and no compiler needed
    python3 bench/packages.py record OUT... --to bench/results/DATE-GPU-packages.jsonl
    python3 bench/packages.py digest DIR...                     # the digests of projects' sources

`carry` copies the examples and renders the templates into FOLDER/projects, builds one variant of each, and packs the program
and what `verify --prebuilt` reads into one archive. Projects whose build is of the same sources are not built again.

`judge` needs the archive, an NVIDIA GPU, and to be run by a Python that imports PyTorch with CUDA. OUT/results.jsonl gets a
line when a project ends, with its evidence. A second start goes on where the first one ended; after --minutes no project is
begun. Ends with 1 when a project was refused or could not be judged, with 3 when projects are left.

`record` keeps a line for each project, without the evidence. Of several judgements of a project the latest counts.

The digest of a project's sources is SHA-256 of what `sha256sum` prints of its files, sorted by path. Documentation, tests,
benchmarks, flake.nix, example.py and kernelwright.lock are left out: none of them is in the package or says what is right. So is
_inject, which `verify` does not run; `cargo xtask ci harness` and `model` test it.
"""

import argparse
import contextlib
import datetime
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ARCHIVE = "packages.tar.xz"
MANIFEST = "manifest.json"
RESULTS = "results.jsonl"
#: Raised when a line of the results, or the manifest, gets another form.
FORMAT = 1
PREFERRED = "torch-stable-abi210-cu130-x86_64-linux"
#: Folders and files of a project that are not its sources, beside names that begin with a dot and *.md.
NOT_SOURCES = {
    "__pycache__", "_inject", "benchmarks", "build", "dist", "example.py", "flake.lock", "flake.nix", "kernelwright.lock", "tests",
}  # fmt: skip
#: Seconds on an H100 where no record says them, so that the longest judgements begin first.
SECONDS = {"cross-entropy": 400, "softmax": 200, "log-softmax": 200, "swiglu": 97, "geglu": 97, "rope": 93}
USUAL_SECONDS = 80
#: More than this does not travel everywhere.
LARGEST = 64 << 20


def tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def source_files(project: Path) -> list[Path]:
    """The files that decide what a project's package is, and what its results should be; sorted, relative to it."""

    def counts(path: Path) -> bool:
        parts = path.parts
        return not any(part in NOT_SOURCES or part.startswith(".") for part in parts) and path.suffix != ".md"

    files = (path.relative_to(project) for path in project.rglob("*") if path.is_file())
    return sorted(filter(counts, files), key=lambda path: path.as_posix().encode())


def sources_digest(project: Path) -> str:
    """As `sha256sum $(list of files) | sha256sum` says it."""
    lines = (f"{file_digest(project / path)}  {path.as_posix()}\n" for path in source_files(project))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def file_digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def subjects() -> list[tuple[str, str]]:
    """Every (kind, name): examples that are packages with CUDA sources, and all templates."""
    examples = [path.parent.name for path in (ROOT / "examples").glob("*/build.toml") if '"cuda"' in path.read_text()]
    templates = [path.parent.name for path in (ROOT / "templates").glob("*/template.toml")]
    return [("example", name) for name in sorted(examples)] + [("template", name) for name in sorted(templates)]


def made(kind: str, name: str, program: Path, to: Path) -> None:
    """The project as it is in the repository, in a folder of its own."""
    if kind == "example":
        hidden = shutil.ignore_patterns(".*", "__pycache__", "build", "dist")
        shutil.copytree(ROOT / "examples" / name, to, ignore=hidden)
    else:
        run([program, "--offline", "new", f"kernelwright/{name}", to, "--template", name, "--no-git"])


def run(words: list, **options) -> str:
    """Standard output of a program; its end on standard error, and an exit, if it fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}\nfailed with {done.returncode}:\n{done.stderr[-3000:] or done.stdout[-3000:]}")
    return done.stdout


def commit() -> str:
    """The commit of this repository, with `-dirty` if tracked files differ from it."""
    head = run(["git", "-C", ROOT, "rev-parse", "HEAD"]).strip()
    changed = run(["git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no"]).strip()
    return f"{head}-dirty" if changed else head


def is_asked_for(kind: str, name: str, only: list[str]) -> bool:
    """Whether `--only` leaves a project in: by its name, or by `example/NAME` or `template/NAME`."""
    return not only or name in only or f"{kind}/{name}" in only


def carry(options: argparse.Namespace) -> None:
    folder, program = options.folder, options.program.resolve()
    if not program.exists():
        sys.exit(f"program not found: {program}\nhelp: run `cargo build --bin kernelwright`, or name it by --program")
    chosen = [one for one in subjects() if is_asked_for(*one, options.only)]
    if not chosen:
        sys.exit(f"no such example or template: {', '.join(options.only)}")
    of, known = commit(), expected_seconds()
    rows = []
    for place, (kind, name) in enumerate(chosen, 1):
        row = built(folder, program, kind, name, of)
        row["expected_seconds"] = known.get((kind, name), SECONDS.get(name, USUAL_SECONDS))
        rows.append(row)
        tell(f"[{place}/{len(chosen)}] {kind} {name}: {row.pop('how')}")
    manifest = {
        "format": FORMAT,
        "commit": of,
        "date": now(),
        "program": run([program, "--version"]).strip(),
        "projects": rows,
    }
    archive = pack(folder, program, manifest)
    size = archive.stat().st_size
    print(f"{archive}  {size / 1e6:.1f} MB, {len(rows)} projects, {of}")
    if size > LARGEST:
        tell(f"warning: the archive is larger than {LARGEST >> 20} MiB; --only packs fewer projects")


def built(folder: Path, program: Path, kind: str, name: str, of: str) -> dict:
    """The row of the manifest for a project that is built, now or earlier."""
    project = folder / "projects" / f"{kind}-{name}"
    note = folder / "built" / f"{kind}-{name}.json"
    with tempfile.TemporaryDirectory(dir=folder_made(folder)) as scratch:
        fresh = Path(scratch) / name
        made(kind, name, program, fresh)
        sources = sources_digest(fresh)
        if not project.exists() or sources_digest(project) != sources:
            shutil.rmtree(project, ignore_errors=True)
            project.parent.mkdir(parents=True, exist_ok=True)
            fresh.rename(project)
    # Another program may build other bytes.
    key = {"sources": sources, "program": file_digest(program)}
    if note.exists() and (row := json.loads(note.read_text()))["key"] == key and artifact_of(project, row["row"]["variant"]):
        return {**row["row"], "how": "built earlier"}
    begun = time.monotonic()
    environment = {**os.environ, "KERNELWRIGHT_COMMIT": of}
    variant = variant_of(project, program)
    run([program, "build", "--backend", "cuda", "--variant", variant, project], env=environment)
    row = {"kind": kind, "name": name, "variant": variant, "artifact": artifact_of(project, variant), "sources": sources}
    folder_made(note.parent)
    note.write_text(json.dumps({"key": key, "row": row}))
    return {**row, "how": f"built in {time.monotonic() - begun:.0f} s"}


def folder_made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def variant_of(project: Path, program: Path) -> str:
    """The one of torch's stable ABI, else that for the newest torch, of CUDA 13.0."""
    said = json.loads(run([program, "variants", "--all", project, "--message-format", "json"]).splitlines()[-1])
    ids = [row["variant"] for row in said["variants"] if row["selected"] and "cu130-x86_64-linux" in row["variant"]]
    if PREFERRED in ids:
        return PREFERRED
    if not ids:
        sys.exit(f"{project} has no variant for CUDA 13.0 on x86_64-linux")
    return max(ids, key=lambda one: [int(part) for part in "".join(c if c.isdigit() else " " for c in one).split()])


def artifact_of(project: Path, variant: str) -> str | None:
    """The digest of the build, as its description has it."""
    description = project / ".kernelwright/artifacts" / f"{variant}.json"
    return json.loads(description.read_text())["digest"] if description.exists() else None


def expected_seconds() -> dict:
    """How long each project took in the newest record."""
    records = sorted((ROOT / "bench/results").glob("*-packages.jsonl"))
    lines = records[-1].read_text().splitlines() if records else []
    return {(row["kind"], row["name"]): row["seconds"] for row in map(json.loads, lines)}


def pack(folder: Path, program: Path, manifest: dict) -> Path:
    """The archive: equal contents are equal bytes, but for the date of the manifest."""
    archive, unfinished = folder / ARCHIVE, folder / f"{ARCHIVE}.part"
    with tarfile.open(unfinished, "w:xz", preset=9) as tar:
        add(tar, MANIFEST, json.dumps(manifest, indent=1).encode())
        add(tar, "kernelwright", stripped(program), mode=0o755)
        for row in manifest["projects"]:
            project = folder / "projects" / f"{row['kind']}-{row['name']}"
            inside = f"projects/{row['kind']}-{row['name']}"
            for path in source_files(project):
                add(tar, f"{inside}/{path.as_posix()}", (project / path).read_bytes())
            artifacts = project / ".kernelwright/artifacts"
            package = (artifacts / row["variant"]).rglob("*")
            files = [path for path in package if path.is_file() and "__pycache__" not in path.parts]
            for path in [artifacts / f"{row['variant']}.json", *sorted(files)]:
                contents = path.read_bytes()
                if path.parent == artifacts:
                    # No path of the machine that built it; the program finds the files beside the description.
                    description = json.loads(contents)
                    description["dir"] = row["variant"]
                    description["library"] = description["library"] and f"{row['variant']}/{Path(description['library']).name}"
                    contents = json.dumps(description).encode()
                add(tar, f"{inside}/{path.relative_to(project).as_posix()}", contents)
    unfinished.replace(archive)
    return archive


def add(tar: tarfile.TarFile, name: str, contents: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(contents), mode
    tar.addfile(entry, io.BytesIO(contents))


def stripped(program: Path) -> bytes:
    """The program without symbols, if this machine can strip it."""
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "program"
        shutil.copy(program, copy)
        if shutil.which("strip"):
            run(["strip", copy])
        return copy.read_bytes()


class Interrupted(Exception):
    """Ctrl-C, or a request to end."""


def interrupted(*_) -> None:
    raise Interrupted


def judge(options: argparse.Namespace) -> int:
    gpu = gpu_here()
    archive = options.folder / ARCHIVE if options.folder.is_dir() else options.folder
    if not archive.exists():
        sys.exit(f"{archive} not found\nhelp: run `python3 bench/packages.py carry {options.folder}`, and bring the archive here")
    began = time.monotonic()
    signal.signal(signal.SIGTERM, interrupted)
    signal.signal(signal.SIGINT, interrupted)
    with contextlib.ExitStack() as stack:
        work = folder_made(options.keep) if options.keep else Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="packages-")))
        with tarfile.open(archive) as tar:
            tar.extractall(work, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        manifest = json.loads((work / MANIFEST).read_text())
        if manifest["format"] != FORMAT:
            sys.exit(f"{archive} has format {manifest['format']}, and this program reads {FORMAT}")
        out = folder_made(options.out) / RESULTS
        results = Results(out)
        rows = [row for row in manifest["projects"] if is_asked_for(row["kind"], row["name"], options.only)]
        left = [row for row in rows if not results.has(row)]
        left.sort(key=lambda row: -row["expected_seconds"])
        tell(f"{len(rows)} projects, {len(rows) - len(left)} judged earlier; {gpu['device']}, driver {gpu['driver']}")
        judge_all(left, Judgements(work, manifest["commit"], gpu, options), results, options, began)
    bad = [row for row in rows if (one := results.of(row)) and one["outcome"] != "verified"]
    left = [row for row in rows if results.of(row) is None]
    verified = len(rows) - len(bad) - len(left)
    tell(f"{verified} verified, {len(bad)} not, {len(left)} left, {time.monotonic() - began:.0f} s: {out}")
    return 1 if bad else 3 if left else 0


def gpu_here() -> dict:
    """The name and the driver of the first GPU; an exit if there is none."""
    ask = ["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(ask, capture_output=True, text=True, check=False)
    except OSError as error:
        sys.exit(f"no NVIDIA GPU here: {error}")
    if said.returncode != 0 or "," not in said.stdout:
        sys.exit(f"no NVIDIA GPU here: {(said.stderr or said.stdout).strip()}")
    device, driver = said.stdout.splitlines()[0].split(",")
    return {"device": device.strip(), "driver": driver.strip()}


class Results:
    """The lines of results.jsonl; each change replaces the file as a whole."""

    def __init__(self, path: Path):
        self.path = path
        self.lines = read_lines(path) if path.exists() else []

    def of(self, row: dict) -> dict | None:
        """The latest result for the same build and the same sources."""
        same = ("kind", "name", "variant", "artifact", "sources")
        found = [one for one in self.lines if all(one[key] == row[key] for key in same)]
        return found[-1] if found else None

    def has(self, row: dict) -> bool:
        """Whether there is a verdict; what could not be judged is tried again."""
        found = self.of(row)
        return found is not None and found["outcome"] in ("verified", "refused")

    def add(self, line: dict) -> None:
        self.lines.append(line)
        unfinished = self.path.with_suffix(".part")
        unfinished.write_text("".join(json.dumps(one) + "\n" for one in self.lines))
        unfinished.replace(self.path)


def read_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines() if line]


class Judgements:
    """The processes that judge, and what they leave."""

    def __init__(self, work: Path, of: str, gpu: dict, options: argparse.Namespace):
        self.work, self.of, self.gpu = work, of, gpu
        threads = options.threads or max(2, (os.cpu_count() or 1) // options.jobs)
        self.how = ["--threads", str(threads), "--deadline", str(options.deadline)]
        home = folder_made(work / "home")
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("KERNELWRIGHT_", "XDG_"))},
            "HOME": str(home),
            "CI": "true",
            "KERNELWRIGHT_OFFLINE": "1",
            "KERNELWRIGHT_PYTHON": os.environ.get("KERNELWRIGHT_PYTHON", sys.executable),
        }

    def begin(self, row: dict) -> dict:
        key = f"{row['kind']}-{row['name']}"
        project = self.work / "projects" / key
        if sources_digest(project) != row["sources"]:
            sys.exit(f"{key}: the sources in the archive are not those of the manifest")
        said, told = self.work / f"{key}.out", self.work / f"{key}.err"
        words = ["verify", "--prebuilt", "--fresh", "--backend", "cuda", *self.how]
        command = [str(self.work / "kernelwright"), *words, "--message-format", "json", str(project)]
        with said.open("wb") as output, told.open("wb") as errors:
            # A group of its own: Ctrl-C is for this program, which passes it on.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, env=self.environment, start_new_session=True
            )
        return {"row": row, "process": process, "begun": time.monotonic(), "said": said, "told": told}

    def ended(self, one: dict) -> dict:
        """The line for a process that ended."""
        row, process = one["row"], one["process"]
        events = [json.loads(line) for line in one["said"].read_text(errors="replace").splitlines() if line.startswith("{")]
        result = next((event for event in reversed(events) if event.get("event") == "result"), None)
        evidence = result["variants"][0]["evidence"] if result and result["variants"] else None
        outcome, why = verdict(process.returncode, evidence)
        if evidence is None:
            errors = [event for event in events if event.get("event") == "error"]
            told = one["told"].read_text(errors="replace")[-2000:]
            why = f"{errors[-1]['code']}: {errors[-1]['message']}" if errors else told or why
        checks = evidence["checks"] if evidence else []
        count = {word: sum(check["outcome"] == word for check in checks) for word in ("passed", "warned", "refused", "skipped")}
        calls = next((check["facts"] for check in checks if check["name"] == "calls"), {})
        environment = evidence["environment"] if evidence else {}
        return {
            **{key: row[key] for key in ("kind", "name", "variant", "artifact", "sources")},
            "outcome": outcome,
            "why": why,
            "checks": count,
            "cases": calls.get("cases"),
            "calls": calls.get("calls"),
            "seconds": round(time.monotonic() - one["begun"], 1),
            "device": environment.get("device"),
            "driver": self.gpu["driver"],
            "torch": environment.get("torch"),
            "date": now(),
            "commit": self.of,
            "protocol": evidence["protocol"] if evidence else None,
            "format": FORMAT,
            "exit": process.returncode,
            "evidence": evidence,
        }


def verdict(code: int, evidence: dict | None) -> tuple[str, str | None]:
    """`verified` only if the kernel was called on a GPU; why not, for the other outcomes."""
    if evidence is None:
        return "not-judged", f"verify ended with {code}"
    refused = next((check for check in evidence["checks"] if check["outcome"] == "refused"), None)
    if refused:
        return "refused", f"{refused['code']}: {refused['summary']}"
    called = any(check["name"] == "calls" and check["outcome"] != "skipped" for check in evidence["checks"])
    device = evidence["environment"].get("device") or "cpu"
    if code != 0 or not called or device in ("cpu", "cuda"):
        skipped = [f"{check['name']}: {check['summary']}" for check in evidence["checks"] if check["outcome"] == "skipped"]
        return "not-judged", "; ".join(skipped) or f"verify ended with {code}"
    return "verified", None


def without_room(line: dict) -> bool:
    """Whether a project was not judged because other judgements left no room for its files, or no memory: the system kills then."""
    signs = ("verify::scratch", "No space left on device")
    had_none = line["exit"] == -signal.SIGKILL or any(sign in (line["why"] or "") for sign in signs)
    return line["outcome"] == "not-judged" and had_none


def judge_all(left: list, judgements: Judgements, results: Results, options: argparse.Namespace, began: float) -> None:
    """Several at a time, until all are judged or the minutes are over; fewer, when a project finds the disk full."""
    running, left, most = [], list(left), options.jobs
    try:
        while left or running:
            over = time.monotonic() - began > options.minutes * 60
            if over and left:
                tell(f"{options.minutes:g} minutes are over: {len(left)} projects are left, {len(running)} end")
                left = []
            while left and len(running) < most:
                running.append(judgements.begin(left.pop(0)))
            time.sleep(0.2)
            for one in [one for one in running if one["process"].poll() is not None]:
                running.remove(one)
                line = judgements.ended(one)
                if running and without_room(line):
                    most, left = max(1, len(running)), [one["row"], *left]
                    tell(f"{line['kind']} {line['name']}: no room on the disk or in memory; from now on {most} at a time")
                    continue
                results.add(line)
                counts = ", ".join(f"{number} {word}" for word, number in line["checks"].items() if number)
                more = f": {line['why']}" if line["why"] else ""
                tell(
                    f"{line['kind']} {line['name']}: {line['outcome']}, {counts or 'no checks'}, {line['calls']} calls, "
                    f"{line['seconds']:.0f} s ({len(left)} to begin, {len(running)} running){more}"
                )
    finally:
        for one in running:
            one["process"].send_signal(signal.SIGINT)
        for one in running:
            try:
                one["process"].wait(timeout=20)
            except subprocess.TimeoutExpired:
                one["process"].kill()


def record(options: argparse.Namespace) -> None:
    latest: dict = {}
    files = [path / RESULTS if path.is_dir() else path for path in options.out]
    for line in sorted((line for path in files for line in read_lines(path)), key=lambda line: line["date"]):
        key = (line["kind"], line["name"])
        # A run that came to no verdict does not replace one.
        if key not in latest or line["outcome"] != "not-judged" or latest[key]["outcome"] == "not-judged":
            latest[key] = {name: value for name, value in line.items() if name not in ("evidence", "exit")}
    rows = [latest[key] for key in sorted(latest)]
    options.to.write_text("".join(json.dumps(row) + "\n" for row in rows))
    missing = [f"{kind} {name}" for kind, name in subjects() if (kind, name) not in latest]
    bad = [f"{row['kind']} {row['name']} ({row['outcome']})" for row in rows if row["outcome"] != "verified"]
    stale = [
        row["name"] for row in rows if row["kind"] == "example" and row["sources"] != sources_digest(ROOT / "examples" / row["name"])
    ]
    print(f"{options.to}: {len(rows)} projects, {len(rows) - len(bad)} verified")
    for word, names in (("not verified", bad), ("not in the record", missing), ("changed since", stale)):
        if names:
            tell(f"{word}: {', '.join(names)}")
    commits = sorted({row["commit"] for row in rows})
    if len(commits) > 1:
        tell(f"judged at several commits: {', '.join(commits)}")
    tell(f"list it: python3 bench/records.py add {options.to.name} --what '...'")


def now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")


def main() -> int | None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(required=True, metavar="carry|judge|record|digest")
    one = verbs.add_parser("carry", help="build every project, and pack what a GPU machine needs")
    one.add_argument("folder", type=Path, help="keeps projects and builds, so that a second run is short")
    one.add_argument("--program", type=Path, default=ROOT / "target/debug/kernelwright")
    one.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these alone; example/NAME names an example, template/NAME a template, NAME both")
    one.set_defaults(run=carry)
    one = verbs.add_parser("judge", help="judge what was carried, on a GPU")
    one.add_argument("folder", type=Path, help=f"the archive, or a folder with {ARCHIVE}")
    one.add_argument("--out", type=Path, required=True, help=f"folder of {RESULTS}; with one of an earlier run, goes on")
    one.add_argument("--keep", type=Path, help="unpack here and leave it: bench/drawn.py --prebuilt measures FOLDER/projects")
    one.add_argument("--jobs", type=int, default=3, help="judgements at a time; default: 3")
    one.add_argument("--minutes", type=float, default=18, help="after these, nothing is begun; default: 18")
    one.add_argument("--threads", type=int, help="processors of each judgement; default: all divided by --jobs")
    one.add_argument("--deadline", type=int, default=600, help="of `verify`; more than its own, for they share processors")
    one.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these alone; example/NAME names an example, template/NAME a template, NAME both")
    one.set_defaults(run=judge)
    one = verbs.add_parser("record", help="merge results into one record")
    one.add_argument("out", type=Path, nargs="+", help=f"folders of `judge`, or files like {RESULTS}")
    one.add_argument("--to", type=Path, required=True, help="bench/results/DATE-GPU-packages.jsonl")
    one.set_defaults(run=record)
    one = verbs.add_parser("digest", help="print the digest of each project's sources")
    one.add_argument("projects", type=Path, nargs="+", metavar="DIR")
    one.set_defaults(run=lambda options: [print(f"{sources_digest(path)}  {path}") for path in options.projects] and None)
    options = parser.parse_args()
    try:
        return options.run(options)
    except (Interrupted, KeyboardInterrupt):
        tell("interrupted; what ended before is kept")
        return 130


if __name__ == "__main__":
    sys.exit(main())
