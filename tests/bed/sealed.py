# SPDX-License-Identifier: BSD-2-Clause
"""Both ends of TLS in Python's `ssl`: an origin, and the strict client of `http` over it."""
import socket
import ssl

from .http import LIMIT, Client, Response
from .origin import Origin

VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def server_context(leaf, clients=None, is_required=True, versions=("1.2", "1.3")):
    """For an end that shows `leaf`; `clients` is a file with authorities whose certificates it asks clients for."""
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    c.load_cert_chain(leaf.chain, leaf.key)
    c.minimum_version, c.maximum_version = VERSIONS[versions[0]], VERSIONS[versions[-1]]
    if clients:
        c.load_verify_locations(clients)
        c.verify_mode = ssl.CERT_REQUIRED if is_required else ssl.CERT_OPTIONAL
    return c


def client_context(authority=None, leaf=None, versions=("1.2", "1.3"), alpn=(), ciphers=None):
    """For an end that believes the file `authority` alone (None: everybody) and shows `leaf` when asked."""
    c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if authority:
        c.load_verify_locations(authority)
    else:
        c.check_hostname, c.verify_mode = False, ssl.CERT_NONE
    if leaf:
        c.load_cert_chain(leaf.chain, leaf.key)
    c.minimum_version, c.maximum_version = VERSIONS[versions[0]], VERSIONS[versions[-1]]
    if alpn:
        c.set_alpn_protocols(list(alpn))
    if ciphers:
        c.set_ciphers(ciphers)
    return c


class SealedOrigin(Origin):
    """An Origin over TLS. `names` are the server names that came, None where there was none; `resumed` counts; `failures` says why
    handshakes failed; `peers` are the clients' certificates as `getpeercert` tells them. With `ends_in_order` off, connections that
    `serve` has ended are closed without close_notify."""

    def __init__(self, serve, context, ends_in_order=True, **more):
        self.context, self.ends_in_order = context, ends_in_order
        self.names, self.failures, self.peers, self.resumed, self.handshakes = [], [], [], 0, 0
        self.sealed_serve = serve
        context.sni_callback = lambda _sock, name, _context: self.names.append(name)
        super().__init__(self._handshake, **more)

    def _handshake(self, plain):
        try:
            s = self.context.wrap_socket(plain, server_side=True, suppress_ragged_eofs=False)
        except (OSError, ssl.SSLError) as e:
            self.failures.append(str(e))
            return
        # The descriptor is now that of `s`: close() of the origin has to find it, too.
        with self.lock:
            self.open.add(s)
            self.handshakes += 1
            self.resumed += bool(s.session_reused)
            self.peers.append(s.getpeercert())
        try:
            self.sealed_serve(s)
            if self.ends_in_order:
                s.unwrap()
        finally:
            with self.lock:
                self.open.discard(s)
            socket.socket.close(s)


class SealedClient(Client):
    """`Client` over TLS: `name` is the server name (None: none is sent), `session` one to resume. `was_cut` after an end without
    close_notify."""

    def __init__(self, address, context, name="bed.test", timeout=LIMIT, session=None, keep=True, rcvbuf=None):
        super().__init__(address, timeout, keep, rcvbuf)
        self.was_cut = False
        # Else what follows the handshake's last message waits until that is acknowledged.
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self.sock = context.wrap_socket(self.sock, server_hostname=name, session=session, suppress_ragged_eofs=False)
        except BaseException:
            self.sock.close()
            raise

    def _more(self):
        try:
            return super()._more()
        except ssl.SSLEOFError:
            self.was_cut = True
            return False

    def subject(self):
        """The common name of the server's certificate; only where it is verified."""
        return next(value for part in self.sock.getpeercert()["subject"] for key, value in part if key == "commonName")


def sealed_get(address, path, context, name="bed.test", timeout=LIMIT, fields=(), **kw):
    """One request on a connection of its own."""
    try:
        with SealedClient(address, context, name, timeout) as c:
            return c.request(path, fields, **kw)
    except OSError as e:
        return Response(reason=str(e))
