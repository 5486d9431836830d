# SPDX-License-Identifier: BSD-2-Clause
"""HTTP/3's client needs aioquic, which Python's own library hasn't got: a suite that asks for it is run by a Python that has it."""
import importlib.util
import os
import subprocess
import sys

from .report import ROOT

MADE = "LACQUER_TEST_AIOQUIC"  # in the environment of who was begun again


def missing():
    """Goes on under a Python that has aioquic; gives why there is none, or '' where this one has it."""
    if importlib.util.find_spec("aioquic"):
        return ""
    if MADE in os.environ:
        return f"{sys.executable} has none, though it was made for it"
    got = subprocess.run([ROOT / "scripts/need-aioquic"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    if got.returncode:
        return " ".join(got.stderr.split()) or "scripts/need-aioquic failed"
    python = got.stdout.strip()
    sys.stdout.flush()
    os.execve(python, [python, *sys.argv], {**os.environ, MADE: python})
