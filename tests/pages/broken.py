"""A page that passes check.py, and broken ones: each has one change that one check must refuse."""

GOOD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>A page</title>
<style>
body { margin: 0; background: #fff; color: #222; }
a { color: #1f5fbf; }
svg text { font: 12px sans-serif; }
.wide { overflow-x: auto; }
:focus-visible { outline: 3px solid #1f5fbf; }
@media screen and (prefers-color-scheme: dark) {
  body { background: #111; color: #eee; }
  svg text { fill: #eee; }
  a { color: #7fb0ff; }
}
@media print { .wide { overflow: visible; } details::details-content { display: block; content-visibility: visible; } }
</style>
</head>
<body>
<h1>A page</h1>
<svg role="img" aria-label="a plot" viewBox="0 0 300 60" width="300">
<text x="10" y="20">one</text>
<text x="150" y="20">two</text>
<rect class="bar" x="10" y="30" width="50" height="10"/>
</svg>
<p><a href="#end">to the end</a></p>
<details><summary>a fold</summary>
<div class="wide" tabindex="0" role="region" aria-label="a table">
<table><tr><th scope="row">row</th><td>1</td></tr></table>
</div>
</details>
<p id="end">The end.</p>
</body>
</html>
"""

#: The check that refuses, a text of the good page, and what replaces it.
CHANGES = [
    ("script", "</body>", "<script>null.gone</script></body>"),
    ("console", "</body>", "<script>console.error('an error')</script></body>"),
    ("request", "</body>", '<img alt="far" src="http://host.invalid/picture.png"></body>'),
    ("request", "</body>", '<img alt="near" src="picture.png"></body>'),
    ("names", ' lang="en"', ""),
    ("names", "<title>A page</title>", "<title></title>"),
    ("names", ' aria-label="a plot"', ""),
    ("names", ' scope="row"', ""),
    ("names", "</body>", '<p id="end">Again.</p></body>'),
    ("wide", "<h1>", '<div style="width: 500px">500</div><h1>'),
    ("wide", "<h1>", '<div style="width: 1400px">1400</div><h1>'),
    ("overlaps", 'x="150" y="20"', 'x="20" y="22"'),
    ("overlaps", 'x="150" y="20"', 'x="20" y="40"'),
    ("overlaps", 'x="150" y="20"', 'x="290" y="20"'),
    ("contrast", "color: #222", "color: #999"),
    ("contrast", "background: #111; color: #eee", "background: #111; color: #555"),
    ("contrast", "svg text { fill: #eee; }", ""),
    ("contrast", "@media screen and", "@media"),
    ("contrast", "<h1>", '<h1 style="opacity: .3">'),
    ("tab", "<summary>", '<summary tabindex="-1">'),
    ("tab", '<a href="#end">', '<a href="#end" tabindex="-1">'),
    ("focus", "outline: 3px solid #1f5fbf", "outline: none"),
    ("focus", "outline: 3px solid #1f5fbf", "outline: 3px solid #fff"),
    ("enter", "<summary>", '<summary onclick="event.preventDefault()">'),
    ("closed", "details::details-content { display: block; content-visibility: visible; }", ""),
    ("cut", ".wide { overflow: visible; }", ".wide table { width: 900px; }"),
]


def pages() -> list[tuple[str, str]]:
    """Each broken page, after the name of its check."""
    for _, old, _ in CHANGES:
        assert old in GOOD, old
    return [(check, GOOD.replace(old, new, 1)) for check, old, new in CHANGES]
