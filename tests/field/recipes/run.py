#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Recipes of the book before the real applications that they are for, word for word: their VCL, and what they say is to be set in the application.
Visitors get what is kept, who is logged in never sees another's page, and an edit shows at once.

WORDs are parts of names of applications. An application whose packages are missing is left out; --full installs them (as root), and has many visitors read while an editor writes.
"""
import contextlib
import pathlib
import random
import re
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))
from bed import world
from bed.http import get
from bed.report import ROOT, Report, options, until
import applications
from applications import HOST, LIMIT, PAGES, USERS

REQUESTS, REQUESTS_FULL = 300, 3000
BAR = 0.9       # of the requests of visitors so many are hits: each page is fetched once
EDITS = 25      # while others read
READERS = 6
SHOWS = 5       # seconds until an edit shows


class Visitor:
    """A browser: keeps cookies, doesn't follow redirects. Each comes from an address of its own."""
    count = 0

    def __init__(self):
        self.jar, self.fields = {}, []
        self.move()

    def move(self):
        """To another address: one alone would soon have asked too often."""
        Visitor.count += 1
        self.address = f"127.1.{Visitor.count // 250 % 250}.{Visitor.count % 250 + 1}"

    def get(self, path, method="GET", fields=(), body=None):
        lines = [*self.fields, *fields, *([("Cookie", "; ".join(f"{n}={v}" for n, v in self.jar.items()))] if self.jar else [])]
        r = get(world.CACHE, path, lines, method=method, host=HOST, body=body, timeout=LIMIT, source=self.address)
        for name, value in r.fields:
            if name.lower() == "set-cookie":
                name, _, value = value.split(";")[0].partition("=")
                self.jar[name] = value
        return r

    def post(self, path, fields):
        return self.get(path, "POST", [("Content-Type", "application/x-www-form-urlencoded")], applications.form(fields))


def is_hit(r):
    return len((r.get("X-Varnish") or "").split()) == 2


