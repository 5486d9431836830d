#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`lacquer asn`: a log whose shares are known gives them back, whatever files say which address belongs to whom; a running server's log
gives what was sent; what is damaged is told.
"""
import gzip
import json
import ipaddress
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd, die_with_parent, workdir
from bed.http import get
from bed.logs import Saved, is_followed
from bed.origin import Origin, simple
from bed.report import Report, options, until

LIMIT = 120
# A table that was published: percent of the bytes at noon on a working day, and in the evening.
NOON = {4771: 36.82, 4768: 15.10, 4648: 7.41, 17746: 5.60, 7657: 3.03, 9889: 2.69, 9503: 2.33, 38793: 1.91, 9790: 1.90, 10022: 1.73}
EVENING = {4771: 62.71, 4768: 12.97, 17746: 6.34, 7657: 2.89, 9790: 2.74, 17435: 1.47, 17412: 1.26, 38793: 0.96, 23655: 0.92, 4648: 0.81}
NAMES = {4771: "Telecom New Zealand Ltd.", 4768: "TelstraClear Ltd", 4648: "Netgate", 17746: "Orcon Internet"}
REST = 64512  # of another country


class Bed:
    def __init__(self, program, seed):
        self.program, self.dir, self.rng = program, workdir(), random.Random(seed)
        # Every network has a wide prefix, and a narrow one inside its neighbour's.
        asns = sorted({*NOON, *EVENING, REST})
        self.prefixes = {}
        for n, asn in enumerate(asns):
            self.prefixes[asn] = [(f"10.{n}.0.0", 16), (f"10.{(n + 1) % len(asns)}.{n}.0", 24), (f"2001:db8:{n:x}::", 48)]
        self.asns = asns

    def address(self, asn):
        """One that belongs to it and to no narrower prefix of another."""
        at = self.asns.index(asn)
        kind = self.rng.randrange(3)
        if kind == 0:
            return f"10.{at}.{self.rng.randrange(100, 256)}.{self.rng.randrange(256)}"
        if kind == 1:
            return f"10.{(at + 1) % len(self.asns)}.{at}.{self.rng.randrange(256)}"
        return f"2001:db8:{at:x}::{self.rng.randrange(1, 65536):x}"

    def log(self, shares, hour):
        """Lines whose bytes are split so: 0.01 percent are 100,000 bytes, in requests of odd sizes."""
        lines = []
        for asn, percent in [*shares.items(), (REST, round(100 - sum(shares.values()), 2))]:
            left = round(percent * 100) * 100_000
            while left > 0:
                size = min(left, self.rng.randrange(1, 400_000))
                left -= size
                stamp = f"06/Sep/2012:{hour:02}:{self.rng.randrange(60):02}:{self.rng.randrange(60):02} +1200"
                lines.append(f'{self.address(asn)} - - [{stamp}] "GET /{size} HTTP/1.1" 200 {size} "-" "x"\n')
        self.rng.shuffle(lines)
        return lines

    def files(self):
        """The prefixes as four kinds of files have them."""
        flat = [(address, length, asn) for asn, all in self.prefixes.items() for address, length in all]
        self.rng.shuffle(flat)
        write = lambda name, text: (self.dir / name).write_text(text)
        write("pyasn", "; IP-ASN32-DAT file\n" + "".join(f"{a}/{n}\t{asn}\n" for a, n, asn in flat))
        write("caida", "".join(f"{a}\t{n}\t{asn}_1\n" for a, n, asn in flat))
        (self.dir / "pyasn.gz").write_bytes(gzip.compress((self.dir / "pyasn").read_bytes()))
        rows = []
        for n, asn in enumerate(self.asns):
            country = "AU" if asn == REST else "NZ"
            before = self.asns[n - 1]
            at = self.asns.index(before)
            # Ranges don't overlap there: the neighbour's narrow prefix cuts this one in two.
            mine, theirs = (country, asn, NAMES.get(asn, f"NET-{asn}")), ("AU" if before == REST else "NZ", before, NAMES.get(before, f"NET-{before}"))
            for first, last, (c, a, name) in ((0, at * 256 - 1, mine), (at * 256, at * 256 + 255, theirs), (at * 256 + 256, 65535, mine)):
                if first <= last:
                    rows.append(f"10.{n}.{first >> 8}.{first & 255}\t10.{n}.{last >> 8}.{last & 255}\t{a}\t{c}\t{name}\n")
            rows.append(f"2001:db8:{n:x}::\t2001:db8:{n:x}:ffff:ffff:ffff:ffff:ffff\t{asn}\t{country}\t{mine[2]}\n")
        write("iptoasn", "".join(rows))
        write("csv", "".join('{},{},{},{}\n'.format(*row.rstrip("\n").split("\t")[:3], '"%s"' % row.rstrip("\n").split("\t")[4]) for row in rows))
        write("countries", "".join("{0},{1},{3}\n".format(*row.split("\t")) for row in rows))
        entries = [(ipaddress.ip_network(f"{a}/{n}"), asn) for a, n, asn in sorted(flat, key=lambda row: row[1])]
        (self.dir / "geo.mmdb").write_bytes(mmdb("DBIP-Country", [(net, {"country_code": "AU" if asn == REST else "NZ"}) for net, asn in entries]))
        (self.dir / "lite.mmdb").write_bytes(mmdb("ipinfo lite", [(net, {"asn": f"AS{asn}", "as_name": NAMES.get(asn, "")}) for net, asn in entries]))
        (self.dir / "city.mmdb").write_bytes(mmdb("City", [(net, {"city": "Wellington"}) for net, _ in entries]))
        write("names.json", json.dumps({str(asn): name for asn, name in NAMES.items()}))
        write("names", "".join(f"AS{asn}\t{name}\n" for asn, name in NAMES.items()))

    def run(self, *args, stdin=None, zone=None):
        env = {**os.environ, "TZ": zone} if zone else None
        p = subprocess.run([self.program, "asn", *map(str, args)], input=stdin, capture_output=True, timeout=LIMIT, env=env)
        return p.returncode, p.stdout.decode(), p.stderr.decode()

    def json(self, *args, stdin=None, zone=None):
        status, out, err = self.run("--format", "json", *args, stdin=stdin, zone=zone)
        try:
            return json.loads(out)
        except ValueError:
            raise AssertionError(f"status {status}, no JSON: {out[:200]!r} {err[:500]!r}")


def shares_of(window):
    return {g["asn"]: round(g["percent_bytes"], 2) for g in window["groups"]}


def published_tables(report, bed):
    noon, evening = bed.log(NOON, 12), bed.log(EVENING, 20)
    lines = noon + evening
    bed.rng.shuffle(lines)
    log = bed.dir / "access.log"
    log.write_text("".join(lines))
    packed = bed.dir / "access.log.gz"
    packed.write_bytes(gzip.compress("".join(lines).encode()))
    for db in ("pyasn", "caida", "pyasn.gz", "iptoasn", "csv", "lite.mmdb"):
        r = bed.json("--db", bed.dir / db, "--window", "1h", "--top", 0, packed if db == "caida" else log)
        got = [shares_of(w) for w in r["windows"]]
        report.check(len(got) == 2, f"{db}: two windows: {len(got)}")
        for window, want in zip(got, (NOON, EVENING)):
            report.check({a: p for a, p in window.items() if a != REST} == want, f"{db}: the shares of bytes: {window}")
        report.check(sum(w["requests"] for w in r["windows"]) == len(lines) and not r["remarks"], f"{db}: all lines: {r['remarks']}")
    r = bed.json("--db", bed.dir / "iptoasn", "--from", "2012-09-06T12:00+12:00", "--to", "2012-09-06T13:00+12:00", "--country", "nz", log)
    total = sum(NOON.values())
    want = {asn: round(p * 100 / total, 2) for asn, p in NOON.items()}
    report.check(shares_of(r["windows"][0]) == want, f"one country's own shares: {shares_of(r['windows'][0])}")
    report.check(len(r["remarks"]) == 2, f"the others are told: {r['remarks']}")
    requests = bed.json("--db", bed.dir / "pyasn", "--sort", "requests", "--top", 3, log)["windows"][0]
    counts = [g["requests"] for g in requests["groups"]]
    report.check(counts == sorted(counts, reverse=True) and len(counts) == 3, f"by requests: {counts}")
    report.check(requests["others"]["requests"] + sum(counts) == len(lines), f"the others as one: {requests['others']}")
    for names in ("names.json", "names"):
        status, out, err = bed.run("--db", bed.dir / "pyasn", "--names", bed.dir / names, "--top", 2, "--from", "2012-09-06T00:00Z", "--to",
                                   "2012-09-06T03:00Z", log)
        table = out.split("\n\n", 1)[1].splitlines()
        rows = [line.split(maxsplit=3) for line in table]
        report.check(table[0].split() == ["Percent", "Mb/s", "ASN", "ASN", "Description"] and
                     [rows[1][n] for n in (0, 2, 3)] == ["36.82", "4771", "Telecom New Zealand Ltd."], f"the table: {table}")
        # 1 GB within that hour, of which the first and the last second may have nothing.
        seconds = r["windows"][0]["to"] - r["windows"][0]["from"] + 1
        report.check(abs(float(rows[1][1]) - 0.3682 * 8000 / seconds) < 0.02, f"Mb/s of a network: {rows[1]} in {seconds} s")
        report.check(status == 0 and "others" in table[-1] and "other times left out" in err, f"its end: {table[-1]} {err}")
    # Noon by the clock of the log, wherever this runs.
    for zone in ("UTC", "Pacific/Auckland", "America/St_Johns"):
        r = bed.json("--db", bed.dir / "pyasn", "--from", "2012-09-06T12:00", "--to", "2012-09-06T13:00", "--top", 0, log, zone=zone)
        got = {a: p for a, p in shares_of(r["windows"][0]).items() if a != REST}
        report.check(got == NOON, f"{zone}: noon is noon: {got}")
        status, out, _ = bed.run("--db", bed.dir / "pyasn", "--window", "1d", log, zone=zone)
        report.check(out.startswith("2012-09-06 12:00:0") and "+1200, " in out.splitlines()[0] and out.count("Percent") == 1, f"{zone}: times of the log: {out[:99]}")
    status, out, _ = bed.run("--db", bed.dir / "iptoasn", "--group", "country", "--window", "1d", log)
    report.check(status == 0 and "Percent  Mb/s      Country" in out and "NZ" in out and "AU" in out, f"by country: {out}")
    status, out, _ = bed.run("--db", bed.dir / "pyasn", "--names", bed.dir / "names", "--format", "svg", log)
    picture = xml.etree.ElementTree.fromstring(out)
    report.check(picture.tag.endswith("svg") and any("Telecom New Zealand" in "".join(t.itertext()) for t in picture), "the picture")


def mmdb(kind, networks):
    """A database as the MaxMind DB File Format Specification 2.0 describes it; of networks that overlap the later one counts."""
    def value(v):
        if isinstance(v, dict):
            return bytes([7 << 5 | len(v)]) + b"".join(value(k) + value(w) for k, w in v.items())
        if isinstance(v, str):
            b = v.encode()
            return bytes([2 << 5 | len(b)]) + b if len(b) < 29 else bytes([2 << 5 | 29, len(b) - 29]) + b
        if v == []:
            return bytes([0, 11 - 7])
        kind, number = v
        n = number.to_bytes((number.bit_length() + 7) // 8, "big")
        return (bytes([kind << 5 | len(n)]) if kind < 8 else bytes([len(n), kind - 7])) + n
    U16, U32, U64 = 5, 6, 9
    root, data = [None, None], b""
    def fill(node, side):
        """The node below, which a wider network's record, if there is one, fills."""
        if not isinstance(node[side], list):
            node[side] = [node[side], node[side]]
        return node[side]
    for net, record in networks:
        at, data = len(data), data + value(record)
        bits = net.prefixlen + (96 if net.version == 4 else 0)
        number, node = int(net.network_address), root
        for n in range(bits - 1):
            node = fill(node, number >> (127 - n) & 1)
        node[number >> (128 - bits) & 1] = at
    nodes, queue = [], [root]
    while queue:
        node = queue.pop()
        nodes.append(node)
        queue += [child for child in node if isinstance(child, list)]
    place = {id(node): n for n, node in enumerate(nodes)}
    def pointer(child):
        n = len(nodes) if child is None else place[id(child)] if isinstance(child, list) else len(nodes) + 16 + child
        return n.to_bytes(4, "big")
    tree = b"".join(pointer(child) for node in nodes for child in node)
    metadata = {"node_count": (U32, len(nodes)), "record_size": (U16, 32), "ip_version": (U16, 6), "database_type": kind, "description": {}, "languages": [],
                "binary_format_major_version": (U16, 2), "binary_format_minor_version": (U16, 0), "build_epoch": (U64, 1_700_000_000)}
    return tree + bytes(16) + data + b"\xab\xcd\xefMaxMind.com" + value(metadata)


