// SPDX-License-Identifier: BSD-2-Clause
//! Facts about parameters, most of them what varnishd 7.1.1 answers.

use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn refused(name: &str, text: &str) -> String {
    let mut params = Params::default();
    let error = params.set(name, text).unwrap_err().to_string();
    assert_eq!(params, Params::default(), "a refused value changes nothing");
    error.lines().next().unwrap().to_owned()
}

fn shown(name: &str, text: &str) -> String {
    let mut params = Params::default();
    let spec = params.set(name, text).unwrap().spec;
    spec.value(&params).show(Compat::V7_1)
}

#[test]
fn the_defaults_are_as_shown() {
    for (spec, compat) in SPECS.iter().flat_map(|spec| Compat::ALL.map(|compat| (spec, compat))) {
        assert_eq!(spec.value(&Params::of(compat)).show(compat), spec.default(compat), "{}", spec.name);
        assert!(!spec.text.ends_with(char::is_whitespace) && spec.name.len() < 30, "{}", spec.name);
        assert_eq!(Params::default().reset(spec.name).is_err(), spec.has(Flag::NotAvailable));
    }
    assert_eq!(SPECS.iter().filter(|s| !s.has(Flag::Own)).count(), 109);
}

#[test]
fn the_release_is_handed_on_and_has_its_defaults() {
    let mut params = Params::of(Compat::V9);
    params.set("default_ttl", "7").unwrap();
    let lines = params.encode();
    assert!(lines.starts_with("compat=9\n"), "{lines}");
    assert_eq!(Params::decode(&lines).unwrap(), params);
    params.reset("cli_limit").unwrap();
    assert_eq!((params.cli_limit, Params::default().cli_limit), (64 << 10, 48 << 10));
    assert!(!Params::default().encode().contains("compat"));
    assert!(Params::decode("compat=8\n").unwrap_err().to_string().contains("7.1 or 9"));
}

#[test]
fn values() {
    assert_eq!(shown("default_ttl", "1.23456"), "1.235");
    assert_eq!(shown("default_ttl", "10s"), "10.000");
    assert_eq!(shown("max_restarts", "0x10"), "16");
    assert_eq!(shown("max_restarts", "unlimited"), "unlimited");
    assert_eq!(shown("cli_limit", "1.5k"), "1.50k");
    assert_eq!(shown("workspace_client", "9k"), "9k");
    assert_eq!(shown("acceptor_sleep_decay", "0.12345"), "0.123");
    assert_eq!(shown("feature", "+http2,-validate_headers"), "+http2,+https_scheme");
    assert_eq!(shown("feature", "none"), "none");
    assert_eq!(shown("feature", "-http2"), "+https_scheme,+validate_headers,-http2");
    assert_eq!(shown("feature", "-http2,+http2"), "+http2,+https_scheme,+validate_headers");
    assert_eq!(shown("feature", "-validate_headers,-http2"), "+https_scheme,-http2");
    assert_eq!(shown("debug", "+syncvsl +lurker"), "+syncvsl,+lurker");
    assert_eq!(shown("http_req_overflow_status", "431"), "431");
    assert_eq!(shown("auto_restart", "NO"), "off");
    assert_eq!(shown("pool_req", "1,2,3.5"), "1,2,3.5");
    assert!(!shown("vsl_mask", "+Debug").contains("-Debug"));
    assert_eq!(shown("deprecated_dummy", "+lck"), "+lck");
}

#[test]
fn bits_of_newer_releases_begin_with_all_or_none() {
    assert_eq!(shown("feature", "none,+http2"), "+http2");
    assert_eq!(shown("feature", "+http2,none"), "none");
    assert_eq!(shown("feature", "none +http2 , +short_panic"), "+http2,+short_panic");
    assert!(shown("feature", "all,-http2").ends_with("+trace,+vcl_req_reset,-http2"));
    assert!(!shown("feature", "all").contains("rfc9111"), "a bit of our own");
    assert_eq!(shown("debug", "all,none,+lck"), "+lck");
    assert_eq!(shown("vsl_mask", "all,-Debug"), "-Debug,+ReqTarget");
    assert_eq!(shown("vsl_mask", "(all enabled)"), "(all enabled)");
    let some = shown("vsl_mask", "none,+ReqURL,+VCL_Log");
    assert!(some.starts_with("-Debug,-Error") && !some.contains("ReqURL") && !some.contains("ReqTarget"), "{some}");
    assert!(shown("vsl_mask", "+ReqTarget").ends_with("-VdpAcct,+ReqTarget"));
    assert_eq!(refused("feature", "-all"), "Unknown feature bit (-all)");
    assert_eq!(refused("vsl_mask", "all,"), "Missing '+' or '-' ()");
}

