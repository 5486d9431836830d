# SPDX-License-Identifier: BSD-2-Clause
"""A network of one's own: loopback, and packets that nftables drops on their way up from it."""
import ctypes
import json
import os
import shutil
import subprocess
import threading

CLONE_NEWNET = 0x40000000


def run_in_namespace(work):
    """Starts a thread which has a network namespace of its own, that ends with it: sockets that it makes and programs that it starts
    are in there. Gives a function that waits for the end of `work()`, and gives its result, or what it raised."""
    done = {}

    def body():
        try:
            if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "unshare")
            subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
            done["value"] = work()
        except BaseException as error:  # whatever it is, the one who waits is to see it
            done["error"] = error

    thread = threading.Thread(target=body)
    thread.start()

    def wait():
        thread.join()
        if "error" in done:
            raise done["error"]
        return done["value"]
    return wait


def why_not():
    """What is missing for namespaces with nftables, if anything is."""
    for program in ("ip", "nft"):
        if not shutil.which(program):
            return f"{program} is not here"
    return "" if os.geteuid() == 0 else "needs root"


def sysctl(name, value):
    """Sets one of the namespace's."""
    with open(f"/proc/sys/{name}", "w") as f:
        f.write(str(value))


class Drop:
    """Drops the packets that `match` names, on their way up from loopback: who sent them doesn't notice. `match` ends with what is to be
    drawn of them: `numgen inc mod 2 == 0` is each second."""

    TABLE = """
table inet bed {
    counter dropped { }
    set ports { type inet_service; flags dynamic; size 65535; }
    chain in {
        type filter hook input priority 0;
        %s add @ports { tcp %s } counter name dropped drop
    }
}
"""

    def __init__(self, match, port_of="sport"):
        subprocess.run(["nft", "-f", "-"], input=self.TABLE % (match, port_of), text=True, check=True)

    def _list(self, *what):
        out = subprocess.run(["nft", "-j", "list", *what], capture_output=True, text=True, check=True).stdout
        return json.loads(out)["nftables"]

    def packets(self):
        """How many were dropped."""
        return next(o["counter"]["packets"] for o in self._list("counter", "inet", "bed", "dropped") if "counter" in o)

    def ports(self):
        """Of how many connections."""
        return len(next(o["set"] for o in self._list("set", "inet", "bed", "ports") if "set" in o).get("elem", []))

    def end(self):
        """Lets all pass from now on; what was counted stays."""
        subprocess.run(["nft", "flush", "chain", "inet", "bed", "in"], check=True)