def other_files(report, bed):
    """Files for something else are named; what one file knows is told."""
    log = bed.dir / "other.log"
    log.write_text("".join(bed.log(NOON, 12)))
    for db in ("countries", "geo.mmdb"):
        r = bed.json("--db", bed.dir / db, "--group", "country", log)
        got = {g["country"]: g["percent_bytes"] for g in r["windows"][0]["groups"]}
        rest = round(100 - sum(NOON.values()), 2)
        report.check({k: round(v, 2) for k, v in got.items()} == {"NZ": 100 - rest, "AU": rest} and not r["remarks"], f"{db}: countries: {r}")
        told = bed.json("--db", bed.dir / db, log)["remarks"]
        report.check(told == ["no file knows networks; --group country shows the countries"], f"{db}: it has no networks: {told}")
    told = bed.json("--db", bed.dir / "city.mmdb", log)["remarks"]
    report.check(len(told) == 1 and "city.mmdb: knows network and country of none" in told[0] and "City" in told[0], f"another kind of database: {told}")
    (bed.dir / "elsewhere").write_text("2001:db9::/32\t64512\n")
    told = bed.json("--db", bed.dir / "elsewhere", "--db", bed.dir / "pyasn", log)["remarks"]
    report.check(len(told) == 1 and "elsewhere: knows none of the addresses" in told[0], f"a file of other addresses: {told}")