class Bed:
    """What is checked, in the order it happens."""

    def __init__(self, report, app, seed):
        self.app, self.drawn = app, random.Random(seed)
        self.check = lambda ok, what: report.check(ok, f"{app.recipe}: {what}")
        self.note = lambda text: report.note(f"{app.recipe}: {text}")
        self.users = {name: Visitor() for name in USERS}

    def log_in(self):
        for name, visitor in self.users.items():
            done = self.app.log_in(visitor, name)
            self.check(done is True, f"{name} logs in: {done}")
        self.app.fill(self.users[USERS[0]])

    def everybody(self):
        """Visitors share a page, whatever cookies of scripts they have; users have their own."""
        for path in (self.app.path(0), self.app.path(1), *self.app.more()):
            guest = Visitor()
            guest.jar = {"_ga": "GA1.2.3"}
            first, second = guest.get(path), Visitor().get(path)
            self.check(second.status == 200 and is_hit(second), f"{path}: the second visitor has it out of the cache: {first} {second} {second.fields}")
            self.check(second.get("Set-Cookie") is None and first.body == second.body, f"{path}: as the first one has, and without a cookie")
        for path in (self.app.path(0), self.app.path(1)):
            for name, visitor in self.users.items():
                r = visitor.get(path)
                self.check(r.status == 200 and not is_hit(r) and self.app.names_in(r.body.decode()) == {name},
                           f"{path}: {name} has a page of their own: {r} {self.app.names_in(r.body.decode())}")
            r = Visitor().get(path)
            self.check(is_hit(r) and not self.app.names_in(r.body.decode()), f"{path}: visitors don't get that: {r}")
            told = r.get("Cache-Control") or ""
            self.check("s-maxage" not in told and re.search(self.app.TOLD, told), f"{path}: browsers are told to ask again: {told}")

    def edits(self):
        editor = self.users[USERS[0]]
        for n in range(3):
            path, text = self.app.path(n), f"Changed {n} {self.drawn.randrange(10 ** 9)}"
            Visitor().get(path)
            done = self.app.edit(editor, n, text)
            self.check(done is True, f"{path} is edited: {done}")
            begin = time.monotonic()
            shown = until(SHOWS, lambda: text in Visitor().get(path).body.decode(), 0.1)
            self.check(shown, f"{path}: an edit shows to visitors: {'' if shown else Visitor().get(path).fields}")
            self.note(f"an edit shows after {1000 * (time.monotonic() - begin):.0f} ms")
            Visitor().get(path)
            self.check(is_hit(Visitor().get(path)), f"{path} is kept again")

    def traffic(self, requests):
        """Visitors' requests: how many are hits."""
        hits, bad = 0, []
        for _ in range(requests):
            path = self.drawn.choice(self.app.more()) if self.drawn.random() < 0.3 else self.app.path(min(int(self.drawn.expovariate(0.3)), PAGES - 1))
            r = Visitor().get(path)
            hits += is_hit(r)
            if r.status != 200 or self.app.names_in(r.body.decode(errors="replace")):
                bad.append(f"{path} {r}")
        self.check(not bad, f"visitors' answers: {bad[:3]}")
        self.check(hits / requests >= BAR, f"{hits / requests:.3f} of the requests are hits, not {BAR}")
        self.note(f"{hits / requests:.3f} of {requests} requests of visitors are hits")

    def crowd(self):
        """Visitors and users read while an editor writes: nobody gets another's page, and each edit shows at once."""
        stop, bad, count = threading.Event(), [], [0]

        def read(who, visitor):
            while not stop.is_set():
                n = count[0] = count[0] + 1
                visitor.move()
                r = visitor.get(self.app.path(n % PAGES))
                names = self.app.names_in(r.body.decode(errors="replace"))
                if r.status != 200 or names != ({who} if who else set()):
                    bad.append(f"{who or 'a visitor'}: {r} {names}")
        readers = [threading.Thread(target=read, args=who) for who in [("", Visitor())] * READERS + [(USERS[1], self.users[USERS[1]])]]
        [t.start() for t in readers]
        for n in range(EDITS):
            path, text = self.app.path(n % PAGES), f"Live {n} {self.drawn.randrange(10 ** 9)}"
            done = self.app.edit(self.users[USERS[0]], n % PAGES, text)
            shown = until(SHOWS, lambda: text in Visitor().get(path).body.decode(), 0.1)
            self.check(done is True and shown, f"{path}: edit {n} shows while others read: {done}")
        stop.set()
        [t.join() for t in readers]
        self.check(not bad and count[0] > 100, f"{count[0]} pages are read meanwhile; bad: {len(bad)} {bad[:3]}")
        self.note(f"{count[0]} pages are read while {EDITS} are changed")


def run(report, name, kind, o):
    world.VCL.write_text(kind.block("vcl"))
    begin = time.monotonic()
    try:
        app = kind()
    except (RuntimeError, OSError, subprocess.SubprocessError) as error:
        report.check(False, f"{name}: {error}")
        return
    with contextlib.closing(app), world.Server(watch=False):
        bed = Bed(report, app, o.seed)
        bed.log_in()
        bed.everybody()
        bed.edits()
        bed.traffic(REQUESTS_FULL if o.full else REQUESTS)
        if o.full:
            bed.crowd()
    report.note(f"{name}: {time.monotonic() - begin:.0f} s")


def main():
    o = options(__doc__, list(applications.ALL))
    report = Report("recipes")
    chosen = {name: applications.ALL[name] for name in o.cases}
    if world_is_missing := world.why_not():
        report.note(f"left out: {world_is_missing}")
        print("recipes: 0 passed, 0 failed")
        return 0
    if o.full:
        subprocess.run([str(ROOT / "scripts/need-packages"), "recipes"], check=True)
        applications.Express.install()
        applications.Ghost.install()
    world.enter()
    absent = {name: why for name, kind in chosen.items() if (why := kind.why_not())}
    for name, kind in chosen.items():
        if name in absent:
            report.note(f"{name} is left out: {absent[name]} isn't installed")
        else:
            run(report, name, kind, o)
    if len(absent) == len(chosen):
        print("recipes: 0 passed, 0 failed")
        return 0
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
