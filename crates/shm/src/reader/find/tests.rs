// SPDX-License-Identifier: BSD-2-Clause
//! Finding servers: command lines, names, what the dead left behind, whom to trust.
use super::*;

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn names_on_command_lines() {
    let check = |line: &str, expected: Option<&str>| assert_eq!(name_of(&words(line)), expected, "{line}");
    check("-a :80 -n /tmp/x -f a.vcl", Some("/tmp/x"));
    check("-n/tmp/x", Some("/tmp/x"));
    check("-Fn /tmp/x", Some("/tmp/x"));
    check("-dFnbeta", Some("beta"));
    check("-a :80 -f n", None);
    check("-n", None);
}

#[test]
fn only_servers_are_looked_at() {
    let check = |line: &str, expected: bool| {
        let process = Process { pid: 1, parent: 0, uid: 0, pids: Vec::new(), words: words(line) };
        assert_eq!(process.is_server(), expected, "{line}");
    };
    check("/usr/sbin/varnishd -F", true);
    check("varnishd -n x", true);
    check("/opt/lacquer serve -n x", true);
    check("lacquer status -n x", false);
    check("sh -c varnishd", false);
    check("", false);
}

#[test]
fn an_instance_is_named_and_a_name_that_would_steer_a_terminal_is_quoted() {
    let check = |path: &str, expected: &str| assert_eq!(Name(Path::new(path)).to_string(), expected);
    check("/var/lib/varnish/beta", "beta");
    check("/tmp/x", "/tmp/x");
    check("/tmp/\u{1b}[2J x", "\"/tmp/\\u{1b}[2J x\"");
}

#[test]
fn an_index_without_a_living_manager_is_nobody() {
    let dir = std::env::temp_dir().join(format!("shm-find-{}", std::process::id()));
    let home = dir.join(SetOwner::Manager.dir_name());
    fs::create_dir_all(&home).unwrap();
    assert!(!is_running(&dir).unwrap());
    fs::write(home.join(crate::vsm::INDEX_NAME), "# 1 1\n").unwrap();
    assert!(is_running(&dir).unwrap(), "without a pid file the index counts");
    let mut file = pidfile::PidFile::open(&dir.join(PID_FILE), 0o644, 0).unwrap();
    file.write().unwrap();
    assert!(is_running(&dir).unwrap(), "locked, though this process is no varnishd: it could be in another container");
    let pid = std::process::id().to_string();
    drop(file);
    // This process lives, and isn't a server: its number was another's.
    fs::write(dir.join(PID_FILE), pid).unwrap();
    assert!(!is_running(&dir).unwrap());
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn other_peoples_servers_are_not_taken() {
    let dir = std::env::temp_dir().join(format!("shm-trust-{}", std::process::id()));
    fs::create_dir(&dir).unwrap();
    let link = dir.join("link");
    std::os::unix::fs::symlink(&dir, &link).unwrap();
    let server = |workdir: &Path, uid| RunningServer { pid: 2, uid, workdir: workdir.to_owned(), is_contained: false };
    let me = user::effective();
    assert!(is_trusted(&server(&dir, me)));
    assert!(!is_trusted(&server(&dir, 54_321)), "another user's process");
    assert!(!is_trusted(&server(&link, me)), "a link");
    assert!(!is_trusted(&RunningServer { is_contained: true, ..server(&dir, me) }));
    let mut permissions = fs::metadata(&dir).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o777);
    fs::set_permissions(&dir, permissions).unwrap();
    assert!(!is_trusted(&server(&dir, me)), "everybody may change it");
    fs::remove_dir_all(&dir).unwrap();
}
