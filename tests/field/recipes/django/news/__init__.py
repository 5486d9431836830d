# SPDX-License-Identifier: BSD-2-Clause
"""The application of the site."""
