#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""What a new user meets first: help, manual and demo of `lacquer`, on a terminal, in a pipe and in one that nobody reads.

Every command of `lacquer help` has a help of its own and a page; what doesn't exist is named, with what may be meant; a closed pipe
is no panic; the demo fits 80 columns and leaves nothing behind, however it ends.
"""
import concurrent.futures
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import die_with_parent, free_port
from bed.http import get
from bed.report import ROOT, Report, options, until
from bed.terminal import on_terminal
import shells

LIMIT = 60  # seconds; only ends a hang


def run(argv, **more):
    p = subprocess.run([str(word) for word in argv], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT, **more)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def commands(lacquer):
    return re.findall(r"^  ([a-z]+) ", run([lacquer, "help"])[1], re.M)


def helps(report, lacquer, _work):
    names = commands(lacquer)
    report.check(len(names) > 10, f"lacquer help lists the commands: {names}")
    for name in names:
        own, other = run([lacquer, name, "--help"]), run([lacquer, "help", name])
        report.check(own[0] == 0 and "sage:" in own[1] and not own[2], f"lacquer {name} --help: {own}")
        report.check(own == other, f"lacquer help {name} is the same: {other}")
        page = run([lacquer, "man", name])
        report.check(page[0] == 0 and "\nNAME\n" in page[1] and "\n.SH" not in page[1], f"lacquer man {name} in a pipe: {page[0]} {page[1][:80]!r} {page[2]}")
        roff = run([lacquer, "man", "--roff", name])
        report.check(roff[0] == 0 and roff[1].startswith(".TH "), f"lacquer man --roff {name}: {roff[0]} {roff[1][:80]!r} {roff[2]}")
        if name not in VARNISHS:
            wide = [line for line in own[1].splitlines() if len(line) > 122]
            report.check(not wide, f"lacquer {name} --help: lines of more than 122 columns: {wide}")
    for name in ("check", "explain", "fmt", "lsp", "migrate", "profile"):
        texts = [run([lacquer, *line]) for line in (["vcl", name, "--help"], ["help", "vcl", name], ["vcl", "help", name])]
        report.check(texts[0][0] == 0 and texts[0][1].startswith(f"Usage: lacquer vcl {name} ") and texts == [texts[0]] * 3,
                     f"lacquer vcl {name} --help is its own: {texts}")
    for args, status, said in WRONG:
        code, out, err = run([lacquer, *args.split()])
        report.check(code == status and said in err and not out, f"lacquer {args}: {status} and {said!r}: {code} {out[:200]!r} {err[:300]!r}")
    # A page without man(1): PATH has nothing but a pager of the test's own.
    for page in ("varnishd", "lacquer-demo", "vmod_std"):
        text = on_terminal([lacquer, "man", page], dict(os.environ, PATH="/nonexistent"))
        report.check("NAME" in text and ".SH" not in text and "\\-" not in text, f"lacquer man {page} without man: {text[:300]!r}")
    if shutil.which("man"):
        text = on_terminal([lacquer, "man", "varnishlog"], dict(os.environ, MANPAGER="cat", PAGER="cat"))
        report.check(re.search("N.?\x08?N?A.*M.*E", text) and ".SH" not in text, f"lacquer man varnishlog through man: {text[:300]!r}")


def first(report, lacquer, _work):
    """What `lacquer` alone says: lines that can be typed."""
    said = re.findall(r"^  lacquer (\w+)(.*)$", run([lacquer])[2], re.M)
    report.check(len(said) >= 4, f"lacquer alone shows what people do first: {said}")
    for name, _ in said:
        report.check(run([lacquer, "help", name])[0] == 0, f"lacquer {name}, which lacquer alone names, is a command")


def selftest(report, lacquer, _work):
    """It holds here; what doesn't is said with what was expected; nothing is left behind."""
    before = set(pathlib.Path(tempfile.gettempdir()).glob("lacquer-selftest.*"))
    before_cpu = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    code, out, err = run([lacquer, "selftest"])
    last = (out.splitlines() or [""])[-1]
    report.check(code == 0 and re.match(r"selftest: \d+ passed, 0 failed", last), f"lacquer selftest: {code} {out} {err}")
    report.check(resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before_cpu < 10, "lacquer selftest takes less than ten seconds of CPU")
    code, out, _ = run([lacquer, "selftest", "-q", "--vcl", "/nonexistent.vcl"])
    report.check(code == 1 and "FAILED  /nonexistent.vcl compiles" in out and "ok " not in out, f"a VCL that isn't there is told of: {code} {out}")
    left = set(pathlib.Path(tempfile.gettempdir()).glob("lacquer-selftest.*")) - before
    report.check(not left, f"lacquer selftest left behind {left}")


