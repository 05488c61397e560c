"""Compares machine code that this program made for a CUDA 12 with that of NVRTC, NVIDIA's own compiler of that release.

    compare.py --nvrtc DIR --tools DIR --library FILE --project DIR --plan FILE --release 12.6 --work DIR

Owns: compiling by NVRTC, what counts as a difference, the table. Never: builds, fetches, or needs a GPU.
The exit code is 1 when code differs where expected.txt does not say so, or a line of it is not needed any more.
"""

import argparse
import ctypes
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cubin

HERE = Path(__file__).parent
# NVRTC has no headers of a C++ library. These are what the sources include of one, as on x86_64 Linux.
CSTDINT = "".join(
    f"typedef {kind} int{bits}_t; typedef unsigned {'char' if bits == 8 else kind} uint{bits}_t; "
    for bits, kind in ((8, "signed char"), (16, "short"), (32, "int"), (64, "long"))
) + "typedef unsigned long uintptr_t; namespace std {}"


class Nvrtc:
    """The library of one release."""

    def __init__(self, site):
        folder = Path(site, "nvidia/cuda_nvrtc/lib")
        # It loads this one by name.
        for builtins in folder.glob("libnvrtc-builtins.so*"):
            ctypes.CDLL(str(builtins), ctypes.RTLD_GLOBAL)
        self.library = ctypes.CDLL(str(folder / "libnvrtc.so.12"))
        self.library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def call(self, name, *arguments):
        code = getattr(self.library, f"nvrtc{name}")(*arguments)
        return self.library.nvrtcGetErrorString(code).decode() if code else None

    def text(self, program, what):
        size = ctypes.c_size_t()
        self.call(f"Get{what}Size", program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(size.value)
        self.call(f"Get{what}", program, buffer)
        return buffer.raw

    def compile(self, name, source, headers, options):
        """The cubin of a source."""
        program = ctypes.c_void_p()
        failed = self.call(
            "CreateProgram", ctypes.byref(program), source.encode(), name.encode(), len(headers),
            strings(headers.values()), strings(headers),
        )  # fmt: skip
        failed = failed or self.call("CompileProgram", program, len(options), strings(options))
        if failed:
            log = self.text(program, "ProgramLog").rstrip(b"\0").decode()
            sys.exit(f"error: NVRTC does not compile {name}: {failed}\n{log}")
        made = self.text(program, "CUBIN")
        self.call("DestroyProgram", ctypes.byref(program))
        return made


def strings(texts):
    """An array of C."""
    texts = [text.encode() for text in texts]
    return (ctypes.c_char_p * len(texts))(*texts)


def units(plan):
    """The CUDA sources of a plan and the options that both compilers know."""
    found = {}
    for line in plan.splitlines():
        words = shlex.split(line, comments=True)
        if "-c" not in words or not words[words.index("-c") + 1].endswith(".cu"):
            continue
        options = [word for word in words if word.startswith(("-std=", "-D"))]
        options += [f"-I{words[at + 1]}" for at, word in enumerate(words) if word == "-isystem"]
        found[words[words.index("-c") + 1]] = options
    return found


def ours(library, tools, work):
    """The kernels in a library, by architecture."""
    work.mkdir(parents=True)
    command = [os.path.abspath(f"{tools}/nvidia/cu13/bin/cuobjdump"), "-xelf", "all", os.path.abspath(library)]
    subprocess.run(command, cwd=work, check=True, stdout=subprocess.DEVNULL)
    found = {}
    for path in work.iterdir():
        found.setdefault(path.name.split(".sm_")[1].removesuffix(".cubin"), {}).update(cubin.read(path))
    return dict(sorted(found.items(), key=lambda pair: int(re.match(r"\d+", pair[0])[0])))


def theirs(nvrtc, project, plan, archs, work):
    """The same kernels, compiled by NVRTC, by architecture."""
    work.mkdir()

    def one(arch, unit, options):
        headers = {"cstdint": CSTDINT, "stdint.h": CSTDINT}
        source = f'#include "{Path(unit).name}"\n'
        if not unit.startswith("device/"):
            # It has host code too.
            headers["launches.h"] = (HERE / "launches.h").read_text()
            source = f'#include "launches.h"\n{source}'
            options = [*options, "-default-device"]
        options = [f"--gpu-architecture=sm_{arch}", f"-I{Path(project, unit).parent}", *options]
        path = work / f"{Path(unit).stem}.{arch}.cubin"
        path.write_bytes(nvrtc.compile(f"crosscheck_{Path(unit).name}", source, headers, options))
        return arch, cubin.read(path)

    jobs = [(arch, unit, options) for arch in archs for unit, options in units(plan).items()]
    found = {arch: {} for arch in archs}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for arch, kernels in pool.map(lambda job: one(*job), jobs):
            found[arch].update(kernels)
    return found


def differences(name, ours, theirs, nvdisasm):
    """What differs: in the code, and in what may not differ whatever the code."""
    code = unequal(ours.resources, theirs.resources) + unequal(ours.code, theirs.code)
    wrong = unequal(ours.interface, theirs.interface)
    if ours.code.get(".text") != theirs.code.get(".text"):
        # Lists of places in the code follow from it.
        code = [what for what in code if not what.startswith("attribute")]
        found, wanted = (cubin.effects(kernel.path, nvdisasm)[name] for kernel in (ours, theirs))
        if found != wanted:
            wrong.append(f"instructions {' '.join(sorted(found ^ wanted))} in one of them only")
    return code, wrong


def unequal(ours, theirs):
    """What of two tables is not the same, in words."""

    def tell(value):
        return f"{len(value)} bytes" if isinstance(value, bytes) else value

    parts = [part for part in sorted(ours.keys() | theirs.keys()) if ours.get(part) != theirs.get(part)]
    return [f"{part} ({tell(ours.get(part))}, NVRTC {tell(theirs.get(part))})" for part in parts]


class Expected:
    """expected.txt: the lines, which of them were met, and which of those were needed."""

    def __init__(self, path):
        lines = [line.split(None, 2) for line in path.read_text().splitlines() if line and not line.startswith("#")]
        self.lines = {(arch, kernel) for arch, kernel, _ in lines}
        self.needed, self.met = set(), set()

    def allows(self, arch, kernel, differs):
        for key in ((arch, kernel), ("*", kernel), (arch, "*")):
            if key in self.lines:
                self.met.add(key)
                if differs:
                    self.needed.add(key)
                return True
        return False

    def stale(self):
        return [" ".join(key) for key in self.met - self.needed]


def capability(arch):
    number, suffix = re.match(r"(\d+)(\D*)", arch).groups()
    return f"{number[:-1]}.{number[-1]}{suffix}"


def main():
    parser = argparse.ArgumentParser()
    for name in ("nvrtc", "tools", "library", "project", "plan", "release", "work"):
        parser.add_argument(f"--{name}", required=True)
    args = parser.parse_args()
    nvrtc, expected, work = Nvrtc(args.nvrtc), Expected(HERE / "expected.txt"), Path(args.work)
    nvdisasm = f"{args.tools}/nvidia/cu13/bin/nvdisasm"
    plan = Path(args.plan).read_text()
    built = ours(args.library, args.tools, work / "ours")
    if not built:
        sys.exit(f"error: {args.library} holds no machine code")
    other = theirs(nvrtc, args.project, plan, list(built), work / "theirs")
    rows, told, counts = {}, [], {"equal": 0, "expected": 0, "wrong": 0}
    for arch in built:
        for kernel in sorted(built[arch].keys() | other[arch].keys()):
            if kernel not in built[arch] or kernel not in other[arch]:
                code, wrong = [], [f"only {'ours' if kernel in built[arch] else 'that of NVRTC'} has it"]
            else:
                code, wrong = differences(kernel, built[arch][kernel], other[arch][kernel], nvdisasm)
            if not expected.allows(capability(arch), kernel, bool(code)):
                wrong = code + wrong
            outcome = "wrong" if wrong else "expected" if code else "equal"
            counts[outcome] += 1
            rows.setdefault(kernel, {})[arch] = {"equal": "equal", "expected": "differs", "wrong": "WRONG"}[outcome]
            if wrong:
                told.append(f"WRONG: {capability(arch)} {kernel}: {'; '.join(wrong)}")
    show(args.release, list(built), rows, counts)
    told += [f"WRONG: expected.txt: `{line}` is not needed: the code is equal" for line in expected.stale()]
    print("".join(f"{line}\n" for line in told), end="")
    sys.exit(1 if told else 0)


def show(release, archs, rows, counts):
    width = max(map(len, rows))
    print(f"\nCUDA {release}, kernel by capability; `differs` where expected.txt says so")
    print(f"{'':<{width}}  " + "".join(f"{capability(arch):<9}" for arch in archs))
    for kernel, cells in rows.items():
        print(f"{kernel:<{width}}  " + "".join(f"{cells.get(arch, '-'):<9}" for arch in archs).rstrip())
    print(f"CUDA {release}: {counts['equal']} equal, {counts['expected']} differ as expected, {counts['wrong']} wrong")


if __name__ == "__main__":
    main()
