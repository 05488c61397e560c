#!/usr/bin/env python3
"""The records in bench/results: what they are, and those that were moved into an archive.

    python3 bench/records.py                      # writes the tables of records in bench/README.md
    python3 bench/records.py --check              # writes nothing; fails if the tables are out of date
    python3 bench/records.py add NAME --what TEXT # lists a record that is in bench/results, or one that has changed
    python3 bench/records.py list                 # every record: where it is, its protocol, what it records
    python3 bench/records.py show NAME            # prints a record
    python3 bench/records.py extract FOLDER [NAME ...]      # writes archived records to a folder; all without names
    python3 bench/records.py archive VERSION NAME [...]     # moves records into archive-VERSION.tar.xz

`bench/results/index.toml` lists every record with its SHA-256, and `show` and `extract` compare it. Needs Python 3.11.
"""

import argparse
import hashlib
import io
import json
import pathlib
import sys
import tarfile
import tomllib

ROOT = pathlib.Path(__file__).resolve().parent.parent
RESULTS = ROOT / "bench" / "results"
INDEX = RESULTS / "index.toml"
README = ROOT / "bench" / "README.md"
HEADER = """\
# Every record, with its digest: `python3 bench/records.py list`. A record with `archive` is in that file.
# `protocol` is that of `bench`; records of other scripts have none. bench/README.md says how to add a record.
"""
BEGIN, END = "<!-- records.py -->\n", "<!-- end -->"


def digest(data):
    """SHA-256, hexadecimal."""
    return hashlib.sha256(data).hexdigest()


def load():
    """The archives and the records of the index."""
    index = tomllib.loads(INDEX.read_text())
    return index.get("archive", []), index["record"]


def written(archives, records):
    """The text of index.toml."""
    tables = [("archive", one) for one in archives] + [("record", one) for one in records]
    lines = lambda one: "".join(f"{key} = {json.dumps(value, ensure_ascii=False)}\n" for key, value in one.items())
    return HEADER + "".join(f"\n[[{kind}]]\n{lines(one)}" for kind, one in tables)


def protocols(name, data):
    """The protocols of the measurements in a file of records."""
    if not name.endswith(".jsonl"):
        return []
    found = {json.loads(line).get("protocol") for line in data.decode().splitlines() if line}
    return sorted(protocol for protocol in found if isinstance(protocol, int))


def content(record):
    """The bytes of a record, compared with its digest."""
    if archive := record.get("archive"):
        with tarfile.open(RESULTS / archive) as packed:
            data = packed.extractfile(record["name"]).read()
    else:
        data = (RESULTS / record["name"]).read_bytes()
    if digest(data) != record["sha256"]:
        sys.exit(f"{record['name']}: the digest is not that of index.toml")
    return data


def pick(records, names):
    """The records of these names."""
    known = {record["name"]: record for record in records}
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"not in index.toml: {', '.join(unknown)}")
    return [known[name] for name in names]


def pack(contents):
    """A tar.xz of files by name; equal for equal files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:xz", format=tarfile.USTAR_FORMAT, preset=9) as packed:
        for name, data in sorted(contents.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), 0o644
            packed.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def archive(version, names):
    """Moves records into the archive of a release, which must not exist: one that was committed never changes."""
    archives, records = load()
    path = RESULTS / f"archive-{version}.tar.xz"
    if path.exists():
        sys.exit(f"{path.name} exists; an archive is written once")
    chosen = pick(records, names)
    if packed := [record["name"] for record in chosen if "archive" in record]:
        sys.exit(f"in an archive already: {', '.join(packed)}")
    path.write_bytes(pack({record["name"]: content(record) for record in chosen}))
    for record in chosen:
        record["archive"] = path.name
    archives.append({"name": path.name, "sha256": digest(path.read_bytes())})
    INDEX.write_text(written(archives, records))
    for record in chosen:
        content(record)
        (RESULTS / record["name"]).unlink()
    README.write_text(tables(README.read_text()))
    print(f"{path.name}: {len(chosen)} records, {path.stat().st_size} bytes")


def add(name, what):
    """Lists a record of the folder, with its digest and protocols; without `what` the text stays."""
    archives, records = load()
    path = RESULTS / name
    if path.parent != RESULTS or not path.is_file():
        sys.exit(f"bench/results has no file {name}")
    known = next((record for record in records if record["name"] == name), None)
    if known and "archive" in known:
        sys.exit(f"{name} is in {known['archive']}, which never changes")
    what = what or (known or {}).get("what")
    if not what:
        sys.exit(f"{name} is new: say what it records, with --what")
    data = path.read_bytes()
    record = {"name": name, "sha256": digest(data)}
    if found := protocols(name, data):
        record["protocol"] = found
    records = [one for one in records if one is not known] + [{**record, "what": what}]
    INDEX.write_text(written(archives, sorted(records, key=lambda one: one["name"])))
    README.write_text(tables(README.read_text()))


def tables(text):
    """bench/README.md with the tables of the index."""
    archives, records = load()
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END, 1)
    lines = ["| file | what |", "|---|---|"]
    lines += [f"| [{one['name']}](results/{one['name']}) | {one['what']} |" for one in records if "archive" not in one]
    for one in archives:
        lines += ["", f"In [{one['name']}](results/{one['name']}):", "", "| file | what |", "|---|---|"]
        lines += [f"| `{it['name']}` | {it['what']} |" for it in records if it.get("archive") == one["name"]]
    return head + BEGIN + "\n".join(lines) + "\n" + END + tail


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--check", action="store_true")
    commands = arguments.add_subparsers(dest="command")
    one = commands.add_parser("add")
    one.add_argument("name")
    one.add_argument("--what")
    commands.add_parser("list")
    commands.add_parser("show").add_argument("name")
    one = commands.add_parser("extract")
    one.add_argument("folder", type=pathlib.Path)
    one.add_argument("names", nargs="*")
    one = commands.add_parser("archive")
    one.add_argument("version")
    one.add_argument("names", nargs="+")
    given = arguments.parse_args()
    _, records = load()
    if given.command == "add":
        add(given.name, given.what)
    elif given.command == "list":
        for record in records:
            protocol = ",".join(map(str, record.get("protocol", []))) or "-"
            print(f"{record['name']}  {record.get('archive', 'results')}  protocol {protocol}  {record['what']}")
    elif given.command == "show":
        sys.stdout.buffer.write(content(pick(records, [given.name])[0]))
    elif given.command == "extract":
        names = given.names or [record["name"] for record in records if "archive" in record]
        given.folder.mkdir(parents=True, exist_ok=True)
        for record in pick(records, names):
            (given.folder / record["name"]).write_bytes(content(record))
    elif given.command == "archive":
        archive(given.version, given.names)
    elif given.check:
        if tables(README.read_text()) != README.read_text():
            sys.exit("bench/README.md is out of date: python3 bench/records.py")
    else:
        README.write_text(tables(README.read_text()))


if __name__ == "__main__":
    main()
