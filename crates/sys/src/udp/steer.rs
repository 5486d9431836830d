// SPDX-License-Identifier: BSD-2-Clause
//! Which socket of a group gets a datagram of QUIC: the kernel reads the packet's destination connection ID, whatever address it comes
//! from. The first byte of an ID, modulo the number of members, names the member; the next two name the worker that gave it out.
//!
//! A group has two sets of members, for two workers of which one takes the other's place: new connections are the one's, and those that
//! are there stay with the other.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steering {
    pub members: usize,
    /// The set, 0 or 1, that gets what isn't the other's.
    pub set: u8,
    /// The worker whose connections are those of the other set.
    pub former: Option<u16>,
}

/// Offset of a packet's connection ID (RFC 8999 5): with a long header behind version and length, with a short one at
/// once.
const LONG: u32 = 6;
const SHORT: u32 = 1;

const LOAD_BYTE: u16 = (libc::BPF_LD | libc::BPF_B | libc::BPF_ABS) as u16;
const LOAD_HALF: u16 = (libc::BPF_LD | libc::BPF_H | libc::BPF_ABS) as u16;
const JUMP_IF_SET: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
const JUMP_IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const MODULO: u16 = (libc::BPF_ALU | libc::BPF_MOD | libc::BPF_K) as u16;
const ADD: u16 = (libc::BPF_ALU | libc::BPF_ADD | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_A) as u16;

const fn op(code: u16, k: u32) -> libc::sock_filter {
    jump(code, k, 0)
}

/// One that passes over so many ops if what it looks for isn't so.
const fn jump(code: u16, k: u32, otherwise: u8) -> libc::sock_filter {
    libc::sock_filter { code, jt: 0, jf: otherwise, k }
}

/// The member whose number is the byte at `id`, of the set.
fn member(members: usize, set: u8, id: u32) -> [libc::sock_filter; 4] {
    let begin = u32::from(set) * members as u32;
    [op(LOAD_BYTE, id), op(MODULO, members as u32), op(ADD, begin), op(RETURN, 0)]
}

impl Steering {
    fn program(&self) -> Vec<libc::sock_filter> {
        let (long, short) = (self.by_id(LONG), self.by_id(SHORT));
        let mut program = vec![op(LOAD_BYTE, 0), jump(JUMP_IF_SET, 0x80, long.len() as u8)];
        program.extend(long);
        program.extend(short);
        program
    }

    fn by_id(&self, id: u32) -> Vec<libc::sock_filter> {
        let mut part = Vec::new();
        if let Some(life) = self.former {
            let others = member(self.members, 1 - self.set, id);
            part.extend([op(LOAD_HALF, id + 1), jump(JUMP_IF_EQUAL, life.into(), others.len() as u8)]);
            part.extend(others);
        }
        part.extend(member(self.members, self.set, id));
        part
    }
}

/// Has the kernel do so from now on, for the whole group of the socket. What is shorter than an ID goes to the first member of all.
pub fn steer(member: impl AsFd, steering: &Steering) -> io::Result<()> {
    let mut program = steering.program();
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the kernel reads one sock_fprog, and through it the ops that `program` holds until the call is over.
    let done = unsafe {
        libc::setsockopt(
            member.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_REUSEPORT_CBPF,
            (&raw const filter).cast(),
            size_of_val(&filter) as libc::socklen_t,
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;

    use super::super::{DatagramBatch, bind_steered};
    use super::*;

    #[test]
    fn a_connection_id_names_socket_and_worker() {
        const MEMBERS: usize = 3;
        let group = bind_steered("127.0.0.1:0".parse().unwrap(), MEMBERS).unwrap();
        let crate::sock::SocketName::Inet(addr) = crate::sock::local_name(&group[0]).unwrap() else {
            panic!("UDP is inet")
        };
        let mut batch = DatagramBatch::new(1);
        let mut check = |id: [u8; 3], set: usize| {
            let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
            let member = &group[set * MEMBERS + usize::from(id[0]) % MEMBERS];
            let long = [&[0xc0, 0, 0, 0, 1, 8][..], &id, &[9; 9]].concat();
            let short = [&[0x40][..], &id, &[9; 9]].concat();
            for packet in [long, short] {
                sender.send_to(&packet, addr).unwrap();
                batch.receive(member, true).unwrap();
                assert_eq!(batch.datagrams().next(), Some(&packet[..]));
            }
        };
        (0..=255).for_each(|first| check([first, 0x12, 0x34], 0));
        steer(&group[4], &Steering { members: MEMBERS, set: 1, former: Some(0x1234) }).unwrap();
        for first in 0..=255 {
            check([first, 0x12, 0x34], 0);
            check([first, 0x12, 0x35], 1);
        }
        steer(&group[0], &Steering { members: MEMBERS, set: 1, former: None }).unwrap();
        check([7, 0x12, 0x34], 1);
    }
}
