// SPDX-License-Identifier: BSD-2-Clause
//! Shell scripts parse and Python compiles. Nothing of them is run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::tree::{self, is, name};

/// Compiles each file named on standard input, and prints a line per file that doesn't. Warnings (an unknown escape) count.
const COMPILE: &str = r#"
import pathlib, sys, warnings
warnings.simplefilter("error")
for name in sys.stdin.read().splitlines():
    try:
        compile(pathlib.Path(name).read_bytes(), name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError) as error:
        print(f"{name}: {error}")
"#;

/// One line per shell script that its shell can't parse.
pub fn shell(root: &Path) -> crate::Findings {
    let mut found = Vec::new();
    for file in tree::files(root)? {
        // What is in an image for busybox alone is in the language of `sh`, too.
        let shell = match tree::interpreter(&file)?.as_deref() {
            Some("bash") => "bash",
            Some("sh" | "dash" | "busybox") => "sh",
            Some(_) => continue,
            None if is(&file, "sh") => "sh",
            None => continue,
        };
        let output = Command::new(shell).arg("-n").arg(&file).stdin(Stdio::null()).output();
        let output = output.map_err(|e| format!("{shell}: {e}"))?;
        if !output.status.success() {
            let says = String::from_utf8_lossy(&output.stderr);
            let says = says.lines().next().unwrap_or("no message");
            found.push(format!("{}: {shell} -n: {says}", name(root, &file)));
        }
    }
    Ok(found)
}

/// One line per file of Python that doesn't compile.
pub fn python(root: &Path) -> crate::Findings {
    let mut files = Vec::new();
    for file in tree::files(root)? {
        if is(&file, "py") || tree::interpreter(&file)?.is_some_and(|program| program.starts_with("python")) {
            files.push(file);
        }
    }
    compile(root, &files)
}

fn compile(root: &Path, files: &[PathBuf]) -> crate::Findings {
    let failed = |e: std::io::Error| format!("python3: {e}");
    let mut command = Command::new("python3");
    command.args(["-I", "-c", COMPILE]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().map_err(failed)?;
    let names: String = files.iter().map(|file| format!("{}\n", file.display())).collect();
    if let Some(mut input) = child.stdin.take() {
        std::io::Write::write_all(&mut input, names.as_bytes()).map_err(failed)?;
    }
    let output = child.wait_with_output().map_err(failed)?;
    if !output.status.success() {
        return Err(format!("python3: {}", output.status));
    }
    let prefix = format!("{}/", root.display());
    let says = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(says.lines().map(|line| line.strip_prefix(&prefix).unwrap_or(line).to_owned()).collect())
}
