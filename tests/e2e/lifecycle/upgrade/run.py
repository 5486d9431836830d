#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`upgrade`: another program takes over in the same process while clients ask. No request fails, no connection is refused,
nothing that was cached is fetched again, what is purged stays purged, and what can't take over is refused with a reason, while
the present one goes on."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed.daemon import Varnishd, cli_of, die_with_parent, directory, free_port
from bed.http import Client, get
from bed.origin import Origin
from bed.report import Report, options, until
import disks
from world import FETCHED, LARGE, LIMIT, VERSIONS, Load, body_of, cli_pids, gone, ready, serve, vcl_for


def under_load(report, program, rounds, storage="malloc,100m"):
    """Upgrades while clients ask, one has a large answer half read, and one has a tunnel."""
    with Origin(serve) as origin, Varnishd(program, ["-p", "cli_limit=100k"], vcl=vcl_for(origin), storage=storage) as v:
        has_disk = storage.startswith("file")
        report.check(not has_disk or disks.readable(v, program), "the disk is ready")
        v.cli.ask("param.set default_grace 33")
        v.cli.ask("vcl.load second " + str(v.dir / "test.vcl"))
        v.cli.ask("vcl.label site second")
        v.cli.ask("backend.set_health other sick")
        list_before, manager = v.cli.ask("vcl.list"), v.proc.pid
        second_cli = cli_of(v.n)
        ready(report, v)
        report.check(get(v.address, "/large").body == LARGE, "a large answer before")
        paths = [f"/hit{n}" for n in range(50)]
        if has_disk:
            # With /hit, by which the backend was found healthy, and /large.
            disks.stored(report, v, program, "before", paths, 2)
        for path in paths:
            get(v.address, path)
        FETCHED.clear()
        slow = Client(v.address, LIMIT, rcvbuf=8192)
        slow.send(b"GET /large HTTP/1.1\r\nHost: bed.test\r\n\r\n")
        tunnel = Client(v.address, LIMIT)
        tunnel.send(b"GET /pipe HTTP/1.1\r\nHost: bed.test\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
        report.check(tunnel.response().status == 101, "a tunnel before")
        first, load = cli_pids(v.cli)[1], Load(v.address, 6, 2)
        workers = {first}
        for n in range(rounds):
            before = load.done
            until(LIMIT, lambda: load.done > before + 50)
            status, text = v.cli.ask_raw("upgrade")
            report.check(status == 200 and text.startswith(b"Upgraded from Lacquer "), f"round {n}: {status} {text}")
            master, worker = cli_pids(v.cli)
            report.check(master == manager and worker not in workers, f"round {n}: the same manager {master}, another worker {worker}")
            workers.add(worker)
        until(LIMIT, lambda: load.done > before + 200)
        load.end()
        report.note(f"{load.done} requests over {rounds} upgrades, {len(load.wrong)} failed")
        again = {path: count for path, count in FETCHED.items() if count and path.startswith(("/hit", "/large"))}
        report.check(not again, f"nothing that was cached is fetched again: {again}")
        report.check(not load.wrong and load.done > rounds * 50, f"{len(load.wrong)} of {load.done} requests failed: {load.wrong[:5]}")
        # What the first worker began it ends, after ten successors, or is let go by the bound on how many leave at a time.
        if rounds <= 8:
            tunnel.send(b"still there?")
            report.check(tunnel.sock.recv(100) == b"still there?", "a tunnel of before goes on")
            r = slow.response()
            report.check(r.whole() and r.body == LARGE, f"an answer half read goes on: {r}")
        tunnel.close()
        slow.close()
        left = until(LIMIT, lambda: all(gone(w) for w in workers - {worker}))
        report.check(left, f"workers of before end with their connections: {[w for w in workers - {worker} if not gone(w)]}")

        def memory():
            return sorted(p.name for p in v.n.iterdir() if p.name.startswith("_.vsm_"))
        report.check(until(LIMIT, lambda: memory() == ["_.vsm_child", "_.vsm_mgt"]), f"their memory is gone: {memory()}")
        # What the manager knew it knows still.
        report.check("33.000" in v.cli.ask("param.show default_grace"), "parameters")
        report.check(v.cli.ask("vcl.list").split() == list_before.split(), f"VCLs and labels: {v.cli.ask('vcl.list')}")
        rows = {line.split()[0]: line.split() for line in v.cli.ask("backend.list *.*").splitlines()[1:]}
        report.check(rows["boot.other"][1] == "sick" and rows["boot.b"][3] == "healthy", f"the health of backends: {rows}")
        report.check("running" in second_cli.ask("status"), "another CLI connection")
        second_cli.close()
        late = cli_of(v.n)
        report.check(late is not None and "running" in late.ask("status"), "a CLI connection afterwards")
        late.close()
        report.check("0 times" in v.cli.ask("restarts"), f"no worker died: {v.cli.ask('restarts')}")
        report.check((v.n / "_.pid").read_text() == str(manager), "the pid file")


def tunnel_to(report, v):
    tunnel = Client(v.address, LIMIT)
    tunnel.send(b"GET /pipe HTTP/1.1\r\nHost: bed.test\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n")
    report.check(tunnel.response().status == 101, "a tunnel")
    return tunnel


def drain_limit(report, program):
    """A connection that doesn't end is waited for, but not for longer than upgrade_drain."""
    with Origin(serve) as origin, Varnishd(program, ["-p", "upgrade_drain=600"], vcl=vcl_for(origin)) as v:
        ready(report, v)
        tunnel = tunnel_to(report, v)
        old = cli_pids(v.cli)[1]
        idle = Client(v.address, LIMIT)
        report.check(idle.request("/hit").whole(), "an answer before")
        purging, banning = Client(v.address, LIMIT), Client(v.address, LIMIT)
        for client in (purging, banning):
            report.check(client.request("/hit").whole(), "an answer before")
        report.check(purging.request("/hit", method="PURGE").whole() and banning.request("/x", method="BAN").whole(), "purges and bans before")
        report.check(v.cli.ask_raw("upgrade")[0] == 200, "upgraded")
        # Both caches are one to those who purge and ban.
        for client, method in ((purging, "PURGE"), (banning, "BAN")):
            r = client.request("/hit", method=method)
            report.check(r.whole() and r.get("Connection") == "close", f"{method} to the old worker: {r} {r.fields}")
            report.check(get(v.address, "/hit", method=method, timeout=LIMIT).whole(), f"{method} to the new one")
        report.check(v.cli.ask_raw("ban obj.http.some == thing")[0] == 200, "a ban of the CLI")
        report.check(v.cli.ask("ban.list").count("some == thing") == 1, f"is one: {v.cli.ask('ban.list')}")
        r = idle.request("/hit")
        report.check(r.whole() and r.get("Connection") == "close", f"a kept connection gets its answer, and is told to end: {r} {r.fields}")
        report.check(not gone(old), "the worker of before waits for its tunnel")
        tunnel.close()
        report.check(until(LIMIT, lambda: gone(old)), "and ends with it")
        v.cli.ask("param.set upgrade_drain 1")
        tunnel, old = tunnel_to(report, v), cli_pids(v.cli)[1]
        report.check(v.cli.ask_raw("upgrade")[0] == 200, "upgraded again")
        report.check(until(LIMIT, lambda: gone(old)), "after upgrade_drain it ends in spite of its tunnel")
        report.check(get(v.address, "/hit", timeout=LIMIT).whole(), "the new one serves")
        tunnel.close()


def invalidated(report, program, storage="malloc,100m"):
    """What one of the two workers invalidates the other one doesn't serve: whichever is told, and by whom."""
    def cli_ban(v, _client, path):
        return v.cli.ask_raw(f"ban req.url == {path}")[0] == 200

    def by(method):
        return lambda v, client, path: (client.request(path, method=method) if client else get(v.address, path, method=method)).whole()
    with Origin(serve) as origin, Varnishd(program, vcl=vcl_for(origin), storage=storage) as v:
        ready(report, v)
        for what, told, is_old in (("PURGE", by("PURGE"), True), ("BAN", by("BAN"), True), ("PURGE", by("PURGE"), False),
                                   ("BAN", by("BAN"), False), ("ban", cli_ban, False)):
            path = f"/change-{what}-{is_old}"
            kept = [Client(v.address, LIMIT) for _ in range(3)]
            report.check(all(client.request(path).whole() for client in kept), "cached before")
            report.check(v.cli.ask_raw("upgrade")[0] == 200, "upgraded")
            VERSIONS[path] += 1
            where = f"{what} told to the {'old' if is_old else 'new'} one"
            report.check(told(v, kept[0] if is_old else None, path), where)
            answers = [get(v.address, path), kept[1].request(path), kept[2].request(path)]
            report.check(all(r.whole() and r.body == body_of(path) for r in answers), f"{where}: {[r.body[:6] for r in answers]}")
            for client in kept:
                client.close()


def deaths(report, program):
    """A worker that dies while the one of before serves its last answers leaves the cache to the next one all the same."""
    with Origin(serve) as origin, Varnishd(program, vcl=vcl_for(origin)) as v:
        ready(report, v)
        paths = [f"/kept{n}" for n in range(200)] + ["/large"]
        for path in paths:
            get(v.address, path)
        FETCHED.clear()
        for n, who in enumerate(("new", "old", "new")):
            slow = Client(v.address, LIMIT, rcvbuf=8192)
            slow.send(b"GET /large HTTP/1.1\r\nHost: bed.test\r\n\r\n")
            before = cli_pids(v.cli)[1]
            until(LIMIT, lambda: slow._more())
            report.check(v.cli.ask_raw("upgrade")[0] == 200, "upgraded")
            # Another one each time: an answer can be here before the worker has noted that it is over, and an object over which
            # two workers died is dropped.
            get(v.address, paths[n])
            os.kill(cli_pids(v.cli)[1] if who == "new" else before, 9)
            report.check(until(LIMIT, lambda: get(v.address, paths[10]).whole()), f"it serves after the {who} one's death")
            answers = [get(v.address, path) for path in paths]
            report.check(all(r.whole() and r.body == body_of(p) for p, r in zip(paths, answers)), f"{who}: all are right")
            if who == "new":
                r = slow.response()
                report.check(r.whole() and r.body == LARGE, f"what the old one was delivering is right: {r}")
            slow.close()
        again = {path: count for path, count in FETCHED.items() if path in paths}
        report.check(not again, f"nothing is fetched again: {again}\n{v.log()[-3000:]}")


def full(report, program):
    """A store that is full: the new worker evicts and stores while the old one's deliveries go on, byte for byte."""
    with Origin(serve) as origin, Varnishd(program, vcl=vcl_for(origin), storage="malloc,24m") as v:
        ready(report, v)
        for n in range(4):
            get(v.address, f"/large{n}")
        for n in range(1000):
            get(v.address, f"/small{n}")
        slow = [Client(v.address, LIMIT, rcvbuf=8192) for _ in range(4)]
        for n, client in enumerate(slow):
            client.send(b"GET /large%d HTTP/1.1\r\nHost: bed.test\r\n\r\n" % n)
            client._more()
        report.check(v.cli.ask_raw("upgrade")[0] == 200, "upgraded")
        wrong = [path for path in [f"/other{n}" for n in range(1000)] + [f"/large-{n}" for n in range(12)]
                 if get(v.address, path).body != body_of(path)]
        report.check(not wrong, f"the new one stores: {wrong[:5]}")
        stat = subprocess.run([str(pathlib.Path(program).parent / "varnishstat"), "-1", "-n", str(v.n)], capture_output=True,
                              text=True, timeout=LIMIT).stdout
        nuked = [int(line.split()[1]) for line in stat.splitlines() if line.startswith("MAIN.n_lru_nuked")]
        report.check(nuked and nuked[0] > 3, f"it made room: {nuked}")
        for client in slow:
            r = client.response()
            report.check(r.whole() and r.body == LARGE, f"an answer half read is right: {r}")
            client.close()


def refused(report, program):
    """What lies where the program lay and can't take over."""
    with directory() as place:
        refused_in(report, program, place)


def refused_in(report, program, place):
    own = place / "varnishd"
    real = pathlib.Path(program).resolve()
    shutil.copy(real, own)

    def put(what):
        fresh = place / "new"
        what(fresh)
        fresh.chmod(0o755)
        fresh.rename(own)

    def cut(path):
        path.write_bytes(real.read_bytes()[:100_000])
    flag = place / "flag"
    with Origin(serve) as origin, Varnishd(str(own), vcl=vcl_for(origin, flag)) as v:
        ready(report, v)
        pids = cli_pids(v.cli)

        def check(what, words):
            status, text = v.cli.ask_raw("upgrade")
            text = text.decode()
            report.check(status == 300 and all(w in text for w in words), f"{what}: {status} {text}\n{v.log()}")
            report.check(cli_pids(v.cli) == pids, f"{what}: the present one goes on: {cli_pids(v.cli)} {pids}")
            report.check(get(v.address, "/hit").whole(), f"{what}: it serves")
        put(lambda path: path.write_text("no program\n"))
        check("a text", [str(own), "no program that can take over"])
        put(lambda path: shutil.copy("/bin/true", path))
        check("another program", [str(own), "no program that can take over"])
        put(cut)
        check("half a program", [str(own)])
        own.unlink()
        check("no program", ["No such file"])
        own.mkdir()
        check("a directory", [str(own)])
        own.rmdir()
        put(lambda path: shutil.copy(real, path))
        # The new one's worker can't start: the program of before takes over again.
        flag.write_text("")
        check("a worker that can't start", ["its worker", "told to"])
        flag.unlink()
        blocked = v.n / f"_.vsm_child.{pids[1]}"
        (blocked / "x").mkdir(parents=True)
        check("memory that can't be moved", ["_.vsm_child"])
        shutil.rmtree(blocked)
        stat = subprocess.run([str(pathlib.Path(program).parent / "varnishstat"), "-1", "-n", str(v.n), "-f", "MAIN.uptime"],
                              capture_output=True, text=True, timeout=LIMIT)
        report.check("MAIN.uptime" in stat.stdout, f"its counters are there: {stat.stdout} {stat.stderr}")
        os.kill(pids[1], 9)
        report.check(until(LIMIT, lambda: get(v.address, "/hit").whole()), "it starts workers as ever")
        status, text = v.cli.ask_raw("upgrade")
        report.check(status == 200, f"and then an upgrade succeeds: {status} {text}")
        exe = os.readlink(f"/proc/{v.proc.pid}/exe")
        report.check(exe == str(own), f"of the file that lies there: {exe}")
        # Without a worker there is nothing to take over but the rest.
        v.cli.ask("stop")
        status, text = v.cli.ask_raw("upgrade")
        report.check(status == 200 and b"no worker" in text, f"a stopped one: {status} {text}")
        report.check("stopped" in v.cli.ask("status"), "it stays stopped")
        v.cli.ask("start")
        report.check(until(LIMIT, lambda: get(v.address, "/hit").whole()), "until it is started")


def tool(report, program):
    """`lacquer upgrade`, on a daemon with a pid file, and a tool that reads the log across it."""
    with directory() as d:
        tool_in(report, program, d)


def tool_in(report, program, d):
    (d / "secret").write_text("test\n")
    n, pid_file = d / "n", d / "pid"
    with Origin(serve) as origin:
        port = free_port()
        args = [program, "-n", str(n), "-S", str(d / "secret"), "-P", str(pid_file), "-a", f"127.0.0.1:{port}", "-T", "127.0.0.1:0",
                "-b", f"{origin.address[0]}:{origin.address[1]}", "-s", "malloc,50m"]
        started = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        if not report.check(started.returncode == 0, f"the daemon starts: {started}"):
            return
        manager = int(pid_file.read_text())
        try:
            lacquer = pathlib.Path(program).parent / "lacquer"
            log = subprocess.Popen([str(lacquer.parent / "varnishncsa"), "-n", str(n), "-F", "%U"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent)
            lines = []
            reader = threading.Thread(target=lambda: lines.extend(log.stdout), daemon=True)
            reader.start()
            count = 0

            def seen(word):
                nonlocal count
                count += 1
                get(("127.0.0.1", port), f"/{word}{count}")
                log_lines = [line for line in lines if line.startswith(f"/{word}")]
                return bool(log_lines)
            # ncsa writes out what it has gathered after each wait.
            report.check(until(LIMIT, lambda: seen("before"), 0.1), "the log before")
            done = subprocess.run([str(lacquer), "upgrade", "-n", str(n)], capture_output=True, text=True, timeout=60)
            report.check(done.returncode == 0 and done.stdout.startswith("Upgraded from"), f"lacquer upgrade: {done}")
            report.check(until(LIMIT, lambda: seen("after"), 0.1), "the log after")
            report.check(int(pid_file.read_text()) == manager and not gone(manager), "the pid file")
            second = subprocess.run(args, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            report.check(second.returncode != 0, "a second one on the same files is refused still")
            log.terminate()
            log.wait(LIMIT)
        finally:
            os.kill(manager, 15)
            report.check(until(LIMIT, lambda: gone(manager)), "it ends")
        report.check(not pid_file.exists(), "the pid file goes")


def objects_shown(report, program):
    """`lacquer status` lacks none of the objects that the successor takes over, at whatever moment it looks."""
    count = 300
    with Origin(serve) as origin, Varnishd(program, vcl=vcl_for(origin)) as v:
        ready(report, v)
        with Client(v.address) as client:
            report.check(all(client.request(f"/shown-{n}").whole() for n in range(count)), "cached before")

        def row():
            text = subprocess.run([pathlib.Path(program).with_name("lacquer"), "status", "-n", v.n], capture_output=True, text=True, timeout=LIMIT).stdout
            return re.search(r"^objects +(.*)$", text, re.M)[1]
        for turn in range(3):
            report.check(v.cli.ask_raw("upgrade")[0] == 200, "upgraded")
            shown = row()
            report.check(int(shown.split(",")[0]) >= count or "taking over" in shown, f"turn {turn}: right after an upgrade: {shown}")
            whole = until(LIMIT, lambda: "taken over from the previous worker" in (shown := row()) and int(shown.split(",")[0]) >= count)
            report.check(whole, f"turn {turn}: in the end: {row()}")


def under_load_with_a_disk(report, program, rounds):
    with directory() as place:
        under_load(report, program, rounds, f"file,{place}/store,128m")


def invalidated_with_a_disk(report, program):
    with directory() as place:
        invalidated(report, program, f"file,{place}/store,64m")


def main():
    o = options(__doc__, words=dict(default="", help="cases to run, by a part of their names"))
    report = Report("upgrade")
    rounds = {under_load: (10 if o.full else 3,), under_load_with_a_disk: (10 if o.full else 3,), disks.chaos: (40 if o.full else 4,)}
    for case in (under_load, drain_limit, invalidated, deaths, full, refused, tool, objects_shown, under_load_with_a_disk, invalidated_with_a_disk, disks.no_jail,
                 disks.kept_in_a_file, disks.kept_on_a_device, disks.small, disks.chaos):
        if o.words in case.__name__:
            report.run([case], report, o.varnishd, *rounds.get(case, ()))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
