#!/usr/bin/env python3
"""Runs the commands of README.md and of the tutorials, and compares what they print with what the pages show.

    cargo build --bin kernelwright --bin kernelwright-hub
    python3 tests/documents/run.py --programs target/debug --site SITE [PAGE...]
    python3 tests/documents/run.py --self-test        # each broken page of BROKEN must be refused

Owns: which blocks of a page are commands, and when an output is that of the page. Never: knows a command.

SITE is a folder of Python packages with torch and kernels, which the active Python of a page has. Without PAGE, all pages run. Each page runs in one shell, in an empty folder that is its home, too, so commands may use what earlier ones made.

- An indented block, or one of `bash`, has a command a line. A block of `text` has commands behind `$ `, each with its output.
- Every line of an output must be printed, in this order. Other lines may stand between them; `...` tells readers so. Numbers,
  digests, times and sizes may differ, and `...` within a line stands for anything.
- `cargo xtask kernel` runs the program of PROGRAMS.
- A comment above a block says what is special about it:
    <!-- run: as FILE -->            the block is the content of this file
    <!-- run: patch -->              the block is a diff, applied where the last command ended
    <!-- run: exit N -->             its last command ends with this exit code
    <!-- run: step NAME -->          a step of CI runs it instead
    <!-- not run: WHY -->            it cannot run here; WHY names its record if there is one
- Blocks of other languages need such a comment, or `<!-- run: shown -->` if they are only to be read.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
#: Languages of blocks that are output or data.
READ_ONLY = {"text", "json", "toml"}
MARK = re.compile(r"<!-- (run|not run): (.+?) -->")
#: A file of the repository in the reason why a block is not run.
RECORD = re.compile(r"[\w.-]+/[\w./-]+\.(?:jsonl|json|txt|md|py)")
#: A command may take this long, in seconds.
LIMIT = 600


class PageError(Exception):
    """A page is wrong, or what it shows is not what happens; the text says where and why."""


@dataclasses.dataclass
class Block:
    """A block of a page."""

    line: int
    """Of its first line of content, counted from 1."""
    language: str
    """Empty for an indented block."""
    lines: list[str]
    mark: tuple[str, str] | None
    """`run` or `not run`, and what follows."""


def blocks(text: str) -> list[Block]:
    """The blocks of a page with what the comments above them say.

    Raises:
        PageError: a block does not end, or a comment has no block below it.
    """
    found: list[Block] = []
    mark: tuple[int, tuple[str, str]] | None = None
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        line = lines[at]
        fence = re.match(r"```(\w*)", line)
        indented = line.startswith("    ") and line.strip() and (at == 0 or mark or not lines[at - 1].strip())
        if marked := MARK.fullmatch(line.strip()):
            mark = (at + 1, (marked[1], marked[2]))
        elif fence or indented:
            start = at + 1 if fence else at
            end = start
            if fence:
                while end < len(lines) and lines[end] != "```":
                    end += 1
                if end == len(lines):
                    raise PageError(f"{start}: the block does not end")
            else:
                while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                    end += 1
            content = lines[start:end] if fence else [each[4:] for each in lines[start:end]]
            # The blank lines between an indented block and what follows are not part of it; a diff may end with one.
            while not fence and content and not content[-1].strip():
                content.pop()
            found.append(Block(start + 1, fence[1] if fence else "", content, mark[1] if mark else None))
            mark = None
            at = end if fence else end - 1
        elif line.strip() and mark:
            raise PageError(f"{mark[0]}: the comment stands above no block")
        at += 1
    return found


@dataclasses.dataclass
class Command:
    """A command of a page with the output that the page shows."""

    line: int
    text: str
    output: list[str]


def commands(block: Block) -> list[Command]:
    """The commands of a block of commands.

    Raises:
        PageError: the block has a language whose blocks need a comment.
    """
    found: list[Command] = []
    if block.language in ("", "bash"):
        for number, line in enumerate(block.lines):
            line = re.sub(r"(^|\s{2,})#.*", "", line)
            if line.strip():
                found.append(Command(block.line + number, line.strip(), []))
        return found
    if block.language not in READ_ONLY:
        raise PageError(f"{block.line}: say what the block is for: <!-- run: as FILE --> or <!-- run: shown -->")
    for number, line in enumerate(block.lines):
        if line.startswith("$ "):
            found.append(Command(block.line + number, line[2:], []))
        elif found:
            found[-1].output.append(line)
    return found


def masked(line: str) -> str:
    """A line without what differs from run to run: times, sizes, numbers, digests and the width of gaps."""
    line = re.sub(r"\x1b\[[0-9;]*m", "", line)
    line = re.sub(r"\b(\d+ min )?\d+(\.\d+)? (ms|us|s)\b", "TIME", line)
    line = re.sub(r"\b\d+(\.\d+)? (bytes|kB|MB|GB)", "SIZE", line)
    line = re.sub(r"\b[0-9a-f]{12,}\b|(?<=_)[0-9a-f]{10}\b", "DIGEST", line)
    line = re.sub(r"\d+(\.\d+)*(e[+-]?\d+)?", "#", line)
    return re.sub(r"\s+", " ", line).strip()


def missing(shown: list[str], printed: list[str]) -> str | None:
    """The first line of `shown` that was not printed behind those before it."""
    rest = iter([masked(line) for line in printed])
    for line in shown:
        if line.strip() in ("", "..."):
            continue
        wanted = re.compile(".*".join(re.escape(part) for part in masked(line).split("...")))
        if not any(wanted.fullmatch(there) for there in rest):
            return line
    return None


class Shell:
    """A shell in which the commands of a page run one after the other."""

    END = "--- end of a command ---"

    def __init__(self, folder: pathlib.Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.send('cargo() { if [ "$1 $2" = "xtask kernel" ]; then shift 2; kernelwright "$@"; else command cargo "$@"; fi; }')

    def send(self, text: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def run(self, command: str) -> tuple[int, list[str]]:
        """The exit code of a command and the lines that it printed, with paths that begin where it ran.

        Raises:
            PageError: it did not end in time, or the shell ended.
        """
        assert self.process.stdout
        watch = subprocess.Popen(["sh", "-c", f"sleep {LIMIT}; kill -9 -{self.process.pid}"], start_new_session=True)
        self.send(f"{{ {command}\n}} < /dev/null")
        self.send(f"printf '\\n%s %s %s\\n' '{self.END}' $? \"$PWD\"")
        lines: list[str] = []
        for line in self.process.stdout:
            if line.startswith(self.END):
                os.killpg(watch.pid, 9)
                watch.wait()
                code, place = line.removeprefix(self.END).strip().split(" ", 1)
                places = (f"{place}/", f"{self.folder}/")
                for each in places:
                    lines = [there.replace(each, "") for there in lines]
                return int(code), lines
            lines.append(line.rstrip("\n"))
        watch.kill()
        raise PageError(f"the shell ended, or the command took more than {LIMIT} s: {lines[-5:]}")

    def end(self) -> None:
        """Ends the shell and everything that it started."""
        try:
            os.killpg(self.process.pid, 15)
        except ProcessLookupError:
            pass
        self.process.communicate()


def check(text: str, shell: Shell, steps: set[str], talk: bool = False) -> int:
    """Runs a page; returns the number of its commands.

    Raises:
        PageError: a command failed, printed something else, or a block is not allowed.
    """
    ran = 0
    for block in blocks(text):
        kind, what = block.mark or ("run", "")
        word, _, rest = what.partition(" ")
        wanted = 0
        if kind == "not run":
            lost = [path for path in RECORD.findall(what) if not (ROOT / path).is_file()]
            if lost:
                raise PageError(f"{block.line}: the record {lost[0]} does not exist")
            continue
        if what == "shown":
            continue
        if word == "step":
            if rest not in steps:
                raise PageError(f"{block.line}: CI has no step {rest!r}")
            continue
        if word == "as":
            target = pathlib.Path(os.path.normpath(shell.folder / rest))
            if not target.is_relative_to(shell.folder):
                raise PageError(f"{block.line}: {rest} is not in the folder of the page")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text("\n".join(block.lines) + "\n")
            continue
        if what == "patch":
            code, printed = shell.run("\n".join(["git apply - <<'END_OF_PATCH'", *block.lines, "END_OF_PATCH"]))
            if code:
                raise PageError(f"{block.line}: the diff does not apply: {' '.join(printed)}")
            continue
        if word == "exit":
            wanted = int(rest)
        elif what:
            raise PageError(f"{block.line}: `run: {what}` is not known")
        found = commands(block)
        if wanted and not found:
            raise PageError(f"{block.line}: the block has no command")
        for number, command in enumerate(found):
            start = time.monotonic()
            code, printed = shell.run(command.text)
            ran += 1
            if talk:
                print(f"  {time.monotonic() - start:6.1f} s  {command.text}", flush=True)
            expected = wanted if number == len(found) - 1 else 0
            told = "\n".join(line[:300] for line in printed[-40:])
            if code != expected:
                raise PageError(f"{command.line}: `{command.text}` ended with {code}, not {expected}:\n{told}")
            if (lost := missing(command.output, printed)) is not None:
                raise PageError(f"{command.line}: `{command.text}` did not print\n    {lost}\nbut\n{told}")
    return ran


def environment(folder: pathlib.Path, programs: pathlib.Path | None, site: pathlib.Path | None) -> dict[str, str]:
    """The environment of a newcomer: nothing is set but where the cache is, and `python` has torch and the client."""
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR", "CXX", "PIP_INDEX_URL") if name in os.environ}
    cache = os.environ.get("KERNELWRIGHT_CACHE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "kernelwright"
    )
    tools = folder / ".bin"
    tools.mkdir()
    for name in ("kernelwright", "kernelwright-hub"):
        if programs:
            (tools / name).symlink_to(programs.resolve() / name)
    paths = [str(tools), kept["PATH"]]
    if site:
        # A virtual environment with the packages of `site`, as if pip had installed them.
        virtual = folder / ".venv"
        venv.create(virtual, symlinks=True)
        (packages,) = virtual.glob("lib/python*/site-packages")
        (packages / "site.pth").write_text(f"{site.resolve()}\n")
        paths.insert(0, str(virtual / "bin"))
    identity = {f"GIT_{who}_{what}": f"me{mail}" for who in ("AUTHOR", "COMMITTER") for what, mail in (("NAME", ""), ("EMAIL", "@example.com"))}
    return {**kept, **identity, "PATH": ":".join(paths), "HOME": str(folder), "KERNELWRIGHT_CACHE": cache, "NO_COLOR": "1"}


def in_new_folder(text: str, programs: pathlib.Path | None, site: pathlib.Path | None, steps: set[str], talk: bool) -> int:
    """As `check`, in an empty folder that is removed afterwards."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="kernelwright-page-")).resolve()
    shell = Shell(folder, environment(folder, programs, site))
    try:
        return check(text, shell, steps, talk)
    finally:
        shell.end()
        shutil.rmtree(folder, ignore_errors=True)


