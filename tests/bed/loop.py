# SPDX-License-Identifier: BSD-2-Clause
"""Block devices on files, and file systems on these that stand still when a test says so. Needs root."""
import contextlib
import os
import shutil
import subprocess

from .report import until


def has_loops():
    """Whether file systems may be mounted here."""
    if os.geteuid() != 0 or not all(map(shutil.which, ("losetup", "mkfs.ext4", "fsfreeze", "mount"))):
        return False
    return subprocess.run(["losetup", "-f"], capture_output=True).returncode == 0


class Loop:
    """A block device on a file; or a file system on that."""

    def __init__(self, backing, size=None):
        if size:
            with open(backing, "wb") as f:
                f.truncate(size)
        self.device = subprocess.run(["losetup", "-f", "--show", str(backing)], capture_output=True, text=True, check=True).stdout.strip()
        self.mounted = None

    def mount(self, at):
        at.mkdir()
        subprocess.run(["mkfs.ext4", "-q", self.device], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run(["mount", self.device, str(at)], check=True)
        self.mounted = at

    @contextlib.contextmanager
    def frozen(self):
        """Nothing can be written to the file system meanwhile: who tries waits."""
        subprocess.run(["fsfreeze", "-f", str(self.mounted)], check=True)
        try:
            yield
        finally:
            subprocess.run(["fsfreeze", "-u", str(self.mounted)], check=True)

    def close(self):
        if self.mounted:
            until(60, lambda: subprocess.run(["umount", str(self.mounted)], stderr=subprocess.DEVNULL).returncode == 0)
        subprocess.run(["losetup", "-d", self.device], check=False)
