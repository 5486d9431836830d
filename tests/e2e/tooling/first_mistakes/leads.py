# SPDX-License-Identifier: BSD-2-Clause
"""Commands that can't do what was meant, and what their answers say to type: a stopped worker, names that don't exist, purges that nothing
heeds, tools without a terminal, a machine that doesn't know localhost.
"""
import os
import shutil
import socket
import subprocess
import threading

from bed.daemon import Varnishd, cli_of, die_with_parent, directory, free_port
from bed.http import get
from bed.origin import Origin, simple
from bed.report import ROOT, until

LIMIT = 60  # seconds; only ends a hang
VCL = "vcl 4.1; backend default none;"
START = "isn't running. To start it, type: varnishadm start"
BAN = "Example: varnishadm ban 'req.url ~ ^/news'"


def stopped_worker(t):
    """`stop`, and then what needs the worker."""
    with Varnishd(t.varnishd, vcl=VCL) as v:
        v.cli.ask("stop")
        for line in ("lacquer explain -n N http://a.test/", "lacquer memory -n N", "lacquer vcl profile -n N", "lacquer fleet status -n N"):
            status, text = t.tool(*line.replace("N", str(v.n)).split())
            t.report.check(status != 0 and START in text and "Unknown request" not in text, f"{line}: {status} {text!r}")
        status, text = t.tool("lacquer", "status", "-n", v.n)
        t.report.check(status == 1 and "worker       stopped" in text and "varnishadm start" in text, f"lacquer status: {status} {text}")
        text = " ".join(t.tool("lacquer", "doctor", "--only", "server", "-n", v.n)[1].split())
        t.report.check("varnishadm start" in text, f"lacquer doctor: {text}")
        for command in ("ban.list", "backend.list", "vcl.show", "ban req.url == /a"):
            status, text = t.tool("varnishadm", "-n", v.n, *command.split())
            t.report.check(status == 1 and text.startswith("Unknown request in manager process (child not running).\nType 'help' for more info.\n")
                           and START in text, f"varnishadm {command}: {status} {text!r}")
        status, text = t.tool("varnishadm", "-n", v.n, "pign")
        t.report.check("Is ping meant?" in text and START not in text, f"varnishadm pign: {text!r}")
        for line in ("varnishlog -n N -d", "varnishncsa -n N -d", "varnishtop -n N -1"):
            tool, *words = line.replace("N", str(v.n)).split()
            p = subprocess.Popen([t.varnishd.with_name(tool), *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 preexec_fn=die_with_parent)
            text = p.stderr.readline() + p.stderr.readline()
            p.terminate()
            p.communicate(timeout=LIMIT)
            t.report.check(text.startswith(b"Failed to acquire log: ") and START.encode() in text, f"{line} waits, and says for what: {text!r}")
    with directory() as d:
        server = subprocess.Popen([t.varnishd, "-F", "-n", d / "n", "-a", "127.0.0.1:0", "-f", ""], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  preexec_fn=die_with_parent)
        t.report.check(until(LIMIT, lambda: t.tool("varnishadm", "-n", d / "n", "ping")[0] == 0), "a server without VCL runs")
        text = t.tool("lacquer", "explain", "-n", d / "n", "http://a.test/")[1]
        t.report.check("No VCL loaded: load one with vcl.load and vcl.use, then type: varnishadm start" in text, f"explain without VCL: {text!r}")
        server.terminate()
        server.wait(LIMIT)


def unknown_names(t):
    """Names of VCLs, backends and parameters as they are mistyped, in each command that takes one."""
    with Varnishd(t.varnishd, vcl='vcl 4.1; backend default { .host = "127.0.0.1"; .port = "1"; }') as v:
        v.cli.ask(f"vcl.inline second \"{VCL}\"")
        for command, said, meant in (
                ("vcl.use secnod", "No VCL named secnod known", "second"), ("vcl.state secodn warm", "No VCL named secodn known", "second"),
                ("vcl.label tag scond", "No VCL named scond known", "second"), ("vcl.discard secon", "No VCL name matches secon", "second"),
                ("vcl.show boto", "No VCL named 'boto'", "boot"), ("vcl.profile show boto", "No VCL named 'boto'", "boot"),
                ("backend.set_health defualt sick", "No Backends matches", "default"),
                ("backend.set_health boot.defualt sick", "No Backends matches", "boot.default"),
                ("backend.set_health default sikc", "Invalid state sikc", "sick"),
                ("param.show defualt_ttl", "Unknown parameter \"defualt_ttl\"", "default_ttl"), ("help vcl.lsit", "Unknown request", "vcl.list"),
                ("ban req.ulr ~ /x", "Unknown or unsupported field \"req.ulr\"", "req.url"), ("vcl.use zzzzzz", "No VCL named zzzzzz known", None)):
            status, text = t.tool("varnishadm", "-n", v.n, *command.split())
            wanted = f"Is {meant} meant?\n" if meant else ""
            t.report.check(status == 1 and text.startswith(said) and wanted in text and ("meant" in text) == bool(meant), f"varnishadm {command}: {status} {text!r}")


def purges(t):
    """Bans and purges as other programs have them."""
    with Origin(simple(lambda *_: ("Cache-Control: max-age=60\r\n", b"ok"))) as origin, Varnishd(t.varnishd, backend=origin.address) as v:
        for command, wanted in (("ban /news", ("Too few parameters\nUsage: ban <field> <operator> <arg>", BAN)), ("ban", ("Usage: ban ", BAN)),
                                ("purge", ("There are purge.host, purge.prefix, purge.tag, purge.url, and ban.", BAN)), ("purge /news", (BAN,)),
                                # The shell has replaced ~ in this one.
                                ("ban req.url /root ^/news", ("got \"/root\"\n", BAN)), ("vcl", ("There are vcl.deps, ",)), ("help purge", ("There are purge.host",))):
            status, text = t.tool("varnishadm", "-n", v.n, *command.split())
            t.report.check(status == 1 and all(want in text for want in wanted), f"varnishadm {command}: {status} {text!r}")
        url = "http://%s:%d/news" % v.address
        text = t.tool("lacquer", "explain", "-n", v.n, "-X", "PURGE", url)[1]
        line = "Nothing would be removed: VCL has no rule for PURGE. To remove the page, type: varnishadm ban 'req.url == /news'"
        t.report.check(line in text and "return (purge)" in text, f"explain -X PURGE: {text}")
        # Typed as it says, the page goes.
        get(v.address, "/news")
        t.report.check(get(v.address, "/news").get("X-Varnish").count(" ") == 1, "the page is a hit")
        status, said = t.tool("varnishadm", "-n", v.n, "ban", "req.url == /news")
        t.report.check(status == 0 and get(v.address, "/news").get("X-Varnish").count(" ") == 0, f"then it is none: {said}")
    rules = 'vcl 4.1; backend default none; acl purgers { "192.0.2.1"; } sub vcl_recv { if (req.method == "PURGE") { if (client.ip !~ purgers) { return (synth(405)); } return (purge); } return (hash); }'
    with Varnishd(t.varnishd, vcl=rules) as v:
        text = t.tool("lacquer", "explain", "-n", v.n, "-X", "PURGE", "http://a.test/x")[1]
        t.report.check("If VCL lets certain clients purge, name one: -c ADDRESS." in text, f"explain of a purge that is refused: {text}")
        text = t.tool("lacquer", "explain", "-n", v.n, "-X", "PURGE", "-c", "192.0.2.1", "http://a.test/x")[1]
        t.report.check("It would purge all objects" in text and "ADDRESS" not in text, f"explain of a purge that is allowed: {text}")
        text = t.tool("lacquer", "explain", "-n", v.n, "-X", "BAN", "http://a.test/x?y=$(id)")[1]
        t.report.check("VCL has no rule for BAN" in text and "req.url == /page'" in text, f"explain of a BAN that is looked up: {text}")


def tag_purges(t):
    """A purge by tag isn't called a ban."""
    vcl = """vcl 4.1; import tags; backend default none;
        sub vcl_recv { if (req.method == "PURGE") { return (synth(200, tags.purge("news"))); } }
        sub vcl_backend_error { set beresp.status = 200; set beresp.ttl = 1h; set beresp.tags = "news"; return (deliver); }"""
    with Varnishd(t.varnishd, vcl=vcl) as v:
        get(v.address, "/a")
        t.report.check(get(v.address, "/a").get("X-Varnish").count(" ") == 1, "the page is a hit")
        with socket.create_connection(v.address, LIMIT) as s:
            s.sendall(b"PURGE / HTTP/1.1\r\nHost: bed.test\r\nConnection: close\r\n\r\n")
            t.report.check(b"200 1" in s.makefile("rb").read(), "one object is purged")
        text = t.tool("lacquer", "explain", "-n", v.n, "http://bed.test/a")[1]
        t.report.check("purged" in text and "banned" not in text, f"explain after tags.purge: {text}")


def port_alone(t):
    """A port where an address and a port are wanted."""
    own = ["-a", "127.0.0.1:0", "-b", "none"]
    lead = "a port alone is no address: write :6181 or 127.0.0.1:6181"
    t.refused(["-a", "6181", "-b", "none"], lead)
    t.refused(["-a", "web=6181,PROXY", "-b", "none"], lead)
    t.refused([*own, "-T", "6181"], lead)
    t.refused([*own, "-M", "6181"], lead)
    t.refused([*own, "--watch", "6181"], lead)
    for line in ("varnishadm -T 6181 ping", "lacquer status -T 6181", "lacquer watch -a 6181"):
        status, text = t.tool(*line.split())
        t.report.check(status != 0 and lead in text, f"{line}: {status} {text!r}")


def no_terminal(t):
    """Tools that draw, in a pipe or without a terminal."""
    with Varnishd(t.varnishd, vcl=VCL) as v:
        for line, lead in (("varnishtop", "-1 prints the list"), ("varnishstat -c", "-1 prints the counters"), ("varnishhist", "varnishhist -r FILE")):
            status, text = t.tool(*line.split(), "-n", v.n, start_new_session=True)
            t.report.check(status == 1 and "No screen: the output is no terminal. " in text and lead in text, f"{line}: {status} {text!r}")
        status, text = t.tool("varnishstat", "-n", v.n, start_new_session=True)
        t.report.check(status == 0 and "MAIN.uptime" in text, f"varnishstat in a pipe: {status} {text[:200]!r}")
        status, text = t.tool("lacquer", "man", "varnishtop")
        t.report.check(status == 0 and text.startswith("VARNISHTOP(1)") and "\n.SH" not in text, f"lacquer man in a pipe: {text[:200]!r}")


def no_such_vcl(t):
    """`make run VCL=nosuch`: only the reason is printed, and no address at which nobody listens."""
    argv = [ROOT / "scripts/run-cache", t.varnishd, "127.0.0.1:0"]
    with socket.create_server(("127.0.0.1", 0)) as taken, directory() as d:
        for words, said in ((("-f", "nosuch"), "nosuch"), (("-b", "none", "-s", "nosuch"), "nosuch"), (("-b", "none", "-a", "127.0.0.1:%d" % taken.getsockname()[1]), "in use")):
            p = subprocess.run([*map(str, argv), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT,
                               env=dict(os.environ, TMPDIR=str(d)))
            text = p.stdout.decode()
            t.report.check(p.returncode != 0 and said in text and "http://" not in text, f"run-cache {words}: {p.returncode} {text!r}")
            t.report.check(not list(d.iterdir()), f"run-cache {words} leaves {list(d.iterdir())}")


def no_hosts_file(t):
    """A fresh root without /etc/hosts: the default CLI address and others that say localhost."""
    if os.geteuid() != 0 or not shutil.which("unshare"):
        return t.report.note("no_hosts_file: needs root and unshare")
    port = free_port()
    with directory() as d:
        (d / "nsswitch").write_text("hosts: files\n")
        (d / "site.vcl").write_text(f'vcl 4.1; backend default {{ .host = "localhost"; .port = "{port}"; }} acl own {{ "localhost"; }} '
                                    'sub vcl_recv { if (client.ip ~ own) { return (synth(200, "own")); } }')
        inside = f"mount --bind /dev/null /etc/hosts && mount --bind {d}/nsswitch /etc/nsswitch.conf && exec \"$@\""
        wrapped = ["unshare", "--mount", "--propagation", "private", "sh", "-c", inside, "sh"]
        server = subprocess.Popen([*wrapped, str(t.varnishd), "-F", "-n", str(d / "n"), "-a", "localhost:0", "-f", str(d / "site.vcl")],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, preexec_fn=die_with_parent)
        heard = []
        reader = threading.Thread(target=lambda: heard.extend(server.stdout), daemon=True)
        reader.start()
        serves = until(LIMIT, lambda: server.poll() is not None or cli_of(d / "n") and t.tool("varnishadm", "-n", d / "n", "status")[1].startswith("Child in state running"))
        t.report.check(serves and server.poll() is None, f"it serves without /etc/hosts: {b''.join(heard).decode()}")
        if server.poll() is None:
            at = t.tool("varnishadm", "-n", d / "n", "debug.listen_address")[1].split()
            t.report.check(at[1] == "127.0.0.1" and get((at[1], int(at[2])), "/").reason == "own", f"-a localhost listens on loopback, and an ACL has it: {at}")
            status, text = run_in(wrapped, t.varnishd.with_name("varnishadm"), "-T", f"localhost:{free_port()}", "ping")
            t.report.check("Connection refused" in text and "Name or service" not in text, f"varnishadm -T localhost: {status} {text!r}")
        server.terminate()
        server.wait(LIMIT)
        reader.join(LIMIT)


def run_in(wrapped, *words):
    p = subprocess.run([*wrapped, *map(str, words)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT)
    return p.returncode, p.stdout.decode()


CASES = (stopped_worker, unknown_names, purges, tag_purges, port_alone, no_terminal, no_such_vcl, no_hosts_file)
