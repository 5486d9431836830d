// SPDX-License-Identifier: BSD-2-Clause
//! Signals that end a process for what it did (a bad access, an overflown stack, an abort) or because somebody sent them:
//! a handler has them reported, then the process dies of the very signal, so that its status and its core are the true ones.
//!
//! The handler runs on a stack of its own for each thread that asked for one ([`protect_this_thread`]), with every signal
//! blocked: a fault while it reports ends the process at once, and what was reported by then stays. One that hangs (on a
//! lock that the thread held) is ended by a timer.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::ptr::{self, NonNull};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use nix::sys::mman::{MapFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, kill, raise, sigaction};
use nix::unistd::{Pid, getpid, gettid};

const FATAL: [Signal; 5] = [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGABRT, Signal::SIGILL, Signal::SIGFPE];
/// A handler's stack: reading the program's debug information takes more than the system's least.
const STACK_BYTES: usize = 256 << 10;
const PAGE: usize = 4096;
/// A report takes no longer than this.
const REPORT_SECONDS: libc::c_uint = 5;
/// Bytes beyond a stack's end in which an access still counts as its overflow.
const BEYOND: usize = 64 << 10;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalFault {
    pub signal: i32,
    pub cause: SignalCause,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalCause {
    /// An instruction; with the address that it is about.
    Address(usize),
    StackOverflow,
    /// This process itself, as abort(3) does.
    Raised,
    Sent {
        /// The sender's pid; 0 when it can't be told.
        pid: i32,
    },
}

impl fmt::Display for SignalFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Signal::try_from(self.signal).map_or("?", Signal::as_str);
        write!(out, "Signal {} ({name}) ", self.signal)?;
        match self.cause {
            SignalCause::Address(at) => write!(out, "at address {at:#x}"),
            SignalCause::StackOverflow => out.write_str("because the stack overflowed"),
            SignalCause::Raised => out.write_str("raised by the process itself"),
            SignalCause::Sent { pid } => write!(out, "sent by process {pid}"),
        }
    }
}

static REPORT: OnceLock<fn(&SignalFault)> = OnceLock::new();
/// The thread that reports, and the signal it does so for; 0 while nothing is wrong.
static REPORTER: AtomicI32 = AtomicI32::new(0);
static SIGNAL: AtomicI32 = AtomicI32::new(0);

thread_local! {
    /// This thread's stack, from the lowest address on that counts as beyond it; `0..0` when it isn't known.
    static BOUNDS: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    static HANDLER_STACK: RefCell<Option<HandlerStack>> = const { RefCell::new(None) };
}

/// Has `report` called, once, before the process dies of one of these signals. It runs in a signal handler: let it write down
/// first what needs neither memory nor locks.
pub fn watch(report: fn(&SignalFault)) -> io::Result<()> {
    let _ = REPORT.set(report);
    protect_this_thread();
    let action = |handler| SigAction::new(handler, SaFlags::SA_SIGINFO | SaFlags::SA_ONSTACK, SigSet::all());
    // SAFETY: `on_timeout` calls only sigaction(2) and kill(2), which a handler may.
    unsafe { sigaction(Signal::SIGALRM, &action(SigHandler::SigAction(on_timeout))) }?;
    for signal in FATAL {
        // SAFETY: `on_fatal` itself uses atomics, plain thread-locals and system calls only. What `report` does beyond that can
        // do no harm to a process that is to die: a second fault or a hang ends it, see above.
        unsafe { sigaction(signal, &action(SigHandler::SigAction(on_fatal))) }?;
    }
    Ok(())
}

/// Gives this thread a stack for the handler. Without it an overflown stack ends the process without a report, or the system's
/// least stack is used. It is given back when the thread ends.
pub fn protect_this_thread() {
    BOUNDS.set(bounds().unwrap_or_default());
    HANDLER_STACK.with_borrow_mut(|stack| {
        if stack.is_none() {
            *stack = HandlerStack::new();
        }
    });
}

/// Dies of SIGABRT without another report: there is one.
pub fn abort_reported() -> ! {
    let _ = crate::signal::default(libc::SIGABRT);
    std::process::abort()
}

/// A thread's name as the system has it, without allocating.
#[derive(Clone, Copy, Debug)]
pub struct ThreadName([u8; 16]);

impl ThreadName {
    pub fn own() -> ThreadName {
        let mut name = [0u8; 16];
        // SAFETY: PR_GET_NAME writes at most 16 bytes, a NUL among them, to its argument.
        unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
        ThreadName(name)
    }
}

impl fmt::Display for ThreadName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        out.write_str(std::str::from_utf8(&self.0[..len]).unwrap_or("?"))
    }
}

/// Text of a return address that lies in the program: the address, this, its offset in hex, and `)`.
pub const PROGRAM_OFFSET: &str = " (lacquer+0x";

/// Numbers of return addresses, first and last ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BacktraceAddresses {
    pub first: usize,
    pub last: usize,
    pub left_out: usize,
}