def by_bulk(report, bed):
    """The list for Team Cymru's service, and its answer."""
    log, networks = bed.dir / "bulk.log", {"203.97.1.0": 4771, "131.203.0.0": 4768, "2404:138::": 9503}
    clients = ["203.97.1.1", "203.97.1.9", "131.203.0.7", "2404:138::1", "10.0.0.1", "www.example.org"]
    log.write_text("".join(f'{c} - - [06/Sep/2012:12:00:00 +1200] "GET / HTTP/1.1" 200 100\n' for c in clients))
    status, out, err = bed.run("--addresses", log)
    report.check(status == 0 and out.splitlines() == ["begin", "verbose", "131.203.0.0", "203.97.1.0", "2404:138::", "end"], f"the list: {out}")
    report.check("1 requests from private addresses" in err and "1 requests whose client is no address" in err, f"what isn't asked for: {err}")
    # The service's lines, padded as it pads them.
    wide = {4771: "203.97.0.0/17", 4768: "131.203.0.0/16", 9503: "2404:138::/32"}
    lines = [f"{asn:<7} | {a:<16} | {wide[asn]:<19} | NZ | apnic    | 1994-05-02 | NET-{asn}-AP Some, Ltd., NZ\n" for a, asn in networks.items()]
    (bed.dir / "cymru").write_text("Bulk mode; whois.cymru.com [2012-09-06 02:00:00 +0000]\n" + "".join(lines))
    r = bed.json("--db", bed.dir / "cymru", log)
    got = {g["asn"]: (g["requests"], g["country"], g["name"]) for g in r["windows"][0]["groups"]}
    report.check(got[4771] == (2, "NZ", "NET-4771-AP Some, Ltd., NZ") and got[4768][0] == got[9503][0] == got[None][0] == 1, f"the answer: {got}")
    status, out, _ = bed.run("--addresses", "-", stdin=b"")
    report.check((status, out) == (1, ""), f"no addresses: {status} {out}")