#[test]
fn lists_of_bits_are_shown_whole_under_9() {
    let shown = |name: &str, text: &str| {
        let mut params = Params::of(Compat::V9);
        params.set(name, text).unwrap().spec.value(&params).show(Compat::V9)
    };
    assert_eq!(shown("feature", "+http2"), "none,+http2,+https_scheme,+validate_headers,+vcl_req_reset");
    assert_eq!(shown("feature", "none"), "none");
    assert_eq!(shown("feature", "all"), "all");
    assert_eq!(shown("feature", "all,+rfc9111"), "all,+rfc9111");
    assert_eq!(shown("feature", "none,-http2"), "none,-http2");
    assert_eq!(shown("debug", "+lck"), "none,+lck");
    assert_eq!(shown("vsl_mask", "all"), "all");
    assert_eq!(shown("vsl_mask", "none"), "none");
    // Numbers of 9: TLS and BackendSSL stand before those of requests.
    assert_eq!(shown("vsl_mask", "all,-ReqURL,-TLS,-Debug"), "all,-Debug,-TLS,-ReqURL");
    assert!(shown("vsl_mask", "none,+ReqURL").starts_with("all,-Debug,-Error"));
    let reset = Params::of(Compat::V9).reset("vsl_mask").unwrap();
    assert!(reset.spec.default(Compat::V9).ends_with("-VdpAcct,-ReqTarget"));
}

#[test]
fn a_timeout_may_never_end() {
    let mut params = Params::default();
    params.set("pipe_timeout", "never").unwrap();
    assert_eq!((params.pipe_timeout, shown("pipe_timeout", "never").as_str()), (NEVER, "never"));
    assert!(
        ParamShow { changed: true, ..ParamShow::default() }.json(&params).unwrap().contains("\"value\": \"never\"")
    );
    assert_eq!(Params::decode(&params.encode()).unwrap(), params);
    assert_eq!(shown("send_timeout", "999999999999999"), "999999999999999.000");
    assert_eq!(refused("timeout_idle", "never"), "Invalid number (never)");
    assert_eq!(refused("default_ttl", "never"), "Invalid number (never)");
    // A deadline is the present and a timeout.
    assert!(base::clock::now().checked_add(NEVER + NEVER).is_some());
}

#[test]
fn switches_of_the_compiler_are_bits_and_parameters() {
    let mut params = Params::default();
    assert!(params.vcc_err_unref && params.vcc_unsafe_path && !params.vcc_allow_inline_c);
    params.set("vcc_feature", "-err_unref").unwrap();
    assert!(!params.vcc_err_unref && params.vcc_unsafe_path);
    params.set("vcc_unsafe_path", "off").unwrap();
    assert_eq!(lookup("vcc_feature").unwrap().value(&params).show(Compat::V7_1), "none");
    assert_eq!(Params::decode(&params.encode()).unwrap(), params);
    params.reset("vcc_feature").unwrap();
    assert_eq!(params, Params::default());
    let inline = params.set("vcc_feature", "none,+allow_inline_c").unwrap();
    assert_eq!(inline.note.unwrap(), "No effect here: inline C is always refused");
    assert_eq!(refused("vcc_feature", "+foo"), "Unknown vcc_feature bit (+foo)");
}

