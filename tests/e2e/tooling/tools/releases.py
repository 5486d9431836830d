# SPDX-License-Identifier: BSD-2-Clause
"""Logs of later releases: our tools show of a log in their formats what they show of it in 7.1's, from files and pipes.

The logs of 7.3 to 9 are made here from one of a server, by what their headers say (vapi/vsl_int.h, tbl/vsl_tags.h).
"""
import random
import struct
import subprocess

import cases
import hostile

LIMIT = 120  # seconds; only ends a hang
SEVEN, LATER = b"VSL\0", b"VSL2"
GONE = {7: "BackendReuse", 12: "Backend", 86: "BackendStart"}
VDP_ACCT, TLS, BACKEND_SSL, REQ_TARGET = 96, 97, 98, 99


def numbers(release):
    """The numbers of a later release by ours."""
    order = [n for n in range(1, VDP_ACCT + 1) if n not in GONE]
    if release == 9:
        order[7:7] = [BACKEND_SSL, TLS]
    return {tag: n for n, tag in enumerate([*order, REQ_TARGET], 1)}


def later(octets, release):
    """The records of a file of 7.1 as a later release writes them, with its head."""
    number, out, at = numbers(release), [LATER], 4
    while at < len(octets):
        first, vxid = struct.unpack_from("=II", octets, at)
        tag, length = first >> 24, first & 0xffff
        padded = -(-length // 4) * 4
        if tag in number:
            out.append(struct.pack("=III", number[tag] << 24 | 1 << 16 | length, vxid & 0x3fffffff, vxid & 0xc0000000))
            out.append(octets[at + 8:at + 8 + padded])
        at += 8 + padded
    return b"".join(out)


def has_other_rules(tool, args):
    """Whether later releases choose other records than 7.1: fragments where transactions stand alone, both sides with -b -c, the peer's headers."""
    is_grouped = "-g" in args and not args[args.index("-g") + 1].startswith("v")
    return tool == "varnishncsa" or (not is_grouped or "-b" in args and "-c" in args)


def run(report, ours, pool, vsl, work, seed, rounds):
    octets = vsl.read_bytes()
    kept = work / "7.vsl"
    kept.write_bytes(octets)
    made = {8: later(octets, 8), 9: later(octets, 9)}
    files = {7: kept}
    for release, log in made.items():
        files[release] = work / f"{release}.vsl"
        files[release].write_bytes(log)

    def ask(tool, path, args, stdin=None):
        where = ["-r", "-"] if stdin is not None else ["-r", str(path)]
        p = subprocess.run([str(ours / tool), *where, *args], input=stdin, capture_output=True, timeout=LIMIT)
        return p.returncode, p.stdout, p.stderr

    def same(job):
        tool, args, is_piped = job
        is_other = has_other_rules(tool, args)
        expected = ask(tool, files[8 if is_other else 7], args)
        is_log = tool == "varnishlog" and "-w" in args and "-A" not in args
        if is_log and is_other:
            return
        for release, log in made.items():
            got = ask(tool, files[release], args, log if is_piped else None)
            want = later(expected[1], release) if is_log else expected[1]
            ok = (got[0], got[1]) == (expected[0], want)
            report.check(ok, f"{tool} {args} of a log of {release}: {got[0]} {len(got[1])} bytes {got[1][:200]!r} {got[2][:300]!r}, "
                             f"expected {expected[0]} {len(want)} bytes {want[:200]!r}")

    jobs = [("varnishlog", args, n % 5 == 0) for n, args in enumerate(cases.LOG) if "-d" not in args]
    jobs += [("varnishncsa", args, n % 5 == 0) for n, args in enumerate(cases.NCSA) if "-d" not in args]
    jobs += [("varnishtop", args, False) for args in cases.TOP]
    list(pool.map(same, jobs))

    both = octets + made[9]
    status, out, err = ask("varnishlog", None, ["-g", "raw"], both)
    once = ask("varnishlog", kept, ["-g", "raw"])[1]
    report.check(status == 0 and out == once + once and err.count(b"several releases") == 1, f"two formats in one file: {status} {len(out)} {err[:200]!r}")
    unknown = made[9] + struct.pack("=III4s", 200 << 24 | 1 << 16 | 4, 0, 0, b"new\0") * 2
    status, out, err = ask("varnishlog", None, ["-g", "raw"], unknown)
    report.check(status == 0 and out == once and err.count(b"tag number 200") == 1, f"an unknown tag: {status} {len(out)} {err[:200]!r}")

    r = random.Random(seed)

    def changed(job):
        n, tool, args, log = job
        status, _, err = ask(tool, None, args, log)
        report.check(0 <= status <= 2, f"changed log {n} of seed {seed}: {tool} {args}: status {status} {err[-300:]!r}")
    list(pool.map(changed, [(n, *r.choice(hostile.FILES), hostile.change(r, made[r.choice([8, 9])][:200_000])) for n in range(rounds)]))
