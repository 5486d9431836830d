#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Modules whose effects are seen neither by a client nor by an origin: what `import statsd` sends, and to whom; files that change
while a module has them: `import netmapper`, `import cfg` and `import geoip2`; tables that clients fill."""
import pathlib
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import CliError, Varnishd, directory, free_port
from bed.http import Client
from bed.report import Report, options, until

LIMIT = 30  # seconds; ends a wait for what never comes
VARNISHLOG = "/usr/bin/varnishlog"

VCL = """vcl 4.1;
import statsd;
backend none none;
sub vcl_init { statsd.server("%s", "%s"); statsd.prefix("pre."); statsd.suffix(".post"); }
sub vcl_recv {
    if (req.url == "/all") {
        statsd.incr("a"); statsd.counter("b", 42); statsd.gauge("c", 7); statsd.timing("d", 12);
        statsd.counter("n", -3); statsd.gauge("n", -7); statsd.timing("n", -1);
    } else if (req.url == "/odd") {
        statsd.incr({"x:1|c
evil y"}); statsd.incr(""); statsd.incr(req.http.nope);
    } else {
        statsd.incr("one");
    }
    return (synth(200));
}
"""


def receive(sock):
    """The lines of all datagrams so far. Each is sent before the request that caused it is answered."""
    got = []
    sock.setblocking(False)
    try:
        while True:
            got += sock.recv(65536).decode().splitlines()
    except BlockingIOError:
        return sorted(got)


def use(v, name, text):
    v.cli.ask(f"vcl.inline {name} << END\n{text}\nEND")
    v.cli.ask(f"vcl.use {name}")


def ask(v, path, times=1):
    with Client(v.address, LIMIT) as client:
        return [client.request(path).whole() for _ in range(times)]


ALL = ["pre.a.post:1|c", "pre.b.post:42|c", "pre.c.post:7|g", "pre.d.post:12|ms",
       "pre.n.post:-3|c", "pre.n.post:-7|g", "pre.n.post:0|g"]


def udp(report, v):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as statsd:
        statsd.bind(("127.0.0.1", 0))
        for host in ("127.0.0.1", "localhost"):
            text = VCL % (host, statsd.getsockname()[1])
            use(v, f"udp-{host.replace('.', '-')}", text)
            report.check(all(ask(v, "/all")), f"{host}: an answer")
            got = receive(statsd)
            report.check(got == ALL, f"{host}: each kind of metric arrives: {got}")
            ask(v, "/odd")
            got = receive(statsd)
            report.check(got == ["pre.x_1_c_evil_y.post:1|c"], f"{host}: names can't break lines: {got}")
            ask(v, "/", 100)
            got = receive(statsd)
            report.check(got == ["pre.one.post:1|c"] * 100, f"{host}: each call is a sample: {len(got)}")
            use(v, f"two-{host.replace('.', '-')}", text.replace("pre.", ""))
            ask(v, "/")
            got = receive(statsd)
            report.check(got == ["one.post:1|c"], f"{host}: another VCL has a prefix of its own: {got}")


def unix(report, v):
    with directory() as d, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as statsd:
        path = d / "statsd"
        statsd.bind(str(path))
        path.chmod(0o666)
        use(v, "unix", VCL % (path, ""))
        ask(v, "/all")
        got = receive(statsd)
        report.check(got == ALL, f"a unix socket: {got}")
        # Nobody reads: its queue fills up, and requests go on. One that waited for the statsd would never end.
        report.check(all(ask(v, "/", 2000)), "a socket nobody reads: all requests are answered")


def unreachable(report, v):
    for n, (host, port) in enumerate((("127.0.0.1", free_port()), ("no.such.name.invalid", 8125), ("/no/such/path", ""))):
        use(v, f"unreachable{n}", VCL % (host, port))
        report.check(all(ask(v, "/all", 200)), f"{host}: all requests are answered")


def refused(report, v):
    for n, (host, port, why) in enumerate((("127.0.0.1", "port", "is no port"), ("", "8125", "no host"))):
        try:
            use(v, f"bad{n}", VCL % (host, port))
            report.check(False, f"server({host!r}, {port!r}) is refused")
        except CliError as error:
            report.check(why in str(error), f"server({host!r}, {port!r}) is refused with a reason: {error}")


def says(v):
    with Client(v.address) as client:
        return client.request("/").body


def errors(v, module):
    """What that module has logged as errors, the oldest first."""
    log = subprocess.run([VARNISHLOG, "-n", str(v.n), "-d", "-g", "raw", "-i", "Error"], capture_output=True, text=True, errors="replace").stdout
    return [line for line in log.splitlines() if f"{module}: " in line]


def netmapper(report, v):
    """A file that changes is read again, after a second at the latest; one that is wrong is reported and changes nothing."""
    with directory() as d:
        file = d / "networks.json"
        file.write_text('{"one": ["127.0.0.0/8"]}')
        file.chmod(0o644)
        use(v, "netmapper", """vcl 4.1;
import netmapper;
backend none none;
sub vcl_init { netmapper.init("a", "%s", 1); }
sub vcl_recv { return (synth(200)); }
sub vcl_synth { set resp.body = "<" + netmapper.map("a", client.ip) + ">"; return (deliver); }
""" % file)

        def is_refused(name):
            """Whether requests find the file as it was until, and when, an error is logged."""
            before, kept = len(errors(v, "netmapper")), True

            def is_logged():
                nonlocal kept
                kept = kept and says(v) == b"<another>"
                return len(errors(v, "netmapper")) > before
            report.check(until(LIMIT, is_logged, 0.2), f"{name} is logged as an error")
            report.check(kept and says(v) == b"<another>", f"{name} changes nothing")

        report.check(says(v) == b"<one>", "netmapper: the file as it was at first")
        file.write_text('{"another": ["127.0.0.0/16"]}')
        report.check(until(LIMIT, lambda: says(v) == b"<another>"), "a file that has changed is read again")
        file.write_text('{"twice": ["127.0.0.0/8"], "again": ["127.0.0.0/8"]}')
        is_refused("a file that is wrong")
        file.unlink()
        is_refused("a file that is gone")
        file.write_text('{"last": ["127.0.0.1/32"]}')
        file.chmod(0o644)
        report.check(until(LIMIT, lambda: says(v) == b"<last>"), "the next that is right is taken")


def cfg(report, v):
    """Settings and rules that change are read again, after a second at the latest."""
    with directory() as d:
        settings, rules = d / "settings.ini", d / "rules"
        settings.write_text("[a]\nb = one\n")
        rules.write_text("^/ -> first\n")
        use(v, "cfg", """vcl 4.1;
import cfg;
backend none none;
sub vcl_init { new s = cfg.file("%s", period=1); new r = cfg.rules("%s", period=1); }
sub vcl_recv { return (synth(200)); }
sub vcl_synth { set resp.body = s.get("a:b", "none") + " " + r.get(req.url, "none"); return (deliver); }
""" % (settings, rules))
        report.check(says(v) == b"one first", "cfg: the files as they were at first")
        settings.write_text("[a]\nb = two\n")
        rules.write_text("^/x -> first\n")
        report.check(until(LIMIT, lambda: says(v) == b"two none"), "cfg: files that have changed are read again")
        settings.write_text("[a\n")
        rules.unlink()

        def both_logged():
            return errors(v, "cfg.file") and errors(v, "cfg.rules")
        report.check(until(LIMIT, lambda: says(v) == b"two none" and both_logged(), 0.2) and says(v) == b"two none", "cfg: wrong files are logged and change nothing")


def country(name):
    """A MaxMind database (format 2.0) that says of each IPv4 address below 128.0.0.0 that it is in this country."""
    def text(value):
        return bytes([0x40 | len(value)]) + value.encode()

    record = b"\xe1" + text("country") + b"\xe1" + text("iso_code") + text(name)
    about = [("binary_format_major_version", b"\xa1\x02"), ("binary_format_minor_version", b"\xa0"), ("build_epoch", b"\x01\x02\x01"),
             ("database_type", text("Test")), ("description", b"\xe0"), ("ip_version", b"\xa1\x04"), ("languages", b"\x00\x04"),
             ("node_count", b"\xc1\x01"), ("record_size", b"\xa1\x18")]
    metadata = bytes([0xe0 | len(about)]) + b"".join(text(key) + value for key, value in about)
    return b"\0\0\x11\0\0\x01" + bytes(16) + record + b"\xab\xcd\xefMaxMind.com" + metadata


def geoip2(report, v):
    """A database that is replaced, damaged or removed: a VCL keeps what it was loaded with, the next reads the file of then."""
    with directory() as d:
        file = d / "country.mmdb"

        def put(octets):
            new = file.with_suffix(".new")
            new.write_bytes(octets)
            new.chmod(0o644)
            new.rename(file)

        vcl = """vcl 4.1;
import geoip2;
backend none none;
sub vcl_init { new db = geoip2.geoip2("%s"); }
sub vcl_recv { return (synth(200)); }
sub vcl_synth { set resp.body = "<" + db.lookup("country/iso_code", client.ip) + ">"; return (deliver); }
""" % file
        put(country("AA"))
        use(v, "country-one", vcl)
        report.check(says(v) == b"<AA>", "geoip2: the file as it was")
        put(country("BB"))
        report.check(says(v) == b"<AA>", "a VCL keeps what it was loaded with")
        use(v, "country-two", vcl)
        report.check(says(v) == b"<BB>", "the next has the file of then")
        file.write_bytes(country("BB")[:40])
        report.check(says(v) == b"<BB>", "one that is cut where it lies harms nobody")
        for name, what, why in (("three", "a damaged file", "Error opening the specified MaxMind DB file"), ("four", "no file", "Error opening")):
            try:
                use(v, f"country-{name}", vcl)
                report.check(False, f"{what} is refused")
            except CliError as error:
                report.check(why in str(error), f"{what} is refused with a reason: {error}")
            v.cli.ask("vcl.use country-one")
            report.check(says(v) == b"<AA>", "the first VCL still has its own")
            file.unlink(missing_ok=True)
        put(country("CC"))
        use(v, "country-five", vcl)
        report.check(says(v) == b"<CC>", "a file that is back is read")


def full(report, v):
    """Tables whose keys clients choose: when they are full, another key finds a place."""
    use(v, "full", """vcl 4.1;
import dynamic; import var;
backend none none;
sub vcl_init { new d = dynamic.director(port = "1"); var.global_set("own", "kept"); }
sub vcl_recv {
    if (req.url == "/own") { return (synth(200, var.global_get("own"))); }
    set req.backend_hint = d.backend(req.http.Host);
    return (synth(200, "<" + req.backend_hint + ">"));
}
""")
    with Client(v.address, LIMIT) as client:
        reasons = [client.request("/", host=f"127.9.{n // 250}.{n % 250}").reason for n in range(1010)]
        report.check(all(len(reason) > 2 for reason in reasons), f"dynamic: each of 1010 hosts has a director: {reasons[-1]}")
        report.check(client.request("/own").reason == "kept", "a global variable of vcl_init is there")


def main():
    o = options(__doc__, (full, udp, unix, unreachable, refused, netmapper, cfg, geoip2))
    report = Report("modules")
    with Varnishd(o.varnishd, vcl="vcl 4.1; backend none none;") as v:
        report.run(o.cases, report, v)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
