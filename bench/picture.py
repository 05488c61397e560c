#!/usr/bin/env python3
"""The pictures of two runs, in the README and in docs/: recorded in a pseudo-terminal, then drawn.

    python3 -m pip install pyte
    cargo build --bin kernelwright
    python3 bench/picture.py record     # runs the command, writes docs/images/make.txt, then draws it
    python3 bench/picture.py progress   # the same for docs/images/progress.txt: the screen in the middle of a build
    python3 bench/picture.py            # draws the pictures from these texts
    python3 bench/picture.py --check    # writes nothing; fails if a picture is not of its text

`progress` builds a copy of EXAMPLE whose sources have another comment, so that all of them are compiled, and stops the build when
half of its sources are. `record` begins and ends without the project, which the command creates in the checkout. Wheels and compiled objects come from
the cache if it has them; with another KERNELWRIGHT_CACHE they are fetched and compiled. The recorded text is the screen at the
end, with colours. Lines that the terminal had wrapped are one line again, and paths begin in the checkout. The picture leaves out
lines that SHOWN does not match, and counts them.
"""

import argparse
import datetime
import os
import pathlib
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
import fcntl
from xml.sax.saxutils import escape

ROOT = pathlib.Path(__file__).resolve().parent.parent
IMAGES = ROOT / "docs" / "images"
PROJECT = ROOT / "layer-scale"
COMMAND = "cargo xtask kernel make --from tests/translation/models.py:layer_scale"
EXAMPLE = ROOT / "examples" / "rms-norm-strided"
COPY = ROOT / "my-norm"
BUILD = "cargo xtask kernel build my-norm"
#: How many sources of a build are compiled, and how many there are.
UNITS = re.compile(r"(\d+)/(\d+) units")
COLUMNS, ROWS = 116, 50

#: Lines of the picture of `make`; the other one has all.
SHOWN = re.compile(
    r"\$ |(new|check|build|verify|bench|package|publish|load) "
    r"|  note: no template|  kernel \d|  (built|verified|loaded|ran) |  checked   (results|torch-stable-abi210-cu126)|(published|example) "
)

# --- recording


def record():
    """Runs `make` in a terminal; its screen as text with colours."""
    shutil.rmtree(PROJECT, ignore_errors=True)
    try:
        return recorded(COMMAND, "record", lambda text: False)
    finally:
        shutil.rmtree(PROJECT, ignore_errors=True)


def record_progress():
    """Runs a build in a terminal until half of it is done; its screen at that time as text with colours."""

    def is_half(text):
        found = UNITS.search(text)
        return found is not None and 2 * int(found[1]) >= int(found[2])

    shutil.copytree(EXAMPLE, COPY, ignore=shutil.ignore_patterns(".kernelwright", "build", "dist"))
    try:
        for path in COPY.rglob("*.c*"):
            path.write_text(f"{path.read_text()}// Recorded at {datetime.datetime.now()}.\n")
        return recorded(BUILD, "progress", is_half)
    finally:
        shutil.rmtree(COPY)


def recorded(command, what, is_enough):
    """Runs a command in a terminal, to its end or until `is_enough` of the text on the screen; the screen as text with colours."""
    import pyte  # Only a recording needs it.

    continued = set()  # Rows that begin in the middle of a line.

    class Screen(pyte.Screen):
        def draw(self, data):
            for letter in data:
                row, full = self.cursor.y, self.cursor.x == self.columns
                super().draw(letter)
                if full and self.cursor.y > row:
                    continued.add(self.cursor.y)

    screen = Screen(COLUMNS, 5000)
    stream = pyte.ByteStream(screen)
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(ROOT)
        environment = {name: value for name, value in os.environ.items() if name not in ("CI", "NO_COLOR")}
        os.execvpe("/bin/sh", ["sh", "-c", f"exec {command}"], dict(environment, TERM="xterm-256color"))
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    stopped = False
    while True:
        select.select([terminal], [], [])
        try:
            read = os.read(terminal, 65536)
        except OSError:  # The other side is closed.
            break
        if not read:
            break
        if stopped:
            continue
        stream.feed(read)
        if is_enough("\n".join(screen.display[max(0, screen.cursor.y - 3) : screen.cursor.y + 1])):
            stopped = True
            os.write(terminal, b"\x03")  # As ctrl-C; the rest is read and not shown.
    _, status = os.waitpid(child, 0)
    if status and not stopped:
        sys.exit(f"`{command}` failed:\n" + "\n".join(line.rstrip() for line in screen.display if line.strip()))
    lines = []
    for row in range(screen.cursor.y + 1):
        if row in continued:
            lines[-1] += coloured(screen.buffer[row])
        else:
            # A row that goes on keeps the blanks at its end.
            lines.append(coloured(screen.buffer[row], strip=row + 1 not in continued))
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=True)
    head = f"# {datetime.date.today()}, commit {commit.stdout.strip()}, {COLUMNS} columns: python3 bench/picture.py {what}"
    return "\n".join([head, f"$ {command}", *lines]).replace(f"{ROOT}/", "").rstrip() + "\n"


COLOURS = ["black", "red", "green", "brown", "blue", "magenta", "cyan", "white"]


