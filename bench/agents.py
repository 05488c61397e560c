"""How long the tools of `kernelwright mcp` take on a GPU, and whether a search ends with the fastest kernel.

    python3 bench/agents.py PROGRAM [--tries 200] [--agent codex]

PROGRAM is `kernelwright`, compiled with `--release`. Needs an NVIDIA GPU and torch. Prints one JSON object: seconds of
`try` for new code with the lab ready, verdicts of copies that were submitted, and, with `--agent`, what a search through
that agent program made of a ladder of kernels, slowest first, that tests/agents/model.py hands in.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
EXAMPLE = ROOT / "examples/rms-norm-device"
WORKLOAD = "llm-4096x4096"
# Environment of each agent: the variables with its key and its address, and what the address has behind the port.
AGENTS = {
    "claude": ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", ""),
    "codex": ("OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL", ""),
    "opencode": ("OPENAI_API_KEY", "OPENAI_BASE_URL", "/v1"),
}


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


def project(folder: Path) -> Path:
    """A copy of the example."""
    shutil.copytree(EXAMPLE, folder / "project", ignore=shutil.ignore_patterns(".kernelwright", "tuned"))
    return folder / "project"


def slower(code: str, times: int) -> str:
    """The kernel with its sum computed so many times: right, and slower the more often."""
    loop = f"for (int again = 0; again < {times}; ++again) {{ sum = again ? sum * 0.0f : sum; asm volatile(\"\");"
    head = "    for (int i = 0; i < kUnits; ++i) {\n        if (threadIdx.x"
    assert head in code, "the example changed"
    body = code.split(head, 1)
    inner, rest = body[1].split("    const float scale", 1)
    return f"{body[0]}    {loop}\n{head}{inner}    }}\n    const float scale{rest}"


def ladder(program: str, agent: str, folder: Path) -> dict:
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
    line += ["--agent-env", address, "--sessions", "1", "--budget", "600", "--message-format", "json"]
    began = time.monotonic()
    done = subprocess.run(line, env=environment, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - began
    model.kill()
    model.wait()
    results = [json.loads(line) for line in done.stdout.splitlines() if '"event":"result"' in line]
    if not results:
        return {"agent": agent, "failed": done.stdout[-2000:] + done.stderr[-2000:]}
    best = results[-1]["best"]
    kept = place / ".kernelwright/candidates" / best["id"] / "project/rms_norm.cu"
    names = [Path(file).name for file in files if Path(file).read_text() == kept.read_text()]
    return {"agent": agent, "seconds": seconds, "best": names, "standing": best["standing"], "gain": best.get("gain")}


def main() -> None:
    """Measures, and prints."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--tries", type=int, default=200)
    parser.add_argument("--copies", type=int, default=3)
    parser.add_argument("--agent", choices=sorted(AGENTS))
    options = parser.parse_args()
    program = shutil.which(options.program) or options.program
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "tries").mkdir()
        began = time.monotonic()
        server = Server(program, project(folder / "tries"))
        server.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})
        found: dict = {"initialize_seconds": time.monotonic() - began}
        task = server.call("task")
        found["device"] = task["device"].get("name", task["device"].get("text"))
        code = (EXAMPLE / "rms_norm.cu").read_text()
        took, verdicts, ids = [], {}, []
        for number in range(options.tries + 1):
            # A constant that is used nowhere is new code, and the same kernel.
            changed = code.replace("namespace rms {", f"namespace rms {{\nconstexpr int kNumber = {number};", 1)
            began = time.monotonic()
            said = server.call("try", files={"rms_norm.cu": changed}, workload=WORKLOAD)
            took.append(time.monotonic() - began)
            verdicts[said["verdict"]] = verdicts.get(said["verdict"], 0) + 1
            ids.append(said.get("id"))
        found["first_try_seconds"], took = took[0], sorted(took[1:])
        found["try"] = {
            "count": len(took), "median": statistics.median(took), "p95": took[int(0.95 * (len(took) - 1))],
            "verdicts": verdicts,
        }
        found["copies"] = [server.call("submit", id=one).get("verdict") for one in ids[1 : 1 + options.copies]]
        found["profile"] = server.call("profile", id="best", workload=WORKLOAD).get("kernels")
        server.end()
        if options.agent:
            (folder / "ladder").mkdir()
            found["ladder"] = ladder(program, options.agent, folder / "ladder")
    print(json.dumps(found))


main()
