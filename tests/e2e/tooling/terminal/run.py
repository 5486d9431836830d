#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What others have chosen (a header, a URL, a ban's text) can't steer the terminal of whoever looks at it: control characters arrive there
as text. Programs that read a tool's output get every byte as it is.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd
from bed.http import get
from bed.report import Report, options, until
from bed.terminal import on_terminal

LIMIT = 60
GENUINE = "/usr/sbin/varnishd"
EVIL = "\x1b[2J\x07\x1b]0;owned\x07"
COLOURS = re.compile(r"\x1b\[(\d*m|K)")
VCL = """vcl 4.1;
import std;
backend default none;
sub vcl_recv { std.log({"%s"}); return (synth(200)); }
""" % EVIL


def steers(text):
    """Control characters that a terminal got, but for colours, line ends, and the end of a line of progress."""
    return [c for c in COLOURS.sub("", text) if ord(c) < 32 and c not in "\r\n\t" or 127 <= ord(c) < 160]


def main():
    o = options(__doc__)
    report = Report("terminal")
    bin = pathlib.Path(o.varnishd).parent
    with tempfile.TemporaryDirectory() as d:
        log = pathlib.Path(d) / "access.log"
        log.write_text(f'192.0.2.1 - - [06/Sep/2012:12:00:00 +0000] "GET / HTTP/1.1" 200 5 "-" "{EVIL}"\n' * 3)
        for name, program in (("lacquer", o.varnishd), ("varnishd", GENUINE)):
            with Varnishd(program, vcl=VCL) as v:
                report.check(until(60, lambda: get(v.address, "/").whole()), f"{name}: an answer")
                v.cli.ask('ban obj.http.x == "' + EVIL.replace("\x1b", "\\x1b").replace("\x07", "\\x07") + '"')
                cases = [(bin / "varnishlog", "-n", v.n, "-d", "-g", "request"), (bin / "varnishlog", "-n", v.n, "-d", "--legacy"),
                         (bin / "varnishadm", "-n", v.n, "ban.list"), (bin / "lacquer", "talkers", "--by", "url,user-agent", log),
                         (bin / "lacquer", "talkers", "-q", f"/none{EVIL}")]
                for argv in cases:
                    said = f"{name}: {pathlib.Path(argv[0]).name} {argv[1] if argv[1] == 'talkers' else argv[-1]}"
                    piped = subprocess.run([str(word) for word in argv], capture_output=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
                    if argv[1] != "talkers":
                        report.check(EVIL.encode() in piped.stdout, f"{said}: a pipe gets it as it is: {piped}")
                    for env in (dict(os.environ, NO_COLOR="1"), {k: w for k, w in os.environ.items() if k != "NO_COLOR"}):
                        text = on_terminal(argv, dict(env, TERM="xterm"))
                        report.check("owned" in text, f"{said}: it is shown: {text!r}")
                        report.check(not steers(text), f"{said}: nothing that steers the terminal: {steers(text)} in {text!r}")
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