def running(report, bed):
    """What a running server sends, by its log; what VCL restarts, too."""
    with Origin(simple(lambda m, path, f: ("", b"x" * int(path.strip("/") or 0)))) as origin:
        vcl = f'''vcl 4.1;
            backend default {{ .host = "127.0.0.1"; .port = "{origin.address[1]}"; }}
            sub vcl_recv {{ if (req.url == "/300" && req.restarts == 0) {{ return (restart); }} }}
            '''
        local = bed.dir / "local"
        local.write_text("127.0.0.0/8\t64500\n")
        with Varnishd(str(pathlib.Path(bed.program).parent / "varnishd"), vcl=vcl) as v:
            p = subprocess.Popen([bed.program, "asn", "--db", str(local), "-n", str(v.n), "--format", "json"], stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=die_with_parent)
            with Saved(v, bed.dir / "saved.vsl") as saved:
                report.check(is_followed(v, p.pid, saved.proc.pid), "it follows the log")
                for size in (100, 200, 300):
                    report.check(get(v.address, f"/{size}").whole(), f"an answer of {size} bytes")
                until(60, lambda: get(v.address, "/000").whole() and saved.has(b"/000"))
            p.send_signal(signal.SIGINT)
            out, err = p.communicate(timeout=LIMIT)
    r = json.loads(out)
    group = r["windows"][0]["groups"][0] if r["windows"] else {}
    report.check(p.returncode == 0 and group.get("asn") == 64500 and group.get("bytes") == 600, f"what was sent: {r} {err}")
    report.check(any("ended early" in remark for remark in r["remarks"]), f"ended by a signal: {r['remarks']}")


