# SPDX-License-Identifier: BSD-2-Clause
"""Servers of Python with an application that writes what it was asked.

usage: servers NAME PORT FILE
"""
import asyncio
import http.server
import json
import os
import sys

NAME, PORT, FILE = sys.argv[1], int(sys.argv[2]), sys.argv[3]
OUT = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def write(vxid, method, target, host, length):
    text = lambda value: value.decode("latin-1") if isinstance(value, bytes) else value
    os.write(OUT, json.dumps(dict(vxid=[text(v) for v in vxid], method=text(method), target=text(target), host=text(host or ""), length=length)).encode() + b"\n")


def wsgi(environ, start_response):
    source, length = environ["wsgi.input"], 0
    if environ.get("wsgi.input_terminated") or environ.get("HTTP_TRANSFER_ENCODING") or "CONTENT_LENGTH" in environ:
        left = None if environ.get("wsgi.input_terminated") or environ.get("HTTP_TRANSFER_ENCODING") else int(environ["CONTENT_LENGTH"] or 0)
        while (left is None or left > 0) and (data := source.read(min(left or 65536, 65536))):
            length += len(data)
            left = left and left - len(data)
    path = environ.get("PATH_INFO", "") + ("?" + environ["QUERY_STRING"] if environ.get("QUERY_STRING") else "")
    target = environ.get("RAW_URI") or environ.get("REQUEST_URI") or path
    write([environ["HTTP_X_VXID"]] if "HTTP_X_VXID" in environ else [], environ["REQUEST_METHOD"], target, environ.get("HTTP_HOST", ""), length)
    start_response("200 OK", [("Content-Length", "2"), ("Content-Type", "text/plain")])
    return [b"ok"]


async def asgi(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    if scope["type"] != "http":
        return
    length, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        length, more = length + len(message.get("body", b"")), message.get("more_body", False)
    of = lambda name: [v for n, v in scope["headers"] if n.lower() == name]
    query = b"?" + scope["query_string"] if scope["query_string"] else b""
    write(of(b"x-vxid"), scope["method"], (scope.get("raw_path") or scope["path"].encode()) + query, b",".join(of(b"host")), length)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2"), (b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": b"ok"})


class Stdlib(http.server.BaseHTTPRequestHandler):
    """The handler that most small servers copy: it reads a body by its Content-Length alone."""
    protocol_version = "HTTP/1.1"

    def handle_one(self):
        if self.headers.get("Transfer-Encoding"):
            self.close_connection = True
            self.send_error(411)
            return
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        write(self.headers.get_all("X-Vxid") or [], self.command, self.path, self.headers.get("Host"), len(body))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"ok")

    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.handle_one
        raise AttributeError(name)

    def log_message(self, *_):
        pass


def gunicorn():
    from gunicorn.app.base import BaseApplication

    class App(BaseApplication):
        def load_config(self):
            for key, value in dict(bind=f"127.0.0.1:{PORT}", workers=1, worker_class="gthread", threads=4, loglevel="critical", keepalive=10).items():
                self.cfg.set(key, value)

        def load(self):
            return wsgi
    App().run()


def waitress():
    import waitress
    waitress.serve(wsgi, listen=f"127.0.0.1:{PORT}", _quiet=True)


def cheroot():
    from cheroot.wsgi import Server
    Server(("127.0.0.1", PORT), wsgi).start()


def werkzeug():
    from werkzeug.serving import WSGIRequestHandler, run_simple
    WSGIRequestHandler.protocol_version = "HTTP/1.1"
    run_simple("127.0.0.1", PORT, wsgi, threaded=True)


def gevent():
    from gevent.pywsgi import WSGIServer
    WSGIServer(("127.0.0.1", PORT), wsgi, log=None).serve_forever()


def uvicorn(kind):
    import uvicorn
    uvicorn.run(asgi, host="127.0.0.1", port=PORT, http=kind, log_level="critical", lifespan="off")


def hypercorn():
    from hypercorn.asyncio import serve
    from hypercorn.config import Config
    config = Config()
    config.bind, config.loglevel = [f"127.0.0.1:{PORT}"], "CRITICAL"
    asyncio.run(serve(asgi, config))


def daphne():
    from daphne.server import Server
    Server(asgi, endpoints=[f"tcp:port={PORT}:interface=127.0.0.1"], signal_handlers=False, verbosity=0).run()


def granian():
    os.environ["PYTHONPATH"] = os.path.dirname(os.path.abspath(__file__))
    os.environ["GARDEN_ARGV"] = json.dumps(sys.argv)
    from granian import Granian
    Granian("asgi_app:app", address="127.0.0.1", port=PORT, interface="asginl", log_enabled=False).serve()


def aiohttp():
    from aiohttp import web

    async def handle(request):
        body = await request.read()
        write(request.headers.getall("X-Vxid", []), request.method, request.raw_path, request.headers.get("Host"), len(body))
        return web.Response(text="ok")

    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{tail:.*}", handle)
    web.run_app(app, host="127.0.0.1", port=PORT, print=None, access_log=None)


def tornado():
    from tornado.httpserver import HTTPServer
    from tornado.ioloop import IOLoop

    def handle(request):
        write(request.headers.get_list("X-Vxid"), request.method, request.uri, request.headers.get("Host"), len(request.body))
        from tornado.httputil import HTTPHeaders, ResponseStartLine
        request.connection.write_headers(ResponseStartLine("HTTP/1.1", 200, "OK"), HTTPHeaders({"Content-Length": "2"}), b"" if request.method == "HEAD" else b"ok")
        request.connection.finish()

    HTTPServer(handle).listen(PORT, "127.0.0.1")
    IOLoop.current().start()


def twisted():
    from twisted.internet import reactor
    from twisted.web.resource import Resource
    from twisted.web.server import Site

    class Page(Resource):
        isLeaf = True

        def render(self, request):
            of = lambda name: request.requestHeaders.getRawHeaders(name, [])
            write(of(b"x-vxid"), request.method, request.uri, b",".join(of(b"host")), len(request.content.read()))
            request.setHeader(b"Content-Length", b"2")
            return b"" if request.method == b"HEAD" else b"ok"

    reactor.listenTCP(PORT, Site(Page()), interface="127.0.0.1")
    reactor.run()


def stdlib():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Stdlib)
    server.serve_forever()


SERVERS = {"uvicorn-h11": lambda: uvicorn("h11"), "uvicorn-httptools": lambda: uvicorn("httptools"), "http.server": stdlib}

if __name__ == "__main__":
    SERVERS.get(NAME, globals().get(NAME))()
