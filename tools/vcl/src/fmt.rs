// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer vcl fmt`

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use vcl::format::{Style, format};

use crate::args::Args;

/// Lays out each file; a file that can't be is left as it is.
pub(crate) fn run(args: &Args) -> i32 {
    let mut style = Style::default();
    if let Some(indent) = &args.indent {
        style.indent.clone_from(indent);
    }
    let mut status = 0;
    for file in &args.files {
        match one(file, args.check, &style) {
            Ok(true) if args.check => {
                println!("{file}");
                status = 2;
            }
            Ok(_) => {}
            Err(why) => {
                eprintln!("{}", why.trim_end());
                status = 2;
            }
        }
    }
    status
}

/// True when the file wasn't laid out so already.
fn one(file: &str, check: bool, style: &Style) -> Result<bool, String> {
    let stdin = file == "-";
    let mut text = Vec::new();
    let read =
        if stdin { io::stdin().lock().read_to_end(&mut text).map(|_| ()) } else { fs::read(file).map(|t| text = t) };
    read.map_err(|e| format!("{file}: {e}"))?;
    let out = format(file, &text, style).map_err(|why| why.text)?;
    let differs = out != text;
    if !check && stdin {
        io::stdout().lock().write_all(&out).map_err(|e| format!("stdout: {e}"))?;
    } else if !check && differs {
        replace(Path::new(file), &out).map_err(|e| format!("{file}: {e}"))?;
    }
    Ok(differs)
}

/// Writes a file beside it and puts that in its place, so that the file is whole at any time. A link stays a link.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let path = path.canonicalize()?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let written = fs::write(&new, text)
        .and_then(|()| fs::set_permissions(&new, fs::metadata(&path)?.permissions()))
        .and_then(|()| fs::rename(&new, &path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}