# Their helps are laid out as those of Varnish's tools.
VARNISHS = {"serve", "log", "ncsa", "stat", "top", "hist", "adm"}
# arguments, exit status, what stderr has to say
WRONG = [
    ("hlep", 2, 'no command "hlep": is "help" meant?'),
    ("explian", 2, 'is "explain" meant?'),
    ("statu", 2, 'is "status" meant?'),
    ("help varnislog", 2, 'is "varnishlog" meant?'),
    ("zzzzzz", 2, 'no command "zzzzzz"\n'),
    ("--frob", 2, 'no option "--frob"'),
    ("man varnishdd", 2, 'no page "varnishdd": is "varnishd" meant?'),
    ("man --frob", 2, "no option --frob"),
    ("man --roff", 2, "--roff needs a page"),
    ("man --roff varnishdd", 2, 'no page "varnishdd": is "varnishd" meant?'),
    ("demo --frob", 2, "no option --frob"),
    ("explain --frob", 2, "no option --frob"),
    ("statsd --frob", 2, "no option --frob"),
    ("munin --frob", 2, "--frob"),
    ("vcl frob", 1, 'no command "frob"'),
    ("vcl fmt --frob x", 1, "no option --frob"),
    ("vcl fmt --sub x", 1, "--sub isn't for this command"),
    ("vcl profile --frob", 2, "no option --frob"),
    ("", 2, "Usage: lacquer COMMAND"),
]


def unread(report, lacquer, work):
    """Output into a pipe that is closed."""
    vcl = work / "bad.vcl"
    vcl.write_text("vcl 4.1;\nbackend default none;\nsub vcl_recv { set foo = 1; }\n" * 50)
    lines = [["help"], ["--version"], ["man"], ["man", "varnishd"], ["man", "vmod_std"], ["demo", "--help"], ["vcl", "check", vcl],
             ["vcl", "check", "--format", "json", vcl], ["vcl", "fmt", "-"], ["vcl", "--help"], ["explain", "--reasons"], ["statsd", "--help"],
             ["munin", "--help"], ["log", "--help"], ["ncsa", "--help"], ["stat", "-1"], ["stat", "--help"], ["top", "--help"], ["hist", "--help"],
             ["adm", "--help"], ["serve", "-x", "parameter"], ["serve", "-?"], ["serve", "-C", "-b", "none"]]
    for args in lines:
        for closed in ("stdout", "stderr", "both"):
            fds = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            read, write = os.pipe()
            os.close(read)
            for name in fds:
                fds[name] = write if closed in (name, "both") else subprocess.PIPE
            p = subprocess.run([str(lacquer), *map(str, args)], stdin=subprocess.DEVNULL, timeout=LIMIT, **fds)
            os.close(write)
            said = (p.stdout or b"") + (p.stderr or b"")
            report.check(b"panicked" not in said and (0 <= p.returncode < 100 or p.returncode == -signal.SIGPIPE), f"lacquer {args} with {closed} closed: {p.returncode} {said[-300:]!r}")


def completed(lacquer, *words):
    """What bash offers in the place of the last of these words."""
    script = f"""PATH={lacquer.parent}:$PATH
        compopt() {{ :; }}
        . {COMPLETION}
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _lacquer_command lacquer "${{@: -1}}" "${{@: -2:1}}"
        printf '%s\n' "${{COMPREPLY[@]}}" """
    p = subprocess.run(["bash", "-c", script, "bash", "lacquer", *words], capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)
    return p.stdout.split() if not p.stderr else [p.stderr]


