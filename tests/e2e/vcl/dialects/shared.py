# SPDX-License-Identifier: BSD-2-Clause
"""What the comparisons of this folder share: the bed of vcl_oracle, and an origin that answers as any real one of those days."""
import email.utils
import importlib.util
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "vcl_oracle"), str(HERE.parents[2])]
SPEC = importlib.util.spec_from_file_location("vcl_oracle", HERE.parent / "vcl_oracle" / "run.py")
oracle = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(oracle)
import requests

ANSWER = requests.answer


def answer(*args):
    """The origin's answer, with a Date; a Vary with a star has nothing else."""
    status, out, content = ANSWER(*args)
    out = [*out, ("Date", email.utils.formatdate(usegmt=True))]
    star = any(n.lower() == "vary" and "*" in v for n, v in out)
    # No release before 4.0 knew this word; what runs the migrated file does.
    out = [(n, v.replace(", stale-while-revalidate=60", "")) for n, v in out]
    return status, [f for f in out if f[0].lower() != "vary" or not star or f[1] == "*"], content


requests.answer = answer
