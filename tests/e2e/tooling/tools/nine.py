# SPDX-License-Identifier: BSD-2-Clause
"""Our own log as release 9 has it: our tools show of it what they show of it in 7.1's format, from a file and live."""
import json
import struct
import subprocess

import cases
import releases

LIMIT = 120  # seconds; only ends a hang
IDS = 1 << 30


def earlier(octets):
    """The records of a file of 9 as 7.1 writes them, with its head; None if one of them isn't laid out as 9 has it."""
    tags = {n: tag for tag, n in releases.numbers(9).items()}
    out, at = [releases.SEVEN], 4
    while at < len(octets):
        first, low, high = struct.unpack_from("=III", octets, at)
        number, length = first >> 24, first & 0xffff
        padded = -(-length // 4) * 4
        if first >> 16 & 0xff != 1 or number not in tags or high & 0x3fffffff or low >= IDS:
            return None
        out.append(struct.pack("=II", tags[number] << 24 | length, low | high))
        out.append(octets[at + 12:at + 12 + padded])
        at += 12 + padded
    return b"".join(out)


def run(report, ours, pool, vsl, workdir, work):
    octets = vsl.read_bytes()
    report.check(octets[:4] == releases.LATER, f"the file is one of 9: {octets[:4]!r}")
    seven = earlier(octets)
    report.check(seven is not None, "all records are laid out as 9 has them")
    kept = work / "as-7.vsl"
    kept.write_bytes(seven or releases.SEVEN)

    def ask(tool, where, args):
        p = subprocess.run([str(ours / tool), *where, *args], capture_output=True, timeout=LIMIT)
        return p.returncode, p.stdout, p.stderr

    def same(job):
        tool, args = job
        got = ask(tool, ["-r", str(vsl)], args)
        if not releases.has_other_rules(tool, args) and "-w" not in args:
            expected = ask(tool, ["-r", str(kept)], args)
            report.check(got[:2] == expected[:2], f"{tool} {args}: {got[0]} {got[1][:200]!r} {got[2][:200]!r}, in 7.1's format {expected[0]} {expected[1][:200]!r}")
        # The living log grows by nothing but pings, which have no transaction. It is read by batches, so another transaction may be one too many (-L).
        if "raw" not in args and "-L" not in args and tool != "varnishtop":
            live = ask(tool, ["-n", str(workdir), "-d"], args)
            report.check(got[:2] == live[:2], f"{tool} {args}: {got[0]} {got[1][:200]!r} {got[2][:200]!r}, live {live[0]} {live[1][:200]!r}")

    jobs = [("varnishlog", args) for args in cases.LOG if "-d" not in args][::3]
    jobs += [("varnishncsa", args) for args in cases.NCSA if "-d" not in args][::3]
    jobs += [("varnishtop", args) for args in cases.TOP] + [("varnishlog-json", args) for args in cases.JSON]
    list(pool.map(same, jobs))

    lines = ask("varnishlog-json", ["-r", str(vsl)], [])[1].decode().splitlines()
    urls = [json.loads(line)["req"].get("url") for line in lines]
    report.check(urls.count("/a") == 5 and urls[-1] == "/last", f"a line each request: {urls}")
    groups = [json.loads(line) for line in ask("varnishlog-json", ["-r", str(vsl)], ["-g", "request", "-q", "ReqURL eq '/esi'"])[1].splitlines()]
    sides = {member["side"] for group in groups for member in group}
    report.check(groups and sides == {"client", "backend"}, f"an array each request: {sides}")
    indented = ask("varnishlog-json", ["-r", str(vsl)], ["-p", "-k", "1"])[1]
    report.check(json.loads(indented) == json.loads(lines[0]), f"the same indented: {indented[:200]!r}")
