// SPDX-License-Identifier: BSD-2-Clause
//! Command lines that people and packages use, and those that must be refused.

use super::*;
use tables::vmods::{Module, Modules};

fn read(line: &str) -> Result<ManagerInvocation, Fatal> {
    let args: Vec<String> =
        line.split(' ').filter(|w| !w.is_empty()).map(|w| if w == "''" { "".into() } else { w.into() }).collect();
    parse("varnishd", &args)
}

fn serve(line: &str) -> ManagerOptions {
    match read(line) {
        Ok(ManagerInvocation::Serve(options)) => *options,
        other => panic!("{line}: {other:?}"),
    }
}

fn refused(line: &str, text: &str) {
    assert_eq!(read(line), Err(Fatal::Argument(text.into())), "{line}");
}

#[test]
fn an_extension_is_a_module_that_is_built_in() {
    let names = serve("-b 127.0.0.1:80 -E one -Etwo").extensions;
    assert_eq!(names, ["one", "two"]);
    static ONE: Module = Module { name: "one", functions: &[], objects: &[], text: "", left_out: &[] };
    static ALL: [&Module; 1] = [&ONE];
    let modules = Modules(&ALL);
    for taken in ["one", "/usr/lib/varnish/vmods/libvmod_one.so"] {
        assert_eq!(crate::check_extensions(&[taken.to_owned()], modules).map_err(|e| e.to_string()), Ok(()));
    }
    let refusal = crate::check_extensions(&names, modules).unwrap_err().to_string();
    assert!(refusal.contains("-E: no module of the name two is built in, and none can be loaded"), "{refusal}");
}

#[test]
fn a_release_is_chosen_by_one_word() {
    assert_eq!(serve("-b none").compat, None);
    assert_eq!(serve("-b none --compat 9").compat, Some(Compat::V9));
    assert_eq!(serve("--compat=7.1 -b none").compat, Some(Compat::V7_1));
    assert_eq!(read("--compat 9 -V"), Ok(ManagerInvocation::Version(Some(Compat::V9))));
    refused("-b none --compat 9.0", "--compat: \"9.0\" is no release to be compatible with: it is 7.1 or 9");
}

#[test]
fn varnishtest_of_7_1_finds_the_log_that_it_reads() {
    let line =
        |mask: &str| format!("-d -n v1 -l 2m -p thread_pool_min=10 -p debug=+vtc_mode -p vsl_mask={mask} -b none");
    assert_eq!(serve(&line("+Debug")).compat, Some(Compat::V7_1));
    assert_eq!(serve(&format!("{} --compat 9", line("+Debug"))).compat, Some(Compat::V9), "a case may choose");
    assert_eq!(serve(&line("+Debug,+H2RxHdr,+H2RxBody")).compat, None, "varnishtest of 7.4 and later");
    assert_eq!(serve("-b none -p vsl_mask=+Debug -p debug=+vtc_mode").compat, None);
}

#[test]
fn the_tutorial_line_reads_as_meant() {
    let o = serve("-f /etc/default.vcl -a :6081 -P /var/run/varnish.pid -s malloc,256m");
    assert_eq!((o.mode, o.pid_files.as_slice()), (StartMode::Daemon, &["/var/run/varnish.pid".to_string()][..]));
    assert_eq!(
        o.ordered,
        [
            OrderedArg::Vcl(VclArg::File("/etc/default.vcl".into())),
            OrderedArg::Listen(":6081".into()),
            OrderedArg::Store("malloc,256m".into())
        ]
    );
}

#[test]
fn values_may_be_glued_and_letters_bundled() {
    assert_eq!(serve("-d -smalloc,30G").ordered, [OrderedArg::Store("malloc,30G".into())]);
    let o = serve("-dpfoo=bar=1 -l2m -t 10");
    assert_eq!(o.mode, StartMode::Debug);
    let set = |n: &str, v: &str| OrderedArg::Param(ParamArg::Set(n.into(), v.into()));
    assert_eq!(o.ordered, [set("foo", "bar=1"), set("vsl_space", "2m"), set("default_ttl", "10")]);
}

#[test]
fn lines_of_old_releases() {
    let set = |n: &str, v: &str| OrderedArg::Param(ParamArg::Set(n.into(), v.into()));
    let pool = |min: &str, max: &str| vec![set("thread_pool_max", max), set("thread_pool_min", min)];
    let timed =
        |min: &str, max: &str, timeout: &str| [pool(min, max), vec![set("thread_pool_timeout", timeout)]].concat();
    for (line, wanted) in [
        ("-w 50,1000,120", timed("50", "1000", "120")),
        // The defaults of 2.1's RPM.
        ("-w1,1000,5", timed("5", "1000", "10")),
        ("-w 200,400", pool("200", "400")),
        ("-w 20", pool("20", "100")),
        ("-t 120", vec![set("default_ttl", "120")]),
        ("-l 80m,free,fill", vec![set("vsl_space", "80m")]),
        ("-l 80m,1m", vec![set("vsl_space", "80m")]),
        ("-s file,/var/lib/varnish/s.bin,50%", vec![OrderedArg::Store("file,/var/lib/varnish/s.bin,50%".into())]),
        ("-h classic,500009 -p sess_workspace=16384", vec![set("sess_workspace", "16384")]),
    ] {
        assert_eq!(serve(&format!("-d {line}")).ordered, wanted, "{line}");
    }
    for wrong in ["0", "10,5", "a", "1,2,3,4", "5,"] {
        assert!(read(&format!("-d -w {wrong}")).is_err(), "{wrong}");
    }
    assert_eq!(serve("-d -l 80m,1m").notices.len(), 1);
}

