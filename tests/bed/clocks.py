# SPDX-License-Identifier: BSD-2-Clause
"""Checks of what a clock says: they hold on a quiet machine alone, so that suites leave them out unless tests/timing/clocks asks for them."""
OPTION = {"clocks": {"action": "store_true", "help": "check times, rates and percentiles as well: on a quiet machine, with the full build"}}