#[test]
fn refusals() {
    assert_eq!(refused("default_ttl", "foo"), "Invalid number (foo)");
    assert_eq!(refused("default_ttl", "-1"), "Must be greater or equal to 0.000");
    assert_eq!(refused("default_ttl", "1234567890123456"), "Too many digits (1234567890123456)");
    assert_eq!(refused("acceptor_sleep_decay", "2"), "Must be less than or equal to 1");
    assert_eq!(refused("max_restarts", "foo"), "Not a number (foo)");
    assert_eq!(refused("http_max_hdr", "12"), "Must be at least 32");
    assert_eq!(refused("http_max_hdr", "100000"), "Must be no more than 65535");
    assert_eq!(refused("cli_limit", "foo"), "Could not convert to bytes.");
    assert_eq!(refused("cli_limit", "1"), "Must be at least 128b");
    assert_eq!(refused("cli_limit", "100000001"), "Must be no more than 99999999b");
    assert_eq!(refused("http_req_overflow_status", "200"), "Must be 0 (no response), or from 400 to 500");
    assert_eq!(refused("http_req_overflow_status", "501"), "Must be no more than 500");
    assert_eq!(refused("feature", "foo"), "Missing '+' or '-' (foo)");
    assert_eq!(refused("feature", "+foo"), "Unknown feature bit (+foo)");
    assert_eq!(refused("feature", "+http2,"), "Missing '+' or '-' ()");
    assert_eq!(refused("vsl_mask", "+Debug,-bogus"), "Unknown VSL tag (-bogus)");
    assert_eq!(refused("auto_restart", "foo"), "use \"on\" or \"off\"");
    assert_eq!(refused("pool_req", "10,100"), "Three fields required: min_pool, max_pool and max_age");
    assert_eq!(refused("pool_req", "100,10,1"), "min_pool cannot be larger than max_pool");
    assert_eq!(refused("thread_pool_min", "6000"), "Must be no more than 5000 (thread_pool_max)");
    assert_eq!(refused("thread_pool_max", "10"), "Must be at least 100 (thread_pool_min)");
    assert_eq!(refused("thread_pool_reserve", "96"), "Must be no more than 95 (95% of thread_pool_min)");
    assert_eq!(refused("vsl_buffer", "100"), "Must be at least 267");
    assert_eq!(refused("fofofofo", "1"), "Unknown parameter \"fofofofo\".");
    assert_eq!(refused("accept_filter", "on"), "parameter \"accept_filter\" is not available on this platform.");
    assert_eq!(refused("user", "nobody"), "Unknown parameter \"user\".");
}

#[test]
fn a_mistyped_name_is_recognised() {
    let text = |name: &str| Params::default().set(name, "1").unwrap_err().to_string();
    assert_eq!(text("defualt_ttl"), "Unknown parameter \"defualt_ttl\".\nIs default_ttl meant?");
    assert_eq!(text("vls_space"), "Unknown parameter \"vls_space\".\nIs vsl_space meant?");
    assert_eq!(text("thread_pool_mim"), "Unknown parameter \"thread_pool_mim\".\nIs thread_pool_min meant?");
    assert_eq!(text("fofofofo"), "Unknown parameter \"fofofofo\".");
}

#[test]
fn the_whole_refusal() {
    let error = Params::default().set("default_ttl", "-1").unwrap_err();
    assert_eq!(error.status(), 106);
    let text = "Must be greater or equal to 0.000\n\n(attempting to set param 'default_ttl' to '-1')";
    assert_eq!(error.to_string(), text);
}

#[test]
fn a_bit_that_nothing_looks_at_says_so() {
    let mut params = Params::default();
    let mut note = |name, value| params.set(name, value).unwrap().note.unwrap_or_default();
    assert_eq!(note("debug", "+workspace,+syncvsl"), "No effect here: there are no workspaces");
    assert_eq!(note("debug", "+workspace"), "", "it was set before");
    assert_eq!(note("debug", "-workspace"), "");
    assert_eq!(note("feature", "+http_date_postel"), "");
    assert!(note("feature", "+short_panic").starts_with("No effect here"));
}

#[test]
fn parts_of_a_byte_are_refused() {
    let mut params = Params::default();
    for (text, is_taken) in
        [("1.5", false), ("1.5b", false), ("1.5 B", false), ("2.0", true), ("1.5k", true), ("2", true)]
    {
        let set = params.set("h2_header_table_size", text);
        let reason = "Could not convert to bytes.\nFractional BYTES not allowed\n";
        assert_eq!(set.is_ok(), is_taken, "{text}");
        assert!(set.map_or_else(|error| error.to_string().starts_with(reason), |_| true), "{text}");
    }
}

#[test]
fn old_names() {
    let mut params = Params::default();
    let applied = params.set("session_linger", "50").unwrap();
    assert_eq!((applied.spec.name, params.timeout_linger), ("timeout_linger", Duration::from_millis(50)));
    assert!(applied.note.is_some());
    params.set("sess_workspace", "262144").unwrap();
    assert_eq!(params.workspace_client, 262_144);
    assert!(params.set("thread_pool_add_delay", "2").unwrap().note.unwrap().contains("milliseconds"));
}

/// The fate of a parameter of an old start line: today's name, its value, what is said.
fn started(name: &str, text: &str) -> String {
    let mut params = Params::default();
    match params.set_at_start(name, text) {
        Ok(applied) => {
            let value = applied.spec.value(&params).show(Compat::V7_1);
            format!("{}={value} {}", applied.spec.name, applied.note(name).unwrap_or_default())
        }
        Err(e) => e.forgiven_at_start().unwrap_or_else(|| format!("refused: {e}")),
    }
}

