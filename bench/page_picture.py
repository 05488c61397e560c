#!/usr/bin/env python3
"""Pictures of the program's pages in README.md and docs/, taken by Chromium.

    python3 -m pip install playwright pillow
    cargo build --bin kernelwright
    python3 bench/page_picture.py --program target/debug/kernelwright
    python3 bench/page_picture.py --program target/debug/kernelwright --check     # writes nothing, needs neither package
    python3 bench/page_picture.py --build PROJECT      # docs/images/build.png, of .kernelwright/report.html of the project

Each of PICTURES is a page of `report` of committed records, from the top to the element that ends it, in the light theme. The
PNG also has the digest of the page: `--check` fails if the program makes another page of the record. A build takes another time
whenever it runs, so that picture is not checked.
"""

import argparse
import hashlib
import io
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
RECORDS = ROOT / "bench" / "results"
IMAGES = ROOT / "docs" / "images"
#: The file of records of each picture, and what ends the picture. Of several pages, the first one is taken.
PICTURES = {
    "model": ("2026-11-28-h200-e2e-second.jsonl", "details"),
    "report": ("2026-11-25-h200-rows.jsonl", "section figure:nth-of-type(2)"),
}
#: What ends the picture of a build: the heading behind the timeline and the memory.
BUILD_END = "h2:nth-of-type(3)"
WIDTH = 1000
#: The most bytes of the picture, since every clone has it.
MOST = 150_000
COLOURS = 128
DIGEST = "Page-SHA256"
BROWSERS = ["chromium", "chromium-browser", "google-chrome"]


def taken(page: pathlib.Path, end: str) -> bytes:
    """The picture of a page up to the first element that `end` selects, as a PNG with few colours."""
    from PIL import Image, PngImagePlugin
    from playwright.sync_api import sync_playwright

    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"no browser found on PATH: {', '.join(BROWSERS)}")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=browser)
        opened = launched.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        opened.goto(page.as_uri())
        bottom = opened.locator(end).first.bounding_box()["y"]
        clip = {"x": 0, "y": 0, "width": WIDTH, "height": int(bottom)}
        whole = opened.screenshot(full_page=True, clip=clip)
        launched.close()
    few = Image.open(io.BytesIO(whole)).convert("RGB").quantize(COLOURS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    words = PngImagePlugin.PngInfo()
    words.add_text(DIGEST, digest(page))
    packed = io.BytesIO()
    few.save(packed, "PNG", optimize=True, pnginfo=words)
    return packed.getvalue()


def digest(page: pathlib.Path) -> str:
    return hashlib.sha256(page.read_bytes()).hexdigest()


def recorded(picture: bytes) -> str | None:
    """The digest in a picture, which a tEXt chunk has."""
    found = re.search(rb"tEXt" + DIGEST.encode() + rb"\0([0-9a-f]{64})", picture)
    return found and found[1].decode()


def written(name: str, page: pathlib.Path, end: str) -> None:
    """Takes the picture of a page, and writes it."""
    picture = taken(page, end)
    path = IMAGES / f"{name}.png"
    if len(picture) > MOST:
        sys.exit(f"{path.relative_to(ROOT)} would have {len(picture)} bytes, more than {MOST}")
    path.write_bytes(picture)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--program", type=pathlib.Path, help="kernelwright")
    what.add_argument("--build", type=pathlib.Path, metavar="PROJECT", help="a project that was built")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a picture is of another page")
    options = parser.parse_args()
    if options.build:
        written("build", options.build.resolve() / ".kernelwright" / "report.html", BUILD_END)
        return
    with tempfile.TemporaryDirectory() as folder:
        for name, (record, end) in PICTURES.items():
            page = pathlib.Path(folder) / f"{name}.html"
            command = [options.program.resolve(), "--quiet", "report", RECORDS / record, "-o", page]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            path = IMAGES / f"{name}.png"
            if not options.check:
                written(name, page, end)
            elif not path.exists() or recorded(path.read_bytes()) != digest(page):
                sys.exit(f"{path.relative_to(ROOT)} is not of this page; run `python3 bench/page_picture.py`")


if __name__ == "__main__":
    main()
