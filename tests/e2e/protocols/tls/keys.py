# SPDX-License-Identifier: BSD-2-Clause
"""Keys of tickets that several servers share, sessions that outlive a worker, and private keys that are nowhere but in memory."""
import base64
import os
import pathlib
import re
import resource
import signal

from bed.report import until
from bed.sealed import SealedClient, client_context, sealed_get
from served import Ours, log_text

VERSIONS = ("1.2", "1.3")


def ticket_key():
    """A line of a file of ticket keys, as HAProxy has them, too."""
    return base64.b64encode(os.urandom(80)).decode() + "\n"


def session_of(served, version):
    context = client_context(versions=(version, version))
    with SealedClient(served.sealed, context, "bed.test") as c:
        c.request("/1")
        return context, c.sock.session


def is_resumed(served, context, session):
    with SealedClient(served.sealed, context, "bed.test", session=session) as c:
        return c.sock.session_reused and c.request("/1").whole()


def fleet(report, bed):
    """Two servers with one file: the tickets of one are good at the other. A third without it asks for a whole handshake."""
    shared = bed.files / "ticket-keys"
    shared.write_text(ticket_key())
    os.chmod(shared, 0o600)
    more = f'ticket-keys-file = "{shared}"\n'

    def another():
        return Ours(bed.program, bed.made.served, more, ["-p", "tls_watch=0.1"], backend=bed.origin)
    with another() as one, another() as two:
        for version in VERSIONS:
            context, session = session_of(one, version)
            report.check(is_resumed(two, context, session), f"TLS {version}: another server with the same keys doesn't resume")
            report.check(not is_resumed(bed.served, context, session), f"TLS {version}: a server with other keys resumes")
        # The next key comes, what was sealed with the last is still opened; then that goes, too.
        kept = {version: session_of(one, version) for version in VERSIONS}
        newest = ticket_key()
        shared.write_text(newest + shared.read_text())
        one.cli.ask("tls.cert.reload")
        for version in VERSIONS:
            report.check(is_resumed(one, *kept[version]), f"TLS {version}: a ticket of the key before isn't taken")
        # A server that has the new key alone says when tickets are sealed with it.
        shared.write_text(newest)
        with another() as third:
            for version in VERSIONS:
                report.check(until(60, lambda: is_resumed(third, *session_of(one, version))), f"TLS {version}: tickets aren't sealed with the key that came first")
        newer = {version: session_of(one, version) for version in VERSIONS}
        one.cli.ask("tls.cert.reload")
        for version in VERSIONS:
            report.check(until(60, lambda: not is_resumed(one, *kept[version])), f"TLS {version}: a ticket of a key that is gone is taken")
            report.check(is_resumed(one, *newer[version]), f"TLS {version}: a ticket of the new key isn't taken")


def worker_dies(report, bed):
    """Certificates and sessions outlive the worker."""
    sessions = {version: session_of(bed.served, version) for version in VERSIONS}
    os.kill(bed.served.worker(), signal.SIGKILL)
    context = client_context(bed.made.root.root)
    back = until(60, lambda: sealed_get(bed.served.sealed, "/1", context, timeout=60).whole())
    report.check(back, "no TLS after the worker's death")
    for version, (context, session) in sessions.items():
        report.check(back and is_resumed(bed.served, context, session), f"TLS {version}: the session is gone with the worker")


def files_of(served):
    """What is in the working directory; what goes meanwhile, as a worker's counters do after its end, isn't there."""
    files = {}
    for folder, _, names in os.walk(served.n):
        for name in names:
            path = pathlib.Path(folder) / name
            try:
                if path.is_file():
                    files[str(path)] = path.read_bytes()
            except OSError:
                continue
    return files


def private(report, bed):
    """No private key in the working directory, in the log, or in what the CLI tells; the worker leaves no readable memory to its user."""
    secrets = [secret_part("".join(leaf.key.read_text().splitlines()[1:-1])) for leaf in bed.made.served]
    raw = raw_secrets(bed.made.served)
    places = files_of(bed.served)
    places["the log"] = log_text(bed.served).encode()
    places |= {line: bed.served.cli.ask(line).encode() for line in ("tls.cert.list", "tls.cert.list -j", "panic.show", "status") if line != "panic.show"}
    for place, octets in places.items():
        found = [n for n, (text, secret) in enumerate(zip(secrets, raw)) if text.encode() in octets or secret[:16] in octets]
        report.check(not found, f"{place} holds a private key")
    flags = {line.split(":")[0]: line for line in pathlib.Path(f"/proc/{bed.served.worker()}/status").read_text().splitlines()}
    report.check("CoreDumping" not in flags or flags["CoreDumping"].split()[1] == "0", "a core is being written")


