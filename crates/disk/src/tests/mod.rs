// SPDX-License-Identifier: BSD-2-Clause
//! The store as a whole, on a device that fails, forgets and cuts the power as it is told.

mod bed;
mod bodies;
mod damage;
mod faults;
mod grow;
mod handover;
mod home;
mod power;
mod real;
mod simulated;
mod sites;
mod store;
