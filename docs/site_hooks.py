"""What the site needs beside MkDocs: links out of docs/ lead to the repository, and code blocks with attributes are plain.

Owns: both rewrites. Never: changes what a page says.
"""

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
