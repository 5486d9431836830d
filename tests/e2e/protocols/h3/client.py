# SPDX-License-Identifier: BSD-2-Clause
"""A client of HTTP/3 over aioquic, and a way to it that loses, delays and turns round datagrams."""
import asyncio
import contextlib
import random
import ssl

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset

LIMIT = 60  # seconds; it only ends what hangs


class Response:
    """What came of a request."""

    def __init__(self, h3):
        self.fields, self.trailers, self.body, self.h3, self.done = None, None, b"", h3, asyncio.get_running_loop().create_future()
        self.began = asyncio.get_running_loop().create_future()

    def take(self, event):
        if isinstance(event, HeadersReceived):
            fields = {name.decode(): value.decode() for name, value in event.headers}
            if self.fields is None:
                self.fields = fields
                self.began.set_result(None)
            else:
                self.trailers = fields
        else:
            self.body += event.data
        if event.stream_ended and not self.done.done():
            self.done.set_result(self)

    @property
    def status(self):
        return int(self.fields[":status"])


class Client(QuicConnectionProtocol):
    """A connection."""

    def __init__(self, *args, **kw):
        super().__init__(*args, **kw)
        self.h3, self.open, self.ended = H3Connection(self._quic), {}, None
        self.was_reset = asyncio.get_running_loop().create_future()

    def datagram_received(self, data, addr):
        # aioquic itself hears no stateless reset (RFC 9000 10.3.1).
        known = [self._quic._peer_cid, *self._quic._peer_cid_available]
        if not self.was_reset.done() and data[-16:] in [cid.stateless_reset_token for cid in known if cid.stateless_reset_token]:
            self.was_reset.set_result(None)
        super().datagram_received(data, addr)

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.ended = event
            for response in self.open.values():
                for future in (response.done, response.began):
                    if not future.done():
                        future.set_exception(ConnectionError(str(event)))
                        future.exception()
        if isinstance(event, StreamReset) and event.stream_id in self.open:
            response = self.open[event.stream_id]
            for future in (response.done, response.began):
                if not future.done():
                    future.set_exception(ConnectionError(f"stream reset: {event.error_code:#x}"))
                    future.exception()
        for h3_event in self.h3.handle_event(event):
            if isinstance(h3_event, (HeadersReceived, DataReceived)):
                self.open[h3_event.stream_id].take(h3_event)

    def send(self, path, method="GET", body=None, more=()):
        """Begins a request."""
        stream = self._quic.get_next_available_stream_id()
        self.open[stream] = response = Response(self.h3)
        fields = [(":method", method), (":scheme", "https"), (":authority", "bed.test"), (":path", path), *more]
        self.h3.send_headers(stream, [(name.encode(), value.encode()) for name, value in fields], end_stream=body is None)
        if body is not None:
            self.h3.send_data(stream, body, end_stream=True)
        self.transmit()
        return response

    async def get(self, path, **kw):
        return await asyncio.wait_for(asyncio.shield(self.send(path, **kw).done), LIMIT)

    async def over(self):
        """Waits for the connection's end."""
        await asyncio.wait_for(self.wait_closed(), LIMIT)
        return self.ended


def configuration(**kw):
    made = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, server_name="bed.test", **kw)
    made.verify_mode = ssl.CERT_NONE
    return made


@contextlib.asynccontextmanager
async def client(address, session_ticket_handler=None, wait_connected=True, **kw):
    async with connect(*address, configuration=configuration(**kw), create_protocol=Client, session_ticket_handler=session_ticket_handler,
                       wait_connected=wait_connected) as one:
        yield one


class Path(asyncio.DatagramProtocol):
    """Stands between a client and a server. Of a hundred datagrams `lost` are lost, as many come twice, as many come late,
    behind others; and beside `forged` comes one that the sender never sent."""

    def __init__(self, server, dice, lost=0, delay=0.0, forged=0):
        self.server, self.dice, self.lost, self.delay, self.forged, self.clients = server, dice, lost, delay, forged, {}

    @classmethod
    @contextlib.asynccontextmanager
    async def open(cls, server, seed, **kw):
        loop = asyncio.get_running_loop()
        transport, path = await loop.create_datagram_endpoint(lambda: cls(server, random.Random(seed), **kw), local_addr=("127.0.0.1", 0))
        path.transport, path.address = transport, transport.get_extra_info("sockname")
        try:
            yield path
        finally:
            transport.close()
            for behind in path.clients.values():
                behind.close()

    def datagram_received(self, data, client):
        asyncio.ensure_future(self.pass_on(data, client))

    async def pass_on(self, data, client):
        if client not in self.clients:
            self.clients[client] = await self.behind(client)
        self.later(data, lambda data: self.clients[client].sendto(data))

    async def behind(self, client):
        loop = asyncio.get_running_loop()
        path = self

        class Behind(asyncio.DatagramProtocol):
            def datagram_received(self, data, _):
                path.later(data, lambda data: path.transport.sendto(data, client))
        return (await loop.create_datagram_endpoint(Behind, remote_addr=self.server))[0]

    async def move(self):
        """Clients come from other ports from now on."""
        for client, old in list(self.clients.items()):
            self.clients[client] = await self.behind(client)
            old.close()

    def later(self, data, send):
        def arrives(data):
            if not self.transport.is_closing():
                send(data)
        copies = [data] * (2 if self.dice.randrange(100) < self.lost else 1)
        if self.dice.randrange(100) < self.forged:
            # An octet is another one, or all behind the first ones are: the header stays.
            at = self.dice.randrange(len(data))
            copies.append(self.dice.choice((data[:at] + bytes([data[at] ^ 1]) + data[at + 1:], data[:20] + self.dice.randbytes(60))))
        for copy in copies:
            if self.dice.randrange(100) >= self.lost:
                late = 2 if self.dice.randrange(100) < self.lost else 1
                asyncio.get_running_loop().call_later(self.delay * late, arrives, copy)
