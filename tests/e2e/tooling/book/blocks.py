# SPDX-License-Identifier: BSD-2-Clause
"""The examples of the book: fenced blocks with the words behind their fence, in the order of the pages."""
import dataclasses
import pathlib
import re

from bed.report import ROOT


@dataclasses.dataclass
class Block:
    """`words` are what stands behind the fence, the language first."""
    page: pathlib.Path
    line: int
    words: list
    text: str

    def __str__(self):
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def language(self):
        return self.words[0] if self.words else ""


def pages():
    """All pages that are files, in the book's order; the README before them."""
    listed = re.findall(r"\]\(([^)]+)\)", (ROOT / "docs/SUMMARY.md").read_text())
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs" / p for p in listed if not p.startswith("reference/"))]


def of(page):
    found, begin, words, lines = [], 0, [], []
    fence = None
    for number, line in enumerate(page.read_text().splitlines(), 1):
        m = re.match(r"\s*(`{3,})\s*(.*)$", line)
        if fence is None and m:
            fence, begin, words, lines = m[1], number, m[2].split(), []
        elif m and m[1] == fence and not m[2]:
            found.append(Block(page, begin, words, "\n".join(lines) + "\n"))
            fence = None
        elif fence is not None:
            lines.append(line)
    return found


def looks_like_vcl(block):
    """Blocks without a language, of older pages: those that are VCL."""
    first = next((line for line in block.text.splitlines() if line.strip() and not line.strip().startswith("#")), "")
    return bool(re.match(r"(vcl \d|import \w+;|sub \w+ ?\{|backend \w+|acl \w+|probe \w+)", first.strip()))
