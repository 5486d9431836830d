#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Parameters and CLI commands, beside those of Debian's varnishd: same names, units, limits, defaults, flags; what commands and
mistakes are answered; names of other releases. Needs Debian's `varnish` package.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import CliError, Varnishd, acting, cli_of, die_with_parent
from bed.report import Report, options, until

ORACLE = shutil.which("varnishd", path="/usr/sbin:/usr/bin")

# Parameters that stand for how a program was built: only their names, flags and units are compared.
BUILT = {"cc_command", "cc_warnings", "vmod_path", "vcl_path"}
# -x parameter describes these in words where a running varnishd has numbers; ours has the numbers in both.
IN_WORDS = {"accept_filter", "tcp_keepalive_intvl", "tcp_keepalive_probes", "tcp_keepalive_time", "thread_pool_reserve",
            "thread_pool_stack"} | BUILT

# Defaults that are those of a later release (9.0) on purpose.
LATER_DEFAULTS = {"feature"}
# ... and smallest values (8.0).
LATER_MINIMA = {"rush_exponent"}

# Commands whose help is that of a later release (7.4, 7.5).
LATER_HELP = {"param.reset", "vcl.state"}

# Commands whose replies must be the same; times and ids aside.
SAME = [
    "param.show nosuch", "param.set nosuch 1", "param.set default_ttl abc", "param.set default_ttl -1", "param.set thread_pools 0",
    "param.set http_max_hdr 70000", "param.set vsl_mask +nosuch", "param.set thread_pool_max 5", "param.set workspace_client 1",
    "param.set gzip_level 20", "param.set pool_req 1,2", "param.set timeout_idle never", "param.reset nosuch",
    "param.set auto_restart maybe", "param.set cli_limit 1", "param.set feature +x", "param.set debug none", "param.set",
    "param.set default_ttl", "param.set gzip_buffer 1.5", "param.set h2_header_table_size 1.5b", "param.set vsl_space 0x10", "param.set listen_depth 2000", "param.show listen_depth", "param.set vcl_path a:b", "status", "ban.list",
    "vcl.list", "storage.list", "panic.show", "panic.clear", "backend.list", "backend.list -p", "vcl.deps", "vcl.discard nosuch",
    "vcl.use nosuch", "vcl.label a nosuch", "vcl.state boot cold", "vcl.state boot nosuch", "vcl.load a /nosuch", "vcl.load",
    "ban", "ban a", "ban req.url ~", "ban nosuch == 1", "ban obj.age < 1", "backend.set_health nosuch sick",
    "backend.set_health boot.default nosuch", "nosuch", "help nosuch", "start", "stop", "stop", "start", "ping", "ping 17", "status x y",
    "vcl.show", "vcl.show nosuch", "vcl.show boot x", "ban req.url ~ a &&", "ban obj.ttl ~ 10s", "ban obj.status > 5", "ban foo.bar == a",
    "backend.set_health", "ping \"a b", "ping \\z", "ping a\"b\"c", "help ping foo", "auth",
]
# ... of which the texts differ on purpose: only the status is compared.
STATUS_ONLY = {"param.show listen_depth"}

# name, value, what it becomes, what the log says of it
OLD = [
    ("sess_workspace", "262144", ("workspace_client", "0.25M"), "is called workspace_client here"),
    ("sess_timeout", "4", ("timeout_idle", "4.000"), "is called timeout_idle here"),
    ("session_linger", "120", ("timeout_linger", "0.120"), "milliseconds given were converted"),
    ("thread_pool_add_delay", "2", ("thread_pool_add_delay", "2.000"), "releases before 4 took milliseconds"),
    ("lru_interval", "3600", ("lru_interval", "3600.000"), "almost any order"),
    ("lru_interval", "20", ("lru_interval", "20.000"), ""),
    ("listen_depth", "4096", ("listen_depth", "4096"), ""),
    ("rush_exponent", "5", ("rush_exponent", "5"), ""),
    ("shm_workspace", "65536", ("vsl_buffer", "64k"), "is called vsl_buffer here"),
    ("shm_reclen", "300", ("vsl_reclen", "300b"), "is called vsl_reclen here"),
    ("obj_workspace", "8192", None, "Parameter obj_workspace is ignored: Objects are as large as they need to be."),
    ("cli_timeout", "25", ("cli_timeout", "25.000"), ""),
    ("http_headers", "128", ("http_max_hdr", "128"), "is called http_max_hdr here"),
    ("purge_dups", "off", ("ban_dups", "off"), "is called ban_dups here"),
    ("queue_max", "100", ("thread_queue_limit", "100"), "is called thread_queue_limit here"),
    ("pcre_match_limit", "20000", ("pcre2_match_limit", "20000"), "is called pcre2_match_limit here"),
    ("thread_pools", "8", ("thread_pools", "8"), ""),
    ("thread_pool_max", "4000", ("thread_pool_max", "4000"), ""),
    ("thread_pool_min", "800", ("thread_pool_min", "800"), ""),
    ("critbit_cooloff", "100", ("critbit_cooloff", "100.000"), "no effect here"),
]
# Names and values that only a start line may have: param.set refuses them, as Varnish does.
AT_START = [
    ("user", "nobody", "Parameter user is ignored: "), ("client_http11", "on", "Parameter client_http11 is ignored: "),
    ("acceptor", "poll", "Parameter acceptor is ignored: "), ("fetch_chunksize", "128", "kilobytes given were converted"),
    ("thread_pool_min", "2", "raised to the least"), ("listen_address", "127.0.0.1:0", "listen_address is ignored: -a says where"),
]
REFUSED = ["user", "group", "waiter", "esi_syntax"]