#[test]
fn an_old_start_line_starts() {
    // The parameters of 2.0.4 that today's release doesn't have, with their defaults of then.
    let gone = [
        ("accept_fd_holdoff", "50"),
        ("acceptor", "default"),
        ("backend_http11", "on"),
        ("cache_vbe_conns", "off"),
        ("cli_buffer", "8192"),
        ("client_http11", "on"),
        ("diag_bitmap", "0"),
        ("err_ttl", "0"),
        ("esi_syntax", "0"),
        ("group", "nogroup"),
        ("log_hashstring", "off"),
        ("log_local_address", "off"),
        ("obj_workspace", "8192"),
        ("purge_hash", "on"),
        ("sendfile_threshold", "unlimited"),
        ("srcaddr_hash", "1049"),
        ("srcaddr_ttl", "30"),
        ("thread_pool_add_threshold", "2"),
        ("user", "nobody"),
        ("vcl_trace", "off"),
    ];
    for (name, value) in gone {
        let said = started(name, value);
        assert!(said.starts_with(&format!("Parameter {name} is ignored: ")), "{said}");
        let error = Params::default().set(name, value).unwrap_err().to_string();
        assert!(error.starts_with(&format!("Unknown parameter \"{name}\".\n")), "{error}");
    }
    for name in ["panic_buffer", "esi_iovs"] {
        let error = Params::default().set(name, "10").unwrap_err();
        assert!(error.forgiven().unwrap().starts_with(&format!("Parameter {name} is ignored: ")));
    }
    assert_eq!(started("ban_any_variant", "1"), "ban_any_variant=1 ");
    let chunk = "Parameter fetch_chunksize: It takes bytes; the kilobytes given were converted. It has no effect here.";
    assert_eq!(started("fetch_chunksize", "128"), format!("fetch_chunksize=128k {chunk}"));
    assert!(started("fetch_chunksize", "2k").starts_with("refused: Must be at least 4k"));
    assert!(started("thread_pool_min", "1").starts_with("thread_pool_min=5 "));
    assert!(
        started("sess_workspace", "1024")
            .starts_with("workspace_client=9k Parameter sess_workspace is called workspace_client")
    );
    assert!(started("workspace_client", "1024").starts_with("refused: Must be at least 9k"));
    assert!(started("nosuch", "1").starts_with("refused: Unknown"));
}

#[test]
fn a_long_idle_timeout_is_told() {
    let said = |name, value| Params::default().set(name, value).unwrap().note(name).unwrap_or_default();
    assert_eq!(said("timeout_idle", "75"), "");
    assert_eq!(said("timeout_idle", "620"), "");
    assert!(said("timeout_idle", "3600").contains("keeps a connection and a descriptor that long"));
    let both = said("sess_timeout", "3600");
    assert!(both.contains("is called timeout_idle here. The name") && both.contains("that long"), "{both}");
}

#[test]
fn protection() {
    let mut params = Params::default();
    params.protect("vcl_path,vmod_path").unwrap();
    let error = params.set("vcl_path", "/x").unwrap_err();
    assert_eq!((error.status(), error.to_string().as_str()), (107, "parameter \"vcl_path\" is protected."));
    assert!(params.protect("nonsense").is_err());
    // A bit of the compiler's switches can be set by either name.
    let is_refused = |protected: &str, name: &str, value: &str| {
        let mut params = Params::default();
        params.protect(protected).unwrap();
        params.set(name, value).is_err()
    };
    assert!(is_refused("vcc_unsafe_path", "vcc_feature", "-unsafe_path"));
    assert!(is_refused("vcc_feature", "vcc_unsafe_path", "off"));
    assert!(!is_refused("vcc_unsafe_path", "vcc_err_unref", "off"));
    // A start line of 7.1 starts under release 9, too.
    let mut params = Params::of(Compat::V9);
    params.protect("vcc_unsafe_path").unwrap();
    assert!(params.set("vcc_feature", "-unsafe_path").is_err());
}

#[test]
fn a_reset_takes_out_bits_that_the_default_does_not_name() {
    for (name, value) in [
        ("vsl_mask", "all"),
        ("vsl_mask", "-ReqURL"),
        ("feature", "+esi_disable_xml_check"),
        ("feature", "-http2"),
        ("debug", "+syncvsl"),
        ("vcc_feature", "+allow_inline_c"),
    ] {
        let mut params = Params::default();
        params.set(name, value).unwrap();
        params.reset(name).unwrap();
        assert_eq!(params, Params::default(), "{name} {value}");
    }
}

