// SPDX-License-Identifier: BSD-2-Clause
//! vmod_tcp(3) of varnish-modules. What the kernel refuses is a VCL_Error record; the transaction goes on.

use sys::tcp::SocketNumber;
use tables::Tag;
use vrt::VclFailure;
use vrt::vmod::{CallResult, INT, REAL, VOID, VmodCall, give};

vrt::vmod! {
    /// The client's TCP connection; on the client side only
    pub(crate) static VMOD = tcp;

    functions {
        /// Sets the congestion control algorithm; returns 0, or -1 if the kernel refuses
        fn congestion_algorithm(algorithm: STRING) -> INT = congestion;

        /// Logs the kernel's information about the connection (TCP_INFO)
        fn dump_info() -> VOID, local = dump;

        /// Returns the round-trip time in whole milliseconds; 0 if it is unknown
        fn get_estimated_rtt() -> REAL, local = get_estimated_rtt;

        /// Limits the send rate in KB/s (requires the fq scheduler)
        fn set_socket_pace(_: INT) -> VOID = pace;
    }
}

fn get_estimated_rtt(call: &mut VmodCall<'_>) -> CallResult<REAL> {
    let milliseconds = info(call)?.map_or(0, |info| info.rtt / 1000);
    give(f64::from(milliseconds))
}

fn socket(call: &mut VmodCall<'_>) -> Result<SocketNumber, VclFailure> {
    call.ctx.client_socket().ok_or_else(|| "vmod_tcp: there is no client here".into())
}

fn info(call: &mut VmodCall<'_>) -> Result<Option<sys::tcp::TcpInfo>, VclFailure> {
    let info = socket(call)?.info().ok();
    if info.is_none() {
        call.ctx.log().put(Tag::VclError, b"getsockopt() failed");
    }
    Ok(info)
}

fn congestion(call: &mut VmodCall<'_>, algorithm: &[u8]) -> CallResult<INT> {
    let (socket, name) = (socket(call)?, algorithm);
    if socket.set_congestion(name).is_err() {
        call.ctx.log().put_parts(Tag::VclError, &[b"TCP_CONGESTION setsockopt() for \"", name, b"\" failed."]);
        return give(-1);
    }
    match socket.congestion() {
        Ok(name) => call.ctx.log().put2(Tag::VclLog, b"getsockopt() returned: ", &name),
        Err(_) => call.ctx.log().put(Tag::VclError, b"getsockopt() failed"),
    }
    give(0)
}

fn dump(call: &mut VmodCall<'_>) -> CallResult<VOID> {
    let Some(i) = info(call)? else { return give(()) };
    let log = call.ctx.log();
    let (lost, retrans) = (i.lost, i.retrans);
    log.putf(
        Tag::VclLog,
        format_args!("tcpi: snd_mss={} rcv_mss={} lost={lost} retrans={retrans}", i.snd_mss, i.rcv_mss),
    );
    let (window, reordering) = (i.snd_cwnd, i.reordering);
    log.putf(
        Tag::VclLog,
        format_args!(
            "tcpi2: pmtu={} rtt={} rttvar={} snd_cwnd={window} advmss={} reordering={reordering}",
            i.pmtu, i.rtt, i.rttvar, i.advmss
        ),
    );
    give(())
}

fn pace(call: &mut VmodCall<'_>, number: i64) -> CallResult<VOID> {
    let (socket, pace) = (socket(call)?, number);
    // The kernel takes 32 bits; a negative number means the most there is.
    let rate = u32::try_from(pace.saturating_mul(1024)).unwrap_or(u32::MAX);
    if socket.set_pacing_rate(rate).is_err() {
        call.ctx.log().put(Tag::VclError, b"set_socket_pace(): Error setting pace");
        return give(());
    }
    call.ctx.log().putf(Tag::VclLog, format_args!("vmod-tcp: Socket paced to {pace} KB/s."));
    if let Ok(rate) = socket.pacing_rate() {
        call.ctx.log().putf(Tag::VclLog, format_args!("getsockopt() 0 {}", rate as i32));
    }
    give(())
}
