# SPDX-License-Identifier: BSD-2-Clause
"""Counts results and prints the one closing line that `make test` adds up."""
import argparse
import concurrent.futures
import os
import sys
import threading
import time
import traceback

from . import built, leftovers
from .built import ROOT

LONG = 5  # seconds from which on a case is noted with its time
LIMIT = 60  # seconds; ends a wait for what never comes

drawn_from = None  # the seed of this run, once the options are known


def caller():
    """File and line of the check, which is outside of this file."""
    frame = sys._getframe()
    while frame.f_code.co_filename == __file__ and frame.f_back:
        frame = frame.f_back
    return f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"


class Report:
    """Results of one harness. A failed check says what was expected and what was seen, in one line, as `tests/run` repeats lines; nothing stops
    at the first one."""

    def __init__(self, name):
        leftovers.arm()
        self.name, self.passed, self.failed, self.lock = name, 0, 0, threading.Lock()

    def check(self, ok, what):
        with self.lock:
            if ok:
                self.passed += 1
            else:
                self.failed += 1
                print(f"FAIL {self.name} ({caller()}): {what}".replace("\n", "\\n"), flush=True)
        return ok

    def comes(self, look, wanted, what, limit=LIMIT):
        """Waits until `look()` gives `wanted`, which is a value or a function that judges one. A failure names the value that was judged last."""
        holds = wanted if callable(wanted) else lambda value: value == wanted
        ok, value = settled(limit, look, holds)
        return self.check(ok, f"{what}: {value!r}" + ("" if callable(wanted) else f" instead of {wanted!r}"))

    def note(self, text):
        print(f"     {self.name}: {text}", flush=True)

    def run(self, cases, *args, at_once=1):
        """Calls each case with `args`, so many of them at a time. An error ends that case alone and counts as a failure."""
        def one(case):
            begin = time.monotonic()
            try:
                case(*args)
            except (Exception, SystemExit) as error:
                place = traceback.extract_tb(error.__traceback__)[-1]
                self.check(False, f"{case.__name__}: {type(error).__name__} {error} ({os.path.basename(place.filename)}:{place.lineno})")
            if (took := time.monotonic() - begin) > LONG:
                self.note(f"{case.__name__} took {took:.1f} s")

        if at_once == 1:
            for case in cases:
                one(case)
        else:
            with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
                list(pool.map(one, cases))

    def close(self):
        """Prints the closing line; the exit status to end with."""
        if self.failed and drawn_from is not None:
            self.note(f"--seed {drawn_from} draws the same again")
        print(f"{self.name}: {self.passed} passed, {self.failed} failed", flush=True)
        return 1 if self.failed or not self.passed else 0


def options(doc, cases=(), **more):
    """The command line that all harnesses share; `more` maps further long options to keyword arguments of add_argument.

    With `cases`, which are functions or names, it takes WORDs, too: `cases` of the result are those whose names contain one of them, or all.
    """
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if cases:
        name_of = lambda case: getattr(case, "__name__", case)
        names = " ".join(map(name_of, cases))
        p.add_argument("words", nargs="*", metavar="WORD", help=f"run only cases whose names contain a WORD: {names}")
    p.add_argument("--varnishd", default=built.program("varnishd"),
                   help="the program to test (also: environment VARNISHD)")
    p.add_argument("--full", action="store_true", help="the full size of the bed instead of the reduced one of `make test`")
    p.add_argument("--seed", type=int, default=int(os.environ.get("SEED") or 1),
                   help="what is drawn at random follows from it (also: environment SEED; default 1)")
    for name, kw in more.items():
        p.add_argument("--" + name.replace("_", "-"), **kw)
    o = p.parse_args()
    global drawn_from
    drawn_from = o.seed
    if cases:
        o.cases = [case for case in cases if not o.words or any(word in name_of(case) for word in o.words)]
        if not o.cases:
            sys.exit(f"{' '.join(o.words)}: no such case; the cases are {names}")
    if why := built.why_not(o.varnishd):
        sys.exit(why)
    leftovers.arm()
    return o


def settled(limit, look, holds):
    """Looks until `holds` accepts what is seen or `limit` seconds are over; whether it did, and what was seen last."""
    value = None

    def probe():
        nonlocal value
        value = look()
        return holds(value)

    return bool(until(limit, probe)), value


def until(limit, probe, step=0.02):
    """Polls `probe` until it gives something true or `limit` seconds are over; gives its last value.

    The longer it waits the rarer it looks, down to five times a second: many probes start a program.
    """
    begin = time.monotonic()
    while True:
        got = probe()
        waited = time.monotonic() - begin
        if got or waited > limit:
            return got
        time.sleep(max(step, min(waited / 20, 0.2)))
