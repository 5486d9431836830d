# SPDX-License-Identifier: BSD-2-Clause
"""Leaves nothing behind when a suite is ended by a signal: it ends the suite's processes, then removes its mounts, loop devices and files.

`report.options` and `report.Report` call `arm`. From then on the suite has a temporary directory of its own, which is also that of all
programs it starts. `tests/run` has made one already; a suite that is started by itself makes one and removes it at its end.
"""
import atexit
import ctypes
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

RUN_MARK = "LACQUER_SUITE"  # set by tests/run, together with a TMPDIR of the suite's own
MARK = "LACQUER_BED"  # in the environment of everything that a suite starts: its process id
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
TERM_LIMIT = 4  # seconds that processes have for their own cleaning
KILL_LIMIT = 20  # seconds until they are gone
MNT_DETACH = 2

start = subprocess.Popen.__init__
owner = None  # the process that `arm` was called in
scratch = None  # the suite's temporary directory
elsewhere = []  # directories outside of it that the suite makes, too


def name():
    """The suite's name: that of its directory."""
    return pathlib.Path(sys.argv[0]).resolve().parent.name


def arm():
    """Makes the temporary directory and installs the signal handlers, once."""
    global owner, scratch
    if owner is not None or threading.current_thread() is not threading.main_thread():
        return
    owner = os.getpid()
    os.environ[MARK] = str(owner)
    if RUN_MARK in os.environ and "TMPDIR" in os.environ:
        scratch = pathlib.Path(os.environ["TMPDIR"])
    else:
        scratch = pathlib.Path(tempfile.mkdtemp(prefix=f"lt.{name()}."))
        scratch.chmod(0o1777)  # as /tmp: the jail's user writes there, too
        tempfile.tempdir = os.environ["TMPDIR"] = str(scratch)
        atexit.register(_at_exit)
    for number in SIGNALS:
        # What is ignored stays ignored: nohup and a shell's background ask for that.
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)


def _start_here_alone(*args, **more):
    """In place of Popen's: stops other threads for good."""
    if threading.current_thread() is not threading.main_thread():
        threading.Event().wait()
    start(*args, **more)


def _at_exit():
    if os.getpid() == owner:
        if left := sorted(os.listdir(scratch)):
            print(f"     {name()}: left behind and removed now: {', '.join(left[:5])}", flush=True)
        _remove_files()


def _end(number, _frame):
    if os.getpid() != owner:  # a child that is no program of its own: it ends as if there was no handler
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return
    for other in SIGNALS:
        signal.signal(other, signal.SIG_IGN)
    # Not by print: the signal may have come in the middle of one.
    os.write(1, f"\nFAIL {name()}: ended by {signal.Signals(number).name}\n".encode())
    # Threads go on meanwhile. They may not report what comes of it, nor start servers in place of those that end.
    for descriptor in (1, 2):
        os.dup2(os.open(os.devnull, os.O_WRONLY), descriptor)
    subprocess.Popen.__init__ = _start_here_alone
    _end_processes()
    _unmount()
    _remove_files()
    os._exit(128 + number)


def tree(pid):
    """A process and all below it, parents first."""
    found = [pid]
    for p in found:
        try:
            kids = pathlib.Path(f"/proc/{p}/task/{p}/children").read_text().split()
        except OSError:
            continue
        found += [int(k) for k in kids]
    return found


def _running():
    """The processes that this suite has started, directly or not, and that run."""
    found = set(tree(owner))
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"{MARK}={owner}".encode() in (entry / "environ").read_bytes().split(b"\0"):
                found.add(int(entry.name))
        except OSError:
            continue
    return {pid for pid in found - {owner} if command(pid)}


def command(pid):
    """The command line of a process; empty once it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _end_processes():
    # Forks of this program have nothing of their own to clean, but much to say about servers that are gone.
    ours = command(owner)
    _signal([pid for pid in tree(owner)[1:] if command(pid) == ours], signal.SIGKILL)
    _signal(_running(), signal.SIGTERM)
    limit = time.monotonic() + TERM_LIMIT
    while _running() and time.monotonic() < limit:
        time.sleep(0.05)
    # Again and again: a thread may have been about to start one.
    limit = time.monotonic() + KILL_LIMIT
    while (left := _running()) and time.monotonic() < limit:
        _signal(left, signal.SIGKILL)
        time.sleep(0.05)


def _signal(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except OSError:
            continue


def _unmount():
    """Removes what is mounted in the temporary directory, the last mount first, and the loop devices on its files."""
    inside = str(scratch.resolve()) + "/"
    points = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in reversed([p for p in points if p.startswith(inside)]):
        if shutil.which("fsfreeze"):
            subprocess.run(["fsfreeze", "-u", point], check=False, capture_output=True)
        ctypes.CDLL(None).umount2(os.fsencode(point), MNT_DETACH)
    for file in pathlib.Path("/sys/block").glob("loop*/loop/backing_file"):
        try:
            if file.read_text().startswith(inside):
                subprocess.run(["losetup", "-d", f"/dev/{file.parts[3]}"], check=False, capture_output=True)
        except OSError:
            continue


def _remove_files():
    for directory in elsewhere:
        shutil.rmtree(directory, ignore_errors=True)
    if RUN_MARK not in os.environ:
        shutil.rmtree(scratch, ignore_errors=True)
        return
    for path in scratch.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
