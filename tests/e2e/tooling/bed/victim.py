# SPDX-License-Identifier: BSD-2-Clause
"""A suite that is killed, or that finds a port taken. `victim.py wait STUBBORN` prints `ready` once it has a server, a mount (as root) and
processes of its own, of which so many ignore SIGTERM, and never ends; `victim.py origin PORT` and `victim.py server PORT` want that port."""
import multiprocessing
import os
import pathlib
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from bed import built
from bed.daemon import Varnishd, workdir
from bed.origin import Origin, simple
from bed.report import Report


def serve(*_):
    return "", b"hello"


def wait(stubborn):
    if os.geteuid() == 0:
        place = workdir()
        subprocess.run(["mount", "-t", "tmpfs", "none", str(place)], check=True)
    multiprocessing.Process(target=threading.Event().wait, daemon=True).start()
    # As a daemon: its parent isn't this program.
    subprocess.run(["setsid", "sh", "-c", "sleep 1000 &"], check=True, stdout=subprocess.DEVNULL)
    for _ in range(stubborn):
        subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 1000; sleep 1000"])
    with Origin(simple(serve)) as origin, Varnishd(built.program("varnishd"), backend=origin.address):
        print("ready", flush=True)
        threading.Event().wait()


def origin(port):
    with Origin(simple(serve), at=("127.0.0.1", port)):
        pass


def server(port):
    with Varnishd(built.program("varnishd"), ["-a", f"127.0.0.1:{port}"], vcl="vcl 4.1; backend none none;"):
        pass


if __name__ == "__main__":
    report = Report("victim")
    {"wait": wait, "origin": origin, "server": server}[sys.argv[1]](int(sys.argv[2]))
    sys.exit(report.close())