# Lines that ours may put behind a reply, for whoever typed it: a script that compares the beginning finds what it knows.
LEAD = re.compile(r"\n?((Is \S+ meant\?|Usage: .*|Example: .*|There are .*|The worker, which answers .*)\n)+")


def same_reply(theirs, ours):
    return theirs == ours or ours.startswith(theirs) and LEAD.fullmatch(ours[len(theirs):])


def settled(text):
    text = re.sub(r"\b\d{10}(\.\d+)?\b", "TIME", text)
    return re.sub(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", "DATE", text)


def rows(v):
    return {row["name"]: row for row in json.loads(v.cli.ask("param.show -j"))[3:]}


def described(program):
    """What -x parameter lists of each: Units, Default, Minimum, Maximum, Flags."""
    text, found, name = subprocess.run([program, *acting(program), "-x", "parameter"], capture_output=True, text=True).stdout, {}, None
    for line in text.splitlines():
        if m := re.match(r"\.\. _ref_param_(\w+):", line):
            found[name := m[1]] = {}
        elif (m := re.match(r"\t\* (\w+): (.*)", line)) and name:
            found[name][m[1]] = m[2].strip()
    return found


def answers(v, line):
    """The reply on a connection of its own: some mistakes close it."""
    cli = cli_of(v.n)
    try:
        status, body = cli.ask_raw(line)
        return status, settled(body.decode(errors="replace"))
    except (CliError, OSError) as e:
        return 0, str(e)
    finally:
        cli.close()


def params_compared(report, theirs, ours):
    for name, row in theirs.items():
        own = dict(ours.get(name, {}))
        skip = {"description"} | ({"value", "default"} if name in BUILT | LATER_DEFAULTS else set()) | ({"minimum"} if name in LATER_MINIMA else set())
        wrong = {k: (row.get(k), own.get(k)) for k in set(row) | set(own) if k not in skip and row.get(k) != own.get(k)}
        report.check(own and not wrong, f"param.show -j {name}: {wrong or 'missing'}")
        if row.get("description"):
            report.check(own.get("description") not in (None, "", row["description"]), f"{name}: a text of our own: {own}")


def described_compared(report, oracle, program):
    theirs, ours = described(oracle), described(program)
    for name, facts in theirs.items():
        own = ours.get(name)
        keys = {"Flags"} if name in IN_WORDS else set(facts) | set(own or {})
        keys -= {"Default"} if name in LATER_DEFAULTS else {"Minimum"} if name in LATER_MINIMA else set()
        wrong = {k: (facts.get(k), own.get(k)) for k in keys if own and facts.get(k) != own.get(k)}
        report.check(own is not None and not wrong, f"-x parameter, {name}: {wrong or 'missing'}")


def commands_compared(report, theirs, ours):
    help_of = lambda v: {c["request"]: c for c in json.loads(v.cli.ask("help -j"))[3:]}
    a, b = help_of(theirs), help_of(ours)
    for name, row in a.items():
        own = b.get(name, {})
        wrong = {k: (row[k], own.get(k)) for k in ("syntax", "minarg", "maxarg", "json") if row[k] != own.get(k)}
        report.check(not wrong or name in LATER_HELP, f"help -j {name}: {wrong}")
    for line in SAME:
        (status, text), (own_status, own_text) = answers(theirs, line), answers(ours, line)
        same = status == own_status and (same_reply(text, own_text) or line in STATUS_ONLY)
        report.check(same, f"{line}: {own_status} {own_text!r} instead of {status} {text!r}")


LIMIT = 60  # seconds for a line to come out of the log


def old_names(report, program):
    args = [word for name, value, *_ in OLD if name != "lru_interval" or value == "3600" for word in ("-p", f"{name}={value}")]
    with Varnishd(program, args, backend=("127.0.0.1", 1)) as v:
        for name, value, became, said in OLD:
            if name == "lru_interval" and value == "20":
                continue
            shown = v.cli.ask(f"param.show {became[0]}") if became else ""
            report.check(not became or f"Value is: {became[1]}" in shown, f"-p {name}={value}: {shown}")
            report.check(until(LIMIT, lambda: said in "".join(v.output)), f"-p {name}={value}: the log doesn't say {said!r}: {v.log()}")
    with Varnishd(program, backend=("127.0.0.1", 1)) as v:
        for name, value, became, said in OLD:
            reply = v.cli.ask_raw(f"param.set {name} {value}")
            report.check(reply[0] == 200 and said in reply[1].decode(), f"param.set {name} {value}: {said!r}: {reply}")
            shown = v.cli.ask(f"param.show {became[0]}") if became else ""
            report.check(not became or f"Value is: {became[1]}" in shown, f"param.set {name} {value}: {shown}")
        v.cli.ask("param.set critbit_cooloff 101")
        v.cli.ask("param.set debug +workspace")
        v.cli.ask("param.set debug +syncvsl")
        for name in REFUSED:
            reply = v.cli.ask_raw(f"param.set {name} 1g")
            report.check(reply[0] == 106 and len(reply[1]) > 30, f"param.set {name}: refused and explained: {reply}")
        reply = v.cli.ask_raw("param.set sess_timeout 3600")
        report.check(reply[0] == 200 and b"a descriptor that long" in reply[1], f"a long sess_timeout is told: {reply}")
    # The log is whole now.
    told = [line for line in v.output if "Parameter debug: No effect here" in line]
    report.check(len(told) == 1, f"a bit that nothing looks at is told of: {told}")
    told = [line for line in v.output if "critbit_cooloff" in line]
    report.check(len(told) == 1, f"what has no effect is told once: {told}")


def at_start(report, program):
    args = [word for name, value, _ in AT_START for word in ("-p", f"{name}={value}")]
    with Varnishd(program, args, backend=("127.0.0.1", 1)) as v:
        for name, value, said in AT_START:
            lines = lambda: [line for line in v.output if said in line]
            report.check(until(LIMIT, lambda: len(lines()) == 1), f"-p {name}={value}: told once: {v.log()}")
            reply = v.cli.ask_raw(f"param.set {name} {value}")
            report.check(reply[0] == 106, f"param.set {name} {value}: refused: {reply}")


def is_in_state(pid, state):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == state


def stopped_and_continued(report, program):
    """A shell's ^Z and fg while varnishadm waits for a reply: it goes on waiting."""
    with socket.create_server(("127.0.0.1", 0)) as manager:
        host, port = manager.getsockname()
        adm = subprocess.Popen([pathlib.Path(program).with_name("varnishadm"), "-T", f"{host}:{port}", "ping"], stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, preexec_fn=die_with_parent)
        manager.settimeout(LIMIT)
        with manager.accept()[0] as session:
            for number, state in ((None, "S"), (signal.SIGSTOP, "T"), (signal.SIGCONT, "S")):
                if number:
                    os.kill(adm.pid, number)
                until(LIMIT, lambda: adm.poll() is not None or is_in_state(adm.pid, state))
            pong = b"PONG 1700000000 1.0"
            session.sendall(b"200 0       \n\n" + 2 * (b"200 %-8d\n%s\n" % (len(pong), pong)))
            said = adm.communicate(timeout=LIMIT)[0]
    report.check(adm.returncode == 0 and "PONG" in said, f"varnishadm, stopped and continued: {adm.returncode} {said!r}")


def main():
    o = options(__doc__, oracle={"default": ORACLE, "help": "the varnishd to compare with"})
    if not o.oracle:
        sys.exit("Debian's varnishd is needed (package varnish)")
    report = Report("params")
    described_compared(report, o.oracle, o.varnishd)
    with Varnishd(o.oracle, backend=("127.0.0.1", 1)) as theirs, Varnishd(o.varnishd, backend=("127.0.0.1", 1)) as ours:
        params_compared(report, rows(theirs), rows(ours))
        commands_compared(report, theirs, ours)
    old_names(report, o.varnishd)
    at_start(report, o.varnishd)
    stopped_and_continued(report, o.varnishd)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
