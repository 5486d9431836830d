# A range belongs to a part of a body (206), or to a request for what there isn't (416).
sub vcl_beresp_range {
    if (beresp.status != 206 && beresp.status != 416) {
        unset beresp.http.Content-Range;
    }
}
