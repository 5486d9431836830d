# SPDX-License-Identifier: BSD-2-Clause
"""Packages of PyPI that Python's own library hasn't got: a suite that asks for one is run by a Python that has it."""
import importlib.util
import os
import subprocess
import sys

from .report import ROOT


def made(name):
    """A Python that has what scripts/NAME.txt lists, or None; and why there is none, or ''."""
    got = subprocess.run([ROOT / "scripts/need-python", name], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if got.returncode:
        return None, " ".join(got.stderr.split()) or f"scripts/need-python {name} failed"
    return got.stdout.strip(), ""


def missing(name):
    """Goes on under a Python that has the module `name`; gives why there is none, or '' where this one has it."""
    mark = f"LACQUER_TEST_{name.upper()}"  # in the environment of who was begun again
    found = importlib.util.find_spec(name)
    if found and found.origin:  # a mere folder of that name has none
        return ""
    if mark in os.environ:
        return f"{sys.executable} has none, though it was made for it"
    python, why = made(name)
    if why:
        return why
    sys.stdout.flush()
    os.execve(python, [python, *sys.argv], {**os.environ, mark: python})