#: A page that is right, and pages that must be refused, each with a part of the reason.
RIGHT = """
<!-- run: as a/one.txt -->
```python
x = 1
```

    cd a                # this is no command
    wc -l one.txt

```text
$ cat one.txt; echo 'took 3.1 s, 40 kB'
x = 2
...
took 17 ms, 8 bytes
$ seq 3
1
...
```

<!-- run: exit 3 -->
```text
$ (echo sorry, $HOME; exit 3)
sorry, ...
```

<!-- not run: needs a GPU -->
    exit 9

<!-- run: step test -->
    exit 9
"""
BROKEN = {
    "    false\n": "ended with 1, not 0",
    "```text\n$ echo a\nb\n```\n": "did not print\n    b",
    "```text\n$ printf 'b\\na\\n'\na\nb\n```\n": "did not print\n    b",
    "```text\n$ echo abc\nab\n```\n": "did not print\n    ab",
    "<!-- run: exit 2 -->\n    true\n": "ended with 0, not 2",
    "<!-- run: exit 2 -->\n```text\nno command\n```\n": "has no command",
    "```python\nx = 1\n```\n": "say what the block is for",
    "<!-- run: as ../x -->\n```text\nx\n```\n": "not in the folder",
    "<!-- run: step gone -->\n    true\n": "no step 'gone'",
    "<!-- run: patch -->\n```diff\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n```\n": "does not apply",
    "<!-- not run: needs a GPU; bench/results/gone.jsonl -->\n    true\n": "does not exist",
    "<!-- run: quickly -->\n    true\n": "is not known",
    "<!-- run: exit 1 -->\nprose\n": "stands above no block",
    "```text\n$ true\n": "does not end",
    "    exit 0\n": "the shell ended",
}


