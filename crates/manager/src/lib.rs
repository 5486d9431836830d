// SPDX-License-Identifier: BSD-2-Clause
//! The manager process: arguments, sockets, CLI, parameters, VCL sources, the worker's life. Never touches traffic.
