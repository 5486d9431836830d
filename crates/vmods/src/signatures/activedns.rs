// SPDX-License-Identifier: BSD-2-Clause
//! vmod_activedns of Varnish Enterprise 6.

use tables::vmods::Default as D;
use tables::vmods::Type::*;
use tables::vmods::{Arg, Func, LeftOut, Module, Object};

/// vmod_activedns
pub(crate) const MODULE: Module = Module {
    left_out: LEFT_OUT,
    name: "activedns",
    text: "Names whose addresses become the backends of directors that subscribe (udo). The system's resolver is asked, off the threads \
           that serve: once while the first request waits, later when somebody needs a backend and ttl is over. It tells no TTLs, which \
           counts as a TTL of 0: for those the ttl that is set holds. It knows no SRV records",
    functions: &[Func::new(
        Void,
        "set_default_ttl",
        &[Arg::new(Duration, "ttl")],
        "The ttl of the groups made after it; 10 seconds at first",
    )],
    objects: &[Object {
        name: "dns_group",
        args: &[Arg::new(String, "host").or(D::Null)],
        text: "A name: HOST or HOST:PORT, port 80 when none is given; nothing is looked up before there is a name and a subscriber",
        methods: &[
            Func::new(String, "get_tag", &[], "What directors subscribe with"),
            Func::new(Void, "set_host", &[Arg::new(String, "host")], "The name: HOST or HOST:PORT"),
            Func::new(Void, "set_port", &[Arg::new(String, "port")], "The port of all backends, over one in the name"),
            Func::new(
                Void,
                "set_ttl",
                &[Arg::new(Duration, "ttl")],
                "How old addresses may be before they are looked up again",
            ),
            Func::new(
                Void,
                "set_ttl_rule",
                &[Arg::of("rule", &["abide", "force", "morethan", "lessthan"])],
                "Whether the DNS's TTL or the group's holds. As the resolver tells none, each rule gives the group's",
            ),
            Func::new(
                Void,
                "set_ipv_rule",
                &[Arg::of("rule", &["ipv4", "ipv6"])],
                "Only the addresses of one family count; both do at first",
            ),
            Func::new(
                Void,
                "set_update_rule",
                &[Arg::of("rule", &["ignore_empty"])],
                "A lookup that finds no address that counts changes nothing. One that fails never does",
            ),
            Func::new(
                Void,
                "set_backend_template",
                &[Arg::new(Backend, "backend")],
                "The backends have all that this one says, but for its addresses. Their Host is its .host_header, else the name",
            ),
            Func::new(
                Void,
                "set_probe_template",
                &[Arg::new(Probe, "probe")],
                "The backends' probe, over the template's",
            ),
            Func::new(
                Void,
                "refresh",
                &[Arg::of("what", &["host", "cache", "info"])],
                "The name is looked up again when somebody needs a backend next",
            ),
        ],
    }],
};

/// What isn't built.
pub(crate) const LEFT_OUT: &[LeftOut] =
    &[LeftOut("activedns.dns_group.set_port_rule", "nothing: SRV records aren't looked up, so set_port's port holds")];
