#!/usr/bin/env python3
"""The templates of rows, gates and embeddings on one GPU: made, tuned, judged, measured against PyTorch, one table.

    python3 bench/table.py --program target/release/kernelwright --out FOLDER
    python3 bench/table.py --out FOLDER --only rms-norm softmax --deadline 500 --without compile-max
    python3 bench/table.py --out FOLDER --tuned nvidia-h200
    python3 bench/table.py --out FOLDER --print

For each template: `new`, `fill` and `bench --device` of the workloads below, which judges first. With --tuned, templates with an
example that has settings for that GPU are measured as that example, with those settings and without a search. Each step is a line of
FOLDER/steps.jsonl with its seconds and its share of GPU time (as nvidia-smi samples it); the second start goes on where the
first one was, so the whole may be done in pieces: with --deadline no step begins after so many seconds. Records are
FOLDER/TEMPLATE.jsonl; the table goes to standard output, with the digest of each record's file. Needs an NVIDIA GPU, PyTorch
with CUDA and Triton.
"""

import argparse
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]

#: What is measured of each template; of one with a gradient that is measured, too, as TEMPLATE/backward.toml.
WORKLOADS = {
    "rms-norm": [
        "video-1024x2048", "video-2048x2048", "video-4096x2048", "video-8192x2048", "video-8192x3072", "video-16384x3072",
        "llm-128x4096", "llm-512x4096", "llm-1024x4096", "llm-2048x4096", "llm-4096x4096", "llm-8192x4096",
    ],
    "softmax": ["rows-8192x4096", "rows-4096x8192", "rows-2048x16384", "rows-1024x32768"],
    "layer-norm": ["rows-8192x4096", "rows-4096x12288"],
    "add-rms-norm": ["rows-8192x4096"],
    "swiglu": ["rows-4096x14336"],
    "geglu": ["rows-4096x14336"],
    "rope": ["tokens-1024", "tokens-8192"],
    "adaln": ["image-2x4096x3072", "video-1x16384x3072"],
    "cross-entropy": ["rows-4096x128256"],
    "cross-entropy/backward.toml": ["rows-4096x128256"],
}  # fmt: skip


class Load(threading.Thread):
    """How busy the GPU is, sampled beside a step."""

    def __init__(self):
        super().__init__(daemon=True)
        self.samples, self.ended = [], threading.Event()

    def run(self):
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        chosen = ["-i", visible.split(",")[0]] if visible else []
        while not self.ended.wait(0.5):
            asked = ["nvidia-smi", "--query-gpu=utilization.gpu", "--format=csv,noheader,nounits", *chosen]
            try:
                said = subprocess.run(asked, capture_output=True, text=True, check=False).stdout.split()
            except OSError:
                return
            if said and said[0].isdigit():
                self.samples.append(int(said[0]))

    def share(self):
        """The mean of what was sampled, from 0 to 1; None without a sample."""
        self.ended.set()
        self.join()
        return round(sum(self.samples) / len(self.samples) / 100, 3) if self.samples else None