def self_test() -> None:
    """The right page runs, and each broken one is refused for its reason."""
    steps = {"test"}
    assert in_new_folder(RIGHT, None, None, steps, False) == 5
    for page, reason in BROKEN.items():
        try:
            in_new_folder(page, None, None, steps, False)
        except PageError as error:
            if reason not in str(error):
                sys.exit(f"{page!r} is refused for another reason than {reason!r}: {error}")
        else:
            sys.exit(f"{page!r} is not refused, though: {reason}")
    print(f"{len(BROKEN)} broken pages are refused")


def pages() -> dict[str, pathlib.Path]:
    """Every page whose commands run, by its name."""
    tutorials = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
    return {path.stem: path for path in [ROOT / "README.md", *tutorials]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="names of pages; default: all")
    parser.add_argument("--programs", type=pathlib.Path, help="folder of kernelwright and kernelwright-hub")
    parser.add_argument("--site", type=pathlib.Path, help="folder of Python packages with torch and kernels")
    parser.add_argument("--steps", default="", help="the steps of CI, separated by commas")
    parser.add_argument("--self-test", action="store_true")
    options = parser.parse_args()
    if options.self_test:
        self_test()
        return
    if not (options.programs and options.site):
        parser.error("--programs and --site are needed")
    known = pages()
    if unknown := [name for name in options.pages if name not in known]:
        parser.error(f"no page {unknown[0]!r}; there are {', '.join(known)}")
    steps = set(options.steps.split(",")) if options.steps else set(re.findall(r'name: "([a-z-]+)"', (ROOT / "xtask/src/ci/steps.rs").read_text()))
    failed = False
    for name in options.pages or known:
        path = known[name].relative_to(ROOT)
        print(f"{path}", flush=True)
        try:
            ran = in_new_folder(known[name].read_text(), options.programs, options.site, steps, True)
            print(f"  {ran} commands", flush=True)
        except PageError as error:
            failed = True
            print(f"{path}:{error}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
