#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The book: each block of VCL compiles, each command runs, each configuration is read by what it is for; each recipe runs before a model of its
application, with what is right and how many are hits; the site has no dead link, its search finds, and it can be read on a small screen.

usage: run.py [WORD...]   only pages whose names have one of the words
"""
import argparse
import contextlib
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed import world
from bed.report import ROOT, Report
from bed.daemon import die_with_parent
import blocks
import configurations
import models
import site_pages

LIMIT = 90
LACQUER = world.BIN / "lacquer"


def lacquer(*words, **more):
    return subprocess.run([str(LACQUER), *map(str, words)], capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL, **more)


def vcl(report, block, work):
    """A whole program, or a part of one. One that is `refused` doesn't compile."""
    stores = [] if "storage.disk" not in block.text else ["--store", "disk", "--store", "default"]
    path = work / "block.vcl"
    path.write_text(block.text)
    p = lacquer("vcl", "check", "--part", *stores, path)
    if "refused" in block.words:
        report.check(p.returncode == 2, f"{block}: this VCL isn't refused: {p.stdout}{p.stderr}")
    else:
        report.check(p.returncode == 0, f"{block}: this VCL doesn't compile: {p.stdout}{p.stderr}")


class Shell:
    """The shell in which a reader types the commands of a page, one block after the other. A command that fails ends it."""

    def __enter__(self):
        self.proc = subprocess.Popen(["bash", "-e", "-o", "pipefail"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                     preexec_fn=die_with_parent, start_new_session=True, text=True, errors="replace", bufsize=1)
        return self

    def __exit__(self, *_):
        self.kill()
        self.proc.communicate()

    def kill(self):
        """With what it has started, which holds its output open."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.proc.pid, signal.SIGKILL)

    def type(self, report, block):
        """Returns what was printed. `findings`: the last command may end with 1 or 2, as it does when it finds something."""
        line, end, said = "", f"end of {block}", []
        text = block.text.rstrip("\n") + (" || [ $? -le 2 ]" if "findings" in block.words else "")
        self.proc.stdin.write(f"{{\n{text}\n}} </dev/null\nprintf '\\n%s\\n' '{end}'\n")
        late = threading.Timer(LIMIT, self.kill)
        late.start()
        for line in self.proc.stdout:
            if line.rstrip("\n") == end:
                break
            said.append(line)
        late.cancel()
        is_good = self.proc.poll() is None and line.rstrip("\n") == end
        report.check(is_good, f"{block}: it ended, or took more than {LIMIT} s:\n{block.text}{''.join(said)[-3000:]}")
        if not is_good:
            self.__exit__()
            self.__enter__()
        return "".join(said).strip("\n")


def elsewhere(report, block):
    """Commands for another machine: a shell can read them, and what they say to programs of ours is known to these."""
    p = subprocess.run(["bash", "-n", "-c", block.text], capture_output=True, text=True, timeout=LIMIT)
    report.check(p.returncode == 0, f"{block}: no shell reads this: {p.stderr}")
    for line in block.text.splitlines():
        words = line.split()
        if words[:1] == ["lacquer"]:
            known = lacquer("help", words[1])
            report.check(known.returncode == 0, f"{block}: lacquer {words[1]} isn't a command")
        if words[:1] == ["make"]:
            known = subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, capture_output=True, text=True, timeout=LIMIT)
            report.check(known.returncode == 0, f"{block}: {line}: {known.stderr}")


class Own:
    """A command that serves by itself until it is ended."""

    def __init__(self, report, block):
        self.proc = subprocess.Popen(["bash", "-c", f"exec {block.text.strip()}"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                     preexec_fn=die_with_parent)
        report.check(world.until(60, lambda: world.answers(world.CACHE)), f"{block}: nothing is served at {world.CACHE}")

    def close(self):
        world.end(self.proc)


class Plain:
    """What the examples of commands are asked against."""

    def answer(self, _method, path, _fields, _body, _port):
        return 200, [("Cache-Control", "max-age=60"), ("Content-Type", "text/html"), ("Surrogate-Key", "product-17")], f"<p>{path}</p>"


def examples(report, words):
    """All blocks of all pages, by their languages. Older pages have blocks without one: VCL among them is compiled."""
    counted = {}
    with tempfile.TemporaryDirectory() as d:
        work = pathlib.Path(d)
        for page in chosen(words):
            found = blocks.of(page)
            for block in found:
                counted[block.language or "none"] = counted.get(block.language or "none", 0) + 1
                if block.language == "vcl" or not block.language and blocks.looks_like_vcl(block):
                    vcl(report, block, work)
                elif block.language in configurations.READERS:
                    configurations.READERS[block.language](report, block, work)
                elif block.language not in ("sh", "text", "", "php", "html", "apache", "rust", "toml", "console"):
                    report.check(False, f"{block}: nobody here reads {block.language}")
            run_commands(report, page, found)
    report.note(", ".join(f"{n} of {language}" for language, n in sorted(counted.items())))


def run_commands(report, page, found):
    """Types what a page says, in its order. A block that is `own` serves until the next one does; where a page has none, a server runs. VCL that is
    `saved` is the server's file from there on. Text that is `printed` is the output of the block before it."""
    commands = [b for b in found if b.language == "sh" and b.words[1:] in ([], ["findings"], ["own"])]
    for block in (b for b in found if "elsewhere" in b.words):
        elsewhere(report, block)
    if not commands or world_is_missing:
        return
    world.VCL.write_text(world.PLAIN)
    site, server, printed = world.Site(Plain(), (8080, 8081, 8082)), None, ""
    try:
        if not any("own" in b.words for b in commands):
            # Commands of a recipe speak of its own backends.
            if page.parent.name == "recipes" and any("backend." in b.text or " ban " in b.text for b in commands):
                world.VCL.write_text(models.vcl_of(page))
            server = world.Server()
        with Shell() as shell:
            for block in found:
                if "saved" in block.words:
                    world.VCL.write_text(block.text)
                elif "own" in block.words:
                    if server:
                        server.close()
                    server = Own(report, block)
                elif block in commands:
                    printed = shell.type(report, block)
                elif block.words == ["text", "printed"]:
                    report.check(printed == block.text.strip("\n"), f"{block}: the commands before it print something else:\n{printed}")
    finally:
        if server:
            server.close()
        site.close()


def recipes(report, words):
    for name, model in models.ALL.items():
        page = ROOT / f"docs/book/recipes/{name}.md"
        if page in chosen(words):
            models.run(report, page, model)
    written = {p.stem for p in (ROOT / "docs/book/recipes").glob("*.md")}
    report.check(written == set(models.ALL), f"each recipe has its model: {written ^ set(models.ALL)}")


def chosen(words):
    return [p for p in blocks.pages() if not words or any(w in str(p) for w in words)]


world_is_missing = world.why_not()


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--seed", type=int, default=int(os.environ.get("SEED") or 1))
    p.add_argument("--site", help="the site, made already (else it is made)")
    p.add_argument("words", nargs="*")
    o = p.parse_args()
    if not os.access(LACQUER, os.X_OK):
        sys.exit(f"{LACQUER}: no such program (run `make build`)")
    report = Report("book")
    models.random.seed(o.seed)
    # The site's browser wants the machine's own network.
    if not o.words or "site" in o.words:
        site_pages.run(report, o.site, LACQUER)
    if world_is_missing:
        report.note(f"commands and recipes aren't run: {world_is_missing}")
    else:
        world.enter()
        recipes(report, o.words)
    examples(report, o.words)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
