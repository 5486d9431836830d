# SPDX-License-Identifier: BSD-2-Clause
# Bare words everywhere, comments between words, each spelling of else, blanks where nobody has them.
backend default { .host = "127.0.0.1"; .port = "80"; }
backend other{.host="127.0.0.1";.port="80";}
acl local { "localhost";!"127.0.0.2";"127.0.0.0"/8;}
sub vcl_recv{
  if(req.url~"^/a"){pass;}elsif(req.url ~ "^/img" ){lookup;}elseif ( req.url ~ "^/js" ) { /* one */ lookup /* two */ ; }
  else if(req.http.Cookie~"theme"&&!(req.url=="/"||req.url~"^/news")){set req.backend=other;pass;}else{{set req.http.X-Block="in";}}
  if(!client.ip~local){error 403"Not local";}
  if(req.http.X-Country){
    if(req.http.X-Country=="DE"){set req.http.X-Two="d" "e";}else{if(req.http.X-Country!="DE"){remove req.http.X-Two;set req.http.X-Two=req.http.X-Country"-"req.url;}}
  }
}
sub vcl_fetch{if(req.http.X-Two){set obj.http.X-Two=req.http.X-Two;}if(obj.status==404){pass;}set obj.ttl=2 m;if(obj.http.Set-Cookie){pass;}deliver;}
sub vcl_deliver{remove resp.http.Via;set resp.http.X-Hits=obj.hits;deliver;}
