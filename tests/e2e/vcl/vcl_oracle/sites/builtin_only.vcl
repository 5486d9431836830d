# SPDX-License-Identifier: BSD-2-Clause
# Nothing but a backend: the built-in VCL alone.
vcl 4.1;

backend default { .host = "127.0.0.1"; .port = "80"; }