def damage(report, bed):
    log = bed.dir / "damaged.log"
    good = '10.0.200.1 - - [06/Sep/2012:12:00:00 +1200] "GET / HTTP/1.1" 200 5\n'
    log.write_bytes(good.encode() * 3 + b'www.example.org - - [06/Sep/2012:12:00:00 +1200] "GET / HTTP/1.1" 200 5\n' + b"\x00\xff\n"
                    + b'10.0.200.1 - - [06/Sep/2012:12:00:00 +1200] "GET /\n' + b"x" * 1_000_000 + b"\n" + good.encode())
    r = bed.json("--db", bed.dir / "pyasn", log)
    report.check(r["windows"][0]["requests"] == 4, f"good lines count: {r}")
    told = " ".join(r["remarks"])
    report.check(all(w in told for w in ("1 lines too long", "1 lines cut off", "1 requests whose client is no address")), f"bad ones are told: {told}")
    cut = bed.dir / "cut.gz"
    cut.write_bytes(gzip.compress(good.encode() * 5000)[:-20])
    r = bed.json("--db", bed.dir / "pyasn", cut)
    report.check(any("cut off" in remark for remark in r["remarks"]), f"a cut file is told: {r['remarks']}")
    for args, want in ((["--db", "/nonexistent", "x"], "/nonexistent"), (["--db", log, "x"], "line 1"), (["x"], "--db is missing"),
                       (["--db", bed.dir / "pyasn"], "which log"), (["--db", bed.dir / "pyasn", "--names", log, log], "has no names")):
        status, out, err = bed.run(*args)
        report.check(status == 2 and want in err and not out, f"{args}: {status} {err}")
    status, out, err = bed.run("--db", bed.dir / "pyasn", "/nonexistent.log")
    report.check(status == 1 and "/nonexistent.log" in err, f"a log that isn't there: {status} {err}")


def main():
    o = options(__doc__)
    report = Report("asn")
    bed = Bed(str(pathlib.Path(o.varnishd).parent / "lacquer"), o.seed)
    bed.files()
    for case in (published_tables, other_files, by_bulk, running, damage):
        report.run([case], report, bed)
    shutil.rmtree(bed.dir)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
