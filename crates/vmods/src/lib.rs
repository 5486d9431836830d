// SPDX-License-Identifier: BSD-2-Clause
//! The modules of the distribution, one file each, registered against tables.
