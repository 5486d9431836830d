# SPDX-License-Identifier: BSD-2-Clause
"""Starts a varnishd in a directory of its own, speaks its CLI, and ends it."""
import contextlib
import ctypes
import functools
import hashlib
import os
import pathlib
import random
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading

from .leftovers import tree
from .report import until

START_LIMIT = 60  # seconds; Debian's varnishd compiles VCL with a C compiler


def die_with_parent():
    """Runs in the child before exec: no server outlives the harness, even when that is killed, and all heed signals that who
    started the harness (nohup, a shell's background) may have switched off."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def limited(descriptors, core=False):
    """As die_with_parent, with a limit on open files; without one on core files, or with none of these."""
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2 if core else (0, 0))
    if descriptors:
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))


def workdir():
    """A temporary directory that the jail's user may enter: it reads the VCL files there."""
    d = tempfile.mkdtemp(prefix="lacquer-test.")
    os.chmod(d, 0o755)
    return pathlib.Path(d)


def executable(path, text):
    """Writes a program and returns its path. Another process writes it: a child that some other thread forks meanwhile would hold the file open for
    writing, and the kernel refuses to run such a file ("Text file busy")."""
    subprocess.run(["install", "-D", "-m", "755", "/dev/stdin", path], input=text, text=True, check=True)
    return path


@contextlib.contextmanager
def directory():
    """As workdir; the directory is removed at the end of the block."""
    d = workdir()
    try:
        yield d
    finally:
        shutil.rmtree(d, ignore_errors=True)


class CliError(Exception):
    """The CLI answered with another status than 200, or not at all."""


class Cli:
    """One CLI connection over a connected socket; authenticates with the secret in `secret_file` when asked to."""

    def __init__(self, sock, secret_file):
        self.sock, self.file = sock, sock.makefile("rb")
        sock.settimeout(START_LIMIT)
        status, body = self.reply()
        if status == 107:
            challenge = body[:32]
            key = pathlib.Path(secret_file).read_bytes()
            digest = hashlib.sha256(challenge + b"\n" + key + challenge + b"\n").hexdigest()
            status, body = self.ask_raw(f"auth {digest}")
        if status != 200:
            raise CliError(f"{status} {body!r}")

    def reply(self):
        head = self.file.read(13)
        if len(head) < 13:
            raise CliError("the CLI connection was closed")
        status, length = int(head[:3]), int(head[4:12])
        return status, self.file.read(length + 1)[:-1]

    def ask_raw(self, line):
        self.sock.sendall(line.encode() + b"\n")
        return self.reply()

    def ask(self, line):
        status, body = self.ask_raw(line)
        if status != 200:
            raise CliError(f"{line}: {status} {body.decode(errors='replace')}")
        return body.decode(errors="replace")

    def close(self):
        self.file.close()
        self.sock.close()


def vsm_segment(n_dir, cls, ident):
    """The payload of one segment of the manager's shared memory set, or None."""
    d = pathlib.Path(n_dir) / "_.vsm_mgt"
    try:
        for line in (d / "_.index").read_text().splitlines():
            w = line.split()
            if w[0] == "+" and w[4:6] == [cls, ident]:
                off, length = int(w[2]), int(w[3])
                return (d / w[1]).read_bytes()[off:off + length]
    except (OSError, IndexError, ValueError):
        pass
    return None


def cli_of(n_dir):
    """Finds the CLI of a running varnishd by its working directory, as varnishadm does; None while there is none."""
    addresses, secret = vsm_segment(n_dir, "Arg", "-T"), vsm_segment(n_dir, "Arg", "-S")
    if not addresses or not secret:
        return None
    for line in addresses.split(b"\0")[0].decode().splitlines():
        host, port = line.split()
        try:
            return Cli(socket.create_connection((host, int(port)), 5), secret.split(b"\0")[0].decode())
        except OSError:
            continue
    return None


reservations = []  # sockets that hold the names of ports that this harness has drawn


def reserved(port):
    """True if no other suite has drawn `port`: a name among the abstract Unix sockets, which ends with this process, is ours from now on."""
    name = socket.socket(socket.AF_UNIX)
    try:
        name.bind(f"\0lacquer-test-port-{port}")
    except OSError:
        name.close()
        return False
    reservations.append(name)
    return True