def coloured(row, strip=True):
    """A row of the screen with SGR sequences; `strip` removes the blanks at its end."""
    cells = [row[column] for column in range(COLUMNS)]
    while strip and cells and cells[-1].data == " ":
        cells.pop()
    text, before = "", ""
    for cell in cells:
        codes = ["1"] * cell.bold
        name = cell.fg.removeprefix("bright")
        if name in COLOURS:
            codes.append(str((90 if cell.fg.startswith("bright") else 30) + COLOURS.index(name)))
        style = ";".join(codes)
        if style != before:
            text += f"\x1b[{style or 0}m" if not before or not style else f"\x1b[0;{style}m"
            before = style
        text += cell.data
    return text + ("\x1b[0m" if before else "")


def plain(line):
    """Without colours."""
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


# --- drawing

FONT = 'ui-monospace, SFMono-Regular, "SF Mono", Menlo, Consolas, "DejaVu Sans Mono", "Liberation Mono", monospace'
CELL, LINE, PAD, BAR = 7.8, 18, 16, 34
#: The colours of GitHub's dark theme, by SGR code.
PALETTE = {
    "30": "#484f58", "31": "#ff7b72", "32": "#3fb950", "33": "#d29922", "34": "#58a6ff", "35": "#bc8cff", "36": "#39c5cf",
    "37": "#b1bac4", "90": "#8b949e", "91": "#ffa198", "92": "#56d364", "93": "#e3b341", "94": "#79c0ff", "95": "#d2a8ff",
    "96": "#56d4dd", "97": "#f0f6fc",
}  # fmt: skip


def selected(text, shown):
    """The lines of the picture: those of `shown`, and how many lie between them."""
    lines, hidden = [], 0
    for line in text.splitlines():
        if line.startswith("# ") or not plain(line).strip():
            continue
        if not shown.match(plain(line)):
            hidden += 1
            continue
        if hidden:
            lines.append(f"\x1b[90m  ... {hidden} more line{'s' * (hidden > 1)}\x1b[0m")
        hidden = 0
        if lines and re.match(r"[a-z]+ ", plain(line)) and not re.match(r"(published|example) ", plain(line)):
            lines.append("")
        lines.append(line)
    return [*lines, f"\x1b[90m  ... {hidden} more line{'s' * (hidden > 1)}\x1b[0m"] if hidden else lines


def wrapped(line, columns):
    """The rows of a line on the screen, each a list of (column, text, style)."""
    rows, style = [[]], ()
    column = 0
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b["):
            codes = part[2:-1].split(";")
            style = tuple(code for code in codes if code not in ("", "0")) if "0" in codes else style + tuple(codes)
            continue
        while part:
            piece, part = part[: columns - column], part[columns - column :]
            rows[-1].append((column, piece, style))
            column += len(piece)
            if part:
                rows.append([])
                column = 0
    return rows


def draw(path, shown):
    """The picture of a recorded text."""
    text = path.read_text()
    lines = selected(text, shown)
    if not lines or not lines[0].startswith("$ "):
        sys.exit(f"{path.relative_to(ROOT)}: the first line of the run is `$ COMMAND`")
    columns = int(re.search(r"(\d+) columns", text.splitlines()[0])[1])
    rows = [row for line in lines for row in wrapped(line, columns)]
    width, height = round(columns * CELL + 2 * PAD), BAR + LINE * len(rows) + PAD
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" role="img">',
        f"  <title>{escape(plain(lines[0]))}</title>",
        "  <style>",
        f"    text {{ font-family: {FONT}; font-size: 13px; white-space: pre }}",
        "  </style>",
        f'  <rect x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8" fill="#0d1117" stroke="#30363d"/>',
        '  <circle cx="20" cy="17" r="5" fill="#ff7b72"/><circle cx="38" cy="17" r="5" fill="#d29922"/>'
        '<circle cx="56" cy="17" r="5" fill="#3fb950"/>',
    ]
    for number, row in enumerate(rows):
        y = BAR + LINE * number + 14
        for column, piece, style in row:
            lead = len(piece) - len(piece.lstrip())
            shown = piece.strip()
            if not shown:
                continue
            colour = next((PALETTE[code] for code in style if code in PALETTE), "#e6edf3")
            bold = ' font-weight="bold"' if "1" in style or number == 0 else ""
            at, long = PAD + (column + lead) * CELL, len(shown) * CELL
            drawn.append(
                f'  <text xml:space="preserve" x="{at:.1f}" y="{y}" textLength="{long:.1f}" fill="{colour}"{bold}>{escape(shown)}</text>'
            )
    return "\n".join([*drawn, "</svg>", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=["record", "progress"], help="run its command first")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a picture is out of date")
    options = parser.parse_args()
    if options.what == "record":
        (IMAGES / "make.txt").write_text(record())
    if options.what == "progress":
        (IMAGES / "progress.txt").write_text(record_progress())
    for name, shown in (("make", SHOWN), ("progress", re.compile(""))):
        text, picture = IMAGES / f"{name}.txt", IMAGES / f"{name}.svg"
        wanted = draw(text, shown)
        if options.check and (not picture.exists() or picture.read_text() != wanted):
            sys.exit(f"{picture.relative_to(ROOT)} is not of {text.relative_to(ROOT)}; run `python3 bench/picture.py`")
        if not options.check:
            picture.write_text(wanted)


if __name__ == "__main__":
    main()
