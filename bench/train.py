#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Makes the profile by which the compiler lays out and inlines (bench/lacquer.profdata): builds an instrumented program, lets it
serve what sites are made of, and merges what it counted. To be run again when much has changed; `make build` takes what is there.

usage: train.py   (`make profile`; needs llvm-profdata: `rustup component add llvm-tools`)
"""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

import disk
import vclgen
from servers import Bed

ROOT = pathlib.Path(__file__).resolve().parent.parent
CARGO = shlex.split(os.environ.get("CARGO", "cargo"))
OUT = ROOT / "bench/lacquer.profdata"
TARGET = ROOT / "target/profile"

# What is asked for, and how long it weighs: hits first, as they are what there is most of.
LOADS = [
    ("/c/1024/", ["-N", "100", "-d", "6"]), ("/c/1024/1", ["-k", "10", "-d", "3"]), ("/c/1024/1", ["-k", "1", "-B", "-d", "2"]),
    ("/c/1024/1", ["-P", "16", "-d", "3"]), ("/c/102400/1", ["-d", "2"]),
    ("/n/1024/1", ["-d", "4"]), ("/c/1024/x", ["-N", "100000000", "-d", "4"]),
]

# The releases to act as: logs, built-in VCL and heads differ.
RELEASES = ["9", "7.1"]

# Of bench/tls.py: the same over TLS; of bench/h2.py: over HTTP/2, in clear and over TLS; of bench/h3.py: over HTTP/3.
OVER_TLS = ["hit-1k", "hit-100k", "full-1.3", "resumed-1.3", "resumed-1.2", "pass-tls"]
OVER_H2 = ["hit-1x64", "hit-16x64", "hit-100k-16x16", "pass-1x64", "pass-16x64"]
OVER_H3 = ["hit-1x64", "hit-16x64", "hit-100k-16x16", "pass-1x64", "pass-16x64"]
# Crates on the way of a request, and readers of the log: much of them no load here reaches (origins over HTTP/2, fleets, pipes), and it is
# to be fast all the same. Nobody says of their functions that they never run.
ON_THE_WAY = ("engine|fronts|worker|net|rt|params|message|http1|http2|tls|cache|storage|disk|backend|filters|fleet|vcl_regex|vrt|vmods|vmods_crypto|vmod_support|shm|base|sys|"
              "toolkit|logq|lacquer_log|lacquer_ncsa|lacquer_statsd")
NOT_TRAINED = rf"(^|[^a-z_])({ON_THE_WAY})([0-9.$]|$)|^_ZN5tokio"
# The same from a disk: bytes of an object, how many, connections.
FROM_DISK = [(4096, 20_000, 64), (1 << 20, 200, 16)]


def profdata():
    """The program that merges: the toolchain's own, or one of the same LLVM."""
    rustc = os.environ.get("RUSTC", "rustc")
    root = subprocess.run([rustc, "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    facts = subprocess.run([rustc, "-vV"], capture_output=True, text=True, check=True).stdout
    facts = dict(line.split(": ", 1) for line in facts.splitlines() if ": " in line)
    own = pathlib.Path(root) / "lib/rustlib" / facts["host"] / "bin/llvm-profdata"
    other = shutil.which(f"llvm-profdata-{facts['LLVM version'].split('.')[0]}")
    return str(own) if own.exists() else other or sys.exit("no llvm-profdata: rustup component add llvm-tools")


def build():
    flags = f"{os.environ.get('RUSTFLAGS', '')} -Cprofile-generate={TARGET}/counts"
    subprocess.run([*CARGO, "build", "--release", "-p", "lacquer", "--target-dir", TARGET], cwd=ROOT, check=True,
                   # The compiler's own helpers are built so too; what they count is nobody's.
                   env={**os.environ, "RUSTC_WRAPPER": str(ROOT / "scripts/stable-names"), "RUSTFLAGS": flags, "LLVM_PROFILE_FILE": "/dev/null"})
    program = TARGET / "bin/varnishd"
    program.parent.mkdir(exist_ok=True)
    program.unlink(missing_ok=True)
    os.link(TARGET / "release/lacquer", program)
    return program


def acting_as(program, release):
    """A launcher of `program` that acts as `release` (`--compat`)."""
    launcher = program.with_name(f"varnishd-{release}")
    launcher.write_text(f'#!/bin/sh\nexec {shlex.quote(str(program))} --compat {release} "$@"\n')
    launcher.chmod(0o755)
    return launcher


def serve(program, release):
    """Loads of the bench as `release`, with the log read beside them."""
    with Bed(["ours"], acting_as(program, release)) as bed:
        server = bed.servers[0]
        reader = subprocess.Popen([program.with_name("varnishncsa"), "-n", server.dir / "n"], stdout=subprocess.DEVNULL)
        for path, options in LOADS:
            got = bed.load(server, path, options)
            if not got["ok"] or got["non200"]:
                sys.exit(f"{path}: {got['ok']} answers, {got['non200']} of them bad: not what sites are made of")
        reader.terminate()
        reader.wait()
        with tempfile.NamedTemporaryFile("w", prefix="lacquer-train.") as trace:
            trace.writelines("\t".join(r) + "\n" for r in vclgen.requests())
            trace.flush()
            heavy = bed.another("ours", vcl=vclgen.heavy(bed.origin_port))
            bed.load(heavy, "/", ["-f", trace.name, "-d", "2"])
            heavy.stop()


def serve_as(bench, cases, program):
    """Cases of another bench."""
    subprocess.run([ROOT / "bench" / bench, "--servers", "ours", "--ours", program, "--rounds", "1", "--seconds", "3", "--cases", ",".join(cases)],
                   stdout=subprocess.DEVNULL, check=True)


def serve_from_disk(program):
    """Objects that are on the disk alone, each asked for three times."""
    with tempfile.TemporaryDirectory(prefix="lacquer-train.", dir="/var/tmp") as root, Bed([], program) as bed:
        os.chmod(root, 0o755)
        disk.OnDisk.root = pathlib.Path(root)
        for size, count, connections in FROM_DISK:
            disk.OnDisk.bytes = 2 * size * count + (256 << 20)
            hits = disk.Hits("train", size, count, count, connections, 0, 3000 if size < 1 << 16 else 150)
            with disk.started(bed, [disk.DiskOurs]) as (server,):
                hits.fill(bed, server)
                for _ in range(3):
                    got = hits.load(bed, server, [])
                    if got["misses"] > count // 2:
                        sys.exit(f"{got['misses']} of {count} objects weren't on the disk")


def merge_counts(merge, program, found, counts):
    """What ran, and what there is beside it and never did: that is built small, where without a record it would be as if it were hot."""
    subprocess.run([merge, "merge", "--sparse", "-o", counts / "ran", *found], check=True)
    # What a start alone counts names every function there is.
    subprocess.run([program, "-V"], env={**os.environ, "LLVM_PROFILE_FILE": str(counts / "start")}, capture_output=True, check=True)
    subprocess.run([merge, "merge", f"--no-function={NOT_TRAINED}", "-o", counts / "all", counts / "start"], check=True)
    subprocess.run([merge, "merge", "-o", OUT, counts / "ran", counts / "all"], check=True)


def main():
    merge = profdata()
    # Before the build, which takes many minutes.
    for bench in ("tls", "h2", "h3"):
        subprocess.run([ROOT / "scripts/need-packages", bench], check=True)
    program = build()
    program.with_name("varnishncsa").unlink(missing_ok=True)
    program.with_name("varnishncsa").symlink_to(program.name)
    counts = TARGET / "counts"
    shutil.rmtree(counts, ignore_errors=True)
    counts.mkdir()
    # Processes of several users count into the same files.
    os.umask(0)
    counts.chmod(0o777)
    for release in RELEASES:
        serve(program, release)
    serve_as("tls.py", OVER_TLS, program)
    serve_as("h2.py", OVER_H2, program)
    serve_as("h3.py", OVER_H3, program)
    serve_from_disk(program)
    # Everything else there is, once: so that no path that sites use counts as never taken.
    subprocess.run([ROOT / "tests/run_vtc", "--varnishd", program], stdout=subprocess.DEVNULL)
    found = sorted(counts.glob("*.profraw"))
    merge_counts(merge, program, found, counts)
    OUT.chmod(0o644)
    print(f"{OUT.relative_to(ROOT)}: {OUT.stat().st_size} bytes, of {len(found)} files")


if __name__ == "__main__":
    main()