def free_port():
    """A port of 127.0.0.1 that is free for TCP and UDP, below those that the system gives to connections, so that none of them takes it; and drawn
    by no other suite that runs."""
    drawn = random.SystemRandom()
    while True:
        port = drawn.randrange(12000, 32000)
        try:
            with socket.create_server(("127.0.0.1", port)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
                datagrams.bind(("127.0.0.1", port))
                if reserved(port):
                    return port
        except OSError:
            continue


def on_one_port(start):
    """Calls `start` with a port for TCP and UDP. Another suite may take it before the server does: then with another one."""
    for attempt in range(10):
        try:
            return start(free_port())
        except SystemExit as error:
            if "already in use" not in str(error) or attempt == 9:
                raise


@functools.cache
def acting(program):
    """Options that let our program act as the release that the suites were written for; none for Varnish's own varnishd."""
    said = subprocess.run([program, "-V"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=START_LIMIT, check=False)
    return ["--compat", "7.1"] if "Lacquer" in said.stderr else []


class Varnishd:
    """A varnishd in the foreground with its own working directory, told to call our CLI socket. Ours acts as 7.1 unless `args` hold --compat.

    `args` are further arguments; unless they hold -a it listens on a free loopback port, unless they hold -f or -b the VCL
    text `vcl` is used. `descriptors` limits how many it may have open, `core` lets it leave core files. Use as a context manager.
    """

    def __init__(self, program, args=(), vcl=None, backend=None, storage="malloc,100m", descriptors=None, core=False):
        self.dir = workdir()
        self.n = self.dir / "n"
        (self.dir / "secret").write_text("test\n")
        args = list(args)
        if vcl is not None:
            (self.dir / "test.vcl").write_text(vcl)
            args += ["-f", str(self.dir / "test.vcl")]
        elif backend is not None:
            args += ["-b", f"{backend[0]}:{backend[1]}"]
        if "-a" not in args:
            args += ["-a", "127.0.0.1:0"]
        if storage:
            args += ["-s", storage]
        self.output = []
        with socket.create_server(("127.0.0.1", 0)) as listener:
            listener.settimeout(START_LIMIT)
            host, port = listener.getsockname()
            self.proc = subprocess.Popen(
                [program, "-F", *acting(program), "-n", str(self.n), "-S", str(self.dir / "secret"), "-M", f"{host} {port}", *args],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                preexec_fn=lambda: limited(descriptors, core))
            self.reader = threading.Thread(target=self._read_output, daemon=True)
            self.reader.start()
            try:
                self.cli = Cli(self._accept(listener), self.dir / "secret")
                if not until(START_LIMIT, lambda: "running" in self.cli.ask("status")):
                    raise CliError("the worker does not run")
                self.addresses = {}
                for line in self.cli.ask("debug.listen_address").splitlines():
                    name, host, port = line.split()
                    self.addresses[name] = (host, int(port) if port.isdigit() else 0)
                self.address = next(iter(self.addresses.values()))
            except (CliError, OSError) as e:
                self.close()
                raise SystemExit(f"{program} did not start: {e}\n{self.log()}")

    def _accept(self, listener):
        listener.settimeout(0.2)
        for _ in range(START_LIMIT * 5):
            try:
                return listener.accept()[0]
            except TimeoutError:
                if self.proc.poll() is not None:
                    raise CliError(f"ended with status {self.proc.returncode}")
        raise CliError("no CLI connection")

    def _read_output(self):
        for line in self.proc.stdout:
            self.output.append(line.decode(errors="replace"))

    def log(self):
        return "".join(self.output[-40:])

    def counter(self, name):
        """What a counter shows now; None of one that there isn't."""
        program = pathlib.Path(self.proc.args[0]).with_name("varnishstat")
        out = subprocess.run([program, "-1", "-n", str(self.n), "-f", name], capture_output=True, text=True, check=False).stdout.split()
        return int(out[1]) if len(out) > 1 else None

    def pids(self):
        """The manager and everything below it."""
        return tree(self.proc.pid)

    def worker(self):
        """The youngest process that is a worker: no check of VCL, search for a report's names, or signer."""
        return next(pid for pid in reversed(self.pids()) if not is_no_worker(pid))

    def kill(self):
        """Kills all of its processes at once."""
        for pid in reversed(self.pids()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.proc.wait()
        self.reader.join(5)
        shutil.rmtree(self.dir, ignore_errors=True)

    def worker_dies(self, limit=START_LIMIT):
        """Kills the worker and waits for the next one; whether it came."""
        old = self.worker()
        os.kill(old, signal.SIGKILL)
        return until(limit, lambda: old not in self.pids() and "running" in self.cli.ask("status"))

    def close(self):
        self.proc.terminate()
        try:
            self.proc.wait(20)
        except subprocess.TimeoutExpired:
            for p in self.pids():
                os.kill(p, signal.SIGKILL)
            self.proc.wait()
        self.reader.join(5)
        shutil.rmtree(self.dir, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def of_threads(pid, file):
    """What is in that file (`comm`, `stat`, ...) of each of a process's threads, but for those that end meanwhile."""
    found = []
    for thread in pathlib.Path(f"/proc/{pid}/task").iterdir():
        try:
            found.append((thread / file).read_text())
        except OSError:
            continue
    return found


def is_no_worker(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0] in (b"lacquer-names", b"lacquer-vcc", b"lacquer-signer")
    except OSError:
        return False


def cpu(pids):
    """Seconds of CPU used so far by these processes."""
    total = 0
    for p in pids:
        try:
            w = pathlib.Path(f"/proc/{p}/stat").read_text().rsplit(")", 1)[1].split()
            total += int(w[11]) + int(w[12])
        except OSError:
            continue
    return total / os.sysconf("SC_CLK_TCK")


MEASURED = """import resource, subprocess, sys
p = subprocess.run(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
sys.stdout.buffer.write(p.stdout)
sys.stdout.flush()
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)
sys.exit(p.returncode)"""


def peak(argv, limit=600):
    """Runs a program: its status, its output, the most memory that it had, in bytes. Started by a process that is small: what a program's
    parent has when it starts it counts as the program's own."""
    p = subprocess.run([sys.executable, "-c", MEASURED, *map(str, argv)], stdin=subprocess.DEVNULL, capture_output=True, timeout=limit)
    return p.returncode, p.stdout, int(p.stderr.split()[-1]) * 1024


def pss(pids):
    """Bytes of memory of these processes, what is shared counted once in proportion; those gone meanwhile count nothing. Without pages of files: as many
    processes share the program's, and each has more of them by megabytes when another one ends."""
    total = 0
    for p in pids:
        try:
            for line in pathlib.Path(f"/proc/{p}/smaps_rollup").read_text().splitlines():
                if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                    total += int(line.split()[1]) * 1024
        except OSError:
            continue
    return total
