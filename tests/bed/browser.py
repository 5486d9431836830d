# SPDX-License-Identifier: BSD-2-Clause
"""A headless Chromium, driven by its DevTools protocol over a WebSocket of our own."""
import base64
import json
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import tempfile
import threading

from .daemon import die_with_parent
from .process import Process
from .report import until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
START_LIMIT = CALL_LIMIT = 180  # seconds; ends a wait for what never comes


class WebSocket:
    """The client's end of RFC 6455, as far as DevTools needs it: text frames, whole or in pieces."""

    def __init__(self, host, port, path):
        self.s = socket.create_connection((host, port), CALL_LIMIT)
        key = base64.b64encode(os.urandom(16)).decode()
        self.s.sendall(f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                       f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode())
        self.file = self.s.makefile("rb")
        if b" 101 " not in self.file.readline():
            raise OSError("no WebSocket")
        while self.file.readline() not in (b"\r\n", b""):
            pass
        self.s.settimeout(None)

    def send(self, text):
        data = text.encode()
        head = bytes([0x81]) + (bytes([0x80 | len(data)]) if len(data) < 126 else bytes([0x80 | 126]) + struct.pack("!H", len(data))
                                if len(data) < 65536 else bytes([0x80 | 127]) + struct.pack("!Q", len(data)))
        self.s.sendall(head + b"\0\0\0\0" + data)

    def receive(self):
        """The next message; None at the end."""
        whole = b""
        while True:
            head = self.file.read(2)
            if len(head) < 2:
                return None
            length = head[1] & 0x7F
            if length >= 126:
                length = int.from_bytes(self.file.read(2 if length == 126 else 8), "big")
            whole += self.file.read(length)
            if head[0] & 0x0F == 8:
                return None
            if head[0] & 0x80:
                return whole.decode(errors="replace")

    def close(self):
        try:
            self.s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.s.close()


class Browser(Process):
    """One browser with one page. `errors` are lines of its console that are errors, `asked` the addresses it has loaded from."""

    def __init__(self, width=1280, height=900):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="lacquer-browser."))
        self.proc = subprocess.Popen(
            [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions", "--disable-sync",
             "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-dev-shm-usage",
             "--no-proxy-server", "--remote-debugging-port=0", f"--user-data-dir={self.dir}", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=die_with_parent,
            env={**os.environ, "TMPDIR": str(self.dir)})  # it leaves files in its temporary directory
        try:
            self._connect()
            self.size(width, height)
        except BaseException:
            self.close()
            raise

    def _connect(self):
        active = self.dir / "DevToolsActivePort"
        if not until(START_LIMIT, lambda: active.exists() and len(active.read_text().splitlines()) == 2):
            raise SystemExit("chromium did not start")
        self.port = int(active.read_text().splitlines()[0])
        target = next(t for t in self._targets() if t["type"] == "page")
        self.socket = WebSocket("127.0.0.1", self.port, "/" + target["webSocketDebuggerUrl"].split("/", 3)[3])
        self.errors, self.asked, self.answers, self.number = [], [], {}, 0
        self.arrived = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def _targets(self):
        with socket.create_connection(("127.0.0.1", self.port), CALL_LIMIT) as s:
            s.sendall(b"GET /json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            s.settimeout(CALL_LIMIT)
            whole = b""
            while b"\r\n\r\n" not in whole:
                whole += s.recv(65536)
            head, body = whole.split(b"\r\n\r\n", 1)
            length = int(next(line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")))
            while len(body) < length:
                body += s.recv(65536)
            return json.loads(body)

    def _read(self):
        while (text := self.socket.receive()) is not None:
            message = json.loads(text)
            method, params = message.get("method"), message.get("params", {})
            if method == "Runtime.exceptionThrown":
                self.errors.append(json.dumps(params["exceptionDetails"])[:500])
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
                self.errors.append(json.dumps(params["args"])[:500])
            elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
                self.errors.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))
            elif method == "Network.requestWillBeSent":
                self.asked.append(params["request"]["url"])
            with self.arrived:
                if "id" in message:
                    self.answers[message["id"]] = message
                self.arrived.notify_all()

    def call(self, method, **params):
        self.number += 1
        number = self.number
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        with self.arrived:
            if not self.arrived.wait_for(lambda: number in self.answers, CALL_LIMIT):
                raise OSError(f"{method}: no answer")
            answer = self.answers.pop(number)
        if "error" in answer:
            raise OSError(f"{method}: {answer['error']}")
        return answer["result"]

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def theme(self, name):
        """`light` or `dark`, as the system would prefer."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, url):
        self.call("Page.navigate", url=url)
        if not until(CALL_LIMIT, lambda: self.js("document.readyState") == "complete" and self.js("location.href").startswith(url)):
            raise OSError(f"{url}: not loaded")

    def js(self, expression):
        """The value of an expression; a promise is waited for."""
        got = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in got:
            raise OSError(f"{expression}: {json.dumps(got['exceptionDetails'])[:500]}")
        return got["result"].get("value")

    def key(self, key, text=None, times=1):
        """Presses a key, as a keyboard does."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowLeft": 37, "ArrowRight": 39, "Home": 36}
        text = text or {"Enter": "\r", " ": " "}.get(key)
        for _ in range(times):
            more = {"text": text} if text else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=codes.get(key, 0), **more)
            self.call("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=codes.get(key, 0))

    def type(self, text):
        self.call("Input.insertText", text=text)

    def picture(self, file):
        pathlib.Path(file).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        if hasattr(self, "socket"):
            self.socket.close()
        super().close()
