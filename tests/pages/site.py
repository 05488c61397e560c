#!/usr/bin/env python3
"""Opens the documentation as a site in a browser without a window, and refuses what readers cannot use.

    python3 -m pip install mkdocs playwright
    python3 -m mkdocs build --strict --clean
    python3 tests/pages/site.py target/site

- Without the browser: every link of every page leads to a file of the site, and every anchor to an element of it.
- In the browser, pages of PAGES at 400 and 1280 pixels, in light and in dark: no error of a script, no request to another host, a
  title and a language, nothing wider than the window, text with a contrast of at least 4.5 to 1, and a dark page in dark.
- The switch between light and dark works, and the next page has what was chosen.
- The search finds the page of each of SEARCHES, and a click opens it.

Needs Chromium: `--browser`, or the first of BROWSERS on PATH. Ends with 1 if something is refused.
"""

from __future__ import annotations

import argparse
import functools
import html.parser
import http.server
import pathlib
import shutil
import sys
import threading
import urllib.parse

from playwright.sync_api import Page, Request, sync_playwright

from check import BROWSERS, NARROW, SCRIPT, WIDE, ask

#: Pages of each kind: the first one, a tutorial, a how-to with a table, the longest one, one of codes, one with formulas in words.
PAGES = [
    "",
    "tutorials/function-to-kernel/",
    "how-to/own-cu/",
    "reference/cli/",
    "reference/codes/verify/",
    "explanation/judge/",
    "glossary/",
]
#: What a reader types, and the page that must be among the results.
SEARCHES = {
    "stable ABI": "explanation/stable-abi/",
    "refused kernel": "how-to/refused-kernel/",
    "verify::numerics": "reference/codes/verify/",
}


class Links(html.parser.HTMLParser):
    """The links and the names of the elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.names.add(value)
            elif value and (name, tag) in {("href", "a"), ("href", "link"), ("src", "img"), ("src", "script")}:
                self.links.append(value)


def lost_links(site: pathlib.Path) -> list[str]:
    """Links within the site that lead nowhere, each after its page."""
    parsed: dict[pathlib.Path, Links] = {}
    for path in sorted(site.rglob("*.html")):
        parsed[path] = Links()
        parsed[path].feed(path.read_text())
    found = []
    for path, page in parsed.items():
        if path.name == "404.html":
            # Its links begin at the root of the server.
            continue
        for link in page.links:
            url = urllib.parse.urlsplit(link)
            if url.scheme or url.netloc:
                continue
            target = (path.parent / urllib.parse.unquote(url.path)).resolve() if url.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file():
                found.append(f"{path.relative_to(site)}: {link}: no such file")
            elif url.fragment and target in parsed and urllib.parse.unquote(url.fragment) not in parsed[target].names:
                found.append(f"{path.relative_to(site)}: {link}: no such element")
    return found


class Quiet(http.server.SimpleHTTPRequestHandler):
    """A server of files that prints nothing."""

    def log_message(self, format: str, *args: object) -> None:
        del format, args


class Server(http.server.ThreadingHTTPServer):
    """A server for a browser, which closes connections that it no longer needs."""

    def handle_error(self, request: object, client_address: object) -> None:
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def looks(page: Page, url: str, width: int, scheme: str) -> list[str]:
    """The findings for one page."""
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme=scheme)
    page.goto(url)
    page.evaluate(SCRIPT)
    found = ask(page, "contrast")
    if not page.title():
        found.append("names: the page has no title")
    if not page.evaluate("document.documentElement.lang"):
        found.append("names: the page has no language")
    # Code and tables scroll within the page.
    beyond = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    if beyond > 0:
        found.append(f"wide: {beyond} pixels are beyond the window")
    brightness = page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)")
    if (brightness < 384) != (scheme == "dark"):
        found.append(f"scheme: the background has the brightness {brightness} of 765")
    return [f"{one} (at {width} pixels, {scheme})" for one in found]


def search(page: Page, root: str, words: str, target: str) -> list[str]:
    """What is wrong with the search for some words."""
    page.set_viewport_size({"width": WIDE, "height": 900})
    page.goto(root)
    page.locator("[data-bs-target='#mkdocs_search_modal']").first.click()
    page.locator("#mkdocs-search-query").press_sequentially(words)
    result = page.locator(f"#mkdocs-search-results a[href*='{target}']").first
    # The index is loaded in the background; a key that is pressed before it is there finds nothing.
    for _ in range(20):
        page.locator("#mkdocs-search-query").press("End")
        page.wait_for_timeout(250)
        if result.is_visible():
            result.click()
            page.wait_for_url(f"**/{target}**")
            return []
    shown = page.locator("#mkdocs-search-results").inner_text()
    return [f"search: {words!r} does not find {target}: {shown[:200]!r}"]


def switch(page: Page, root: str) -> list[str]:
    """What is wrong with the switch between light and dark."""
    page.set_viewport_size({"width": WIDE, "height": 900})
    page.emulate_media(color_scheme="light")
    found = []
    for scheme in ("dark", "light"):
        page.goto(root)
        page.locator("#theme-menu").click()
        page.locator(f"[data-bs-theme-value='{scheme}']").click()
        page.goto(f"{root}glossary/")
        now = page.evaluate("document.documentElement.getAttribute('data-bs-theme')")
        if now != scheme:
            found.append(f"switch: {scheme} was chosen, and the next page is {now}")
    return found


def check(page: Page, root: str) -> list[str]:
    """All findings of the browser, each after its page."""
    found: list[str] = []
    place = ""

    def asked(request: Request) -> None:
        if not request.url.startswith((root, "data:", "blob:")):
            found.append(f"{place}: request: {request.url}")

    page.on("request", asked)
    page.on("pageerror", lambda error: found.append(f"{place}: script: {error}"))
    page.on("console", lambda said: found.append(f"{place}: console: {said.text}") if said.type == "error" else None)
    for place in PAGES:
        for width, scheme in ((WIDE, "light"), (NARROW, "dark")):
            found += [f"{place or 'the first page'}: {one}" for one in looks(page, root + place, width, scheme)]
    place = "the switch"
    found += switch(page, root)
    for words, target in SEARCHES.items():
        place = target
        found += search(page, root, words, target)
    return list(dict.fromkeys(found))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", type=pathlib.Path, help="the folder that MkDocs wrote")
    parser.add_argument("--browser", help="Chromium; default: from PATH")
    options = parser.parse_args()
    site = options.site.resolve()
    found = lost_links(site)
    browser = options.browser or next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        sys.exit(f"no browser found on PATH: {', '.join(BROWSERS)}")
    server = Server(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    root = f"http://127.0.0.1:{server.server_port}/"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=browser)
        found += check(launched.new_page(), root)
        launched.close()
    server.shutdown()
    print(f"{len(list(site.rglob('*.html')))} pages, {len(PAGES)} of them in the browser: {len(found) or 'nothing'} refused")
    print("\n".join(found[:60]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