def panics(report, bed):
    """What is left of a worker that panicked (report, log, files) has no key, and no core is written, whatever the limits allow."""
    if os.geteuid() == 0:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY,) * 2)  # what starts from here on might
    with Ours(bed.program, bed.made.served, args=["-p", "feature=-no_coredump"], backend=bed.origin) as served:
        report.check(sealed_get(served.sealed, "/1", client_context(bed.made.root.root), "rsa.test").whole(), "an answer before")
        worker = served.worker()
        limits = pathlib.Path(f"/proc/{worker}/limits").read_text()
        report.check(re.search(r"Max core file size +0 +0 ", limits), f"a core could be written: {limits}")
        served.cli.ask_raw("debug.panic.worker")
        told = until(60, lambda: served.cli.ask_raw("panic.show")[0] == 200)
        report.check(told and until(60, lambda: sealed_get(served.sealed, "/1", client_context(bed.made.root.root), timeout=60).whole()), "a report, and another worker")
        places = files_of(served)
        report.check(not [path for path in places if "core" in pathlib.Path(path).name], f"a core: {sorted(places)}")
        places |= {"panic.show": served.cli.ask("panic.show").encode(), "the log": log_text(served).encode(), "standard error": served.log().encode()}
        for place, octets in places.items():
            for leaf, raw in zip(bed.made.served, raw_secrets(bed.made.served)):
                found = secret_part("".join(leaf.key.read_text().splitlines()[1:-1])).encode() in octets or raw[:16] in octets or raw[:16].hex().encode() in octets
                report.check(not found, f"{place} holds a private key")


def signer(report, bed):
    """With tls_signer the worker has no key and serves as before; the signer may die, and ends with its worker."""
    def named(name):
        return [pid for pid in served.pids() if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(name)]

    def answers():
        for name in ("bed.test", "rsa.test", "p384.test"):
            for version in VERSIONS:
                r = sealed_get(served.sealed, "/1", client_context(bed.made.root.root, versions=(version, version)), name)
                if not r.whole():
                    return f"{name}, TLS {version}: {r.reason}"
        return "all"
    with Ours(bed.program, bed.made.served, args=["-p", "tls_signer=on"], backend=bed.origin) as served:
        report.check((got := answers()) == "all", f"with a signer: {got}")
        signers = named(b"lacquer-signer")
        report.check(len(signers) == 1, f"signers: {signers}")
        octets = [raw[:16] for raw in raw_secrets(bed.made.served)]
        report.check(all(any(octet in part for part in memory(signers[0])) for octet in octets), "the signer's memory has the keys, where they can be seen")
        held = [n for n, octet in enumerate(octets) if any(octet in part for part in memory(served.worker()))]
        report.check(not held, f"the worker's memory has the keys of certificates {held}")
        worker = served.worker()
        os.kill(signers[0], signal.SIGKILL)
        report.check(until(60, lambda: answers() == "all"), f"after the signer's death: {answers()}")
        report.check(served.worker() == worker and named(b"lacquer-signer") not in ([], signers), "another signer, and the same worker")
        served.cli.ask("tls.cert.reload")
        report.check((got := answers()) == "all", f"after tls.cert.reload: {got}")
        before = named(b"lacquer-signer")
        status, text = served.cli.ask_raw("upgrade")
        report.check(status == 200 and (got := answers()) == "all", f"after an upgrade: {status} {text} {got}")
        left = until(60, lambda: len(named(b"lacquer-signer")) == 1 and named(b"lacquer-signer") != before)
        report.check(left, f"the signer of before ends with its worker: {before} {named(b'lacquer-signer')}")
        os.kill(served.worker(), signal.SIGKILL)
        report.check(until(60, lambda: answers() == "all"), f"after the worker's death: {answers()}")
        report.check(until(60, lambda: len(named(b"lacquer-signer")) == 1), f"one signer: {named(b'lacquer-signer')}")


def raw_secrets(leaves):
    secrets = [secret_part("".join(leaf.key.read_text().splitlines()[1:-1])) for leaf in leaves]
    return [base64.b64decode(secret + "=" * (-len(secret) % 4)) for secret in secrets]


def memory(pid):
    """All that a process has in memory, piece by piece; for root."""
    with open(f"/proc/{pid}/mem", "rb", 0) as mem:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            (begin, end), rights = (int(x, 16) for x in line.split()[0].split("-")), line.split()[1]
            if "r" not in rights or "[v" in line or end - begin > 1 << 28:
                continue
            try:
                mem.seek(begin)
                yield mem.read(end - begin)
            except OSError:
                continue


def secret_part(text):
    """Of a key's base64 some that is in no certificate: of an elliptic curve's the scalar, of an RSA key's the end."""
    return text[52:84] if len(text) < 600 else text[-60:-28]


def lists(report, bed):
    """What tls.cert.list says: each certificate with its subject, one a line."""
    text = bed.served.cli.ask("tls.cert.list")
    for leaf, subject in zip(bed.made.served, ("rsa.test", "p384.test", "*.wild.test", "bed.test")):
        report.check(re.search(rf"active.*{re.escape(subject)}", text), f"tls.cert.list doesn't show {subject}: {text!r}")


CASES = {check.__name__.replace("_", " "): check for check in (fleet, lists, panics, private, signer, worker_dies)}
