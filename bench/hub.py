#!/usr/bin/env python3
"""How fast a hub serves files to many clients at a time, beside nginx serving the same files, in turn in one run.

Each of `--clients` clients (64) is a connection of its own and fetches one file of `--mib` MiB (16); all are driven by
one process of the loop below, which reads into one buffer and counts. A round is one such batch from either server, in
an order that changes from round to round; both have answered once before. The hub's rate over nginx's is given as the
median of the rounds' ratios with its 95% bootstrap interval. Content is compared once, before anything is timed.

    python3 bench/hub.py --program target/release/kernelwright-hub --out record.json

Needs nginx (apt-get install nginx). Both keep their access logs; both get as many threads as there are processors.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import random
import selectors
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import machine

NGINX = """
daemon off;
pid {dir}/nginx.pid;
error_log {dir}/error.log;
worker_processes {workers};
events {{ worker_connections 1024; }}
http {{
    access_log {dir}/access.log;
    sendfile on;
    tcp_nopush on;
    default_type application/octet-stream;
    client_body_temp_path {dir}/body; proxy_temp_path {dir}/proxy; fastcgi_temp_path {dir}/fastcgi;
    uwsgi_temp_path {dir}/uwsgi; scgi_temp_path {dir}/scgi;
    server {{ listen 127.0.0.1:{port}; root {files}; }}
}}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def call(url, method="GET", body=None, token=None):
    request = urllib.request.Request(url, data=body, method=method)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=120) as answer:
        return answer.read()


def fill(url, token, files):
    """A kernel with these files, by LFS."""
    api = f"{url}/api/kernels/bench/files"
    made = {"name": "files", "organization": "bench", "type": "kernel"}
    call(f"{url}/api/repos/create", "POST", json.dumps(made).encode(), token)
    lines = [{"key": "header", "value": {"summary": "files"}}]
    for name, content in files.items():
        found = {"oid": hashlib.sha256(content).hexdigest(), "size": len(content)}
        batch = {"operation": "upload", "transfers": ["basic"], "objects": [found]}
        answer = call(f"{url}/kernels/bench/files.git/info/lfs/objects/batch", "POST", json.dumps(batch).encode(), token)
        call(json.loads(answer)["objects"][0]["actions"]["upload"]["href"], "PUT", content)
        lines.append({"key": "lfsFile", "value": {"path": name, "algo": "sha256", **found}})
    call(f"{api}/commit/main", "POST", "\n".join(map(json.dumps, lines)).encode(), token)


def fetch(port, paths, size):
    """One batch: a connection for each path, all at a time. Seconds until the last byte."""
    selector, buffer, left = selectors.DefaultSelector(), bytearray(1 << 20), 0
    started = time.perf_counter()
    for path in paths:
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        connection.setblocking(False)
        selector.register(connection, selectors.EVENT_READ, [0, b""])
        left += 1
    while left:
        for key, _ in selector.select(60) or sys.exit("nothing came for a minute"):
            count = key.fileobj.recv_into(buffer)
            state = key.data
            if state[1] is not None:
                # The head, until its end; what is behind it counts.
                state[1] += bytes(buffer[:count])
                head, end, rest = state[1].partition(b"\r\n\r\n")
                if end:
                    assert head.startswith(b"HTTP/1.1 200"), head
                    state[0], state[1] = len(rest), None
            else:
                state[0] += count
            if count == 0:
                assert state[0] == size, f"{state[0]} bytes of {size} came"
                selector.unregister(key.fileobj)
                key.fileobj.close()
                left -= 1
    return time.perf_counter() - started


def processor_seconds(parent):
    """What a process and its children have used, in user and system mode."""
    used, ticks = 0, os.sysconf("SC_CLK_TCK")
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if parent in (int(stat.parent.name), int(fields[1])):
            used += int(fields[11]) + int(fields[12])
    return used / ticks


