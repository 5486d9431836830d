# SPDX-License-Identifier: BSD-2-Clause
"""The application of `servers`, for a server that imports it by name."""
import json
import os
import sys

sys.argv = json.loads(os.environ["GARDEN_ARGV"])

from servers import asgi as app  # noqa: E402,F401
