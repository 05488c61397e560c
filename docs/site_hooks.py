"""Hooks of the site for MkDocs: links out of docs/ lead to the repository, code blocks with attributes are plain, the
switch between light and dark works, and so does the search for a code.

Owns: these rewrites. Never: changes what a page says.
"""

import pathlib
import posixpath
import re

LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]+)(#[^)\s]*)?\)")
FENCE = re.compile(r"^(```[a-z]*)[ ,][^\n]*$", re.MULTILINE)


def on_page_markdown(markdown: str, page, config, files) -> str:
    """Rewrite one page before MkDocs reads it."""
    folder = posixpath.dirname(page.file.src_uri)

    def outside(found: re.Match[str]) -> str:
        target, anchor = found.group(1), found.group(2) or ""
        place = posixpath.normpath(posixpath.join("docs", folder, target))
        if place.startswith("docs/"):
            return found.group(0)
        return f"]({config.repo_url.rstrip('/')}/blob/main/{place}{anchor})"

    return FENCE.sub(r"\1", LINK.sub(outside, markdown))


#: The theme's switch between light and dark turns these style sheets of highlight.js on and off, and stops with an error if they
#: are missing, as they are without highlight.js.
STYLES = '<style id="hljs-light"></style><style id="hljs-dark"></style>'


def on_post_page(output: str, page, config) -> str:
    """Rewrite one page after MkDocs wrote it."""
    del page, config
    return output.replace("</head>", f"{STYLES}</head>", 1)


#: The search of the theme, and the same without characters that its query language reads as operators: with them, a search for a
#: code such as `verify::numerics` ends with an error.
SEARCH = ("index.search(query)", "index.search(query.replace(/[:~^+*.,;()`_\\/-]+/g, ' '))")


def on_post_build(config) -> None:
    """Rewrite the script of the search.

    Raises:
        ValueError: MkDocs has another script.
    """
    script = pathlib.Path(config.site_dir) / "search" / "worker.js"
    text = script.read_text()
    if text.count(SEARCH[0]) != 1:
        raise ValueError(f"{script} does not have {SEARCH[0]} once")
    script.write_text(text.replace(*SEARCH))
