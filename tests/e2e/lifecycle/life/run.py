#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""How worker and manager end: drains, signals, sudden deaths. No process is left behind and no answer is cut that had time."""
import os
import pathlib
import re
import signal
import shutil
import socket
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed import clocks
from bed.daemon import Varnishd, cli_of, die_with_parent, directory, of_threads, workdir
from bed.http import Client, Garbled, get
from bed.origin import Origin, simple
from bed.process import Handed
from bed.report import ROOT, Report, options, settled, until

LIMIT = 60  # seconds; it only ends what hangs
# Longer than anything that is waited for: what ends before it hasn't waited for it.
GRACE = 600
VARNISHSTAT = shutil.which("varnishstat", path="/usr/bin:/usr/sbin")


class Gate:
    """An origin that answers /slow when told to."""

    def __init__(self):
        self.asked, self.go = threading.Event(), threading.Event()

    def answer(self, _method, path, _fields):
        if path.startswith("/slow"):
            self.asked.set()
            self.go.wait(2 * LIMIT)
        return "Cache-Control: max-age=60\r\n", b"hello"


def gone(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def drained(report, program, how):
    """A request in progress gets its answer, idle connections don't hold anything up."""
    gate = Gate()
    with Origin(simple(gate.answer)) as origin, \
            Varnishd(program, ["-p", f"shutdown_grace={GRACE}"], backend=origin.address) as v:
        idle = Client(v.address)
        report.check(idle.request("/page").whole(), f"{how}: a first answer")
        slow = Client(v.address)
        slow.send(b"GET /slow HTTP/1.1\r\nHost: bed.test\r\n\r\n")
        gate.asked.wait(LIMIT)
        worker = v.worker()
        if how == "stop":
            stopper = threading.Thread(target=lambda: v.cli.ask_raw("stop"), daemon=True)
            stopper.start()
        elif how == "SIGTERM to the worker":
            os.kill(worker, signal.SIGTERM)
        else:
            v.proc.send_signal(signal.SIGTERM)
        report.check(idle.closed(LIMIT), f"{how}: an idle connection is closed")
        report.check(not gone(worker), f"{how}: the worker waits for the request")
        if how == "SIGTERM to the manager":
            report.check(until(LIMIT, lambda: refuses(v.address)), f"{how}: who comes meanwhile is refused, and doesn't wait for nothing")
        gate.go.set()
        r = slow.response()
        report.check(r.whole() and r.get("Connection") == "close", f"{how}: the request in progress: {r} {r.fields}")
        report.check(until(LIMIT, lambda: gone(worker)), f"{how}: the worker ends with its last request")
        if how == "SIGTERM to the worker":
            again = until(LIMIT, lambda: get(v.address, "/page").whole())
            report.check(again, f"{how}: the manager starts another one")


def told_to_end_while_it_starts(report, program):
    """SIGTERM to all processes, as from systemd or a terminal, at each moment of a start: it is no death, whatever threads there are. A worker
    with a store on a file has some before it takes commands."""
    for moment in ("Started", "said Child starts", "launched OK", "running"):
        with directory() as d:
            server = subprocess.Popen([program, "-F", "-n", d / "n", "-a", "127.0.0.1:0", "-b", "none", "-s", f"file,{d}/store,20m"],
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=die_with_parent)
            heard = []
            while moment != "running" and (line := server.stdout.readline().decode()):
                heard.append(line)
                if moment in line:
                    break
            if moment == "running":
                until(LIMIT, lambda: (cli := cli_of(d / "n")) and "running" in cli.ask("status"))
            os.killpg(server.pid, signal.SIGTERM)
            heard.append(server.communicate(timeout=LIMIT)[0].decode())
            text = "".join(heard)
            report.check(server.returncode == 0 and "died" not in text, f"SIGTERM to all at {moment!r}: status {server.returncode}: {text[-800:]}")


def refuses(address):
    try:
        socket.create_connection(address, LIMIT).close()
        return False
    except ConnectionRefusedError:
        return True


def no_grace(report, program):
    gate = Gate()
    with Origin(simple(gate.answer)) as origin, Varnishd(program, backend=origin.address) as v:
        with Client(v.address) as c:
            c.send(b"GET /slow HTTP/1.1\r\nHost: bed.test\r\n\r\n")
            gate.asked.wait(LIMIT)
            worker = v.worker()
            v.cli.ask_raw("stop")
            report.check(until(LIMIT, lambda: gone(worker)), "stop without grace waits for no request")
            gate.go.set()


def manager_gone(report, program):
    with Origin(simple(Gate().answer)) as origin:
        v = Varnishd(program, backend=origin.address)
        pids = v.pids()
        report.check(get(v.address, "/page").whole(), "manager killed: an answer before")
        os.kill(v.proc.pid, signal.SIGKILL)
        left = until(LIMIT, lambda: all(gone(p) for p in pids[1:]))
        report.check(left, f"manager killed: its worker must end: {[p for p in pids[1:] if not gone(p)]}")
        v.close()


def worker_gone(report, program):
    with Origin(simple(Gate().answer)) as origin, Varnishd(program, backend=origin.address) as v:
        for number in (signal.SIGKILL, signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS):
            old = v.worker()
            with Client(v.address) as waiting:
                os.kill(old, number)
                until(LIMIT, lambda: gone(old))
                r = get(v.address, "/page", timeout=LIMIT)
                report.check(r.whole(), f"worker killed by {number}: a connection waits for the next one: {r}")
                waiting.closed()
            report.check(v.worker() != old, "there is another worker")


# Instructions (of x86-64) that fault, and what a report says of each.
FAULTS = {
    signal.SIGSEGV: ("31c08b00", b"Signal 11 (SIGSEGV) at address 0x0\n"),     # reads address 0
    signal.SIGILL: ("0f0b", b"Signal 4 (SIGILL) at address 0x"),
    signal.SIGFPE: ("31c931d2f7f1", b"Signal 8 (SIGFPE) at address 0x"),       # divides by 0
}


def plant_instructions(pid, code):
    """Has the first thread, which waits for commands, meet these instructions when it comes back from the system."""
    def waits():
        words = pathlib.Path(f"/proc/{pid}/syscall").read_text().split()
        return len(words) > 2 and words
    pc = int(until(LIMIT, waits)[-1], 16)
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as memory:
        memory.seek(pc)
        memory.write(bytes.fromhex(code))


def told(report, v, number, what, wanted, deaths):
    """A worker that died of a signal: its line, the counters after so many deaths, the report."""
    name = f"died of {signal.Signals(number).name}, {what}"
    line = f"died signal={int(number)}: Panic: Signal {int(number)} ("
    report.check(until(LIMIT, lambda: line in "".join(v.output)), f"{name}: no line `{line}`: {v.log()[-600:]}")
    mgt = until(LIMIT, lambda: (c := counters(v)).get("MGT.child_start") == deaths + 1 and c)
    report.check(mgt and mgt["MGT.child_died"] == mgt["MGT.child_panic"] == deaths, f"{name}: counters {mgt}")
    # The names are in the program's file, which the jail's user may not be able to reach.
    reaches = all(above.stat().st_mode & 0o001 for above in pathlib.Path(v.proc.args[0]).resolve().parents)
    frame = b"worker/src/lib.rs:" if reaches or os.geteuid() else b" (lacquer+0x"
    parts = [b"Panic at: ", wanted, b"transaction = ", b"boot (active): ", b"argv = ", b"Backtrace:", frame]
    # The CLI waits some seconds for names, and shows the report without them if they take longer.
    missing = lambda reply: [part for part in parts if part not in reply[1]]
    ok, reply = settled(LIMIT, lambda: v.cli.ask_raw("panic.show"), lambda reply: reply[0] == 200 and not missing(reply))
    report.check(ok, f"{name}: panic.show {reply[0]} has no {missing(reply)}: {reply[1][:600]}")


def signals_are_reported(report, program):
    """Whatever signal ends the worker, panic.show says which, whence, and what was going on."""
    with Varnishd(program, ["-b", "none"]) as v:
        for deaths, number in enumerate((signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGILL, signal.SIGFPE), 1):
            os.kill(v.worker(), number)
            told(report, v, number, "sent", b"sent by process %d\n" % os.getpid(), deaths)
            report.check(until(LIMIT, lambda: "running" in v.cli.ask("status")), f"another worker after {number.name}")
    if os.uname().machine != "x86_64" or os.geteuid() != 0:
        return report.note("faulting instructions: left out, need root and an x86-64 processor")
    with Varnishd(program, ["-b", "none", "-p", "ping_interval=0"]) as v:
        for deaths, (number, (code, wanted)) in enumerate(FAULTS.items(), 1):
            plant_instructions(v.worker(), code)
            v.cli.ask_raw("ban.list")
            told(report, v, number, "a fault", wanted, deaths)
            report.check(until(LIMIT, lambda: "running" in v.cli.ask("status")), f"another worker after {number.name}")
    return None


def shows_what_it_is(report, program):
    """Names of the processes as monitoring looks for them, and open descriptors among the counters."""
    def comm(pid):
        return pathlib.Path(f"/proc/{pid}/comm").read_text().strip()

    def files():
        shown = subprocess.run([VARNISHSTAT, "-n", str(v.n), "-1", "-f", "MAIN.open_files*"], capture_output=True, text=True).stdout
        return {line.split()[0]: int(line.split()[1]) for line in shown.splitlines()}
    with Varnishd(program, ["-b", "none"], descriptors=400) as v:
        names = comm(v.proc.pid), comm(v.worker())
        report.check(names == ("varnishd", "cache-main"), f"processes are called {names}")
        lines = {pathlib.Path(f"/proc/{pid}/cmdline").read_bytes() for pid in v.pids()}
        report.check(len(lines) == 1, f"both show the same command line: {lines}")
        clients = [Client(v.address) for _ in range(50)]
        for client in clients:
            client.request("/x")
        real = len(os.listdir(f"/proc/{v.worker()}/fd"))
        report.check(real > 50 and until(LIMIT, lambda: files() == {"MAIN.open_files": real, "MAIN.open_files_limit": 400}),
                     f"{real} open files of 400 are shown as {files()}")
        for client in clients:
            client.close()
        report.check(until(LIMIT, lambda: files()["MAIN.open_files"] <= real - 50), f"open files after closing: {files()}")
        on_disk = subprocess.run(["stat", "-f", "-c", "%T", str(v.n)], capture_output=True, text=True).stdout.strip() not in ("tmpfs", "ramfs")
        report.check(("is on a disk" in v.log()) == on_disk, f"a working directory on a disk ({on_disk}) is told: {v.log()}")


def leaves_core(report, program):
    """The process dies of the very signal: where cores are allowed, the system is told to leave one."""
    pattern = pathlib.Path("/proc/sys/kernel/core_pattern").read_text().strip()
    if pattern.startswith("|") or "/" in pattern or os.geteuid() != 0:
        return report.note("core files: left out, need root, and a pattern that names a file")
    with Varnishd(program, ["-b", "none", "-j", "none"], core=True) as v:
        os.kill(v.worker(), signal.SIGSEGV)
        line = "died signal=11 (core dumped)"
        report.check(until(LIMIT, lambda: line in "".join(v.output)), f"a core: no line `{line}`: {v.log()[-600:]}")
        dumped = until(LIMIT, lambda: counters(v).get("MGT.child_dump"))
        report.check(dumped == 1 and list(v.n.glob("core*")), f"a core: MGT.child_dump is {dumped}, files {list(v.n.iterdir())}")
    return None


def control_c(report, program):
    """^C goes to the whole group; the worker leaves it to the manager."""
    gate = Gate()
    with Origin(simple(gate.answer)) as origin, \
            Varnishd(program, ["-p", f"shutdown_grace={GRACE}"], backend=origin.address) as v, Client(v.address) as slow:
        slow.send(b"GET /slow HTTP/1.1\r\nHost: bed.test\r\n\r\n")
        gate.asked.wait(LIMIT)
        pids = v.pids()
        for pid in pids:
            os.kill(pid, signal.SIGINT)
        report.check(until(LIMIT, lambda: refuses(v.address)), "^C: who comes meanwhile is refused")
        gate.go.set()
        r = slow.response()
        report.check(r.whole(), f"^C: the request in progress: {r}")
        report.check(until(LIMIT, lambda: all(gone(p) for p in pids)), "^C ends all")


class Load:
    """Clients that ask without end, half of them on one connection each, half on a new one each time."""

    def __init__(self, address, clients=8):
        self.address, self.over = address, threading.Event()
        self.refused, self.failed, self.good, self.lock = 0, [], [], threading.Lock()
        self.threads = [threading.Thread(target=self.ask, args=(n % 2 == 0,), daemon=True) for n in range(clients)]
        for t in self.threads:
            t.start()

    def ask(self, keeps):
        client = None
        while not self.over.is_set():
            begin, fresh = time.monotonic(), client is None
            try:
                client = client or Client(self.address, timeout=LIMIT)
                r = client.request("/page")
                ok, what = r.whole(), str(r)
                closed = not ok or not keeps or r.get("Connection") == "close"
            except ConnectionRefusedError:
                ok, closed = None, True
            except (OSError, EOFError, Garbled, ValueError) as error:
                ok, closed, what = False, True, repr(error)
            end = time.monotonic()
            with self.lock:
                if ok:
                    self.good.append((begin, end))
                elif ok is None:
                    self.refused += 1
                else:
                    self.failed.append((begin, fresh, what))
            if closed and client:
                client.close()
                client = None
            self.over.wait(0.002)

    def answered_since(self, when):
        with self.lock:
            return next((end for begin, end in self.good if begin >= when), None)

    def stop(self):
        self.over.set()
        for t in self.threads:
            t.join(LIMIT)


def counters(v):
    shown = subprocess.run([VARNISHSTAT, "-n", str(v.n), "-1", "-f", "MGT.*", "-f", "MAIN.uptime"], capture_output=True, text=True).stdout
    return {line.split()[0]: int(line.split()[1]) for line in shown.splitlines() if line}


def dies_under_load(report, program, how, rounds):
    """Nobody is refused, only what was under way fails, and everything tells of it."""
    with Origin(simple(Gate().answer)) as origin, Varnishd(program, backend=origin.address) as v:
        load, slowest = Load(v.address), 0.0
        for _ in range(rounds):
            report.check(until(LIMIT, lambda: load.answered_since(time.monotonic() - 0.5)), f"{how}: steady load")
            old, before = v.worker(), len(load.failed)
            when = time.monotonic()
            if how == "kill -9":
                os.kill(old, signal.SIGKILL)
            else:
                threading.Thread(target=lambda: v.cli.ask_raw("debug.panic.worker"), daemon=True).start()
            until(LIMIT, lambda: gone(old))
            died = time.monotonic()
            back = until(LIMIT, lambda: load.answered_since(died), step=0.001)
            report.check(back, f"{how}: nobody answers any more")
            slowest = max(slowest, (back or died + LIMIT) - when)
            until(LIMIT, lambda: load.answered_since(back))
            # What a client sends on a connection that died while idle it sends again, on another one.
            failed = [(begin, what) for begin, fresh, what in load.failed[before:] if fresh or begin <= when]
            idle = len(load.failed[before:]) - len(failed)
            report.check(len(failed) <= len(load.threads), f"{how}: {len(load.threads)} clients, failed: {failed}")
            late = [what for begin, what in failed if begin > died]
            report.check(not late, f"{how}: failed though they came after the death: {late}")
        load.stop()
        report.check(load.refused == 0, f"{how}: {load.refused} connections were refused")
        report.note(f"{how}: {rounds} times under {len(load.threads)} clients; {len(load.good)} answers, 0 refused, "
                    f"{len(failed)} failed in flight and {idle} idle connections closed the last time; next answer after {slowest * 1e3:.0f} ms at most")
        # They are counted one after the other.
        counted = {"MGT.child_start": rounds + 1, "MGT.child_died": rounds, "MGT.child_panic": rounds if how == "panic" else 0}
        report.check(until(LIMIT, lambda: counted.items() <= counters(v).items()), f"{how}: counters {counters(v)}")
        cause = {"kill -9": "died signal=9: killed from outside, or by the kernel for lack of memory",
                 "panic": "died signal=6: Panic: debug.panic.worker: You asked for it (transaction = "}[how]
        until(LIMIT, lambda: cause in "".join(v.output))
        lines = [line for line in "".join(v.output).splitlines() if cause in line]
        report.check(lines and lines[0].startswith("Error: Child ("), f"{how}: no line with the cause: {v.log()}")
        told = v.cli.ask("restarts")
        report.check(f"died {'once' if rounds == 1 else f'{rounds} times'} in the last hour" in told and cause in told,
                     f"{how}: restarts says {told}")
        status, text = v.cli.ask_raw("panic.show")
        if how == "panic":
            wanted = [b"Panic at: ", b"You asked for it", b"transaction = ", b"client = ", b"boot (active): ", b"argv = ",
                      b"help = lacquer man lacquer-panic", b"Backtrace:"]
            report.check(status == 200 and all(w in text for w in wanted), f"panic.show: {status} {text[:400]}")
            v.cli.ask("panic.clear -z")
            report.check(until(LIMIT, lambda: counters(v)["MGT.child_panic"] == 0), "panic.clear -z clears the counter")
        else:
            report.check(status == 300, f"{how} is no panic: {status} {text[:80]}")


def deaths_in_a_row(report, program):
    """What a worker finds in memory may be what kills it: the fifth death in a minute empties the stores."""
    with Varnishd(program, ["-b", "none"]) as v:
        for n in range(6):
            old = v.worker()
            os.kill(old, signal.SIGKILL)
            until(LIMIT, lambda: gone(old))
            back = until(LIMIT, lambda: "running" in v.cli.ask("status") and v.worker() not in (old, v.proc.pid))
            report.check(back, f"no worker after death {n + 1}: {v.log()}")
        report.comes(lambda: [counters(v).get(f"MGT.child_{name}") for name in ("distrust", "died")], [1, 6], "six deaths: child_distrust, child_died")
        line = "Child died 5 times within a minute: the next one starts with empty stores"
        report.comes(lambda: "".join(v.output).count(line), 1, f"six deaths: lines {line!r}")
        ends = v.cli.ask("restarts").splitlines()[1:]
        emptied = [n for n, end in enumerate(ends) if end.endswith(", then the stores were emptied")]
        report.check(emptied == [1], f"six deaths: restarts says {ends}")


def a_burst_is_answered(report, program):
    """Connections that came while nobody could take them are taken to the last, however many they are."""
    request = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
    with Origin(simple(Gate().answer)) as origin, Varnishd(program, backend=origin.address) as v:
        worker = v.worker()
        os.kill(worker, signal.SIGSTOP)
        try:
            crowd = [socket.create_connection(v.address, LIMIT) for _ in range(300)]
            for client in crowd:
                client.sendall(request)
        finally:
            os.kill(worker, signal.SIGCONT)
        answers = [client.makefile("rb").readline() for client in crowd]
        report.check(all(b" 200 " in line for line in answers),
                     f"a burst of {len(crowd)}: {sum(b' 200 ' not in line for line in answers)} not answered")
        for client in crowd:
            client.close()


def busy_is_not_dead(report, program, seconds):
    """With every CPU taken and more asked of it than it can do, the worker isn't taken for dead."""
    burn = [sys.executable, "-c", "while True: pass"]
    with Origin(simple(Gate().answer)) as origin, \
            Varnishd(program, ["-p", "cli_timeout=2", "-p", "ping_interval=1"], backend=origin.address) as v:
        burners = [subprocess.Popen(burn, preexec_fn=die_with_parent) for _ in range(2 * (os.cpu_count() or 1))]
        try:
            worker, load = v.worker(), Load(v.address, clients=16)
            # Longer than the worker may take to answer the manager, and than the next question.
            time.sleep(seconds)
            load.stop()
        finally:
            for p in burners:
                p.kill()
                p.wait()
        report.check(v.worker() == worker and not load.failed and not load.refused,
                     f"busy: worker {worker} -> {v.worker()}, failed {load.failed[:3]}, refused {load.refused}")
        report.check(load.good, "busy: requests were answered")


def planted_panic(report, program):
    with Origin(simple(Gate().answer)) as origin, Varnishd(program, backend=origin.address) as v:
        old = v.worker()
        v.cli.ask_raw("debug.panic.worker")
        report.check(until(LIMIT, lambda: gone(old)), "the worker dies of a panic")
        report.check(get(v.address, "/page", timeout=LIMIT).whole(), "and the next one serves")
        status, text = v.cli.ask_raw("panic.show")
        report.check(status == 200 and b"Panic" in text, f"its report is kept: {status} {text[:80]}")


def sleeps_when_idle(report, program):
    """Without traffic a worker wakes for its clock and watchdog only."""
    def woken(pid):
        return sum(int(line.split()[1]) for text in of_threads(pid, "status") for line in text.splitlines() if line.startswith("voluntary"))
    with Origin(simple(Gate().answer)) as origin, Varnishd(program, backend=origin.address) as v:
        report.check(get(v.address, "/page", timeout=LIMIT).whole(), "an answer")
        uptime = lambda: (counters(v) or {}).get("MAIN.uptime", 0)
        begin = uptime() + 3
        until(LIMIT, lambda: uptime() >= begin)
        worker = v.worker()
        before, at = woken(worker), uptime()
        until(LIMIT, lambda: uptime() >= begin + 3)
        each = (woken(worker) - before) / (uptime() - at)
        report.check(each <= 25, f"an idle worker wakes {each:.0f} times a second")


def cli_is_not_held(report, program):
    """Silent connections to -T, more than there are places, keep nobody out; who has shown the secret stays."""
    with Varnishd(program, ["-b", "none"]) as v:
        kept = cli_of(v.n)
        report.check(kept.ask("ping").startswith("PONG"), "a session is there")
        crowd = []
        for _ in range(300):
            crowd.append(socket.create_connection(kept.sock.getpeername(), LIMIT))
            crowd[-1].settimeout(LIMIT)
            report.check(crowd[-1].recv(4) == b"107 ", "each is challenged")
        for n, connection in enumerate(crowd[:40]):
            data = b"".join(iter(lambda: connection.recv(4096), b""))
            report.check(len(data) > 40, f"the oldest go: {n}")
        adm = subprocess.run([pathlib.Path(program).parent / "varnishadm", "-n", v.n, "ping"], capture_output=True, text=True, timeout=LIMIT)
        report.check(adm.stdout.startswith("PONG"), f"varnishadm gets in: {adm}")
        report.check(kept.ask("ping").startswith("PONG"), "and the first session stays")
        # Nobody has to push the last ones out.
        for connection in crowd[40:]:
            while connection.recv(4096):
                pass
        for connection in crowd:
            connection.close()


def full_workdir(report, program):
    """Without room for a file in the working directory clients are served, vcl.load says why it fails, and a worker that dies comes back."""
    files = workdir()
    try:
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m,mode=755", "none", files], stderr=subprocess.DEVNULL).returncode:
            return report.note("no tmpfs can be mounted here: no working directory was full")
        with Origin(simple(Gate().answer)) as origin, Varnishd(program, ["-n", str(files / "n")], backend=origin.address) as v:
            load = 'vcl.inline other "vcl 4.1; backend default none;"'
            served = lambda path: get(v.address, path).status == 200
            report.check(served("/hit"), "before")
            filler = open(files / "filler", "wb", buffering=0)
            try:
                while filler.write(bytes(1 << 16)):
                    pass
            except OSError:
                pass
            report.check(all(map(served, ("/hit", "/miss"))), "a full working directory: hit and miss")
            status, text = v.cli.ask_raw(load)
            report.check(status == 106 and b"No space left on device" in text, f"a full working directory: vcl.load: {status} {text[:200]}")
            report.check(v.worker_dies(LIMIT), f"a full working directory: no worker: {v.log()}")
            report.check(served("/hit"), "a full working directory: a hit of the next worker")
            filler.truncate(0)
            filler.close()
            status, text = v.cli.ask_raw(load)
            report.check(status == 200, f"with room again: vcl.load: {status} {text[:200]}")
    finally:
        until(LIMIT, lambda: not os.path.ismount(files) or subprocess.run(["umount", files], stderr=subprocess.DEVNULL).returncode == 0)
        shutil.rmtree(files, ignore_errors=True)
    return None


def drains(report, program):
    for how in ("stop", "SIGTERM to the worker", "SIGTERM to the manager"):
        drained(report, program, how)


class Balancer(Handed):
    """haproxy before two caches, whose health it asks for at `path` of their ports `checks`; it tries nothing twice."""

    def __init__(self, caches, path, checks):
        self.caches, self.path, self.checks = caches, path, checks
        super().__init__()

    def command(self, listener):
        nodes = "".join(f" server n{n} {host}:{port} check port {checked} inter 100ms fall 2 rise 1\n"
                        for n, ((host, port), checked) in enumerate(zip(self.caches, self.checks)))
        (self.dir / "h.cfg").write_text(f"""global
 stats socket {self.dir}/up
 nbthread 1
defaults
 mode http
 retries 0
 timeout client 60s
 timeout server 60s
 timeout connect 5s
 timeout check 30s
frontend f
 bind fd@{listener}
 default_backend b
backend b
 balance roundrobin
 http-reuse always
 option httpchk GET {self.path}
 http-check expect status 200
{nodes}""")
        return ["haproxy", "-db", "-f", str(self.dir / "h.cfg")], {}

    def is_up(self, n):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(str(self.dir / "up"))
            s.sendall(b"show stat\n")
            rows = s.makefile().read().splitlines()
        state = rows[0].split(",").index("status")
        return next(row.split(",")[state] for row in rows if row.startswith(f"b,n{n},")).startswith("UP")


def page_of(v):
    """The port of the status page."""
    text = until(LIMIT, lambda: re.search(r"watch: http://127\.0\.0\.1:(\d+)/", "".join(v.output)))
    return int(text.group(1))


def a_node_goes(report, program, own_port):
    """The runbook's VCL and commands: a cache leaves a balancer under load, and no request fails. `own_port`: what the balancer asks is the site's port."""
    if not shutil.which("haproxy", path="/usr/bin:/usr/sbin"):
        report.note("skipped: no haproxy here")
        return
    page = (ROOT / "docs/book/runbooks.md").read_text().split("## A node goes\n")[1].split("\n## ")[0]
    vcl = page.split("```vcl\n")[1].split("```")[0]
    drain, undrain, switch, unswitch = [part.split("```")[0].strip() for part in page.split("```sh elsewhere\n")[1:]]
    out, back = ([switch, drain], [undrain, unswitch]) if own_port else ([drain], [undrain])
    args = ["-p", f"shutdown_grace={GRACE}", "--watch", "127.0.0.1:0"]
    with Origin(simple(lambda *_: ("Cache-Control: max-age=60\r\n", b"hello"))) as origin:
        host, port = origin.address
        vcl = vcl.replace('"127.0.0.1"', f'"{host}"', 1).replace('"8080"', f'"{port}"', 1)
        with Varnishd(program, args, vcl=vcl) as stays, Varnishd(program, args, vcl=vcl) as goes:
            nodes = (stays, goes)
            addresses = [v.address for v in nodes]
            path, checks = ("/lb-health", [port for _, port in addresses]) if own_port else ("/readyz", [page_of(v) for v in nodes])
            with Balancer(addresses, path, checks) as balancer:
                leaves(report, program, balancer, goes, out, back)


def leaves(report, program, balancer, goes, out, back):
    report.check(until(LIMIT, lambda: balancer.is_up(0) and balancer.is_up(1)), "both nodes are up")
    done, counts, failed = threading.Event(), [0, 0, 0], []

    def visitor(n):
        client = None
        while not done.is_set():
            client = client or Client(balancer.address)
            try:
                r = client.request(f"/{n}")
                if not (r.whole() and r.status == 200):
                    failed.append(str(r))
                if r.get("Connection") == "close":
                    client = None
            except (OSError, Garbled) as e:
                failed.append(repr(e))
                client = None
            counts[n] += 1

    def ask_more():
        before = sum(counts)
        return until(LIMIT, lambda: sum(counts) > before + 100)

    def command(lines):
        for line in lines:
            name, rest = line.split(" ", 1)
            # The balancer's checks are faster here than the page's; on a busy machine one may take a second all the same.
            words = [str(pathlib.Path(program).with_name(name)), *rest.replace("--wait 10s", "--wait 5s").split()]
            at = 2 if name == "lacquer" else 1
            words[at:at] = ["-n", str(goes.n)]
            p = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT, check=False, stdin=subprocess.DEVNULL)
            report.check(p.returncode == 0, f"{line}: {p.stdout}{p.stderr}")

    visitors = [threading.Thread(target=visitor, args=(n,)) for n in range(len(counts))]
    for v in visitors:
        v.start()
    report.check(ask_more(), "visitors are served")
    command(out)
    report.check(until(LIMIT, lambda: not balancer.is_up(1)), "the balancer takes the node out")
    command(back)
    report.check(until(LIMIT, lambda: balancer.is_up(1)), "the balancer takes the node in again")
    report.check(ask_more(), "visitors are served by both again")
    command(out)
    report.check(until(LIMIT, lambda: not balancer.is_up(1)) and ask_more(), "it is out")
    worker = goes.worker()
    goes.proc.send_signal(signal.SIGTERM)
    report.check(until(LIMIT, lambda: gone(worker)), "the node ends: nothing is in progress")
    report.check(ask_more(), "visitors are served by the other")
    done.set()
    for v in visitors:
        v.join()
    report.check(not failed, f"{len(failed)} of {sum(counts)} requests failed: {failed[:5]}")


