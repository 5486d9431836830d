#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""The VCL inside Varnish's own test cases of old releases, taken from a clone as files for run.py, genuine.py and loads.py.

    tests/e2e/vcl/dialects/upstream.py GIT_DIR TO_DIR [--tag varnish-3.0.7 ...]

Written is TO_DIR/TAG/CASE-N.vcl, the Nth program of a case, each text once a tag; the backends that varnishtest would add are declared,
and what its macros stand for is local. The directory's name is the dialect: see corpus.dialect_of. Nothing of it is kept in this project.
"""
import argparse
import pathlib
import re
import subprocess
import sys

TAGS = ("varnish-2.0.6", "varnish-2.1.5", "varnish-3.0.7")
PROGRAM = re.compile(r"-(vcl\+backend|vcl)\s*\{")
MACROS = [(r"\$\{s\w+_addr\}", "127.0.0.1"), (r"\$\{s\w+_port\}", "9080"), (r"\$\{bad_ip\}", "192.0.2.255"),
          (r'(?m)^(\s*import\s+\w+)\s+from\s+"[^"\n]*"', r"\1")]


def git(directory, *args):
    return subprocess.run(["git", "-C", directory, *args], check=True, capture_output=True).stdout.decode("latin-1")


def braced(text, start):
    """What stands between the brace before `start` and its own end; varnishtest counts braces, whatever they stand in."""
    depth = 1
    for m in re.finditer(r"[{}]", text[start:]):
        depth += 1 if m[0] == "{" else -1
        if depth == 0:
            return text[start:start + m.start()]
    return None


def programs(case):
    """Each program of a case that is expected to compile."""
    servers = dict.fromkeys(re.findall(r"(?m)^\s*server\s+(s\w+)", case))
    declared = "".join(f'backend {s} {{ .host = "127.0.0.1"; .port = "9080"; }}\n' for s in servers)
    for m in PROGRAM.finditer(case):
        text = braced(case, m.end())
        if text is not None:
            text = declared + text if m[1] == "vcl+backend" else text
            for macro, value in MACROS:
                text = re.sub(macro, value, text)
            yield text


def extract(directory, tag, to):
    """(cases, programs, distinct texts) of a tag, written below `to`."""
    names = [n for n in git(directory, "ls-tree", "-r", "--name-only", tag).split("\n") if n.endswith(".vtc")]
    count, seen = 0, set()
    to.mkdir(parents=True, exist_ok=True)
    for name in names:
        for n, text in enumerate(programs(git(directory, "show", f"{tag}:{name}")), 1):
            count += 1
            words = " ".join(text.split())
            if words not in seen:
                seen.add(words)
                (to / f"{pathlib.PurePosixPath(name).stem}-{n}.vcl").write_text(text, "latin-1")
    return len(names), count, len(seen)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("git_dir")
    p.add_argument("to_dir", type=pathlib.Path)
    p.add_argument("--tag", action="append", default=[])
    o = p.parse_args()
    for tag in o.tag or TAGS:
        cases, count, distinct = extract(o.git_dir, tag, o.to_dir / tag)
        print(f"{tag}: {cases} cases, {count} programs, {distinct} of them distinct")


if __name__ == "__main__":
    sys.exit(main())
