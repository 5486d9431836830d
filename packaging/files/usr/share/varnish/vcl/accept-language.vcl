# SPDX-License-Identifier: BSD-2-Clause
# Which of the site's languages a request is to be answered in: one word in X-Varnish-Accept-Language, whatever the browser
# sends, so that there are as many copies of a page as there are languages.
#
#     include "accept-language.vcl";
#     sub vcl_recv {
#         set req.http.X-Languages = "en bg cs da de pt-br zh-cn";
#         call rewrite_accept_language;
#     }
#
# The first language is for everybody else. There may be any number of them. A range like de-AT is answered with de (RFC 4647,
# lookup). A cookie `language=de`, as a page sets it when somebody has chosen, comes before what the browser sends.
#
# To keep one copy for each language, add it to the hash:
#     sub vcl_hash { hash_data(req.http.X-Varnish-Accept-Language); }
# or, for an origin that reads Accept-Language and answers with `Vary: Accept-Language`, give it the one word only:
#     set req.http.Accept-Language = req.http.X-Varnish-Accept-Language;

import accept_language;

sub rewrite_accept_language {
    # What a client says under this name doesn't count.
    unset req.http.X-Varnish-Accept-Language;
    if (req.http.Cookie ~ "(^|;) *language=[A-Za-z0-9-]+") {
        set req.http.X-Varnish-Accept-Language = accept_language.lookup(
            regsub(req.http.Cookie, "^(.*; *)?language=([A-Za-z0-9-]+).*$", "\2"),
            req.http.X-Languages,
            accept_language.lookup(req.http.Accept-Language, req.http.X-Languages));
    } else {
        set req.http.X-Varnish-Accept-Language = accept_language.lookup(req.http.Accept-Language, req.http.X-Languages);
    }
    unset req.http.X-Languages;
}
