// SPDX-License-Identifier: BSD-2-Clause
//! Files as releases of Varnish came with them, and what comes of them.

use super::*;
use crate::source::Given;

type Files = &'static [(&'static str, &'static str)];

fn of(names: &[&str], files: Files) -> Result<Migrated, String> {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut migrated = migrate(&names, &Given(files), vmods::MODULES)?;
    migrated.close();
    Ok(migrated)
}

/// The start line and the refusals of one file.
fn check(text: &'static str, line: &str, refused: &[&str]) {
    let migrated = of(&["f"], Box::leak(Box::new([("f", text)]))).expect("a file of Varnish's");
    assert_eq!(migrated.text(), format!("varnishd {line}\n"), "{text}");
    let said: Vec<String> =
        migrated.notes.iter().map(ToString::to_string).filter(|text| text.contains(": refused: ")).collect();
    assert_eq!(said, refused, "{text}");
}

#[test]
fn variables_of_debian() {
    check(
        "START=yes\nNFILES=131072\nINSTANCE=$(uname -n)\nDAEMON_OPTS=\"-a :6081 \\\n  -T localhost:6082 \\\n  -f /etc/varnish/default.vcl \\\n  -S /etc/varnish/secret \\\n  -s malloc,256m\"\n",
        "-a :6081 -T localhost:6082 -f /etc/varnish/default.vcl -S /etc/varnish/secret -s malloc,256m",
        &[],
    );
    check(
        "VARNISH_VCL_CONF=/etc/varnish/default.vcl\nVARNISH_LISTEN_ADDRESS=\nVARNISH_LISTEN_PORT=80\nVARNISH_MIN_THREADS=1\nVARNISH_MAX_THREADS=1000\nVARNISH_THREAD_TIMEOUT=120\n\
         VARNISH_STORAGE_FILE=/var/lib/varnish/storage.bin\nVARNISH_STORAGE_SIZE=1G\nVARNISH_STORAGE=\"file,${VARNISH_STORAGE_FILE},${VARNISH_STORAGE_SIZE}\"\nVARNISH_TTL=120\n\
         DAEMON_OPTS=\"-a ${VARNISH_LISTEN_ADDRESS}:${VARNISH_LISTEN_PORT} -f ${VARNISH_VCL_CONF} -t ${VARNISH_TTL} -u varnish -g varnish \\\n\
         -w ${VARNISH_MIN_THREADS},${VARNISH_MAX_THREADS},${VARNISH_THREAD_TIMEOUT} -s ${VARNISH_STORAGE} -p sess_workspace=262144 -p session_linger=50 -p listen_depth=4096\"\n",
        "-a :80 -f /etc/varnish/default.vcl -p default_ttl=120 -j unix,user=varnish,workuser=varnish -p thread_pool_max=1000 \
         -s file,/var/lib/varnish/storage.bin,1G -p workspace_client=262144 -p listen_depth=4096",
        &[],
    );
}

#[test]
fn variables_of_red_hat() {
    check(
        "RELOAD_VCL=1\nVARNISH_VCL_CONF=/etc/varnish/default.vcl\n# VARNISH_LISTEN_ADDRESS=192.168.1.5\nVARNISH_LISTEN_PORT=6081\nVARNISH_ADMIN_LISTEN_ADDRESS=127.0.0.1\n\
         VARNISH_ADMIN_LISTEN_PORT=6082\nVARNISH_SECRET_FILE=/etc/varnish/secret\nVARNISH_STORAGE=\"malloc,256M\"\nVARNISH_USER=varnish\nVARNISH_GROUP=varnish\n\
         DAEMON_OPTS=\"-p thread_pool_add_delay=2 -p nonsense=1 -p err_ttl=5\"\n",
        "-f /etc/varnish/default.vcl -a :6081 -T 127.0.0.1:6082 -S /etc/varnish/secret -s malloc,256M -j unix,user=varnish,workuser=varnish",
        &[
            "f:11: refused: -p: nonsense=1: Unknown parameter \"nonsense\".",
            "f:11: refused: -p: err_ttl=5: Unknown parameter \"err_ttl\". Synthetic responses are not cached.",
        ],
    );
}

#[test]
fn what_a_shell_alone_can_tell_is_refused_where_it_counts() {
    check(
        "INSTANCE=$(uname -n)\nDAEMON_OPTS=\"-n ${INSTANCE} -b a:80\"\n",
        "-n '?' -b a:80",
        &[
            "f:2: refused: DAEMON_OPTS: it uses INSTANCE, which needs a shell",
            "f:1: refused: INSTANCE: $(...) needs a shell: write its result",
        ],
    );
}

