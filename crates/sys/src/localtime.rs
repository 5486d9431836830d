// SPDX-License-Identifier: BSD-2-Clause
//! Local time as text, by the C library (which knows the zone and strftime's formats).

use std::ffi::CString;

/// `seconds` since 1970 in the local zone, by strftime(3)'s format. None for a format or a time it can't do, or a
/// result longer than 1 kB.
pub fn format(format: &str, seconds: i64) -> Option<String> {
    // strftime can't tell an empty result from a failure.
    let format = CString::new(format!("{format}.")).ok()?;
    // SAFETY: a struct of plain numbers and a pointer that may be null; all zero is valid.
    let mut tm: libc::tm = unsafe { std::mem::zeroed() };
    // SAFETY: both point to values of ours that outlive the call.
    let done = unsafe { libc::localtime_r(&seconds, &mut tm) };
    if done.is_null() {
        return None;
    }
    let mut buffer = [0u8; 1024];
    // SAFETY: the buffer has the length given; the format ends in a NUL; `tm` was filled just now.
    let n = unsafe { libc::strftime(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr(), &tm) };
    let text = buffer.get(..n.checked_sub(1)?)?;
    Some(String::from_utf8_lossy(text).into_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn formats() {
        assert_eq!(super::format("%Y", 86_400 * 300), Some("1970".into()));
        assert_eq!(super::format("", 0), Some(String::new()));
        assert_eq!(super::format(&"%c".repeat(200), 0), None);
        assert_eq!(super::format("%Y", i64::MAX), None);
    }
}
