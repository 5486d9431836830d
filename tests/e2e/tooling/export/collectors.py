# SPDX-License-Identifier: BSD-2-Clause
"""Receivers that the log is sent to: collectors of OTLP, and lines over TCP, unix sockets and datagrams."""
import http.server
import socket
import threading

import protobuf


class Collector:
    """OTLP over HTTP: keeps all spans. `status`: what it answers with."""

    def __init__(self, status=200):
        self.spans, self.heads, self.status, self.lock = [], [], status, threading.Lock()
        collector = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                with collector.lock:
                    collector.heads.append((self.path, dict(self.headers)))
                    if collector.status == 200:
                        collector.spans += protobuf.spans(body)
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


class Lines:
    """A receiver of lines on a stream socket."""

    def __init__(self, listener):
        self.lines, self.listener = [], listener
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection, connection.makefile("rb") as file:
                for line in file:
                    self.lines.append(line)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Who waits for a connection holds the socket open: it is woken.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def tcp():
    listener = socket.create_server(("127.0.0.1", 0))
    return Lines(listener), "tcp:127.0.0.1:%d" % listener.getsockname()[1]


def unix(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return Lines(listener), f"unix:{path}"


class Datagrams:
    """A receiver of datagrams over UDP."""

    def __init__(self):
        self.socket, self.got = socket.socket(socket.AF_INET, socket.SOCK_DGRAM), []
        self.socket.bind(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                self.got.append(self.socket.recv(1 << 16))
            except OSError:
                return

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
