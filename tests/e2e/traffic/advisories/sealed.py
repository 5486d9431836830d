# SPDX-License-Identifier: BSD-2-Clause
"""TLS over TCP: ClientHellos in pieces, of odd lengths, and alerts in their middle."""
import socket
import ssl

from bed.sealed import SealedClient, client_context
from requests import origin  # pylint: disable=unused-import  # for the runner

LIMIT = 60  # seconds; it only ends what hangs
ALERT, HANDSHAKE = 21, 22


def hello():
    """The octets of a ClientHello's handshake message, without its record."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        client_context().wrap_bio(incoming, outgoing, server_hostname="bed.test").do_handshake()
    except ssl.SSLWantReadError:
        pass
    return outgoing.read()[5:]


def record(kind, octets):
    return bytes([kind, 3, 3]) + len(octets).to_bytes(2, "big") + octets


def answer(bed, octets, ends):
    """Sends the octets and, if it `ends`, that there are no more; the first octets that came."""
    with socket.create_connection(bed.tls, LIMIT) as s:
        try:
            s.sendall(octets)
            if ends:
                s.shutdown(socket.SHUT_WR)
            return s.recv(65536)
        except ConnectionError:
            return b""


def kind_of(got):
    return {b"": "closed", bytes([ALERT]): "alert", bytes([HANDSHAKE]): "handshake"}.get(got[:1], repr(got[:20]))


def sends(octets, *kinds):
    """A ClientHello that is whole waits for its answer: the server may take the end of the client's half for the end of the client."""
    def act(bed, name):
        got = kind_of(answer(bed, octets(), ends="closed" in kinds))
        bed.check(name, got in kinds, f"{got} instead of {kinds}")
        with SealedClient(bed.tls, client_context()) as client:
            bed.check(name, client.request("/own").whole(), "an honest client over TLS")
    return act


def in_pieces(size):
    def octets():
        message = hello()
        return b"".join(record(HANDSHAKE, message[at:at + size]) for at in range(0, len(message), size))
    return octets


CLOSE = record(ALERT, b"\1\0")
ROWS = {
    "CVE-2024-11738 a ClientHello of one octet a record": sends(in_pieces(1), "handshake", "alert"),
    "CVE-2024-11738 a ClientHello in two records": sends(in_pieces(100), "handshake"),
    "CVE-2024-11738 an empty record before it": sends(lambda: record(HANDSHAKE, b"") + in_pieces(16384)(), "alert", "closed"),
    "CVE-2024-32650 close_notify in the middle": sends(lambda: in_pieces(16384)()[:50] + CLOSE, "alert", "closed"),
    "CVE-2024-32650 close_notify behind it": sends(lambda: in_pieces(16384)() + CLOSE, "handshake", "alert", "closed"),
    "a ClientHello of 16 MB": sends(lambda: record(HANDSHAKE, b"\1\xff\xff\xff" + bytes(16000)) + record(HANDSHAKE, bytes(16000)) * 20, "alert", "closed"),
    "10,000 empty records": sends(lambda: record(HANDSHAKE, b"") * 10_000, "alert", "closed"),
}