COMPLETION = ROOT / "packaging/files/usr/share/bash-completion/completions/varnishd"
# what is typed, what is offered
OFFERED = [
    (["talk"], ["talkers"]), (["help", "talk"], ["talkers"]), (["man", "repl"], ["replay"]), (["asn", "--gr"], ["--group"]), (["asn", "--li"], ["--live"]),
    (["asn", "--group", ""], ["asn", "country"]), (["asn", "--group", "=", "c"], ["country"]), (["replay", "--order", ""], ["log", "shuffle"]),
    (["log", "-g", ""], ["session", "request", "vxid", "raw"]), (["vcl", "mig"], ["migrate"]), (["vcl", "fmt", "--ch"], ["--check"]),
    (["help", "vcl", "exp"], ["explain"]), (["plan", "access"], []), (["talkers", "--sort", "b"], ["bytes", "backend"]),
]


def completion(report, lacquer, _work):
    """Every command's options, and words that they take, are offered as its help has them."""
    for words, want in OFFERED:
        got = completed(lacquer, *words)
        report.check(got == want, f"lacquer {' '.join(words)}<Tab>: {got}, not {want}")
    for name in set(commands(lacquer)) - {"help", "vcl"}:
        text, got = run([lacquer, "help", name])[1], completed(lacquer, name, "-")
        report.check(got and all(option in text for option in got), f"lacquer {name} -<Tab>: {got}")
        long = set(re.findall(r"^ {1,2}(?:-\w, )?(--[a-z][-a-z0-9]*)", text, re.M))
        report.check(long <= set(got), f"lacquer {name} -<Tab>: {long - set(got)} are not offered")


def watched(report, lacquer, _work):
    """The demo's page is where --watch says, or isn't; an address that is taken is refused."""
    for value in ("127.0.0.1:%d" % free_port(), ""):
        p = subprocess.Popen([str(lacquer), "demo", "-a", "127.0.0.1:0", "--watch", value], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, preexec_fn=die_with_parent)
        first = p.stdout.readline().decode()
        report.check(first.startswith(f"http://{value}/  <- the dashboard" if value else "http://127.0.0.1:") and ("<- the dashboard" in first) == bool(value),
                     f"demo --watch {value!r}: {first!r}")
        if value:
            address = ("127.0.0.1", int(value.rpartition(":")[2]))
            report.check(until(LIMIT, lambda: get(address, "/", host=value).status == 200), f"demo --watch {value}: the page is there")
        p.terminate()
        p.communicate(timeout=LIMIT)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        value = "127.0.0.1:%d" % taken.getsockname()[1]
        code, _, err = run([lacquer, "demo", "-a", "127.0.0.1:0", "--watch", value])
        report.check(code == 1 and f"--watch {value}: Address already in use" in err, f"demo --watch of an address that is taken: {code} {err}")


