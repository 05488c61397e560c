#!/usr/bin/env python3
"""The picture of a model's page in the README: docs/images/model.png, taken by Chromium.

    python3 -m pip install playwright pillow
    cargo build --bin kernelwright
    python3 bench/page_picture.py --program target/debug/kernelwright
    python3 bench/page_picture.py --program target/debug/kernelwright --check     # writes nothing, needs neither package

The page is the one of LTX-Video in RECORD. The picture shows it up to its tables, in the light theme. The
PNG also has the digest of the page: `--check` fails if the program makes another page of the record.
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
RECORD = ROOT / "bench" / "results" / "2026-11-28-h200-e2e-second.jsonl"
#: The first of the record's three pages.
PAGE = "model.html"
PICTURE = ROOT / "docs" / "images" / "model.png"
WIDTH = 1000
#: The most bytes of the picture, since every clone has it.
MOST = 150_000
COLOURS = 128
DIGEST = "Page-SHA256"
#: What ends the picture: the first fold.
END = "details"
BROWSERS = ["chromium", "chromium-browser", "google-chrome"]


def taken(page: pathlib.Path) -> bytes:
    """The picture of a page, as a PNG with few colours."""
    from PIL import Image, PngImagePlugin
    from playwright.sync_api import sync_playwright

    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"no browser found on PATH: {', '.join(BROWSERS)}")
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=browser)
        opened = launched.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        opened.goto(page.as_uri())
        bottom = opened.locator(END).first.bounding_box()["y"]
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", type=pathlib.Path, required=True, help="kernelwright")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the picture is of another page")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / PAGE
        command = [options.program.resolve(), "--quiet", "report", RECORD, "-o", page.with_name("model.html")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        if options.check:
            if not PICTURE.exists() or recorded(PICTURE.read_bytes()) != digest(page):
                sys.exit(f"{PICTURE.relative_to(ROOT)} is not of this page; run `python3 bench/page_picture.py`")
            return
        picture = taken(page)
    if len(picture) > MOST:
        sys.exit(f"{PICTURE.relative_to(ROOT)} would have {len(picture)} bytes, more than {MOST}")
    PICTURE.write_bytes(picture)


if __name__ == "__main__":
    main()