def drain_waits(report, program):
    """lacquer drain waits for requests in progress, and says what still is when its time is over or it is interrupted."""
    gate = Gate()
    with Origin(simple(gate.answer)) as origin, Varnishd(program, ["-p", f"shutdown_grace={GRACE}"], backend=origin.address) as v:
        def drain(*words):
            return subprocess.Popen([str(pathlib.Path(program).with_name("lacquer")), "drain", "-n", str(v.n), *words], text=True, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=die_with_parent)

        slow = Client(v.address)
        slow.send(b"GET /slow HTTP/1.1\r\nHost: bed.test\r\n\r\n")
        gate.asked.wait(LIMIT)
        p = drain("--wait", "0", "--limit", "0")
        out, err = p.communicate(timeout=LIMIT)
        report.check(p.returncode == 1 and "1 request in progress" in err and "lacquer drain --off" in err, f"not drained: {p.returncode} {out}{err}")
        p = drain("--wait", "1h")
        report.check(p.stdout.readline().startswith("out of service"), "it begins")
        p.send_signal(signal.SIGINT)
        out, err = p.communicate(timeout=LIMIT)
        report.check(p.returncode == 1 and err.startswith("interrupted"), f"interrupted: {p.returncode} {out}{err}")
        p = drain("--wait", "0", "--stop")
        report.check(p.stdout.readline().startswith("out of service"), "it begins again")
        report.check(p.poll() is None and v.cli.ask("drain").startswith("Drain: on"), "it waits")
        worker = v.worker()
        gate.go.set()
        r = slow.response()
        report.check(r.whole() and r.get("Connection") == "close", f"the request in progress: {r} {r.fields}")
        out, err = p.communicate(timeout=LIMIT)
        report.check(p.returncode == 0 and "drained" in out and "stopped" in out, f"drained: {p.returncode} {out}{err}")
        report.check(until(LIMIT, lambda: gone(worker)), "the worker ends")
        p = drain("--off", "--stop")
        out, err = p.communicate(timeout=LIMIT)
        report.check(p.returncode == 2 and "either --off or --stop" in err, f"contradicting words: {p.returncode} {out}{err}")


def main():
    o = options(__doc__, words=dict(default="", help="cases to run, by a part of their names"), **clocks.OPTION)
    report = Report("life")

    def deaths_under_load(report, program):
        for how in ("kill -9", "panic"):
            dies_under_load(report, program, how, 3 if o.full else 1)

    def busy(report, program):
        busy_is_not_dead(report, program, 20 if o.full else 4)

    def node_goes(report, program):
        for own_port in (False, True):
            a_node_goes(report, program, own_port)

    for case in (drains, drain_waits, told_to_end_while_it_starts, node_goes, cli_is_not_held, full_workdir, deaths_under_load, busy, no_grace, manager_gone, worker_gone, deaths_in_a_row, a_burst_is_answered, signals_are_reported,
                 shows_what_it_is, leaves_core, control_c, planted_panic, *([sleeps_when_idle] if o.clocks else [])):
        if o.words in case.__name__:
            report.run([case], report, o.varnishd)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