class Run:
    """The steps of a run, those of earlier starts among them."""

    def __init__(self, program, out, deadline):
        self.program, self.out, self.deadline = program, out, deadline
        self.begun, self.log = time.monotonic(), out / "steps.jsonl"
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        steps = [json.loads(line) for line in lines]
        self.done = {step["step"] for step in steps if step["exit"] == 0}

    def step(self, name, words):
        """Runs the program unless this step is done; whether it is."""
        if name in self.done:
            return True
        if time.monotonic() - self.begun > self.deadline:
            print(f"no time for: {name}", file=sys.stderr)
            return False
        print(f"{name} ...", file=sys.stderr)
        load, begun = Load(), time.monotonic()
        load.start()
        ended = subprocess.run([self.program, *words, "--message-format", "json"], capture_output=True, text=True)
        seconds = round(time.monotonic() - begun, 2)
        said = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
        result = [event for event in said if event.get("event") in ("result", "error")]
        step = {"step": name, "exit": ended.returncode, "seconds": seconds, "gpu_busy": load.share(), "said": result[-1:]}
        with self.log.open("a") as log:
            log.write(json.dumps(step) + "\n")
        print(f"{name}: exit {ended.returncode}, {seconds:.1f} s, GPU busy {step['gpu_busy']}", file=sys.stderr)
        if ended.returncode == 0:
            self.done.add(name)
        else:
            print("\n".join(ended.stderr.splitlines()[-10:]), file=sys.stderr)
        return ended.returncode == 0

    def template(self, subject, workloads, options):
        """All steps of one template, or of its gradient; a step that fails ends them."""
        name = subject.split("/")[0]
        project = self.out / "projects" / name
        example = ROOT / "examples" / name
        tuned = "/" not in subject and (example / "tuned" / f"{options.tuned}.toml").exists()
        if not project.exists() and tuned:
            shutil.copytree(example, project, ignore=shutil.ignore_patterns(".*", "build", "dist"))
        elif not project.exists():
            project.parent.mkdir(parents=True, exist_ok=True)
            made = self.step(f"new {name}", ["new", f"bench/{name}", str(project), "--template", name, "--no-git"])
            if not made:
                return
        target = str(self.out / "projects" / subject)
        chosen = [word for workload in workloads for word in ("--workload", workload)]
        left_out = [word for rival in options.without for word in ("--without", rival)]
        budget = ["--budget", str(options.budget)]
        # `bench` judges before it measures, once for all workloads, and goes on by itself where it was interrupted.
        starts = ["--starts", str(options.starts)]
        if tuned or self.step(f"fill {subject}", ["fill", target, *chosen, *budget]):
            self.step(f"bench {subject}", ["bench", "--device", target, *chosen, *left_out, *starts])
        records = project / ".kernelwright" / "records.jsonl"
        if records.exists():
            unfinished = self.out / f"{name}.jsonl.part"
            unfinished.write_bytes(records.read_bytes())
            unfinished.rename(self.out / f"{name}.jsonl")


def rows(path):
    """The table's rows for one file of records, in graphs and with a cold L2."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()[:12]
    latest = {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        latest[(record["op"], record["workload"], record["dtype"], record["regime"])] = record
    for (op, workload, dtype, regime), record in latest.items():
        if regime not in ("graph", "cold"):
            continue
        ratios = {one["versus"]: f"{one['ratio']:.2f}x [{one['low']:.2f}, {one['high']:.2f}]" for one in record["ratios"]}
        seconds = record["bytes"] / record["roofline"]["gigabytes_per_second"] / 1e9
        of_copy = f"{record['copy_fraction']:.0%}" if record["copy_fraction"] is not None else ""
        rivals = [ratios.get(name, "") for name in ("fused", "compile", "compile-max")]
        # Records from before protocol 6 are of one start: their intervals do not say how runs differ.
        starts = str(len(record.get("starts", [])) or 1)
        yield [op, workload, dtype, regime, f"{seconds * 1e6:.1f} us", *rivals, of_copy, starts, f"`{digest}`"]


def table(out):
    """All records of a folder as one table in Markdown."""
    head = ["op", "workload", "dtype", "regime", "time", "vs fused", "vs torch.compile", "vs max-autotune", "of copy", "starts", "record"]
    lines = [head, ["---"] * len(head)]
    for path in sorted(out.glob("*.jsonl")):
        if path.name != "steps.jsonl":
            lines += rows(path)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", default="kernelwright", help="default: the one in PATH")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="a folder, made if it is not there")
    parser.add_argument("--only", nargs="+", choices=WORKLOADS, default=list(WORKLOADS), metavar="TEMPLATE")
    parser.add_argument("--workload", nargs="+", help="only these of the workloads")
    parser.add_argument("--budget", type=float, default=10.0, help="seconds of search for each workload")
    parser.add_argument("--tuned", metavar="GPU", help="settings of the examples to use, as nvidia-h200")
    parser.add_argument("--starts", type=int, default=3, help="starts of the processes in `bench`; 1 for a quick look")
    parser.add_argument("--deadline", type=float, default=float("inf"), help="seconds after which no step begins")
    parser.add_argument("--without", nargs="+", default=[], help="rivals that `bench` leaves out")
    parser.add_argument("--print", action="store_true", help="only print the table of what is there")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if not options.print:
        program = shutil.which(options.program)
        if program is None:
            parser.error(f"no program at `{options.program}`: `cargo build --release` makes target/release/kernelwright")
        run = Run(program, options.out, options.deadline)
        for subject in options.only:
            chosen = [name for name in WORKLOADS[subject] if not options.workload or name in options.workload]
            run.template(subject, chosen, options)
    print(table(options.out))


if __name__ == "__main__":
    main()