#[test]
fn an_old_release_s_user_is_a_jail() {
    let taken = |jail: Option<&str>, is_root| {
        let mut options = ManagerOptions { jail: jail.map(str::to_owned), ..ManagerOptions::default() };
        let flags = Flags { user: Some("varnish".into()), group: Some("varnish".into()), ..Flags::default() };
        take_user(&mut options, &flags, is_root);
        (options.jail, options.notices.len())
    };
    assert_eq!(taken(None, true), (Some("unix,user=varnish,workuser=varnish".into()), 1));
    assert_eq!(taken(Some("none"), true), (Some("none".into()), 2));
    assert_eq!(taken(None, false), (None, 2));
}

#[test]
fn a_dialect_is_a_parameter() {
    let set = |v: &str| [OrderedArg::Param(ParamArg::Set("vcl_dialect".into(), v.into()))];
    assert_eq!(serve("-d --vcl-dialect=2.1").ordered, set("2.1"));
    assert_eq!(serve("--vcl-dialect 3.0 -d").ordered, set("3.0"));
}

#[test]
fn watching_is_asked_for_once() {
    assert_eq!(serve("-d --watch 127.0.0.1:1 --watch=:2,any-port").watch.as_deref(), Some(":2,any-port"));
    assert_eq!(serve("-d").watch, None);
    assert!(read("-d --watch").is_err());
}

#[test]
fn names_for_acme_come_in_lists() {
    assert_eq!(serve("-d --acme a.example,b.example --acme=c.example").acme, ["a.example,b.example", "c.example"]);
    assert!(read("-d --acme").is_err());
}

#[test]
fn combinations_are_refused_in_words_that_tests_know() {
    refused("-b a -f b", "Only one of -b or -f can be specified");
    refused("-d -F", "Only one of -d or -F can be specified");
    refused("-C", "-C needs either -b <backend> or -f <vcl_file>");
    refused("-C -b None -d", "-d makes no sense with -C");
    refused("-C -b None -F", "-F makes no sense with -C");
    refused("-n /tmp/x", "Neither -b nor -f given. (use -f '' to override)");
    refused("-f '' -I a -I b", "\tOnly one -I allowed");
    refused("-f '' -A a -A b", "\tOnly one -A allowed");
    refused("foo", "Too many arguments (foo...)");
    refused("-d -V foo", "-V must be the first argument");
    refused("-V -V", "Too many arguments for -V");
    refused("-d -x foo", "-x must be the first argument");
    refused("-x foo bar", "Too many arguments for -x");
}

#[test]
fn unknown_letters_get_getopts_words() {
    assert_eq!(read("-B"), Err(Fatal::Option("varnishd: invalid option -- 'B'".into())));
    assert_eq!(read("-a"), Err(Fatal::Option("varnishd: option requires an argument -- 'a'".into())));
    assert_eq!(read("-?"), Err(Fatal::Option(String::new())));
}

#[test]
fn version_and_print_stand_alone() {
    assert_eq!(read("-V"), Ok(ManagerInvocation::Version(None)));
    assert_eq!(read("-x vsl"), Ok(ManagerInvocation::Print("vsl".into(), None)));
    assert_eq!(read("--optstring"), Ok(ManagerInvocation::Print("optstring".into(), None)));
}

#[test]
fn the_lines_that_packages_and_images_use_are_read() {
    for (line, stores, listeners) in [
        // Debian's unit
        (
            "-j unix,user=vcache -F -a :6081 -T localhost:6082 -f /etc/varnish/default.vcl -S /etc/varnish/secret -s malloc,256m",
            1,
            1,
        ),
        // the packagers'
        ("-a :80 -a localhost:8443,PROXY -p feature=+http2 -f /etc/varnish/default.vcl -s malloc,256m", 1, 2),
        // the official image
        ("-F -f /etc/varnish/default.vcl -a http=:80,HTTP -a proxy=:8443,PROXY -p feature=+http2 -s malloc,100M", 1, 2),
        // field reports
        ("-f /x.vcl -smalloc,30G -h classic,500009 -p sess_workspace=262144 -a 66.55.44.33:80", 1, 1),
        ("-f /x.vcl -sfile,/var/lib/v.bin,1g -p thread_pool_add_delay=2 -W epoll", 1, 0),
    ] {
        let o = serve(line);
        let count = |f: fn(&OrderedArg) -> bool| o.ordered.iter().filter(|item| f(item)).count();
        assert_eq!(count(|item| matches!(item, OrderedArg::Store(_))), stores, "{line}");
        assert_eq!(count(|item| matches!(item, OrderedArg::Listen(_))), listeners, "{line}");
    }
}

proptest::proptest! {
    #[test]
    fn any_command_line_is_answered(args in proptest::collection::vec(".{0,8}", 0..6)) {
        let _ = parse("varnishd", &args);
    }
}
