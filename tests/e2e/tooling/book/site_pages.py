# SPDX-License-Identifier: BSD-2-Clause
"""The site of the book: it is made without a finding, and a browser reads it: search, both colours, a small screen, no error."""
import os
import pathlib
import re
import shlex
import subprocess
import tempfile

from bed.browser import CHROMIUM, Browser
from bed.report import ROOT, until

LIMIT = 600
NARROW = 360
# What is typed, the page that must be the first one found.
FOUND = [("default_grace", "varnishd"), ("wordpress", "wordpress"), ("grace", "concepts"), ("readyz", "watch"), ("purge.tag", "varnish-cli"),
         ("hit-for-miss", "vcl/caching"), ("cache key", "vcl/caching"), ("director", "vcl/backends"), ("503", "troubleshooting"), ("acl", "vcl/language"),
         ("varnishtest", "vcl/working"), ("purge everything", "faq"), ("licence", "faq"), ("websocket", "vcl/backends"), ("vinyl", "varnish-versions")]
# Queries in the words of the readers' trade, each with its first page.
QUERIES = ROOT / "docs/internals/search.md"


def make(report, site, lacquer):
    """Makes the site as `make book` does; its own checks are links, pictures, pages that the list lacks."""
    reference = pathlib.Path(site) / "source"
    p = subprocess.run([lacquer, "man", "--markdown", str(reference)], capture_output=True, text=True, timeout=LIMIT)
    report.check(p.returncode == 0, f"the reference: {p.stderr}")
    cargo = shlex.split(os.environ.get("CARGO", "cargo"))
    p = subprocess.run([*cargo, "run", "--quiet", "-p", "xtask", "--", "book", f"{site}/out", "--reference", str(reference)], cwd=ROOT,
                       capture_output=True, text=True, timeout=LIMIT)
    report.check(p.returncode == 0, f"the site: {p.stdout[-3000:]}{p.stderr[-3000:]}")
    return pathlib.Path(site) / "out"


def run(report, made, lacquer):
    with tempfile.TemporaryDirectory() as d:
        out = pathlib.Path(made) if made else make(report, d, lacquer)
        pages = sorted(out.rglob("*.html"))
        report.check(len(pages) > 60, f"the site has {len(pages)} pages")
        if not CHROMIUM:
            report.note("no chromium is here: the site isn't looked at")
            return
        with Browser() as browser:
            look(report, browser, out)


def look(report, browser, out):
    url = f"file://{out}"
    browser.open(f"{url}/index.html")
    for text, page in FOUND:
        first, *more = search(browser, text)
        report.check(any(page in hit for hit in (first, *more)), f"search for {text} finds {page} among the first: {first} {more}")
        report.check(first.startswith("file://") and pathlib.Path(first[7:].split("#")[0]).exists(), f"what is found for {text} is there: {first}")
    queries = re.findall(r"^\| ([^|]+) \| \[[^]]+\]\(\.\./([^)]+)\.md\) \|$", QUERIES.read_text(), re.M)
    report.check(len(queries) >= 30, f"{QUERIES} has {len(queries)} queries")
    for text, page in queries:
        first, *more = search(browser, text)
        report.check(first.split("#")[0] == f"{url}/{page}.html", f"search for {text} finds {page} first: {first} {more}")
    paper = {}
    for theme in ("light", "dark"):
        browser.theme(theme)
        browser.open(f"{url}/book/concepts.html")
        paper[theme] = browser.js("getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color")
        drawn = browser.js("[...document.querySelectorAll('svg.figure .t')].map(t => getComputedStyle(t).fill)[0]")
        ink = browser.js("getComputedStyle(document.body).color")
        report.check(drawn == ink, f"{theme}: drawings have the page's colours: {drawn}, not {ink}")
    report.check(paper["light"] != paper["dark"], f"two colours: {paper}")
    browser.js("document.getElementById('theme').click()")
    turned = browser.js("getComputedStyle(document.body).backgroundColor + getComputedStyle(document.body).color")
    report.check(turned == paper["light"], f"the button turns dark to light: {turned}")
    reading(report, browser, url)
    narrow(report, browser, out, url)
    report.check(not browser.errors, f"errors in the console: {browser.errors[:5]}")
    report.check(all(asked.startswith(("file:", "about:", "data:")) for asked in browser.asked), "nothing is loaded from elsewhere")


def search(browser, text):
    """The addresses of the first five hits; one that is empty, if there is none."""
    browser.js(f"document.getElementById('search').value = {text!r}; document.getElementById('search').dispatchEvent(new Event('input'))")
    return browser.js("[...document.querySelectorAll('#found a')].slice(0, 5).map(a => a.href).join(' ')").split(" ")


def reading(report, browser, url):
    """Blocks are copied, long commands are wrapped, a long page lists its sections, each page names the version."""
    browser.size(1360, 800)
    browser.open(f"{url}/book/first-site.html")
    cut = browser.js("[...document.querySelectorAll('pre')].filter(p => p.scrollWidth > p.clientWidth).map(p => p.textContent)")
    report.check(not cut, f"blocks that are cut at 1360: {cut}")
    browser.js("Object.defineProperty(navigator, 'clipboard', { value: { writeText: async text => { window.copied = text; } } })")
    command = browser.js("(() => { const block = document.querySelector('.block:has(code.language-sh)'); block.querySelector('button').click();"
                         "return block.querySelector('pre').textContent.trim(); })()")
    report.check(browser.js("window.copied") == command == "lacquer demo", f"the button copies {command!r}: {browser.js('window.copied')!r}")
    report.check(until(60, lambda: browser.js("document.querySelector('.block button').textContent") == "Copied"), "and says so")
    listed = browser.js("[...document.querySelectorAll('.contents a')].map(a => a.textContent)")
    headings = browser.js("[...document.querySelectorAll('main h2')].map(h => h.firstChild.textContent)")
    report.check(listed == headings and len(listed) > 2, f"the page's sections: {listed} {headings}")
    report.check(browser.js("document.querySelector('.contents').open"), "their list is open on a wide screen")
    browser.js("document.querySelector('.contents a:last-child').click()")
    report.check(browser.js("location.hash") == "#see-one-at-work", f"and leads there: {browser.js('location.hash')}")
    version = re.search(r'(?m)^version = "(.*)"', (ROOT / "Cargo.toml").read_text())[1]
    report.check(browser.js("document.querySelector('header .home').textContent") == f"Lacquer {version}", "the version")


def narrow(report, browser, out, url):
    """No page is wider than the screen; what is wide scrolls by itself; the list opens."""
    browser.size(NARROW, 740)
    wide = []
    for page in sorted(out.rglob("*.html")):
        browser.open(f"{url}/{page.relative_to(out)}")
        width = browser.js("document.documentElement.scrollWidth")
        if width > NARROW:
            wide.append((str(page.relative_to(out)), width))
    report.check(not wide, f"pages that are wider than {NARROW}: {wide[:10]}")
    browser.open(f"{url}/index.html")
    report.check(browser.js("getComputedStyle(document.getElementById('pages')).display") == "none", "the list is shut on a small screen")
    browser.js("document.getElementById('menu').click()")
    report.check(until(60, lambda: browser.js("document.getElementById('pages').getBoundingClientRect().height > 300")), "and opens")
