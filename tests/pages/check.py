#!/usr/bin/env python3
"""Opens the pages of `kernelwright report` in a browser without a window, and refuses those that some readers cannot use.

    python3 -m pip install playwright
    python3 tests/pages/check.py --program target/debug/kernelwright
    python3 tests/pages/check.py --self-test        # each broken page of broken.py must be refused

The pages are made of the committed RECORDS. For each of them:

- no error of a script or on the console, and no request for another file or host;
- a title, a language, and texts for screen readers;
- at 400 and 1280 pixels: nothing is wider than the window, and no text in a plot overlaps another one, or is cut;
- in light, in dark and on paper: text has a contrast of at least 4.5 to 1;
- the Tab key reaches every fold, link and scrolling region, with a visible focus; Enter opens and closes every fold;
- on paper every fold is open, and nothing is cut.

Needs Chromium: `--browser`, or the first of BROWSERS on PATH. Ends with 1 if a page is refused.
"""

from __future__ import annotations

import argparse
import pathlib
import shutil
import subprocess
import sys
import tempfile

from playwright.sync_api import ConsoleMessage, Page, Route, sync_playwright

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SCRIPT = (HERE / "checks.js").read_text()
#: Records of kernels and of models, and one with something that was not measured.
RECORDS = ["2026-11-25-h200-rows.jsonl", "2026-11-28-h200-e2e.jsonl", "2026-11-27-h100-e2e.jsonl"]
BROWSERS = ["chromium", "chromium-browser", "google-chrome"]
NARROW, WIDE = 400, 1280
#: The width of an A4 page without its margins, in pixels of CSS.
PAPER = 718


def ask(page: Page, *checks: str) -> list[str]:
    """The findings of these checks of checks.js, each after the name of its check."""
    return [f"{check}: {one}" for check in checks for one in page.evaluate(f"checks.{check}()")]


def keyboard(page: Page) -> list[str]:
    """Links and folds that the Tab key skips, that show no focus, or that Enter does not open and close."""
    page.evaluate("checks.open(true)")
    stops = page.evaluate("checks.reachable()")
    reached: dict[int, str] = {}
    for _ in range(len(stops) + 3):
        page.keyboard.press("Tab")
        now = page.evaluate("checks.focused()")
        if now["stop"] >= 0:
            reached[now["stop"]] = now["look"]
    found = []
    for number, stop in enumerate(stops):
        if number not in reached:
            found.append(f"tab: {stop['words']} is not reached")
        elif reached[number] == stop["look"]:
            found.append(f"focus: {stop['words']} looks the same with the focus")
    page.evaluate("checks.open(false)")
    for fold in page.locator("summary").all():
        states = []
        for _ in range(2):
            fold.press("Enter")
            states.append(fold.evaluate("it => it.parentElement.open"))
        if states != [True, False]:
            found.append(f"enter: {fold.inner_text()[:50]!r} does not open and close")
    return found


def looks(page: Page, url: str, width: int, scheme: str) -> list[str]:
    """The findings for a page in a window of this width, and for the same page on paper."""
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(media="screen", color_scheme=scheme)
    page.goto(url)
    page.evaluate(SCRIPT)
    found = []
    if width == WIDE:
        found += ask(page, "names") + keyboard(page)
    page.evaluate("checks.open(true)")
    found += [f"{one} (at {width} pixels, {scheme})" for one in ask(page, "wide", "overlaps", "contrast")]
    page.evaluate("checks.open(false)")
    page.set_viewport_size({"width": PAPER, "height": 1000})
    page.emulate_media(media="print")
    # Styles of paper are in place with the next frame.
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return found + [f"{one} (on paper, {scheme})" for one in ask(page, "closed", "cut", "wide", "overlaps", "contrast")]


def refusals(page: Page, path: pathlib.Path) -> list[str]:
    """All findings for the page in this file."""
    found: list[str] = []
    url = path.resolve().as_uri()

    def asked(route: Route) -> None:
        if route.request.url == url:
            route.continue_()
        else:
            # Nothing leaves this machine, whatever a page asks for.
            found.append(f"request: {route.request.url}")
            route.abort()

    def failed(error: object) -> None:
        found.append(f"script: {error}")

    def said(message: ConsoleMessage) -> None:
        if message.type == "error":
            found.append(f"console: {message.text}")

    page.route("**/*", asked)
    page.on("pageerror", failed)
    page.on("console", said)
    for width, scheme in ((WIDE, "light"), (NARROW, "dark")):
        found += looks(page, url, width, scheme)
    page.unroute("**/*")
    page.remove_listener("pageerror", failed)
    page.remove_listener("console", said)
    return list(dict.fromkeys(found))


def made(program: pathlib.Path, record: str, folder: pathlib.Path) -> list[pathlib.Path]:
    """The pages of a record."""
    where = folder / pathlib.Path(record).stem
    where.mkdir()
    source = ROOT / "bench" / "results" / record
    subprocess.run([program, "--quiet", "report", source, "-o", where / "page.html"], check=True, stdout=subprocess.DEVNULL)
    return sorted(where.glob("*.html"))


def check(page: Page, program: pathlib.Path, folder: pathlib.Path) -> bool:
    """Whether every page of every record passes."""
    good = True
    for record in RECORDS:
        for path in made(program, record, folder):
            found = refusals(page, path)
            print(f"{record}, {path.name}: {len(found) or 'nothing'} refused", *found[:40], sep="\n  ")
            good = good and not found
    return good


def self_test(page: Page, folder: pathlib.Path) -> bool:
    """Whether the good page passes, and every broken page is refused by the check named beside it."""
    import broken

    good = True
    for number, (check_name, text) in enumerate([("", broken.GOOD), *broken.pages()]):
        path = folder / f"{number}.html"
        path.write_text(text)
        found = refusals(page, path)
        right = any(one.startswith(f"{check_name}: ") for one in found) if check_name else not found
        outcome = "as it should be" if right else f"WRONG: {found}"
        print(f"{check_name or 'the good page'}: {outcome}")
        good = good and right
    return good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--program", type=pathlib.Path, help="kernelwright")
    what.add_argument("--self-test", action="store_true", help="check the checks")
    parser.add_argument("--browser", help="Chromium; default: from PATH")
    options = parser.parse_args()
    browser = options.browser or next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"no browser found on PATH: {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=browser)
        page = launched.new_page()
        if options.self_test:
            good = self_test(page, pathlib.Path(folder))
        else:
            good = check(page, options.program.resolve(), pathlib.Path(folder))
        launched.close()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
