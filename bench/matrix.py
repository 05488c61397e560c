"""What the whole matrix costs, and what it costs without this program.

    cargo build --release
    python3 bench/matrix.py --out bench/results/DATE-matrix.json

Every part starts with a cache of its own, so nothing that lies on the machine is used; a record that exists is
continued with the parts that it lacks (`--again` measures them anew). Parts:

    default    rms-norm as a plain `build` makes it: fetching, then compiling, then nothing changed
    named      its four stable builds: CUDA 12.6, 13.0, 13.2 and cpu
    all        `--all`; then nothing changed, one .cu edited, and a torch release more than was built before
    headers    tests/projects/torch-headers, whose .cu includes torch's headers: six full-ABI variants
    cutlass    a CUTLASS GEMM with the default number of jobs: peak memory
    incumbent  the variants of `headers` the usual way: for each torch release a virtual environment with the whole of
               torch and what it depends on, for each variant a CMake project built by Ninja (both from the index)

`--variants` names fewer of the six; the record says which were run, and nothing is extrapolated. The CMake projects
take torch's folders by name, as torch.utils.cpp_extension does, and run nvcc as a command of their own: find_package(Torch)
and CMake's CUDA language want a toolkit with all its libraries and nvlink, which no wheel lays out. Their nvcc is that of
the toolkit folder that this program fetched, whose time and bytes are not in the incumbent's figures; a toolkit without
an nvcc of its own (the wheels of CUDA 12 have none) is left out there and named as left out.

Received bytes are those of the machine's network interfaces, so run nothing else beside it. CPU seconds are those of
all processes that were started; peak memory is the sum of the resident memory of all of them, read every 0.1 s.
"""

import argparse
import datetime
import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import machine

ROOT = Path(__file__).resolve().parent.parent
STABLE = ["cu126", "cu130", "cu132", "cpu"]
SIX = [f"torch{torch}-cxx11-{cuda}-x86_64-linux" for torch in ("212", "213") for cuda in ("cu126", "cu130", "cu132")]


