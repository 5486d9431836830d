# SPDX-License-Identifier: BSD-2-Clause
# What kind of device, and which browser, a request comes from, in few words instead of thousands of User-Agent texts.
#
#     include "devicedetect.vcl";
#     sub vcl_recv { call devicedetect; }
#
# X-UA-Device is then one of
#     pc
#     bot             mobile-bot
#     mobile-iphone   mobile-android   mobile-firefoxos   mobile-smartphone   mobile-generic
#     tablet-ipad     tablet-android   tablet-kindle   tablet-hp   tablet-rim   tablet-microsoft
# A cookie X-UA-Device-force=WORD says it instead, and doesn't reach the backend.
#
#     sub vcl_recv { call browserclass; }
#
# X-UA-Class is then operamini, operamobile, msie or nomatch.
#
# To keep one copy per word, add it to the hash:       sub vcl_hash { hash_data(req.http.X-UA-Device); }
# or let the backend answer with `Vary: X-UA-Device`, and give clients `Vary: User-Agent`:
#     sub vcl_deliver { if (resp.http.Vary) { set resp.http.Vary = regsub(resp.http.Vary, "(?i)X-UA-Device", "User-Agent"); } }

sub devicedetect {
    # What a client says of itself under this name doesn't count.
    set req.http.X-UA-Device = "pc";

    if (req.http.Cookie ~ "(?i)(^|;) *X-UA-Device-force=[a-z0-9-]+") {
        set req.http.X-UA-Device = regsub(req.http.Cookie, "(?i)^(.*; *)?X-UA-Device-force=([a-z0-9-]+).*$", "\2");
        set req.http.Cookie = regsuball(req.http.Cookie, "(?i)(^|; *)X-UA-Device-force=[^;]*", "");
        set req.http.Cookie = regsub(req.http.Cookie, "^[; ]+", "");
        if (req.http.Cookie == "") {
            unset req.http.Cookie;
        }
    } elseif (req.http.User-Agent ~ "(?i)(googlebot-mobile|(android|iphone|windows phone).*(googlebot|bingbot|yandex(mobile)?bot|baiduspider))") {
        # Robots that look at the pages for phones and say they were one.
        set req.http.X-UA-Device = "mobile-bot";
    } elseif (req.http.User-Agent ~ "(?i)(bot\b|bot/|spider|crawl|slurp|scanner|pingdom|facebookexternalhit|mediapartners-google)") {
        set req.http.X-UA-Device = "bot";
    } elseif (req.http.User-Agent ~ "(?i)(windows phone|iemobile)") {
        # Some of them name Android and the iPhone as well.
        set req.http.X-UA-Device = "mobile-smartphone";
    } elseif (req.http.User-Agent ~ "(?i)\bipad\b") {
        set req.http.X-UA-Device = "tablet-ipad";
    } elseif (req.http.User-Agent ~ "(?i)\bip(hone|od)\b") {
        set req.http.X-UA-Device = "mobile-iphone";
    } elseif (req.http.User-Agent ~ "(?i)(kindle|\bsilk/|\bkf[a-z]{2,5} build)") {
        set req.http.X-UA-Device = "tablet-kindle";
    } elseif (req.http.User-Agent ~ "(?i)android.*mobile" && req.http.User-Agent !~ "(?i)(\bgt-p[0-9]|\bsch-i800|\bxoom\b|transformer|\bnexus (7|9|10)\b)") {
        # Browsers on Android say Mobile on phones and leave it out on tablets; the first tablets didn't know that yet.
        set req.http.X-UA-Device = "mobile-android";
    } elseif (req.http.User-Agent ~ "(?i)android") {
        set req.http.X-UA-Device = "tablet-android";
    } elseif (req.http.User-Agent ~ "(?i)(hpw|web)os.*touchpad|touchpad.*(hpw|web)os") {
        set req.http.X-UA-Device = "tablet-hp";
    } elseif (req.http.User-Agent ~ "(?i)\bplaybook\b") {
        set req.http.X-UA-Device = "tablet-rim";
    } elseif (req.http.User-Agent ~ "(?i)windows nt.*(tablet pc|touch.*\barm\b|\barm\b.*touch)") {
        set req.http.X-UA-Device = "tablet-microsoft";
    } elseif (req.http.User-Agent ~ "(?i)^mozilla/[0-9.]+ \(mobile;.*gecko/.*firefox/") {
        set req.http.X-UA-Device = "mobile-firefoxos";
    } elseif (req.http.User-Agent ~ "(?i)(blackberry|\bbb10\b|symbian|series ?60|maemo|meego|(hpw|web)os|palm(os|source)|bada/|tizen.*mobile|windows ce|opera mobi)") {
        set req.http.X-UA-Device = "mobile-smartphone";
    } elseif (req.http.User-Agent ~ "(?i)(opera mini|nokia|sonyericsson|samsung-|sagem|\bsec-|\blg[-/]|\bmot-|alcatel|j2me|midp|cldc|up\.browser|netfront|obigo|wap|brew )") {
        set req.http.X-UA-Device = "mobile-generic";
    }
}

sub browserclass {
    if (req.http.User-Agent ~ "(?i)opera mini") {
        set req.http.X-UA-Class = "operamini";
    } elseif (req.http.User-Agent ~ "(?i)opera (mobi|tablet)" || req.http.User-Agent ~ "(?i)mobile.* opr/") {
        set req.http.X-UA-Class = "operamobile";
    } elseif (req.http.User-Agent ~ "(?i)(msie [0-9]|trident/)" && req.http.User-Agent !~ "(?i)opera") {
        # Opera once said it was MSIE.
        set req.http.X-UA-Class = "msie";
    } else {
        set req.http.X-UA-Class = "nomatch";
    }
}
