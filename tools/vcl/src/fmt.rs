// SPDX-License-Identifier: BSD-2-Clause
//! `lacquer vcl fmt`: formats VCL files.

use std::borrow::Cow;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::Path;

use toolkit::print;
use vcl::format::{FormatStyle, format};

use crate::args::VclArgs;
use crate::diff;

/// Formats each file. A file that can't be formatted stays unchanged.
pub(crate) fn run(args: &VclArgs) -> i32 {
    let mut style = FormatStyle::default();
    if let Some(indent) = &args.indent {
        style.indent.clone_from(indent);
    }
    let mut status = 0;
    for file in &args.files {
        match one(file, args, &style) {
            Ok(true) if args.check || args.diff => status = 2,
            Ok(_) => {}
            Err(reason) => {
                print::err(format_args!("{}\n", reason.trim_end()));
                status = 2;
            }
        }
    }
    status
}

/// Returns true if the formatted text differs from the file.
fn one(file: &str, args: &VclArgs, style: &FormatStyle) -> Result<bool, String> {
    let stdin = file == "-";
    let mut text = Vec::new();
    let read =
        if stdin { io::stdin().lock().read_to_end(&mut text).map(|_| ()) } else { fs::read(file).map(|t| text = t) };
    read.map_err(|e| format!("{file}: {e}"))?;
    let ascii = if args.ascii { vcl::to_ascii(&text) } else { Cow::Borrowed(&*text) };
    let out = format(file, &ascii, style).map_err(|reason| reason.to_string())?;
    let differs = out != text;
    let print = |bytes: &[u8]| io::stdout().lock().write_all(bytes).map_err(|e| format!("stdout: {e}"));
    if args.diff && differs {
        print(&diff::unified(file, &text, &out))?;
    } else if args.check && differs {
        print(format!("{file}\n").as_bytes())?;
    } else if args.check || args.diff {
        return Ok(differs);
    } else if stdin {
        print(&out)?;
    } else if differs {
        replace(Path::new(file), &out).map_err(|e| format!("{file}: {e}"))?;
    }
    Ok(differs)
}

/// Writes a temporary file and renames it, so that the file is complete at any time. A link stays a link. If the directory's permissions or
/// the file's owner don't allow this, it writes to the file itself.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    let path = path.canonicalize()?;
    let old = fs::metadata(&path)?;
    if old.nlink() > 1 {
        return fs::write(&path, text);
    }
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    let new = path.with_file_name(name);
    let Ok(mut file) = fs::OpenOptions::new().write(true).create_new(true).open(&new) else {
        return fs::write(&path, text);
    };
    let made = file.metadata()?;
    let same_owner = (made.uid(), made.gid()) == (old.uid(), old.gid());
    if !same_owner && fchown(&file, Some(old.uid()), Some(old.gid())).is_err() {
        fs::remove_file(&new)?;
        return fs::write(&path, text);
    }
    let written = file
        .set_permissions(old.permissions())
        .and_then(|()| file.write_all(text))
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&new, &path));
    if written.is_err() {
        let _ = fs::remove_file(&new);
    }
    written
}
