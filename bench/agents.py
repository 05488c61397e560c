"""How long the tools of `kernelwright mcp` take on a GPU, and whether a search ends with the fastest kernel.

    python3 bench/agents.py PROGRAM PART... [--tries 200] [--agent codex] [--out FILE]

PROGRAM is `kernelwright`, compiled with `--release`. Needs an NVIDIA GPU and torch. Prints one JSON object, and writes it to
FILE after each part. A part that ctrl-C ends leaves what it has. The parts:

    tools     seconds of `initialize` and of `try` for new code with the lab ready, counters of `profile`
    copies    copies of one kernel under new names, submitted; none may be kept
    parallel  8 sessions of a scripted agent side by side, 5 to 15 seconds between two calls of `try`: seconds of each
    ladder    kernels of one operation, slowest first, handed in by tests/agents/model.py through the agent program of
              `--agent`; what the search kept, and what `bench --device` says of each of them
    kernels   the kernels of bench/kernels, each submitted against the translation of its reference, then measured
"""

import argparse
import json
import os
import shlex
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples/rms-norm-device"
KERNELS = ROOT / "bench/kernels"
WORKLOAD = "llm-4096x4096"
# Environment of each agent: the variables with its key and its address, and what the address has behind the port.
AGENTS = {
    "claude": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", ""),
    "codex": ("OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", ""),
    "opencode": ("OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
}
# An agent of a few lines. Its arguments: `kernelwright`, the number of tries, seconds between two. It may read no file of
# ours, so it comes on its command line.
SCRIPTED = r"""
import json, os, random, subprocess, sys, time
program, tries, period = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
line = [program, "mcp", "--to", os.environ["KERNELWRIGHT_MCP"]]
server = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
code = open("rms_norm.cu").read()
for number in range(tries):
    began = time.monotonic()
    name = f"constexpr int kNumber = {os.getpid() * 1000 + number};"
    files = {"rms_norm.cu": code.replace("namespace rms {", "namespace rms {\n" + name, 1)}
    params = {"name": "try", "arguments": {"files": files, "workload": "llm-4096x4096"}}
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}) + "\n")
    server.stdin.flush()
    said = json.loads(server.stdout.readline())["result"]["structuredContent"]
    waited = time.monotonic() - began
    print(json.dumps({"waited": waited, "verdict": said.get("verdict"), "code": said.get("code")}), flush=True)
    # An agent thinks for a while, sessions are not in step.
    time.sleep(period * random.uniform(0.5, 1.5))
"""


class Server:
    """`kernelwright mcp` on a project."""

    def __init__(self, program: str, project: Path) -> None:
        line = [program, "mcp", str(project)]
        self.process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.asked = 0

    def ask(self, method: str, parameters: dict) -> dict:
        """The result of a request."""
        self.asked += 1
        line = {"jsonrpc": "2.0", "id": self.asked, "method": method, "params": parameters}
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            sys.exit(f"{method}: {answer['error']}")
        return answer["result"]

    def call(self, tool: str, **arguments: object) -> dict:
        """The answer of a tool."""
        return self.ask("tools/call", {"name": tool, "arguments": arguments})["structuredContent"]

    def end(self) -> None:
        """Closes its input, which ends it."""
        self.process.stdin.close()
        self.process.wait()


def spread(seconds: list[float]) -> dict:
    """Count, median, 95th percentile and maximum."""
    seconds = sorted(seconds)
    if not seconds:
        return {"count": 0}
    at = seconds[int(0.95 * (len(seconds) - 1))]
    return {"count": len(seconds), "median": statistics.median(seconds), "p95": at, "most": seconds[-1]}


def project(folder: Path) -> Path:
    """A copy of the example that measures one workload: every other one makes each `submit` longer."""
    folder.mkdir()
    place = folder / "project"
    shutil.copytree(EXAMPLE, place, ignore=shutil.ignore_patterns(".kernelwright", "tuned"))
    head, *workloads = (place / "op.toml").read_text().split("[workload.")
    kept = [text for text in workloads if text.startswith(f"{WORKLOAD}]") or 'for = ["verify"]' in text]
    (place / "op.toml").write_text(head + "".join(f"[workload.{text}" for text in kept))
    return place


def renamed(number: int) -> str:
    """New code that is the same kernel: it has a constant that is used nowhere."""
    code = (EXAMPLE / "rms_norm.cu").read_text()
    return code.replace("namespace rms {", f"namespace rms {{\nconstexpr int kNumber = {number};", 1)


def results(done: subprocess.CompletedProcess) -> list[dict]:
    """The results that a command printed."""
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return [found for line in lines if (found := json.loads(line)).get("event") == "result"]


def tools(found: dict, program: str, folder: Path, tries: int) -> None:
    """Times of the tools."""
    began = time.monotonic()
    server = Server(program, project(folder))
    server.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
    found["initialize_seconds"] = time.monotonic() - began
    task = server.call("task")
    found["device"] = task["device"].get("name", task["device"].get("text"))
    took, verdicts = [], {}
    for number in range(tries + 1):
        began = time.monotonic()
        said = server.call("try", files={"rms_norm.cu": renamed(number)}, workload=WORKLOAD)
        took.append(time.monotonic() - began)
        verdicts[said["verdict"]] = verdicts.get(said["verdict"], 0) + 1
        found.update({"first_try_seconds": took[0], "try": {**spread(took[1:]), "verdicts": verdicts}})
    # An agent that thinks: settings are searched meanwhile.
    time.sleep(15)
    began = time.monotonic()
    last = server.call("history", last=1)["candidates"][-1]
    found["after_a_pause"] = {"history_seconds": time.monotonic() - began, "figures": last.get("figures")}
    profile = server.call("profile", id="best", workload=WORKLOAD)
    found["profile"] = {key: profile.get(key) for key in ("kernels", "counters", "counters_not_read")}
    server.end()


def copies(found: dict, program: str, folder: Path, count: int) -> None:
    """Verdicts of copies that are submitted. Every twentieth does its sum twice: other machine code, and no faster."""
    server = Server(program, project(folder))
    verdicts, gains, took = {}, [], []
    for number in range(count):
        code = renamed(number)
        if number % 20 == 19:
            code = slower(code, 2)
        said = server.call("try", files={"rms_norm.cu": code}, workload=WORKLOAD)
        began = time.monotonic()
        answer = server.call("submit", id=said.get("id", ""))
        took.append(time.monotonic() - began)
        verdict = " ".join(str(answer[key]) for key in ("verdict", "code") if key in answer)
        verdicts[verdict] = verdicts.get(verdict, 0) + 1
        gains.append(answer.get("gain"))
        print(f"copy {number}: {verdict}, {took[-1]:.1f} s", file=sys.stderr, flush=True)
        found.update(count=number + 1, verdicts=verdicts, gains=gains, submit=spread(took))
    server.end()


def parallel(found: dict, program: str, folder: Path, sessions: int, tries: int) -> None:
    """Sessions side by side."""
    place = project(folder)
    python = os.path.realpath(sys.executable)
    agent = shlex.join([python, "-c", SCRIPTED, program, str(tries), "10"])
    line = [program, "fill", str(place), "--agent-command", agent, "--parallel", str(sessions)]
    line += ["--sessions", str(sessions), "--budget", "400", "--message-format", "json"]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    rows = []
    for transcript in sorted((place / ".kernelwright/candidates/sessions").glob("*/transcript.jsonl")):
        lines = transcript.read_text().splitlines()
        rows.append([json.loads(line) for line in lines if line.startswith('{"waited"')])
    # The first of each session waits for the start of the lab.
    waits = [row["waited"] for session in rows for row in session[1:]]
    verdicts = sorted({str(row["verdict"]) for session in rows for row in session})
    first = spread([session[0]["waited"] for session in rows if session])
    found.update({"sessions": len(rows), "first": first, "try": spread(waits), "verdicts": verdicts})
    if not results(done):
        found["failed"] = done.stdout[-1500:] + done.stderr[-1500:]


def slower(code: str, times: int) -> str:
    """The kernel with its sum computed so many times: right, and slower the more often."""
    loop = f'for (int again = 0; again < {times}; ++again) {{ sum = again ? sum * 0.0f : sum; asm volatile("");'
    head = "    for (int i = 0; i < kUnits; ++i) {\n        if (threadIdx.x"
    assert head in code, "the example changed"
    body = code.split(head, 1)
    inner, rest = body[1].split("    const float scale", 1)
    return f"{body[0]}    {loop}\n{head}{inner}    }}\n    const float scale{rest}"


def ladder(found: dict, program: str, agent: str, folder: Path) -> None:
    """A search through an agent that hands in eight kernels, slowest first."""
    place, code = project(folder), (EXAMPLE / "rms_norm.cu").read_text()
    files = []
    for times in range(40, 0, -5):
        file = folder / f"ladder-{times}.cu"
        file.write_text(slower(code, times))
        files.append(str(file))
    # The project starts as the slowest one of all.
    (place / "rms_norm.cu").write_text(slower(code, 60))
    log = folder / "log.jsonl"
    line = [sys.executable, "-B", str(ROOT / "tests/agents/model.py"), "rms_norm.cu", str(log), "200", *files]
    model = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    port = model.stdout.readline().strip()
    key, address, suffix = AGENTS[agent]
    environment = {**os.environ, key: "sk-none-of-a-server", address: f"http://127.0.0.1:{port}{suffix}"}
    line = [program, "fill", str(place), "--agent", agent, "--model", "scripted", "--agent-env", key]
    line += ["--agent-env", address, "--sessions", "1", "--budget", "400", "--message-format", "json"]
    began = time.monotonic()
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    model.kill()
    model.wait()
    ended = results(done)
    found.update(agent=agent, seconds=seconds)
    if not ended:
        found["failed"] = done.stdout[-2000:] + done.stderr[-2000:]
        return
    best = ended[-1]["best"]
    kept = place / ".kernelwright/candidates" / best["id"] / "project/rms_norm.cu"
    names = [Path(file).name for file in files if Path(file).read_text() == kept.read_text()]
    found.update(best=names, standing=best["standing"], gain=best.get("gain"))
    print(f"the search ended with {names} after {seconds:.1f} s", file=sys.stderr, flush=True)
    measured = {}
    for file in reversed(files):
        one = folder / Path(file).stem
        where = project(one)
        shutil.copy(file, where / "rms_norm.cu")
        measured[Path(file).name] = kernel_seconds(program, where, WORKLOAD)
        known = {name: seconds for name, seconds in measured.items() if seconds}
        found.update(bench_seconds=measured, bench_first=min(known, key=known.get) if known else None)


def bench(program: str, place: Path, workload: str | None, more: list[str]) -> list[dict]:
    """The records of `bench --device`."""
    line = [program, "bench", "--device", str(place), "--message-format", "json", *more]
    line += ["--workload", workload] if workload else []
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    found = results(done)
    if not found:
        print(done.stdout[-2000:] + done.stderr[-2000:], file=sys.stderr)
    return found[-1].get("measurements", []) if found else []


def kernel_seconds(program: str, place: Path, workload: str) -> float | None:
    """Median seconds of the kernel by `bench --device`, in a quick look."""
    quick = ["--starts", "1", "--budget", "1", "--without", "compile", "--without", "compile-max"]
    for record in bench(program, place, workload, quick):
        for contender in record["contenders"]:
            if contender["name"] == "kernel":
                return contender["median_seconds"]
    return None


def kernels(found: dict, program: str, folder: Path, names: list[str]) -> None:
    """Kernels by hand, submitted against the translation that they start from, then measured."""
    folder.mkdir()
    for name in names or sorted(one.name for one in KERNELS.iterdir() if (one / "reference.py").exists()):
        own, place = KERNELS / name, folder / name
        line = [program, "new", f"me/{name}", str(place), "--from", f"{own / 'reference.py'}", "--backends", "cuda"]
        made = subprocess.run([*line, "--no-git"], capture_output=True, text=True, check=False)
        if not (place / "op.toml").exists():
            found[name] = {"failed": made.stdout[-1500:] + made.stderr[-1500:]}
            continue
        server = Server(program, place)
        task = server.call("task")
        files = {}
        folder_name = task["may_change"]["code_folder"]
        for file in sorted(own.glob("*.cu*")):
            files[f"{folder_name}/{file.name}"] = file.read_text()
        schedule = (own / "schedule.toml").read_text().replace("FOLDER", folder_name)
        # The translation has its schedule between [tolerance] and [cpu].
        head, rest = task["op.toml"].split("[let]", 1)
        files["op.toml"] = f"{head}{schedule}\n[cpu]{rest.split('[cpu]', 1)[1]}"
        clock = [time.monotonic()]
        seed = server.call("try", **{"from": "seed", "note": "the translation"})
        tried = server.call("try", files=files, **{"from": "seed", "note": "by hand"})
        clock.append(time.monotonic())
        answer = server.call("submit", id=tried["id"]) if tried.get("verdict") == "passed" else {}
        clock.append(time.monotonic())
        server.end()
        words = f"tries {clock[1] - clock[0]:.1f} s, submit {clock[2] - clock[1]:.1f} s: {answer.get('verdict')}"
        print(f"{name}: {words}", file=sys.stderr, flush=True)
        row = {"seed": {key: seed.get(key) for key in ("verdict", "code", "text", "seconds", "copy_fraction")}}
        row["try"] = {
            key: tried.get(key) for key in ("verdict", "code", "text", "place", "seconds", "copy_fraction", "of_best")
        }
        row["submit"] = answer
        found[name] = row
        if answer.get("verdict") == "kept":
            subprocess.run([program, "fill", str(place), "--apply", "best"], capture_output=True, check=False)
        row["records"] = bench(program, place, None, ["--starts", "1"])


def main() -> None:
    """Measures, and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("parts", nargs="+", choices=["tools", "copies", "parallel", "ladder", "kernels"])
    parser.add_argument("--tries", type=int, default=200)
    parser.add_argument("--copies", type=int, default=8)
    parser.add_argument("--sessions", type=int, default=8)
    parser.add_argument("--agent", choices=sorted(AGENTS), default="codex")
    parser.add_argument("--kernel", action="append", default=[], help="only this folder of bench/kernels")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    program = str(Path(shutil.which(options.program) or options.program).resolve())
    found: dict = {"date": time.strftime("%Y-%m-%d"), "command": shlex.join(sys.argv)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part in options.parts:
            began = time.monotonic()
            own = found[part] = {}
            try:
                if part == "tools":
                    tools(own, program, folder / part, options.tries)
                elif part == "copies":
                    copies(own, program, folder / part, options.copies)
                elif part == "parallel":
                    parallel(own, program, folder / part, options.sessions, 7)
                elif part == "ladder":
                    ladder(own, program, options.agent, folder / part)
                else:
                    kernels(own, program, folder / part, options.kernel)
            finally:
                own["wall_seconds"] = time.monotonic() - began
                if options.out:
                    options.out.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found))


main()