def resident_bytes(ancestor: int) -> int:
    """The resident memory of a process and of all that descend from it."""
    parents, pages = {}, {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            stat = (folder / "stat").read_text()
            pages[int(folder.name)] = int((folder / "statm").read_text().split()[1])
        except OSError:
            continue
        parents[int(folder.name)] = int(stat.rsplit(")", 1)[1].split()[1])
    total = 0
    for process in pages:
        one = process
        while one and one != ancestor:
            one = parents.get(one, 0)
        total += pages[process] if one == ancestor else 0
    return total * os.sysconf("SC_PAGE_SIZE")


def run(command: list, environment: dict, cwd: Path = ROOT, watch: bool = False) -> tuple[dict, str]:
    """Runs a command to its end: what it cost, and its standard output. Ends this program when it fails."""
    print("  $", " ".join(map(str, command)), file=sys.stderr, flush=True)
    before, start, usage = machine.received_bytes(), time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    child = subprocess.Popen(command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    peak, over = 0, threading.Event()

    def look() -> None:
        nonlocal peak
        while not over.wait(0.1):
            peak = max(peak, resident_bytes(child.pid))

    watcher = threading.Thread(target=look)
    if watch:
        watcher.start()
    out, err = child.communicate()
    over.set()
    if watch:
        watcher.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cost = {
        "seconds": round(time.monotonic() - start, 2),
        "cpu_seconds": round(after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime, 1),
        "received_megabytes": round((machine.received_bytes() - before) / 1e6, 1),
    }
    if watch:
        cost["peak_memory_megabytes"] = round(peak / 1e6)
    if child.returncode:
        sys.exit(f"`{' '.join(map(str, command))}` returned {child.returncode}:\n{out[-3000:]}\n{err[-3000:]}")
    print(f"    {cost}", file=sys.stderr, flush=True)
    return cost, out


class Bench:
    """The program, the folder that is worked in, and what was found so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.program = Path(options.program).resolve()
        self.work = Path(options.work).resolve()
        self.six = options.variants

    def fresh(self, part: str, project: str) -> tuple[Path, dict]:
        """A copy of a project, and an environment with an empty cache."""
        folder = self.work / part
        shutil.rmtree(folder, ignore_errors=True)
        ignored = shutil.ignore_patterns(".kernelwright", "build", "dist", "__pycache__", "expected.toml")
        shutil.copytree(ROOT / project, folder / "project", ignore=ignored)
        return folder / "project", dict(os.environ, KERNELWRIGHT_CACHE=str(folder / "cache"))

    def build(self, project: Path, environment: dict, *arguments: str, watch: bool = False) -> dict:
        """One build: its cost, how many variants it made, how many units it compiled."""
        command = [self.program, "build", "--message-format", "json", *arguments, project]
        cost, out = run(command, environment, watch=watch)
        events = [json.loads(line) for line in out.splitlines()]
        done = [event for event in events if event["event"] == "done"]
        cost["units_compiled"] = sum(event["action"] == "compiled" and not event["cached"] for event in done)
        result = next(event for event in events if event["event"] == "result")
        cost["variants"] = [artifact["variant"] for artifact in result["artifacts"]]
        return cost

    def plan(self, project: Path, environment: dict, *arguments: str) -> tuple[dict, list]:
        """Fetches what a build needs: the cost, and the plans."""
        command = [self.program, "build", "--plan", "--message-format", "json", *arguments, project]
        cost, out = run(command, environment)
        events = [json.loads(line) for line in out.splitlines()]
        return cost, next(event for event in events if event["event"] == "result")["plan"]

    def default(self) -> dict:
        project, environment = self.fresh("default", "examples/rms-norm-strided")
        fetch, _ = self.plan(project, environment)
        steps = {"fetch": fetch, "compile": self.build(project, environment)}
        return steps | {"nothing changed": self.build(project, environment)}

    def named(self) -> dict:
        project, environment = self.fresh("named", "examples/rms-norm-strided")
        arguments = [word for variant in self.stable(project, environment) for word in ("--variant", variant)]
        fetch, _ = self.plan(project, environment, *arguments)
        return {"fetch": fetch, "compile": self.build(project, environment, *arguments)}

    def stable(self, project: Path, environment: dict) -> list[str]:
        """The stable build for the oldest torch of each toolkit in STABLE."""
        _, out = run([self.program, "variants", "--all", "--message-format", "json", project], environment)
        rows = [row["variant"] for row in json.loads(out.splitlines()[-1])["variants"] if row["right"]]
        found = []
        for toolkit in STABLE:
            fits = sorted(row for row in rows if row.startswith("torch-stable-abi") and f"-{toolkit}-x86_64-linux" in row)
            found += fits[:1]
        return found

    def all(self) -> dict:
        project, environment = self.fresh("all", "examples/rms-norm-strided")
        fetch, _ = self.plan(project, environment, "--all")
        steps = {"fetch": fetch, "compile": self.build(project, environment, "--all")}
        steps["nothing changed"] = self.build(project, environment, "--all")
        source = project / "rms_norm_strided_cuda/rms_norm.cu"
        source.write_text(source.read_text() + "\nint rms_norm_of_an_edited_source() { return 1; }\n")
        steps["one .cu edited"] = self.build(project, environment, "--all")
        # A release more: everything compiled is forgotten, all but the newest torch is built, then the rest.
        shutil.rmtree(project / ".kernelwright")
        for folder in (self.work / "all/cache").glob("compile*"):
            shutil.rmtree(folder)
        self.build(project, environment, "--all", "--selector", "not torch:2.15")
        steps["torch 2.15 added"] = self.build(project, environment, "--all")
        return steps

    def headers(self) -> dict:
        project, environment = self.fresh("headers", "tests/projects/torch-headers")
        arguments = [word for variant in self.six for word in ("--variant", variant)]
        fetch, plans = self.plan(project, environment, *arguments)
        archs = {plan["id"]: plan["capabilities"] for plan in plans}
        return {"fetch": fetch, "compile": self.build(project, environment, *arguments), "capabilities": archs}

    def cutlass(self) -> dict:
        project, environment = self.fresh("cutlass", "tests/projects/cutlass-gemm")
        arguments = ["--selector", "cuda:13.0"]
        fetch, _ = self.plan(project, environment, *arguments)
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        compiled = self.build(project, environment, *arguments, watch=True)
        return {"fetch": fetch, "compile": compiled, "machine_megabytes": round(memory / 1e6)}

    def incumbent(self) -> dict:
        """The six variants with whole torch installs and CMake."""
        project, environment = self.fresh("incumbent", "tests/projects/torch-headers")
        arguments = [word for variant in self.six for word in ("--variant", variant)]
        # For nvcc, registration.h and the lists of architectures: the same as in `headers`.
        _, plans = self.plan(project, environment, *arguments)
        cache, steps, left_out = self.work / "incumbent/cache", {}, []
        for plan in plans:
            torch, cuda = plan["id"].split("-")[0].removeprefix("torch"), plan["id"].split("-")[2].removeprefix("cu")
            toolkits = sorted((cache / "cuda").glob(f"{cuda[:2]}.{cuda[2:]}-*/bin/nvcc"))
            if not toolkits:
                left_out.append(f"{plan['id']}: the wheels of CUDA {cuda[:2]}.{cuda[2:]} hold no nvcc")
                continue
            release = f"{torch[0]}.{torch[1:]}"
            venv = self.work / "incumbent" / f"venv-{release}"
            if not venv.exists():
                steps[f"torch {release} installed"] = install(venv, release)
            steps[plan["id"]] = self.cmake(plan, project, venv, toolkits[0].parent.parent, environment)
        return {"steps": steps, "left out": left_out}

    def cmake(self, plan: dict, project: Path, venv: Path, toolkit: Path, environment: dict) -> dict:
        """Configures and builds one CMake project."""
        packages = next(venv.glob("lib/python*/site-packages"))
        folder = self.work / "incumbent" / plan["id"]
        folder.mkdir(exist_ok=True)
        registration = next((self.work / "incumbent/cache/include").glob("*/registration.h")).parent
        python = subprocess.run([venv / "bin/python", "-c", "import sysconfig; print(sysconfig.get_path('include'))"],
                                capture_output=True, text=True, check=True).stdout.strip()
        torch = packages / "torch"
        folders = [registration, torch / "include", torch / "include/torch/csrc/api/include", python, toolkit / "include"]
        (folder / "CMakeLists.txt").write_text(CMAKE.format(
            name=plan["extension"], project=project, torch=torch, nvcc=toolkit / "bin/nvcc",
            runtime=next(packages.glob("nvidia/*/lib/libcudart.so.*")),
            folders=" ".join(map(str, folders)), included=" ".join(f"-isystem {folder}" for folder in folders),
            flags=" ".join(map(gencode, plan["capabilities"])), standard=20 if int(plan["id"][6:8]) >= 12 else 17))
        tools = dict(environment, PATH=f"{venv / 'bin'}:{os.environ['PATH']}")
        configure = [venv / "bin/cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build", "-DCMAKE_BUILD_TYPE=Release"]
        cost, _ = run(configure, tools)
        compiled, _ = run([venv / "bin/cmake", "--build", folder / "build", "-j", str(os.cpu_count())], tools)
        return {"configure": cost, "compile": compiled}


CMAKE = """cmake_minimum_required(VERSION 3.26)
project(extension LANGUAGES CXX)
set(CMAKE_CXX_STANDARD {standard})
set(definitions TORCH_EXTENSION_NAME={name} USE_CUDA=1 CUDA_KERNEL Py_LIMITED_API=0x03090000 NDEBUG)
list(TRANSFORM definitions PREPEND -D OUTPUT_VARIABLE defined)
add_custom_command(OUTPUT clamp.cu.o DEPENDS {project}/clamp_cuda/clamp.cu VERBATIM
  COMMAND {nvcc} -ccbin ${{CMAKE_CXX_COMPILER}} -std=c++{standard} -O3 -Xcompiler=-fPIC --expt-relaxed-constexpr
    ${{defined}} {included} {flags} -c {project}/clamp_cuda/clamp.cu -o clamp.cu.o)
add_library(extension MODULE {project}/torch-ext/torch_binding.cpp clamp.cu.o)
set_target_properties(extension PROPERTIES PREFIX "" OUTPUT_NAME {name}.abi3)
target_compile_definitions(extension PRIVATE ${{definitions}})
target_include_directories(extension SYSTEM PRIVATE {folders})
target_compile_options(extension PRIVATE -O3)
target_link_directories(extension PRIVATE {torch}/lib)
target_link_libraries(extension PRIVATE c10 torch_cpu torch c10_cuda torch_cuda {runtime})
"""


def gencode(capability: str) -> str:
    """`12.1+PTX` as nvcc wants it."""
    digits = capability.removesuffix("+PTX").replace(".", "")
    code = f"[sm_{digits},compute_{digits}]" if capability.endswith("+PTX") else f"sm_{digits}"
    return f"-gencode arch=compute_{digits},code={code}"


def install(venv: Path, release: str) -> dict:
    """A virtual environment with all of a torch release, CMake and Ninja."""
    environment = dict(os.environ, PIP_CACHE_DIR=str(venv.parent / "pip-cache"), PIP_DISABLE_PIP_VERSION_CHECK="1")
    made, _ = run([sys.executable, "-m", "venv", venv], environment)
    report = venv / "report.json"
    command = [venv / "bin/python", "-m", "pip", "install", "--quiet", "--report", report, f"torch=={release}.*", "cmake",
               "ninja", "setuptools", "numpy"]
    cost, _ = run(command, environment)
    wheels = [item["download_info"]["url"] for item in json.loads(report.read_text())["install"]]
    cost["seconds"] = round(cost["seconds"] + made["seconds"], 2)
    cost["wheels"] = len(wheels)
    cost["wheels_megabytes"] = round(sum(map(size_of, wheels)) / 1e6, 1)
    return cost


def size_of(url: str) -> int:
    with urllib.request.urlopen(urllib.request.Request(url, method="HEAD")) as answer:
        return int(answer.headers["Content-Length"])


def main() -> None:
    parts = ["default", "named", "all", "headers", "cutlass", "incumbent"]
    reader = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reader.add_argument("--program", default=str(ROOT / "target/release/kernelwright"))
    reader.add_argument("--parts", type=lambda text: text.split(","), default=parts)
    reader.add_argument("--variants", type=lambda text: text.split(","), default=SIX, help="instead of the six")
    reader.add_argument("--out", type=Path, help="the record; printed when absent")
    reader.add_argument("--work", default="/tmp/kernelwright-matrix", help="emptied part by part")
    reader.add_argument("--again", action="store_true", help="measure parts that the record has already")
    options = reader.parse_args()
    if unknown := [part for part in options.parts if part not in parts]:
        reader.error(f"no such part: {', '.join(unknown)}; there are {', '.join(parts)}")
    if not os.access(options.program, os.X_OK):
        reader.error(f"there is no program {options.program}: `cargo build --release` makes it, --program names another")
    bench = Bench(options)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True, capture_output=True, check=True)
    record = json.loads(options.out.read_text()) if options.out and options.out.exists() else {"parts": {}}
    for part in options.parts:
        if part in record["parts"] and not options.again:
            print(f"{part}: in the record already", file=sys.stderr)
            continue
        print(f"{part}:", file=sys.stderr, flush=True)
        # Each part says where and when it was measured, for they may be run on different days.
        record["parts"][part] = {
            "commit": commit.stdout.strip(),
            "date": datetime.date.today().isoformat(),
            "machine": machine.described(),
            "variants_asked_for": options.variants if part in ("headers", "incumbent") else None,
            "found": getattr(bench, part)(),
        }
        if options.out:
            options.out.write_text(json.dumps(record, indent=2) + "\n")
    if not options.out:
        print(json.dumps(record, indent=2))


if __name__ == "__main__":
    main()
