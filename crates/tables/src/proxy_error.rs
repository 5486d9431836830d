// SPDX-License-Identifier: BSD-2-Clause
//! Proxy error types: why a proxy made a response itself, or why it couldn't complete one. The names are those of the IANA registry
//! "HTTP Proxy Error Types" (RFC 9209, 2.3; RFC 10036), for the parameter `error` of the header `Proxy-Status`.

macro_rules! types {
    ($($variant:ident $word:literal $text:literal;)*) => {
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum ProxyError {
            $(#[doc = $text] $variant,)*
        }

        impl ProxyError {
            /// Every type, in the order of the registry.
            pub const ALL: &'static [ProxyError] = &[$(ProxyError::$variant),*];

            /// The name in IANA's registry of proxy error types.
            pub const fn word(self) -> &'static str {
                match self { $(ProxyError::$variant => $word,)* }
            }
        }
    };
}

types! {
    DnsTimeout "dns_timeout" "The lookup of the next hop's address took too long.";
    DnsError "dns_error" "The lookup of the next hop's address failed.";
    DestinationNotFound "destination_not_found" "There is no next hop for the request.";
    DestinationUnavailable "destination_unavailable" "The next hop is considered unavailable: a probe or a recent failure says so.";
    DestinationIpProhibited "destination_ip_prohibited" "Connections to the next hop's address are forbidden here.";
    DestinationIpUnroutable "destination_ip_unroutable" "There is no route to the next hop's address.";
    ConnectionRefused "connection_refused" "The next hop refused the connection.";
    ConnectionTerminated "connection_terminated" "The next hop closed the connection before the response was complete.";
    ConnectionTimeout "connection_timeout" "Opening a connection to the next hop took too long.";
    ConnectionReadTimeout "connection_read_timeout" "The next hop sent nothing for too long.";
    ConnectionWriteTimeout "connection_write_timeout" "The next hop took nothing for too long.";
    ConnectionLimitReached "connection_limit_reached" "As many connections to the next hop are open as there may be.";
    TlsProtocolError "tls_protocol_error" "TLS with the next hop failed.";
    TlsCertificateError "tls_certificate_error" "The next hop's certificate isn't valid.";
    TlsAlertReceived "tls_alert_received" "The next hop ended TLS with an alert.";
    HttpRequestError "http_request_error" "The request gets a 4xx on the origin's behalf.";
    HttpRequestDenied "http_request_denied" "The proxy's configuration or policy rejects the request, which wasn't forwarded.";
    HttpResponseIncomplete "http_response_incomplete" "The response is incomplete.";
    HttpResponseHeaderSectionSize "http_response_header_section_size" "The head of the response is too large.";
    HttpResponseHeaderSize "http_response_header_size" "A header line of the response is too long.";
    HttpResponseBodySize "http_response_body_size" "The body of the response is too large.";
    HttpResponseTrailerSectionSize "http_response_trailer_section_size" "The trailers of the response are too large.";
    HttpResponseTrailerSize "http_response_trailer_size" "A trailer line of the response is too long.";
    HttpResponseTransferCoding "http_response_transfer_coding" "The transfer coding of the response can't be decoded.";
    HttpResponseContentCoding "http_response_content_coding" "The content coding of the response can't be decoded.";
    HttpResponseTimeout "http_response_timeout" "The complete response took too long.";
    HttpUpgradeFailed "http_upgrade_failed" "The next hop didn't switch protocols.";
    HttpProtocolError "http_protocol_error" "The response breaks HTTP in another way.";
    ProxyInternalResponse "proxy_internal_response" "The proxy made the response without asking a next hop.";
    ProxyInternalError "proxy_internal_error" "The proxy failed for a reason that has nothing to do with the origin.";
    ProxyConfigurationError "proxy_configuration_error" "The proxy's configuration is wrong.";
    ProxyLoopDetected "proxy_loop_detected" "The request would be forwarded to this proxy itself.";
    IncrementalRefused "incremental_refused" "The message is to be forwarded incrementally, which the proxy refuses.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_a_token_and_the_variants_name() {
        assert_eq!(ProxyError::ALL.len(), 33, "those of RFC 9209 and RFC 10036");
        for error in ProxyError::ALL {
            let joined: String = error.word().split('_').collect();
            assert_eq!(joined, format!("{error:?}").to_lowercase());
        }
    }
}
