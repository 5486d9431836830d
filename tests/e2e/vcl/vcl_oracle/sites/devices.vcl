# SPDX-License-Identifier: BSD-2-Clause
# Device classes by User-Agent, normalised encodings and a redirect for telephones.
vcl 4.1;

backend default { .host = "127.0.0.1"; .port = "80"; }

sub detect {
	unset req.http.X-Device;
	set req.http.X-Device = "pc";
	if (req.http.User-Agent ~ "(?i)(ads|google|bing|msn|yandex|baidu|ro|career|seznam|)bot" || req.http.User-Agent ~ "(?i)(baidu|jike|symantec)spider|crawler") {
		set req.http.X-Device = "bot";
	} elsif (req.http.User-Agent ~ "(?i)ipad") {
		set req.http.X-Device = "tablet-ipad";
	} elsif (req.http.User-Agent ~ "(?i)ip(hone|od)") {
		set req.http.X-Device = "mobile-iphone";
	} elsif (req.http.User-Agent ~ "(?i)android.*(mobile|mini)") {
		set req.http.X-Device = "mobile-android";
	} elsif (req.http.User-Agent ~ "(?i)android") {
		set req.http.X-Device = "tablet-android";
	} elsif (req.http.User-Agent ~ "^$" || !req.http.User-Agent) {
		set req.http.X-Device = "unknown";
	} elsif (req.http.User-Agent ~ "^(?:(?!Mozilla).)*$") {
		set req.http.X-Device = "tool";
	}
}

sub vcl_recv {
	call detect;
	if (req.http.X-Device ~ "^mobile-" && req.http.host ~ "^(www\.)?example\.com" && req.url !~ "[?&]full=1") {
		return (synth(751, "http://m.example.com" + req.url));
	}
	if (req.http.Accept-Encoding) {
		if (req.url ~ "\.(jpg|png|gif|gz|tgz|bz2|mp3|ogg|zip)$") { unset req.http.Accept-Encoding; }
		elsif (req.http.Accept-Encoding ~ "gzip") { set req.http.Accept-Encoding = "gzip"; }
		elsif (req.http.Accept-Encoding ~ "deflate" && req.http.user-agent !~ "MSIE") { set req.http.Accept-Encoding = "deflate"; }
		else { unset req.http.Accept-Encoding; }
	}
	unset req.http.Cookie;
}

sub vcl_backend_response {
	if (bereq.http.X-Device) {
		if (!beresp.http.Vary) { set beresp.http.Vary = "X-Device"; }
		elsif (beresp.http.Vary !~ "X-Device") { set beresp.http.Vary = beresp.http.Vary + ", X-Device"; }
	}
	set beresp.http.X-Device-Seen = bereq.http.X-Device;
}

sub vcl_deliver {
	if (req.http.X-Device && resp.http.Vary) { set resp.http.Vary = regsub(resp.http.Vary, "X-Device", "User-Agent"); }
}

sub vcl_synth {
	if (resp.status == 751) { set resp.http.Location = resp.reason; set resp.status = 302; set resp.reason = "Found"; return (deliver); }
}
