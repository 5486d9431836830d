<?php
// SPDX-License-Identifier: BSD-2-Clause
// Writes what it was asked to $FILE.
$text = fn($value) => preg_replace_callback("/[\x80-\xff]/", fn($octet) => chr(0xc0 | ord($octet[0]) >> 6) . chr(0x80 | ord($octet[0]) & 0x3f), (string) $value);
$one = ["vxid" => isset($_SERVER["HTTP_X_VXID"]) ? [$_SERVER["HTTP_X_VXID"]] : [], "method" => $_SERVER["REQUEST_METHOD"], "target" => $text($_SERVER["REQUEST_URI"]),
        "host" => $text($_SERVER["HTTP_HOST"] ?? ""), "length" => strlen(file_get_contents("php://input"))];
file_put_contents(getenv("FILE"), json_encode($one) . "\n", FILE_APPEND);
header("Content-Length: 2");
echo "ok";
