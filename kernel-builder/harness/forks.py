"""A process that has imported torch and forks: each role of the harness gets a process in milliseconds, not in seconds.

Owns: the socket on which processes are asked for, forking, and telling how a child ended.
Never: reads what a child is given or says, runs code of a project, or keeps a descriptor of a child.

Runs as `python -I [-S] -c TEXT`, with one end of a pair of sockets as standard input. A request is one message: a JSON
object (`script`, `env`, `cwd`) with four descriptors, the three standard ones of the child and a socket for the answer:
`pid N`, and `status N` with the wait status when the child has ended. If that socket closes earlier, the child's process
group is killed. When the other end of the pair is closed everywhere, this process ends.
docs/decisions/0016 says what a child shares with this process, and why that is of no use to a kernel.
"""

import ctypes
import gc
import json
import os
import selectors
import signal
import site
import socket
import sys
import tempfile
import types
from typing import TypedDict

# The judge's own modules import these, too: a child finds them loaded.
PRELOADED = (
    "concurrent.futures",
    "contextlib",
    "hashlib",
    "importlib.util",
    "math",
    "platform",
    "random",
    "torch",
    "traceback",
)
# A request is a path and an environment.
LONGEST_REQUEST = 1 << 17
PR_SET_DUMPABLE = 4


def seal(closed: bool) -> None:
    """Keep other processes of the user from reading or writing this one's memory, or allow it again in a child."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0 if closed else 1, 0, 0, 0)
    except (AttributeError, OSError):
        pass


def preload() -> None:
    """Import what every role imports."""
    managed = os.environ.get("KERNELWRIGHT_SITE")
    if managed:
        site.addsitedir(managed)
    for name in PRELOADED:
        __import__(name)


class Request(TypedDict):
    """What is asked for: `Request` of base/process/forks.rs."""

    script: str
    env: dict[str, str]
    cwd: str


def ignore(_number: int, _frame: types.FrameType | None) -> None:
    """Handle a signal that only has to wake the process."""


def become(request: Request, sent: list[int]) -> str:
    """Turn this new process into the child that was asked for; the path of its script."""
    for target, descriptor in enumerate(sent):
        os.dup2(descriptor, target)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["cwd"])
    # Each would be as in the siblings otherwise; `random` sees to itself.
    tempfile.tempdir = None
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    sys.argv = [request["script"]]
    seal(False)
    return request["script"]


class Server:
    """The connections, and the children behind them."""

    def __init__(self) -> None:
        self.requests = socket.socket(fileno=os.dup(0))
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        self.ended, self.waking = socket.socketpair()
        for one in (self.ended, self.waking):
            one.setblocking(False)
        signal.signal(signal.SIGCHLD, ignore)
        signal.set_wakeup_fd(self.waking.fileno(), warn_on_full_buffer=False)
        self.selector = selectors.DefaultSelector()
        for one in (self.requests, self.ended):
            self.selector.register(one, selectors.EVENT_READ)
        # Children that run, by the sockets of their answers, and the other way round.
        self.children: dict[socket.socket, int] = {}
        self.answers: dict[int, socket.socket | None] = {}

    def serve(self) -> str:
        """Serve until nobody can ask any more; in a child, return the path of its script."""
        while True:
            for key, _ in self.selector.select():
                if key.fileobj is self.requests:
                    script = self.take()
                    if script is not None:
                        return script
                elif key.fileobj is self.ended:
                    self.ended.recv(4096)
                    self.reap()
                elif isinstance(key.fileobj, socket.socket):
                    self.abandon(key.fileobj)

    def take(self) -> str | None:
        """Fork for one request; in the child, return the path of its script."""
        text, sent, _, _ = socket.recv_fds(self.requests, LONGEST_REQUEST, 4)
        if not text and not sent:
            os._exit(0)
        *standard, last = sent
        answer = socket.socket(fileno=last)
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            answer.close()
            self.leave()
            return become(json.loads(text), standard)
        for descriptor in standard:
            os.close(descriptor)
        try:
            os.setpgid(child, child)
        except OSError:
            pass  # the child has done so itself, or has ended
        self.children[answer], self.answers[child] = child, answer
        self.selector.register(answer, selectors.EVENT_READ)
        self.tell(answer, f"pid {child}\n")
        return None

    def leave(self) -> None:
        """Close all that is the server's, in a child."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.selector.close()
        for one in (self.requests, self.ended, self.waking, *self.children):
            one.close()

    def tell(self, answer: socket.socket, text: str) -> None:
        """Send a line to the process that asked, if it is still there."""
        try:
            answer.sendall(text.encode())
        except OSError:
            pass  # the selector reports a closed socket

    def reap(self) -> None:
        """Report the children that have ended."""
        while self.answers:
            child, status = os.waitpid(-1, os.WNOHANG)
            if child == 0:
                return
            answer = self.answers.pop(child)
            if answer is not None:
                self.tell(answer, f"status {status}\n")
                self.forget(answer)

    def forget(self, answer: socket.socket) -> None:
        """Close the socket of a child."""
        del self.children[answer]
        self.selector.unregister(answer)
        answer.close()

    def abandon(self, answer: socket.socket) -> None:
        """Kill the child whose socket was closed at the other end."""
        child = self.children.get(answer)
        if child is None:
            return  # it was reaped in the same turn
        self.answers[child] = None
        self.forget(answer)
        try:
            os.killpg(child, signal.SIGKILL)
        except OSError:
            pass  # it has ended, and is reaped next


def main() -> types.ModuleType:
    """Preload and serve; in a child, return the module in which its script runs."""
    # Descriptors that somebody further up has left open are no concern of a child.
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    preload()
    gc.collect()
    gc.freeze()
    seal(True)
    script = Server().serve()
    module = types.ModuleType("__main__")
    module.__file__ = script
    sys.modules["__main__"] = module
    with open(script, encoding="utf-8") as file:
        module.__dict__["__code__"] = compile(file.read(), script, "exec")
    return module


scope = main().__dict__
exec(scope.pop("__code__"), scope)
