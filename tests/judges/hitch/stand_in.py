# SPDX-License-Identifier: BSD-2-Clause
"""hitch's command line, as its tests use it: our server reads the configuration and answers each request itself.

SIGHUP reads the certificates again, as `tls.cert.reload` does. LACQUER_JUDGED is the program, LACQUER_WORKDIR its directory.
"""
import argparse
import os
import pathlib
import select
import signal
import subprocess
import sys

VARNISHD, WORKDIR = pathlib.Path(os.environ["LACQUER_JUDGED"]), os.environ["LACQUER_WORKDIR"]
VCL = 'vcl 4.1;\nbackend none none;\nsub vcl_recv { return (synth(200)); }\n'
LIMIT = 30  # seconds for the start, and for the end


def arguments():
    p = argparse.ArgumentParser(allow_abbrev=False)
    p.add_argument("--config", type=pathlib.Path)
    p.add_argument("--test", action="store_true")
    p.add_argument("--frontend", action="append", default=[])
    for name in ("pidfile", "dbg-listen"):
        p.add_argument(f"--{name}", type=pathlib.Path)
    for name in ("backend", "log-filename", "user"):
        p.add_argument(f"--{name}")
    p.add_argument("--daemon", action="store_true")
    p.add_argument("pems", nargs="*")
    return p.parse_args()


def configuration(o):
    """The file, with what the command line adds to it."""
    text = o.config.read_text() if o.config else ""
    lines = [f'frontend = "{frontend}"' for frontend in o.frontend] + [f'pem-file = "{pem}"' for pem in o.pems]
    made = pathlib.Path("stand_in.conf").absolute()
    made.write_text("\n".join([text, *lines]) + "\n")
    return made


def admin(*words):
    return subprocess.run([VARNISHD.parent / "varnishadm", "-n", WORKDIR, *words], capture_output=True, text=True, check=False)


def served(o, started, log):
    """Runs the server until SIGTERM; `started` gets a byte when it serves."""
    command = [VARNISHD, "-A", configuration(o), "-f", os.path.abspath("stand_in.vcl"), "-n", WORKDIR, "-j", "none"]
    if subprocess.run(command + ["-P", os.path.abspath("stand_in.number")], stdout=log, stderr=log, timeout=LIMIT, check=False).returncode:
        os.write(started, b"-")
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGHUP})
    o.pidfile.write_text(f"{os.getpid()}\n")
    number = int(pathlib.Path("stand_in.number").read_text())
    listening = [line.split()[1:] for line in admin("debug.listen_address").stdout.splitlines() if line.strip()]
    o.dbg_listen.write_text("".join(f"{host}:{port}\n" for host, port in listening if "." in host))
    os.write(started, b"+")
    os.close(started)
    while signal.sigwait({signal.SIGTERM, signal.SIGHUP}) == signal.SIGHUP:
        admin("tls.cert.reload")
    server = os.pidfd_open(number)
    signal.pidfd_send_signal(server, signal.SIGTERM)
    select.select([server], [], [], LIMIT)
    o.pidfile.unlink()


def main():
    o = arguments()
    if o.test:
        sys.exit(bool(subprocess.run([VARNISHD, "-C", "-A", configuration(o), "-b", "none"], stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL, check=False).returncode))
    pathlib.Path("stand_in.vcl").write_text(VCL)
    reads, writes = os.pipe()
    if os.fork():
        os.close(writes)
        sys.exit(os.read(reads, 1) != b"+")
    os.setsid()
    with open(o.log_filename or os.devnull, "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        served(o, writes, log)


if __name__ == "__main__":
    main()
