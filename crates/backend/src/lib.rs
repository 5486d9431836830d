// SPDX-License-Identifier: BSD-2-Clause
//! Backends: endpoints, pools, probes, directors, health.