/// Frames after which a walk ends: a stack holds no more.
const MOST_FRAMES: usize = 1 << 20;

/// Return addresses of this thread, innermost first; those that `first` has no room for go to `last`, as far as they are
/// the outermost ones. Neither allocates nor reads files.
pub fn return_addresses(first: &mut [usize], last: &mut [usize]) -> BacktraceAddresses {
    struct Walk<'a> {
        first: &'a mut [usize],
        last: &'a mut [usize],
        count: usize,
    }
    extern "C" fn step(context: *mut UnwindContext, walk: *mut libc::c_void) -> libc::c_int {
        const GO_ON: libc::c_int = 0;
        const STOP: libc::c_int = 5;
        // SAFETY: `walk` is the `Walk` that `return_addresses` passed and waits for.
        let walk = unsafe { &mut *walk.cast::<Walk<'_>>() };
        if walk.count == MOST_FRAMES {
            return STOP;
        }
        // SAFETY: `context` is valid for the time of this call.
        let address = unsafe { _Unwind_GetIP(context) };
        let (room, around) = (walk.first.len(), walk.last.len());
        match walk.first.get_mut(walk.count) {
            Some(slot) => *slot = address,
            None if around == 0 => return STOP,
            None => walk.last[(walk.count - room) % around] = address,
        }
        walk.count += 1;
        GO_ON
    }
    let mut walk = Walk { first, last, count: 0 };
    // SAFETY: `step` has the form that is asked for, and `walk` outlives the call.
    unsafe { _Unwind_Backtrace(step, ptr::from_mut(&mut walk).cast()) };
    let Walk { first, last, count } = walk;
    let beyond = count.saturating_sub(first.len());
    let left_out = beyond.saturating_sub(last.len());
    if left_out > 0 {
        let oldest = beyond % last.len();
        last.rotate_left(oldest);
    }
    BacktraceAddresses { first: count - beyond, last: beyond - left_out, left_out }
}

/// The address at which the program was loaded: an address less this is one that tools find in its file.
pub fn load_address() -> usize {
    ptr::addr_of!(__executable_start) as usize
}

pub fn program_bytes() -> usize {
    ptr::addr_of!(_end) as usize - load_address()
}

#[repr(C)]
struct UnwindContext([u8; 0]);

unsafe extern "C" {
    static __executable_start: u8;
    static _end: u8;
    fn _Unwind_Backtrace(
        step: extern "C" fn(*mut UnwindContext, *mut libc::c_void) -> libc::c_int,
        argument: *mut libc::c_void,
    ) -> libc::c_int;
    fn _Unwind_GetIP(context: *mut UnwindContext) -> usize;
}

fn bounds() -> Option<(usize, usize)> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    // SAFETY: it only looks up the calling thread's name for itself.
    let this = unsafe { libc::pthread_self() };
    // SAFETY: `this` is the calling thread, which lives; on success `attributes` is initialised.
    if unsafe { libc::pthread_getattr_np(this, attributes.as_mut_ptr()) } != 0 {
        return None;
    }
    let (mut base, mut size, mut guard) = (ptr::null_mut(), 0, 0);
    // SAFETY: initialised above; two plain values are written.
    unsafe { libc::pthread_attr_getstack(attributes.as_ptr(), &mut base, &mut size) };
    // SAFETY: initialised above; a plain value is written.
    unsafe { libc::pthread_attr_getguardsize(attributes.as_ptr(), &mut guard) };
    // SAFETY: initialised above, and not used again.
    unsafe { libc::pthread_attr_destroy(attributes.as_mut_ptr()) };
    // Whether the guard lies within what is called the stack depends on the system's library.
    let (lowest, guard) = (base as usize, guard.max(PAGE));
    Some((lowest.saturating_sub(guard + BEYOND), lowest + guard))
}

/// Memory for a handler, with a page below it that faults.
#[derive(Debug)]
struct HandlerStack(NonNull<libc::c_void>);

impl HandlerStack {
    fn new() -> Option<HandlerStack> {
        let len = NonZeroUsize::new(PAGE + STACK_BYTES)?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        let flags = MapFlags::MAP_PRIVATE | MapFlags::MAP_NORESERVE | MapFlags::MAP_STACK;
        // SAFETY: fresh memory, at an address of the system's choice.
        let base = unsafe { mmap_anonymous(None, len, protection, flags) }.ok()?;
        let stack = HandlerStack(base);
        // SAFETY: the first page of what was just mapped, which nothing uses.
        unsafe { mprotect(base, PAGE, ProtFlags::PROT_NONE) }.ok()?;
        // SAFETY: within the mapping.
        let ss_sp = unsafe { base.byte_add(PAGE) }.as_ptr();
        let wanted = libc::stack_t { ss_sp, ss_flags: 0, ss_size: STACK_BYTES };
        // SAFETY: the memory stays until `drop`, which takes it out of use first.
        (unsafe { libc::sigaltstack(&wanted, ptr::null_mut()) } == 0).then_some(stack)
    }
}