#[test]
fn a_unit_with_drop_ins() {
    const FILES: Files = &[
        (
            "varnish.service",
            "[Unit]\nDescription=x\n[Service]\nType=simple\nLimitNOFILE=131072\nEnvironmentFile=-/etc/default/varnish\nExecStart=/usr/sbin/varnishd -j unix,user=vcache -F \\\n# c\n  -a :6081 -T localhost:6082 \\\n  -f /etc/varnish/default.vcl -s malloc,256m\nExecReload=/usr/share/varnish/varnishreload\n",
        ),
        (
            "d.conf",
            "[Service]\nEnvironment=\"SIZE=2g\" 'OPTS=-p timeout_req=5 -p a b'\nEnvironment=X=1\nExecStart=\nExecStart=-/usr/sbin/varnishd -F -a ${X}.0.0.1:80,PROXY -s malloc,${SIZE} -f '' $OPTS -p 'vcl_path=/a b' -i $$x%%\n",
        ),
        (
            "p.conf",
            "[Service]\nEnvironmentFile=/etc/varnish/varnish.params\nExecStart=\nExecStart=/usr/sbin/varnishd -f $VARNISH_VCL_CONF -a :${PORT} $NOTHING $DAEMON_OPTS\n",
        ),
        (
            "/etc/varnish/varnish.params",
            "VARNISH_VCL_CONF=/x.vcl\nPORT=80\nDAEMON_OPTS=\"-p default_grace=1h -h classic,16383\"\n",
        ),
        ("log.service", "[Service]\nExecStart=/usr/bin/varnishncsa -a\n"),
        ("none.conf", "[Service]\nLimitNOFILE=1\n"),
    ];
    let line = |names: &[&str]| of(names, FILES).map(|migrated| migrated.text());
    assert_eq!(
        line(&["varnish.service"]).as_deref(),
        Ok("varnishd -j unix,user=vcache -F -a :6081 -T localhost:6082 -f /etc/varnish/default.vcl -s malloc,256m\n")
    );
    let migrated = of(&["varnish.service", "d.conf"], FILES).expect("units");
    assert_eq!(
        migrated.text(),
        "varnishd -F -a 1.0.0.1:80,PROXY -s malloc,2g -f '' -p timeout_head=5 -p 'vcl_path=/a b' -i '$x%'\n"
    );
    let refused: Vec<String> =
        migrated.notes.iter().map(ToString::to_string).filter(|text| text.contains(": refused: ")).collect();
    assert_eq!(
        refused,
        ["d.conf:2: refused: b: it is no option of varnishd", "d.conf:2: refused: -p: NAME=VALUE is wanted"]
    );
    assert_eq!(line(&["varnish.service", "p.conf"]).as_deref(), Ok("varnishd -f /x.vcl -a :80 -p default_grace=1h\n"));
    assert_eq!(
        line(&["log.service"]),
        Err(
            "log.service:2: it starts \"/usr/bin/varnishncsa\", not varnishd: units of other programs stay as they are"
                .to_owned()
        )
    );
    assert!(line(&["none.conf"]).is_err_and(|error| error.starts_with("none.conf:1: there is no ExecStart")));
}

#[test]
fn options_of_all_releases() {
    let line = |options: &str| {
        let text: &'static str = Box::leak(format!("DAEMON_OPTS=\"-b a:1 {options}\"").into_boxed_str());
        let migrated = of(&["f"], Box::leak(Box::new([("f", text)]))).expect("a file of Varnish's");
        let refused = migrated.notes.iter().map(ToString::to_string).filter(|text| text.contains(": refused: "));
        format!("{}|{}", migrated.arguments[2..].join(" "), refused.collect::<Vec<_>>().join("|"))
    };
    for (options, expect) in [
        ("-F -smalloc,1G", "-F -s malloc,1G|"),
        ("-h critbit -W epoll -g www", "|"),
        ("-l 80m,1m,+", "-p vsl_space=80m|"),
        ("-w 200", "-p thread_pool_max=200|"),
        ("-A /etc/tls.conf -a :443,https", "-A /etc/tls.conf -a :443,https|"),
        ("-p listen_address=:80,:81", "-a :80 -a :81|"),
        (
            "-a :80 -p listen_address=:81",
            "-a :80|f:1: refused: -p: listen_address=:81: Unknown parameter \"listen_address\". Use -a, once for each address.",
        ),
        ("-p expiry_sleep=1 -p sess_timeout=5", "-p timeout_idle=5|"),
        ("-s umem", "|f:1: refused: -s: storage method \"umem\" is Solaris' own: use malloc"),
        ("-s mse,/a", "|f:1: refused: -s: there is no store of the kind mse: malloc, default, file or persistent"),
        ("-s x=file,/a,1g,keep", "-s x=file,/a,1g,keep|"),
        (
            "-p thread_pools=x",
            "|f:1: refused: -p: thread_pools=x: Not a number (x) (attempting to set param 'thread_pools' to 'x')",
        ),
        (
            "-E /vmod -C -k",
            "|f:1: refused: -k: no release has this option|f:1: refused: -E: no module of the name /vmod is built in, and none can be loaded|f:1: refused: -C: it is for a trial at a terminal, not for a service",
        ),
        (
            "-E h2 -E/usr/lib/libvmod_std.so -E jq",
            "-E h2 -E /usr/lib/libvmod_std.so|f:1: refused: -E: no module of the name jq is built in, and none can be loaded (the module jq queries on JSON: use json: json.parse, and json.get with a path such as a.b[2])",
        ),
        ("-r vcl_path,nonsense", "|f:1: refused: -r: Unknown parameter \"nonsense\"."),
        ("-T", "|f:1: refused: -T: it has no value"),
    ] {
        assert_eq!(line(options), expect, "{options}");
    }
    let told = of(&["f"], &[("f", "DAEMON_OPTS=\"-a :80\"")]).expect("a file of Varnish's");
    assert!(told.notes.iter().any(|note| note.text.starts_with("neither -f nor -b")));
}

proptest::proptest! {
    /// Any text is a file of Varnish's or an error; a start line that comes of it can be typed.
    #[test]
    fn any_text_ends(text in "((A|DAEMON_OPTS|B)(=|\\+=)|\\[Service\\]\n|ExecStart=|varnishd|-[a-zA-Z]|\\$\\{?A\\}?|\\PC{0,3}|[ \n\"'\\\\`$(){};#]){0,30}") {
        let files: Files = Box::leak(Box::new([("f", &*Box::leak(text.into_boxed_str()))]));
        if let Ok(migrated) = of(&["f"], files) {
            proptest::prop_assert!(migrated.text().starts_with("varnishd"));
        }
    }
}
