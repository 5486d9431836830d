// SPDX-License-Identifier: BSD-2-Clause
//! Memory for secrets: sealed files in memory that go from one process to another by their descriptor, mapped where no core
//! file shows them.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap, munmap};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};

/// Nobody can change the bytes or their number any more.
const SEALS: SealFlag =
    SealFlag::F_SEAL_SEAL.union(SealFlag::F_SEAL_SHRINK).union(SealFlag::F_SEAL_GROW).union(SealFlag::F_SEAL_WRITE);

/// A file in memory with these bytes, which nobody can change from now on. `name` is what /proc shows.
///
/// # Errors
/// The system's.
pub fn seal(name: &str, bytes: &[u8]) -> io::Result<File> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let mut file: File = memfd_create(CString::new(name)?.as_c_str(), flags)?.into();
    file.write_all(bytes)?;
    fcntl(&file, FcntlArg::F_ADD_SEALS(SEALS))?;
    Ok(file)
}

#[derive(Debug)]
pub struct SealedSecret {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the bytes can't change (the file is sealed) and belong to no thread.
unsafe impl Send for SealedSecret {}
// SAFETY: as above.
unsafe impl Sync for SealedSecret {}

impl SealedSecret {
    /// Maps a file that was made by [`seal`], here or in another process.
    ///
    /// # Errors
    /// The system's; `InvalidInput` for a file that isn't sealed, or empty.
    pub fn map(file: impl AsFd) -> io::Result<SealedSecret> {
        let seals = SealFlag::from_bits_retain(fcntl(&file, FcntlArg::F_GET_SEALS)?);
        let len = usize::try_from(nix::sys::stat::fstat(&file)?.st_size).unwrap_or(0);
        let size = NonZeroUsize::new(len).filter(|_| seals.contains(SEALS)).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: a new mapping at an address of the kernel's choice aliases nothing of ours; its bytes can't be written, and
        // the file can't be made shorter, by anybody.
        let base = unsafe { mmap(None, size, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, &file, 0) }?;
        let secret = SealedSecret { base: base.cast(), len };
        // SAFETY: the whole mapping just made; no byte of it changes.
        unsafe { madvise(base, len, MmapAdvise::MADV_DONTDUMP) }?;
        Ok(secret)
    }
}

impl AsRef<[u8]> for SealedSecret {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: mapped as long as `self` lives, and never changed: the seals were looked at when it was mapped.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl Drop for SealedSecret {
    fn drop(&mut self) {
        // SAFETY: the mapping of `map`, which nobody has a reference into: they would borrow `self`.
        let _ = unsafe { munmap(self.base.cast(), self.len) };
    }
}

/// Sends a descriptor and a byte that says what it is over a socket between processes.
///
/// # Errors
/// The system's; `WouldBlock` when the socket is full.
pub fn send(socket: impl AsFd, kind: u8, file: impl AsFd) -> io::Result<()> {
    let fds = [file.as_fd().as_raw_fd()];
    let flags = MsgFlags::MSG_NOSIGNAL | MsgFlags::MSG_DONTWAIT;
    let text = [IoSlice::new(std::slice::from_ref(&kind))];
    sendmsg::<()>(socket.as_fd().as_raw_fd(), &text, &[ControlMessage::ScmRights(&fds)], flags, None)?;
    Ok(())
}

/// Takes what [`send`] sent; None when there is nothing more for now.
///
/// # Errors
/// The system's; `UnexpectedEof` when the other end is closed, `InvalidData` for a byte without a descriptor.
pub fn receive(socket: impl AsFd) -> io::Result<Option<(u8, OwnedFd)>> {
    let mut kind = [0];
    let mut space = nix::cmsg_space!([std::os::fd::RawFd; 1]);
    let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_CMSG_CLOEXEC;
    let (bytes, fds) = {
        let mut text = [IoSliceMut::new(&mut kind)];
        let message = match recvmsg::<()>(socket.as_fd().as_raw_fd(), &mut text, Some(&mut space), flags) {
            Err(nix::Error::EAGAIN) => return Ok(None),
            done => done?,
        };
        let fds = message.cmsgs()?.flat_map(|part| match part {
            ControlMessageOwned::ScmRights(fds) => fds,
            _ => Vec::new(),
        });
        let fds: Vec<OwnedFd> = fds
            // SAFETY: the kernel has just made these descriptors for this process; nobody else knows their numbers.
            .map(|raw| unsafe { OwnedFd::from_raw_fd(raw) })
            .collect();
        (message.bytes, fds)
    };
    match (bytes, fds.into_iter().next()) {
        (0, _) => Err(io::ErrorKind::UnexpectedEof.into()),
        (_, Some(fd)) => Ok(Some((kind[0], fd))),
        (_, None) => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// No core file of this process from now on, whatever limits and the system's core handler say; and only root may look into
/// it. A program that it starts isn't bound by that.
///
/// # Errors
/// The system's.
pub fn forbid_core() -> io::Result<()> {
    // SAFETY: a call with numbers only, which changes one attribute of this process.
    match unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_is_read_and_never_changed() {
        let mut file = seal("test", b"a key").unwrap();
        assert!(file.write_all(b"x").is_err() && file.set_len(0).is_err());
        assert_eq!(SealedSecret::map(&file).unwrap().as_ref(), b"a key");
        let open = crate::fd::memfd("open").unwrap();
        open.set_len(5).unwrap();
        assert_eq!(SealedSecret::map(&open).unwrap_err().kind(), io::ErrorKind::InvalidInput);
        assert!(SealedSecret::map(seal("empty", b"").unwrap()).is_err());
    }

    #[test]
    fn a_descriptor_comes_with_its_byte() {
        let (ours, theirs) = crate::fd::socket_pair().unwrap();
        assert!(receive(&theirs).unwrap().is_none());
        send(&ours, b'x', seal("test", b"1").unwrap()).unwrap();
        send(&ours, b'y', seal("test", b"22").unwrap()).unwrap();
        for (kind, bytes) in [(b'x', &b"1"[..]), (b'y', b"22")] {
            let (is, file) = receive(&theirs).unwrap().unwrap();
            assert_eq!((is, SealedSecret::map(&file).unwrap().as_ref()), (kind, bytes));
        }
        crate::fd::write_all(&ours, b"z").unwrap();
        assert_eq!(receive(&theirs).unwrap_err().kind(), io::ErrorKind::InvalidData);
        drop(ours);
        assert_eq!(receive(&theirs).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn the_mapping_is_kept_out_of_cores() {
        let secret = SealedSecret::map(seal("lacquer-test-secret", b"k").unwrap()).unwrap();
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let own = maps.split("VmFlags:").find(|part| part.contains("lacquer-test-secret")).map(|_| ());
        let flags =
            maps.split_once("lacquer-test-secret").and_then(|(_, rest)| rest.split_once("VmFlags:")).map(|(_, f)| f);
        assert!(own.is_some() && flags.is_some_and(|f| f.lines().next().unwrap_or_default().contains("dd")));
        drop(secret);
    }
}