impl Drop for HandlerStack {
    fn drop(&mut self) {
        let mut now = libc::stack_t { ss_sp: ptr::null_mut(), ss_flags: 0, ss_size: 0 };
        // SAFETY: only asks.
        unsafe { libc::sigaltstack(ptr::null(), &mut now) };
        // SAFETY: within the mapping.
        if now.ss_sp == unsafe { self.0.byte_add(PAGE) }.as_ptr() {
            now.ss_flags = libc::SS_DISABLE;
            // SAFETY: no handler runs on it: this code does.
            unsafe { libc::sigaltstack(&now, ptr::null_mut()) };
        }
        // SAFETY: exactly what `new` mapped, out of use by now.
        let _ = unsafe { munmap(self.0, PAGE + STACK_BYTES) };
    }
}

extern "C" fn on_fatal(number: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let own = gettid().as_raw();
    match REPORTER.compare_exchange(0, own, Ordering::SeqCst, Ordering::SeqCst) {
        Ok(_) => {
            SIGNAL.store(number, Ordering::SeqCst);
            // SAFETY: sets a timer.
            unsafe { libc::alarm(REPORT_SECONDS) };
            // SAFETY: the kernel gives a handler with SA_SIGINFO a valid `info`.
            let info = unsafe { &*info };
            // SAFETY: the kernel gave it for `number`.
            let fault = unsafe { fault(number, info) };
            if let Some(report) = REPORT.get() {
                report(&fault);
            }
        }
        // The report itself failed (abort(3) unblocks its signal): what there is must do.
        Err(reporter) if reporter == own => {}
        // Another thread reports, and ends the process.
        Err(_) => std::thread::sleep(Duration::from_secs(2 * u64::from(REPORT_SECONDS))),
    }
    let _ = crate::signal::default(number);
    // It is blocked until this handler returns, and has its default effect then.
    let _ = Signal::try_from(number).and_then(raise);
}

/// The fault that the handler's `info` describes.  # Safety `info` is what the kernel gave for `number`.
unsafe fn fault(number: i32, info: &libc::siginfo_t) -> SignalFault {
    // Codes of the kernel's own are positive.
    let cause = if info.si_code <= 0 {
        // SAFETY: signals that were sent carry who sent them.
        match unsafe { info.si_pid() } {
            pid if pid == getpid().as_raw() => SignalCause::Raised,
            pid => SignalCause::Sent { pid },
        }
    } else {
        // SAFETY: faults carry an address.
        let at = unsafe { info.si_addr() } as usize;
        let (lowest, end) = BOUNDS.get();
        if number == libc::SIGSEGV && (lowest..end).contains(&at) {
            SignalCause::StackOverflow
        } else {
            SignalCause::Address(at)
        }
    };
    SignalFault { signal: number, cause }
}

extern "C" fn on_timeout(_number: i32, _info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let number = SIGNAL.load(Ordering::SeqCst);
    let Ok(signal) = Signal::try_from(number) else { return };
    let _ = crate::signal::default(number);
    let _ = kill(Pid::from_raw(getpid().as_raw()), signal);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_reads_as_a_sentence() {
        let text = |signal, cause| SignalFault { signal, cause }.to_string();
        assert_eq!(text(11, SignalCause::Address(16)), "Signal 11 (SIGSEGV) at address 0x10");
        assert_eq!(text(11, SignalCause::StackOverflow), "Signal 11 (SIGSEGV) because the stack overflowed");
        assert_eq!(text(6, SignalCause::Raised), "Signal 6 (SIGABRT) raised by the process itself");
        assert_eq!(text(7, SignalCause::Sent { pid: 9 }), "Signal 7 (SIGBUS) sent by process 9");
    }

    #[test]
    fn a_thread_knows_where_it_is() {
        let named = std::thread::Builder::new().name("a-thread".to_owned());
        let looked = named.spawn(|| {
            protect_this_thread();
            let here = 0u8;
            let (lowest, end) = BOUNDS.get();
            let mut all = [0; 200];
            let (mut first, mut last) = ([0; 2], [0; 2]);
            // Both come from one place.
            let [whole, cut] = [(&mut all[..], &mut [][..]), (&mut first[..], &mut last[..])]
                .map(|(first, last)| return_addresses(first, last));
            assert_eq!((cut.first, cut.last, cut.left_out), (2, 2, whole.first - 4));
            assert_eq!((first[1], last[..].to_vec()), (all[1], all[whole.first - 2..whole.first].to_vec()));
            assert!((load_address()..load_address() + program_bytes()).contains(&all[0]));
            (ThreadName::own().to_string(), lowest < end && ptr::addr_of!(here) as usize > end, whole.first, all[0])
        });
        let (name, is_within, count, first) = looked.unwrap().join().unwrap();
        assert_eq!((name.as_str(), is_within), ("a-thread", true));
        assert!(count > 1 && first > load_address());
    }
}
