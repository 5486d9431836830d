
# Decides what becomes of a 304 for a stale object, as release 8 does: under --compat 9, and for a VCL that has one of these subroutines.
sub vcl_backend_refresh {
    call vcl_builtin_backend_refresh;
    return (merge);
}

sub vcl_builtin_backend_refresh {
    call vcl_refresh_valid;
    call vcl_refresh_conditions;
    call vcl_refresh_status;
}

# A purge or a ban may have hit the object meanwhile.
sub vcl_refresh_valid {
    if (!obj_stale.is_valid) {
        return (error(503, "Invalid object for refresh"));
    }
}

# A backend that says 304 to a question without conditions is wrong.
sub vcl_refresh_conditions {
    if (!bereq.http.If-Modified-Since && !bereq.http.If-None-Match) {
        return (error(503, "Unexpected 304"));
    }
}

# Only 200s are asked about again, unless VCL makes the conditions.
sub vcl_refresh_status {
    if (obj_stale.status != 200) {
        return (error(503, "Invalid object for refresh (status)"));
    }
}
