"""Keeps a process from changing files other than its own (Linux Landlock), and gives it a home to write in.

Owns: the rules, the variables that name a home or a cache. Never: decides who is kept; the judge does.

A package may read what its user may read: Python, torch, the driver. It writes only below its home, to named folders, to
devices and to what /proc has of itself. It can neither trace nor, from Linux 6.12 on, signal processes that it did not
start (kernel documentation, "Landlock: unprivileged access control"). Modes and times of files are not guarded.
"""

import ctypes
import os
import platform
import stat
import tempfile
from collections.abc import Iterable

# Rights of Landlock, as in linux/landlock.h, and the version of its interface that knows them.
WRITE_FILE, TRUNCATE = 1 << 1, 1 << 14
CHANGES = (
    (1, WRITE_FILE),
    (1, sum(1 << place for place in range(4, 13))),  # removing and making files of every kind
    (2, 1 << 13),  # moving them to another folder
    (3, TRUNCATE),
)
# The driver of CUDA names its threads here, and does not start where it cannot.
OWN_PROCESS = "/proc/self"
SIGNALS_SINCE, SCOPE_SIGNAL = 6, 1 << 1
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_ASKED = 1
RULE_PATH_BENEATH = 1
PR_SET_NO_NEW_PRIVS = 38
# Folders of /dev that hold files of others, not devices.
SHARED_MEMORY = ("hugepages", "mqueue", "shm")
# Without these a cache is below the home or the folder for temporary files.
PLACES = (
    "CUDA_CACHE_PATH",
    "CUTE_DSL_CACHE_DIR",
    "NUMBA_CACHE_DIR",
    "PYTORCH_KERNEL_CACHE_PATH",
    "TORCHINDUCTOR_CACHE_DIR",
    "TORCH_EXTENSIONS_DIR",
    "TORCH_HOME",
    "TRITON_CACHE_DIR",
    "TRITON_DUMP_DIR",
    "TRITON_HOME",
    "TRITON_OVERRIDE_DIR",
    "TVM_FFI_CACHE_DIR",
    "XDG_CACHE_HOME",
)


class RulesetAttr(ctypes.Structure):
    """`struct landlock_ruleset_attr`."""

    _fields_ = (
        ("handled_access_fs", ctypes.c_uint64),
        ("handled_access_net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class PathBeneathAttr(ctypes.Structure):
    """`struct landlock_path_beneath_attr`, without gaps."""

    _pack_ = 1
    _fields_ = (("allowed_access", ctypes.c_uint64), ("parent_fd", ctypes.c_int32))


def landlock(number: int, *arguments: object) -> int:
    """One system call; what it returns."""
    library = ctypes.CDLL(None, use_errno=True)
    result = int(library.syscall(ctypes.c_long(number), *arguments))
    if result < 0:
        problem = ctypes.get_errno()
        raise OSError(problem, f"the system did not confine the process: {os.strerror(problem)}")
    return result


def devices() -> list[str]:
    """The devices, and the folders of devices."""
    found: list[str] = []
    with os.scandir("/dev") as entries:
        for entry in entries:
            try:
                mode = entry.stat().st_mode
            except OSError:
                continue  # a link to nothing
            if stat.S_ISCHR(mode) or (stat.S_ISDIR(mode) and entry.name not in SHARED_MEMORY):
                found.append(entry.path)
    return found


def make_device_nodes() -> None:
    """Let the driver make what lacks of its device nodes: it does so by a program with more rights than a kept process has."""
    if not os.path.exists("/dev/nvidiactl") or os.path.exists("/dev/nvidia-uvm"):
        return
    child = os.fork()
    if child == 0:
        try:
            ctypes.CDLL("libcuda.so.1").cuInit(0)
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def move_home(home: str) -> None:
    """Point HOME, TMPDIR and the caches of libraries to `home`."""
    for name in PLACES:
        os.environ.pop(name, None)
    temporary = os.path.join(home, "tmp")
    os.makedirs(temporary, exist_ok=True)
    os.environ.update(HOME=home, TMPDIR=temporary)
    tempfile.tempdir = None


def keep(home: str, writable: Iterable[str]) -> None:
    """Keep this process, and all that it starts, to `home` and to the folders in `writable`.

    Only the calling thread is kept, so it must be the only one. Raises OSError if the system refuses.
    """
    if platform.system() != "Linux":
        raise OSError("only Linux can confine a process")
    make_device_nodes()
    move_home(home)
    version = landlock(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(VERSION_ASKED))
    handled = sum(rights for since, rights in CHANGES if version >= since)
    rules = RulesetAttr(handled, 0, SCOPE_SIGNAL if version >= SIGNALS_SINCE else 0)
    ruleset = landlock(CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(ctypes.sizeof(rules)), ctypes.c_uint32(0))
    places = [(path, handled) for path in (home, *writable)]
    places += [(path, handled & (WRITE_FILE | TRUNCATE)) for path in (OWN_PROCESS, *devices())]
    for path, rights in places:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        beneath = PathBeneathAttr(rights, place)
        landlock(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.byref(beneath), ctypes.c_uint32(0))
        os.close(place)
    if ctypes.CDLL(None).prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError("the system did not confine the process")
    landlock(RESTRICT_SELF, ruleset, ctypes.c_uint32(0))
    os.close(ruleset)
