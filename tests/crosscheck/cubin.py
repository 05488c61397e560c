"""What a cubin says of its kernels, read from the ELF file and from nvdisasm.

Owns: the parts of a kernel that are compared. Never: judges a difference.
"""

import functools
import re
import struct
import subprocess
from dataclasses import dataclass, field

# Attributes of .nv.info, by the numbers of `cuobjdump -elf`: a symbol and a number each.
OF_SYMBOLS = {0x2F: "registers", 0x11: "stack"}
# What the driver and the host's code rely on: block sizes (0x05, 0x10), parameters, register limit (0x1b), clusters.
PARAM_CBANK, KPARAM_INFO = 0x0A, 0x17
OF_LAUNCH = {0x05, 0x10, PARAM_CBANK, KPARAM_INFO, 0x19, 0x1B, 0x3D, 0x3E, 0x3F}
# Instructions that have an effect on others or that need a unit of their own. How wide a load is, and where constants
# are read from, is for the compiler to choose.
EFFECTS = re.compile(
    r"(LDG|STG|LDS|STS|ATOM|RED|BAR|SHFL|VOTE|MATCH|MUFU|MEMBAR|[HIDBQ]MMA|UCGABAR|CALL)"
)


@dataclass
class Kernel:
    """One kernel, or a device function that was not inlined."""

    # Name of the part -> its bytes or size; what machine code and driver are made of.
    code: dict = field(default_factory=dict)
    # What who launches the kernel relies on.
    interface: dict = field(default_factory=dict)
    # Registers and stack.
    resources: dict = field(default_factory=dict)
    # The file that it was read from.
    path: str = ""


def read(path):
    """The kernels of a cubin by name, without what a compiler puts into names of anonymous namespaces."""
    with open(path, "rb") as file:
        elf = file.read()
    sections = list(_sections(elf))
    strings = next(body for name, _, body in sections if name == ".strtab")
    table = next(body for name, _, body in sections if name == ".symtab")
    starts = [struct.unpack_from("<I", table, at)[0] for at in range(0, len(table), 24)]
    symbols = [plain(strings[start : strings.index(b"\0", start)].decode()) for start in starts]
    kernels = {plain(name[6:]): Kernel(path=path) for name, _, _ in sections if name.startswith(".text.")}
    for name, size, body in sections:
        if name == ".nv.info":
            for _, attribute, value in _records(body):
                if attribute in OF_SYMBOLS and len(value) == 8:
                    symbol, number = struct.unpack("<II", value)
                    if symbols[symbol] in kernels:
                        kernels[symbols[symbol]].resources[OF_SYMBOLS[attribute]] = number
            continue
        part, kernel = _owner(name, kernels)
        if kernel is None:
            continue
        if part.startswith((".rel", ".rela")):
            kernel.code[part] = [(at, kind, symbols[symbol]) for at, kind, symbol in _relocations(part, body)]
        elif part == ".nv.info":
            for _, attribute, value in _records(body):
                where = kernel.interface if attribute in OF_LAUNCH else kernel.code
                where.setdefault(f"attribute {attribute:#x}", []).append(_told(attribute, value))
        elif part in (".nv.constant0", ".nv.shared"):
            kernel.interface[part] = size
        elif part == ".text" or part.startswith(".nv.constant"):
            kernel.code[part] = body
    return kernels


def plain(name):
    """A mangled name without that of an anonymous namespace, which follows from the file and the compiler."""
    while found := re.search(r"(\d+)_GLOBAL__N__", name):
        start = found.start() + len(found[1])
        name = f"{name[: found.start()]}12_GLOBAL__N_1{name[start + int(found[1]) :]}"
    return name


def _owner(name, kernels):
    """`.text.NAME`: the part and its kernel."""
    found = re.match(r"(\.(?:rela?\.)?(?:text|nv\.info|nv\.shared|nv\.constant\d+))\.(.+)", name)
    return (found[1], kernels.get(plain(found[2]))) if found else (name, None)


def _sections(elf):
    """Name, size and body of every section; those that take no place in the file have no body."""
    (table,) = struct.unpack_from("<Q", elf, 40)
    count, names = struct.unpack_from("<HH", elf, 60)
    headers = [struct.unpack_from("<IIQQQQIIQQ", elf, table + 64 * at) for at in range(count)]
    texts = elf[headers[names][4] : headers[names][4] + headers[names][5]]
    for start, kind, _, _, offset, size, *_ in headers:
        nobits = 8
        body = b"" if kind == nobits else elf[offset : offset + size]
        yield texts[start : texts.index(b"\0", start)].decode(), size, body


def _records(info):
    """The records of .nv.info: form, attribute, value. Forms 1 to 3 have two bytes, form 4 has as many as it says."""
    at = 0
    while at + 4 <= len(info):
        form, attribute, size = struct.unpack_from("<BBH", info, at)
        end = at + 4 + (size if form == 4 else 0)
        yield form, attribute, info[at + 4 : end] if form == 4 else info[at + 2 : end]
        at = end


def _relocations(part, body):
    """Place, kind and symbol of every relocation of a section."""
    size = 24 if part.startswith(".rela") else 16
    for at in range(0, len(body), size):
        place, info = struct.unpack_from("<QQ", body, at)
        yield place, info & 0xFFFFFFFF, info >> 32


def _told(attribute, value):
    """An attribute without what says nothing: the index of a symbol, what is known of where a pointer points."""
    if attribute == PARAM_CBANK:
        return value[4:]
    if attribute == KPARAM_INFO:
        _, ordinal, offset, word = struct.unpack("<IHHI", value)
        return ordinal, offset, word >> 18
    return value


@functools.cache
def effects(path, nvdisasm):
    """The kinds of instructions with an effect, for each kernel of a cubin."""
    listing = subprocess.run([nvdisasm, "-c", path], capture_output=True, text=True, check=True).stdout
    found, name = {}, None
    for line in listing.splitlines():
        if start := re.match(r"\.text\.(\S+):", line):
            name = plain(start[1])
            found[name] = set()
        elif name and (word := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][A-Z0-9]*)", line)):
            if EFFECTS.match(word[1]):
                found[name].add(word[1])
    return {name: frozenset(kinds) for name, kinds in found.items()}
