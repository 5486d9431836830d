// SPDX-License-Identifier: BSD-2-Clause
//! `param.*`: what parameters are at the moment.

use params::Params;
use tables::vclvars::Var;

use crate::value::Value;

/// The value of one of them. `None`: the variable isn't one.
pub fn param(params: &Params, var: Var) -> Option<Value> {
    let seconds = match var {
        Var::ParamBackendIdleTimeout => params.backend_idle_timeout,
        Var::ParamBackendWaitTimeout => params.backend_wait_timeout,
        Var::ParamBetweenBytesTimeout => params.between_bytes_timeout,
        Var::ParamConnectTimeout => params.connect_timeout,
        Var::ParamDefaultGrace => params.default_grace,
        Var::ParamDefaultKeep => params.default_keep,
        Var::ParamDefaultTtl => params.default_ttl,
        Var::ParamFirstByteTimeout => params.first_byte_timeout,
        Var::ParamIdleSendTimeout => params.idle_send_timeout,
        Var::ParamPipeTaskDeadline => params.pipe_task_deadline,
        Var::ParamPipeTimeout => params.pipe_timeout,
        Var::ParamSendTimeout => params.send_timeout,
        Var::ParamShortlived => params.shortlived,
        Var::ParamTimeoutIdle => params.timeout_idle,
        Var::ParamUncacheableTtl => params.uncacheable_ttl,
        Var::ParamTransitBuffer => {
            return Some(Value::Bytes(i64::try_from(params.transit_buffer).unwrap_or(i64::MAX)));
        }
        Var::ParamHttpLenient => return Some(Value::Bool(params.http_lenient)),
        Var::ParamBackendWaitLimit => return Some(Value::Int(params.backend_wait_limit.into())),
        Var::ParamMaxEsiDepth => return Some(Value::Int(params.max_esi_depth.into())),
        Var::ParamMaxRestarts => return Some(Value::Int(params.max_restarts.into())),
        Var::ParamMaxRetries => return Some(Value::Int(params.max_retries.into())),
        _ => return None,
    };
    Some(Value::limit(seconds))
}
