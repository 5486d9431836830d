# SPDX-License-Identifier: BSD-2-Clause
"""The log of a running server: whether a program follows it already, and whether something has got there."""
import os
import pathlib
import shutil
import subprocess

from .daemon import die_with_parent
from .report import settled, until

LIMIT = 60  # seconds until a program that was started follows the log


def log_of(v):
    """The file of a server's log; a tool that follows it has it open."""
    return next((v.n / "_.vsm_child").glob("_.Log.*"))


def has_open(pid, path):
    """Ours read the file; Varnish's own tools close it once they have mapped it."""
    try:
        known = path.stat()
        if any(line.split()[4] == str(known.st_ino) for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines()):
            return True
        return any(os.path.samestat(os.stat(fd), known) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir() if fd.exists())
    except OSError:
        return False


def is_asleep(pid):
    """Whether it waits, for more of the log once it has that open: between opening it and finding its end nothing waits."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"
    except (OSError, IndexError):
        return False


def is_followed(v, *pids):
    """Whether all of these processes come to follow the log: what is asked from then on, they see."""
    return until(LIMIT, lambda: all(has_open(pid, log_of(v)) and is_asleep(pid) for pid in pids))


def read_log(v, is_complete, *words):
    """What our varnishlog prints with these words, once `is_complete(text)` holds: a response can be here before its records are in the log."""
    argv = [pathlib.Path(v.proc.args[0]).with_name("varnishlog"), "-d", "-n", str(v.n), *words]
    look = lambda: subprocess.run(argv, capture_output=True, timeout=LIMIT).stdout.decode(errors="replace")
    return settled(LIMIT, look, is_complete)[1]


def has_all(*texts):
    """Judges a log for `read_log`: whether each of these texts is in it."""
    return lambda log: all(text in log for text in texts)


class Saved:
    """What `varnishlog -w` makes of a server's log, while the server runs."""

    def __init__(self, v, path):
        self.path = path
        program = shutil.which("varnishlog", path="/usr/bin:/usr/sbin")
        self.proc = subprocess.Popen([program, "-n", str(v.n), "-g", "raw", "-w", str(path)], stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent)

    def has(self, text):
        """Whether that was logged: the log comes in order, so that with the last request all others are there."""
        return text in self.path.read_bytes()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proc.terminate()
        self.proc.wait(LIMIT)