#[test]
fn a_mask_of_a_program_without_records_on_demand_wants_none() {
    assert_eq!(Params::decode("vsl_mask=0,0\n").unwrap().vsl_mask, TagMask::ON_DEMAND);
    let mut params = Params::default();
    params.set("vsl_mask", "+ReqTarget,-ReqURL").unwrap();
    assert_eq!(Params::decode(&params.encode()).unwrap(), params);
}

#[test]
fn shown_like_varnish() {
    let mut params = Params::default();
    params.set("max_restarts", "3").unwrap();
    let text = ParamShow { name: Some("max_restarts"), ..ParamShow::default() }.text(&params).unwrap();
    let head = "max_restarts\n        Value is: 3 [restarts]\n        Default is: 4\n        Minimum is: 0\n\n        ";
    assert!(text.starts_with(head) && text.ends_with(".\n\n"), "{text}");
    let changed = ParamShow { changed: true, ..ParamShow::default() };
    assert_eq!(changed.text(&params).unwrap(), "max_restarts                  3 [restarts]\n");
    let json = changed.json(&params).unwrap();
    assert!(json.starts_with("  {\n    \"name\": \"max_restarts\",\n    \"implemented\": true,\n    \"value\": 3,\n"));
    assert!(json.ends_with("    \"flags\": []\n  }"), "{json}");
    assert!(ParamShow { name: Some("foo"), ..ParamShow::default() }.text(&params).is_err());
    let debug = ParamShow { name: Some("debug"), ..ParamShow::default() }.text(&params).unwrap();
    assert!(debug.contains("\n           vtc_mode            Run under varnishtest\n"), "{debug}");
    for line in (ParamShow { long: true, ..ParamShow::default() }).text(&params).unwrap().lines() {
        assert!(line.len() < 100 || line.contains("Value is") || line.contains("Default is"), "{line}");
    }
}

#[test]
fn all_values_reach_the_worker() {
    let mut params = Params::default();
    params.set("vcl_path", "a\\b\nc=d").unwrap();
    params.set("default_ttl", "0.1234567").unwrap();
    params.set("vsl_mask", "+Debug,-VCL_acl").unwrap();
    params.set("debug", "+vtc_mode").unwrap();
    params.set("cli_limit", "1001").unwrap();
    assert_eq!(Params::decode(&params.encode()).unwrap(), params);
}

proptest! {
    #[test]
    fn any_text_is_taken_or_refused(at in 0..SPECS.len(), text in "\\PC{0,12}|[-+0-9.kmgs, ]{0,8}") {
        let mut params = Params::default();
        if params.set(SPECS[at].name, &text).is_ok() {
            prop_assert_eq!(Params::decode(&params.encode()).unwrap(), params.clone());
            let _ = ParamShow { long: true, ..ParamShow::default() }.text(&params);
        }
    }

    #[test]
    fn any_lines_are_read_or_refused(text in "([a-z_]{0,12}=?\\PC{0,8}\n){0,4}") {
        let _ = Params::decode(&text);
    }
}

#[test]
fn memory_is_limited_to_a_number_or_to_what_the_system_says() {
    let mut params = Params::default();
    let shown = |params: &Params| lookup("memory_limit").unwrap().value(params).show(Compat::V7_1);
    assert_eq!((params.memory_limit.bytes(), shown(&params)), (Some(0), "0b".to_owned()));
    params.set("memory_limit", "600m").unwrap();
    assert_eq!(params.memory_limit.bytes(), Some(600 << 20));
    params.set("memory_limit", "Auto").unwrap();
    assert_eq!((params.memory_limit.bytes(), shown(&params)), (None, "auto".to_owned()));
    assert_eq!(Params::decode(&params.encode()).unwrap(), params);
    for wrong in ["31m", "1", "automatic", "-1", ""] {
        assert!(params.set("memory_limit", wrong).is_err(), "{wrong}");
    }
    assert!(params.set("memory_limit", "1").unwrap_err().to_string().contains("at least 32M"));
    params.set("memory_limit", "0").unwrap();
    assert_eq!(params.memory_limit.bytes(), Some(0));
}

#[test]
fn parameters_say_which_codings_are_supported() {
    let mut params = Params::default();
    assert_eq!(params.supported_codings(), Codings::GZIP);
    params.http_brotli_support = true;
    assert_eq!(params.supported_codings(), Codings::GZIP.with(Coding::Brotli));
    params.http_zstd_support = true;
    assert_eq!(params.supported_codings(), Codings::GZIP.with(Coding::Brotli).with(Coding::Zstd));
    params.http_gzip_support = false;
    assert_eq!(params.supported_codings(), Codings::NONE);
}
