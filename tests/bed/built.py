# SPDX-License-Identifier: BSD-2-Clause
"""The program under test: where it is, and whether it was built from the sources as they are now.

Suites test the quick build (target/debug, profile `dev`), which `tests/run` brings up to date. Suites of the kind `timing` test the full
build of `make build` (dist/bin). VARNISHD in the environment, or --varnishd, names another program, which is taken as it is.
"""
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR") or ROOT / "target")
QUICK, FULL = TARGET / "debug", ROOT / "dist/bin"
SOURCES = ("Cargo.toml", "Cargo.lock", "crates", "tools")
# Set by `tests/run`, which has just built the program: nobody looks through all the sources again.
CHECKED = "LACQUER_PROGRAM_CHECKED"


def directory():
    """Where the programs under test are: `lacquer` and a link for each of Varnish's programs."""
    if named := os.environ.get("VARNISHD"):
        return pathlib.Path(named).resolve().parent
    return FULL if "timing" in pathlib.Path(sys.argv[0]).resolve().parts else QUICK


def program(name):
    """The path of `lacquer`, or of one of Varnish's programs as ours."""
    return os.environ.get("VARNISHD") or str(directory() / name) if name == "varnishd" else str(directory() / name)


def stamp():
    """The file whose age is that of the program."""
    return QUICK / "lacquer.stamp" if directory() == QUICK else directory() / "lacquer"


def newest_source():
    """(time, path) of the newest source."""
    newest = (0.0, "")
    for top in SOURCES:
        if (ROOT / top).is_file():
            newest = max(newest, ((ROOT / top).stat().st_mtime, top))
        for where, _, names in os.walk(ROOT / top):
            newest = max([newest, *((os.stat(p).st_mtime, p) for p in (os.path.join(where, n) for n in names))])
    return newest


def why_not(path):
    """Why the program at `path` can't be tested, and what to type; an empty text if it can."""
    build = "make build" if directory() == FULL else "make quick"
    if not os.access(path, os.X_OK):
        return f"{path}: no such program; type `{build}`, or name one with --varnishd or VARNISHD"
    if os.environ.get("VARNISHD") or os.environ.get(CHECKED) or pathlib.Path(path).parent not in (QUICK, FULL):
        return ""
    when, source = newest_source()
    if not stamp().exists() or when > stamp().stat().st_mtime:
        return f"{path} is older than {os.path.relpath(source, ROOT)}; type `{build}`, or use `tests/run`, which builds first"
    return ""