def demo_ends(report, lacquer, how, work):
    tmp = pathlib.Path(tempfile.mkdtemp(dir=work))
    os.chmod(tmp, 0o755)
    p = subprocess.Popen([str(lacquer), "demo", "-a", "127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         env=dict(os.environ, TMPDIR=str(tmp)), start_new_session=True, preexec_fn=die_with_parent)
    lines = []
    try:
        while not lines or not lines[-1].startswith("requests/s"):
            line = p.stdout.readline().decode()
            if not line:
                break
            lines.append(line.rstrip("\n"))
        lines += [p.stdout.readline().decode().rstrip("\n") for _ in range(2)]
        left = list(tmp.iterdir())
        report.check(len(left) == 1, f"demo, {how}: a directory while it runs: {left}")
        wide = [line.replace(str(lacquer), "lacquer").replace(str(tmp), "/tmp") for line in lines]
        wide = [line for line in wide if len(line) > 80]
        report.check(len(lines) > 10 and not wide, f"demo, {how}: lines of more than 80 columns {wide}, or too few: {lines}")
        tour = [line.split()[:2] for line in lines if re.match("  (hit|miss) ", line)]
        report.check(lines[0].endswith("open it in a browser") and tour == [["miss", "/slow"], ["hit", "/slow"], ["miss", "/now"]],
                     f"demo, {how}: the page's address first, then a miss, a hit, and an uncacheable page: {lines[:6]}")
        if how == "closed pipe":
            page(report, lines)
            p.stdout.close()
        else:
            p.send_signal(getattr(signal, how))
        status = p.wait(LIMIT)
        said = p.stderr.read().decode()
        report.check(status == 0 and not said, f"demo, {how}: status {status}, says {said!r}")
        report.check(until(LIMIT, lambda: not list(tmp.iterdir())), f"demo, {how}: left behind {list(tmp.rglob('*'))[:5]}")
    finally:
        if p.poll() is None:
            p.kill()
            p.wait()


def run_cache_ends(report, varnishd, how, work):
    """What `make run BACKEND=...` starts ends with it, and its directory goes."""
    tmp = pathlib.Path(tempfile.mkdtemp(dir=work))
    os.chmod(tmp, 0o755)
    p = subprocess.Popen([str(ROOT / "scripts/run-cache"), varnishd, "127.0.0.1:0", "-b", "http://127.0.0.1:1"], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, TMPDIR=str(tmp)), start_new_session=True,
                         preexec_fn=die_with_parent)
    said = b""
    try:
        while b"Child launched OK" not in said and (line := p.stdout.readline()):
            said += line
        report.check(b"Child launched OK" in said and list(tmp.iterdir()), f"run-cache: runs in a directory of its own: {said}")
        top = said.decode().splitlines()[:5]
        where = re.match(r"http://127\.0\.0\.1:(\d+)/  <- the dashboard", top[0])
        report.check(where and "<- the cache" in top[1] and "curl -i http" in top[2] and "/lacquer explain -n " in top[3] and top[4].startswith("Ctrl-C"),
                     f"run-cache: five lines say where to look and what to type: {top}")
        seen = where and until(LIMIT, lambda: get(("127.0.0.1", int(where[1])), "/", host=f"127.0.0.1:{where[1]}").status == 200)
        report.check(seen, f"run-cache: the page is where the first line says: {said.decode()}")
        p.send_signal(getattr(signal, how))
        # All that hold the pipe have ended when it does.
        said += p.communicate(timeout=LIMIT)[0]
        report.check(p.returncode == 0 and b"manager dies" in said, f"run-cache, {how}: status {p.returncode}: {said[-300:]}")
        report.check(not list(tmp.iterdir()), f"run-cache, {how}: left behind {list(tmp.rglob('*'))[:5]}")
    finally:
        if p.poll() is None:
            os.killpg(p.pid, signal.SIGKILL)
            p.wait()


def page(report, lines):
    """The start page says what to do, and is stored."""
    found = [m for line in lines if (m := re.search(r"http://([\d.]+):(\d+)/  <- the demo site", line))]
    report.check(found, f"the demo says where the cache is: {lines}")
    if not found:
        return
    address = (found[0][1], int(found[0][2]))
    first = get(address, "/")
    text = first.body.decode()
    report.check(first.status == 200 and re.search(r"curl -i http://[\w.:]+/slow", text), f"the page says what to type: {text[:500]}")
    report.check(get(address, "/").body == first.body, "the page is the same the second time")


def side_by_side(*calls):
    """Each mostly waits for what it has started."""
    with concurrent.futures.ThreadPoolExecutor(len(calls)) as pool:
        for done in [pool.submit(*call) for call in calls]:
            done.result()


def demo(report, lacquer, work):
    side_by_side(*((demo_ends, report, lacquer, how, work) for how in ("SIGINT", "SIGTERM", "SIGHUP", "closed pipe")))


def run_cache(report, lacquer, work):
    side_by_side(*((run_cache_ends, report, str(lacquer.with_name("varnishd")), how, work) for how in ("SIGINT", "SIGTERM", "SIGHUP")))


def completion_in_shells(report, lacquer, _work):
    shells.run(report, lacquer)


CASES = (helps, completion, completion_in_shells, first, selftest, unread, demo, watched, run_cache)


def main():
    o = options(__doc__, CASES)
    report = Report("help")
    lacquer = pathlib.Path(o.varnishd).resolve().parent / "lacquer"
    with tempfile.TemporaryDirectory() as d:
        work = pathlib.Path(d)
        os.chmod(work, 0o755)
        report.run(o.cases, report, lacquer, work)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
