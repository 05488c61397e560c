#!/usr/bin/env python3
"""Tables and the plot of the H200 figures: written from the committed records, and compared with them.

    python3 bench/figures.py            # writes docs/images/ratios.svg and the tables in README.md and docs/figures.md
    python3 bench/figures.py --check    # writes nothing; fails if a file is not as it would be written

A table stands between `<!-- figures.py: NAME -->` and `<!-- end -->`. Needs nothing but Python.
"""

import argparse
import json
import math
import pathlib
import sys
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORDS = ROOT / "bench" / "results"

#: The newest record of each operation, in the order of the table.
SOURCES = {
    "rms_norm": "2026-11-24-h200-rows.jsonl",
    "softmax": "2026-11-25-h200-rows.jsonl",
    "layer_norm": "2026-11-25-h200-rows.jsonl",
    "adaln": "2026-11-23-h200-rows-2.jsonl",
    "add_rms_norm": "2026-11-25-h200-rows.jsonl",
    "swiglu": "2026-11-25-h200-rows.jsonl",
    "geglu": "2026-11-23-h200-rows.jsonl",
    "rope": "2026-11-25-h200-rows.jsonl",
    "cross_entropy": "2026-11-25-h200-rows.jsonl",
    "cross_entropy_backward": "2026-11-23-h200-rows.jsonl",
}

#: The rows of README's table: wins and all losses.
SMALL = [
    ("rms_norm", "video-8192x3072"),
    ("rms_norm", "llm-512x4096"),
    ("softmax", "rows-4096x8192"),
    ("layer_norm", "rows-8192x4096"),
    ("add_rms_norm", "rows-8192x4096"),
    ("swiglu", "rows-4096x14336"),
    ("rope", "tokens-8192"),
    ("cross_entropy", "rows-4096x128256"),
]


def cases():
    """All cases in the order of the records: (op, workload, dtype) to the records of each regime."""
    found = {}
    for op, name in SOURCES.items():
        for line in (RECORDS / name).read_text().splitlines():
            record = json.loads(line)
            if record["op"] == op and record["regime"] in ("graph", "cold"):
                if not record["checked"]:
                    sys.exit(f"{name}: {op} {record['workload']} was not verified")
                case = found.setdefault((op, record["workload"], record["dtype"]), {})
                # A later measurement of the same case replaces an earlier one.
                case[record["regime"]] = record
    return found


def label(op, workload, dtype):
    """`rms-norm 8192 x 4096`; the dtype only if it is not bf16."""
    name = {"cross_entropy_backward": "gradient of cross-entropy"}.get(op, op.replace("_", "-"))
    kind, _, lengths = workload.partition("-")
    lengths = f"{lengths} tokens" if kind == "tokens" else lengths.replace("x", " x ")
    return f"{name} {lengths}" + ("" if dtype == "bf16" else f", {dtype}")


def seconds(record):
    """Median time of a call of the kernel."""
    return next(one["median_seconds"] for one in record["contenders"] if one["name"] == "kernel")


def ratio(record, versus):
    """The ratio over one rival, or None."""
    return next((one for one in record["ratios"] if one["versus"] == versus), None)


def spelled(one, bold_losses=False):
    """`1.30x [1.29, 1.30]`, or nothing."""
    if one is None:
        return ""
    text = f"{one['ratio']:.2f}x [{one['low']:.2f}, {one['high']:.2f}]"
    return f"**{text}**" if bold_losses and one["high"] < 1 else text


def markdown(head, rows):
    """A table in Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows])


def full_table(found):
    """Every case in both regimes."""
    head = ["kernel"]
    for regime in ("graph", "cold"):
        head += [regime, "vs fused", "vs torch.compile", "of copy"]
    rows = []
    for key, case in found.items():
        row = [label(*key)]
        for regime, digits in (("graph", 2), ("cold", 1)):
            record = case[regime]
            row.append(f"{seconds(record) * 1e6:.{digits}f} us")
            row += [spelled(ratio(record, rival)) for rival in ("fused", "compile")]
            row.append(f"{record['copy_fraction']:.0%}")
        rows.append(row)
    return markdown(head, rows)


def small_table(found):
    """README's rows."""
    rows = []
    for op, workload in SMALL:
        case = found[(op, workload, "bf16")]
        graph, cold = case["graph"], case["cold"]
        fused = spelled(ratio(graph, "fused"), True) or "none"
        compiled = [spelled(ratio(record, "compile"), True) for record in (graph, cold)]
        rows.append([label(op, workload, "bf16"), f"{seconds(graph) * 1e6:.1f} us", fused, *compiled])
    head = ["kernel, bf16", "time in a graph", "vs fused operator", "vs torch.compile", "vs torch.compile, cold L2"]
    return markdown(head, rows)


LOW, HIGH = 0.8, 4.0
LEFT, PANEL, GAP, TOP, STEP = 250, 310, 26, 92, 15
STYLE = """
    .card { fill: #ffffff; stroke: #d0d7de } .text { fill: #1f2328 } .soft { fill: #59636e } .grid { stroke: #d0d7de }
    .one { stroke: #59636e } .loss { fill: #cf222e; opacity: 0.08 } .band { fill: #818b98; opacity: 0.08 }
    .compile { fill: #0969da; stroke: #0969da } .fused { fill: #bc4c00; stroke: #bc4c00 }
    text { font-family: -apple-system, "Segoe UI", "Noto Sans", "Liberation Sans", Helvetica, Arial, sans-serif; font-size: 12px }
    .title { font-size: 15px; font-weight: 600 } .head { font-weight: 600 }
    @media (prefers-color-scheme: dark) {
      .card { fill: #0d1117; stroke: #3d444d } .text { fill: #f0f6fc } .soft { fill: #9198a1 } .grid { stroke: #3d444d }
      .one { stroke: #9198a1 } .loss { fill: #f85149; opacity: 0.15 }
      .compile { fill: #58a6ff; stroke: #58a6ff } .fused { fill: #f0883e; stroke: #f0883e }
    }"""


