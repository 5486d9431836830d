# SPDX-License-Identifier: BSD-2-Clause
"""Calls to the system that fail one at a time, in the real program: `sites.c` is preloaded, notes each site that the program
passes, and lets the n-th call of one fail. A site is a text: the thread's name, the call, the file."""
import collections
import os
import pathlib
import struct

HEAD = struct.Struct("<IIQQQQ240s")
NOTES = 4 << 20
SOURCE = pathlib.Path(__file__).resolve().with_name("sites.c")


class Sites:
    """What one server's processes share with the test; `env` is for the server."""

    def __init__(self, lib, home):
        self.control = pathlib.Path(home) / "sites"
        with open(self.control, "wb") as file:
            file.truncate(HEAD.size + NOTES)
        os.chmod(self.control, 0o666)
        self.env = {**os.environ, "LD_PRELOAD": str(lib), "SITES": str(self.control), "SITES_HOME": str(home)}

    def watch(self, site="", which=0, error=0):
        """Notes sites from now on; the n-th call of `site` fails with that error."""
        with open(self.control, "r+b", buffering=0) as file:
            file.write(HEAD.pack(0, error, which, 0, 0, 0, site.encode()))
            file.seek(0)
            file.write(struct.pack("<I", 1))

    def off(self):
        with open(self.control, "r+b", buffering=0) as file:
            file.write(struct.pack("<I", 0))

    def met(self):
        return HEAD.unpack(self.control.read_bytes()[:HEAD.size])[4] > 0

    def noted(self):
        """Each site that was passed, with how often."""
        text = self.control.read_bytes()
        length = HEAD.unpack(text[:HEAD.size])[5]
        return collections.Counter(text[HEAD.size:HEAD.size + min(length, NOTES)].decode(errors="replace").splitlines())