def interval(ratios, draws=10_000):
    """The 95% percentile bootstrap interval of the median."""
    drawn = random.Random(7)
    medians = sorted(statistics.median(drawn.choices(ratios, k=len(ratios))) for _ in range(draws))
    return medians[int(0.025 * draws)], medians[int(0.975 * draws)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=pathlib.Path, required=True, help="kernelwright-hub, of the release profile")
    parser.add_argument("--nginx", default=shutil.which("nginx") or "/usr/sbin/nginx")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--mib", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--least", type=float, help="fail when the interval's lower end is below")
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    if not pathlib.Path(arguments.nginx).exists():
        sys.exit("there is no nginx: apt-get install nginx")
    if not arguments.program.is_file():
        sys.exit(f"no program at {arguments.program}: cargo build --release --bin kernelwright-hub makes target/release/kernelwright-hub")
    size = arguments.mib << 20
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        os.chmod(scratch, 0o755)
        files = {f"{index}.bin": os.urandom(size) for index in range(8)}
        www = scratch / "www"
        www.mkdir()
        for name, content in files.items():
            (www / name).write_bytes(content)
        program = arguments.program.resolve()
        made = subprocess.run([program, "token", "new", scratch / "hub", "bench", "--scope", "write"],
                              check=True, capture_output=True, text=True)
        log = open(scratch / "hub.log", "w")
        hub = subprocess.Popen([program, scratch / "hub", "--bind", "127.0.0.1:0"], stdout=subprocess.PIPE, stderr=log, text=True)
        port = free_port()
        configuration = scratch / "nginx.conf"
        configuration.write_text(NGINX.format(dir=scratch, files=www, port=port, workers=os.cpu_count()))
        nginx = subprocess.Popen([arguments.nginx, "-c", configuration, "-e", scratch / "error.log"])
        try:
            url = hub.stdout.readline().strip()
            fill(url, made.stdout.strip(), files)
            servers = {"hub": (int(url.rsplit(":", 1)[1]), "/kernels/bench/files/resolve/main/"), "nginx": (port, "/")}
            for name, (at, prefix) in servers.items():
                for file, content in files.items():
                    assert call(f"http://127.0.0.1:{at}{prefix}{file}") == content, f"{name} serves another {file}"
            names = list(files)
            batch = {name: (at, [prefix + names[client % len(names)] for client in range(arguments.clients)])
                     for name, (at, prefix) in servers.items()}
            seconds, used = {"hub": [], "nginx": []}, {"hub": 0.0, "nginx": 0.0}
            process = {"hub": hub.pid, "nginx": nginx.pid}
            for number in range(arguments.rounds + 1):
                order = ["hub", "nginx"] if number % 2 else ["nginx", "hub"]
                for name in order:
                    before = processor_seconds(process[name])
                    took = fetch(*batch[name], size)
                    if number:
                        seconds[name].append(took)
                        used[name] += processor_seconds(process[name]) - before
        finally:
            for server in (hub, nginx):
                server.terminate()
                server.wait()
    ratios = [there / here for here, there in zip(seconds["hub"], seconds["nginx"])]
    low, high = interval(ratios)
    rate = {name: arguments.clients * size / statistics.median(times) / 1e6 for name, times in seconds.items()}
    version = subprocess.run([arguments.nginx, "-v"], capture_output=True, text=True).stderr.strip()
    record = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "commit": subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True,
                                 cwd=pathlib.Path(__file__).parent).stdout.strip(),
        "machine": machine.described(), "nginx": version, "clients": arguments.clients, "bytes": size,
        "ratio": statistics.median(ratios), "low": low, "high": high, "megabytes_per_second": rate, "seconds": seconds,
        "processor_seconds": {name: spent / arguments.rounds for name, spent in used.items()},
        "load": os.getloadavg(),
    }
    print(f"hub {rate['hub']:.0f} MB/s, {version} {rate['nginx']:.0f} MB/s: {record['ratio']:.2f}x [{low:.2f}, {high:.2f}] "
          f"of {arguments.rounds} rounds, {arguments.clients} clients of {arguments.mib} MiB; processor seconds a round: "
          + ", ".join(f"{name} {spent / arguments.rounds:.2f}" for name, spent in used.items()))
    if arguments.out:
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")
    if arguments.least and low < arguments.least:
        sys.exit(f"{low:.2f} is below {arguments.least}")


if __name__ == "__main__":
    main()