def plot(found):
    """Every case as a point with its interval, over both rivals, in both regimes."""
    width = LEFT + 2 * PANEL + GAP + 20
    bottom = TOP + STEP * len(found)
    height = bottom + 46

    def place(value, panel):
        share = math.log(value / LOW) / math.log(HIGH / LOW)
        return f"{LEFT + panel * (PANEL + GAP) + share * PANEL:.1f}"

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">',
        "  <title>How many times as fast as PyTorch, with 95% intervals</title>",
        f"  <style>{STYLE}\n  </style>",
        f'  <rect class="card" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="6"/>',
        '  <text class="title text" x="16" y="28">Times as fast as PyTorch on an NVIDIA H200, on tuned shapes; bars are 95% intervals of one start</text>',
        '  <circle class="compile" cx="22" cy="48" r="4"/><text class="text" x="32" y="52">over torch.compile</text>',
        '  <path class="fused" d="M 168 43.5 l 4.5 4.5 l -4.5 4.5 l -4.5 -4.5 z"/>'
        '<text class="text" x="179" y="52">over the fused operator, where PyTorch has one</text>',
    ]
    for panel, title in enumerate(("in a CUDA graph", "single calls, cold L2")):
        left, right = float(place(LOW, panel)), float(place(HIGH, panel))
        one = float(place(1, panel))
        lines.append(f'  <text class="head text" x="{left}" y="{TOP - 12}">{title}</text>')
        lines.append(f'  <rect class="loss" x="{left}" y="{TOP - 4}" width="{one - left:.1f}" height="{bottom - TOP + 4}"/>')
        for tick in (1, 1.5, 2, 3, 4):
            kind = "one" if tick == 1 else "grid"
            lines.append(f'  <path class="{kind}" d="M {place(tick, panel)} {TOP - 4} V {bottom}"/>')
            lines.append(f'  <text class="soft" x="{place(tick, panel)}" y="{bottom + 15}" text-anchor="middle">{tick}x</text>')
        lines.append(f'  <text class="soft" x="{left}" y="{bottom + 32}">slower &#x2190; 1x &#x2192; faster</text>')
        if not LOW < one < right:
            sys.exit("the axis does not contain 1")
    for number, (key, case) in enumerate(found.items()):
        middle = TOP + STEP * number + STEP / 2
        if number % 2:
            lines.append(f'  <rect class="band" x="8" y="{middle - STEP / 2}" width="{width - 16}" height="{STEP}"/>')
        lines.append(f'  <text class="text" x="{LEFT - 12}" y="{middle + 4}" text-anchor="end">{escape(label(*key))}</text>')
        for panel, regime in enumerate(("graph", "cold")):
            for versus in ("fused", "compile"):
                one = ratio(case[regime], versus)
                if one is None:
                    continue
                if not LOW < one["low"] <= one["high"] < HIGH:
                    sys.exit(f"{key}: {one} is outside of the axis")
                at, low, high = (place(one[name], panel) for name in ("ratio", "low", "high"))
                wide = f"M {low} {middle - 5} v 10 M {low} {middle} H {high} M {high} {middle - 5} v 10"
                lines.append(f'  <path class="{versus}" stroke-width="1.2" d="{wide}"/>')
                if versus == "compile":
                    lines.append(f'  <circle class="compile" cx="{at}" cy="{middle}" r="2.5"/>')
                else:
                    lines.append(f'  <path class="fused" d="M {at} {middle - 3} l 3 3 l -3 3 l -3 -3 z"/>')
    return "\n".join([*lines, "</svg>", ""])


def between(path, name, body):
    """The text of a file with `body` between the marks of `name`."""
    text = path.read_text()
    begin, end = f"<!-- figures.py: {name} -->\n", "\n<!-- end -->"
    if text.count(begin) != 1:
        sys.exit(f"{path.relative_to(ROOT)}: one `{begin.strip()}` is needed")
    before, rest = text.split(begin)
    _, mark, after = rest.partition(end)
    if not mark:
        sys.exit(f"{path.relative_to(ROOT)}: `{end.strip()}` is missing after `{begin.strip()}`")
    return before + begin + body + end + after


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a file is out of date")
    check = parser.parse_args().check
    found = cases()
    files = {
        ROOT / "docs" / "images" / "ratios.svg": plot(found),
        ROOT / "docs" / "figures.md": between(ROOT / "docs" / "figures.md", "all", full_table(found)),
        ROOT / "README.md": between(ROOT / "README.md", "small", small_table(found)),
    }
    for path, wanted in files.items():
        if check and (not path.exists() or path.read_text() != wanted):
            sys.exit(f"{path.relative_to(ROOT)} differs from the records; run `python3 bench/figures.py`")
        if not check:
            path.write_text(wanted)


if __name__ == "__main__":
    main()
