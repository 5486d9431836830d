<?php
// SPDX-License-Identifier: BSD-2-Clause
// The site's one plug-in: a sidebar as an ESI fragment for all pages, a fragment for each user, and purges of what changes.

// Stamps tell one generation of a page or fragment from the next.
function bed_stamp() { return sprintf('%.6f', microtime(true)); }

add_action('init', function () {
    if (isset($_GET['esi_sidebar'])) {
        header('Cache-Control: public, s-maxage=43200');
        echo '<div id="esi-sidebar" data-gen="' . bed_stamp() . '">';
        foreach (['Search', 'Archives', 'Categories', 'Pages', 'Recent_Posts', 'Recent_Comments', 'Calendar'] as $name) the_widget("WP_Widget_$name");
        echo '</div>';
        exit;
    }
    if (isset($_GET['esi_user'])) {
        header('Cache-Control: private, max-age=0');
        $user = wp_get_current_user();
        echo $user->ID ? 'Hello ' . esc_html($user->user_login) : 'Hello guest';
        exit;
    }
}, 99);

add_action('send_headers', function () {
    if (is_admin() || is_user_logged_in()) return;
    header('Surrogate-Control: content="ESI/1.0"');
    header('Cache-Control: public, s-maxage=43200');
    header('X-Gen: ' . bed_stamp());
});

add_action('wp_footer', function () {
    echo "\n<esi:include src=\"/?esi_sidebar=1\"/><esi:include src=\"/?esi_user=1\" onerror=\"continue\"/><esi:remove>no ESI here</esi:remove>\n";
});

function bed_purge($path) {
    $at = parse_url(WP_HOME);
    $socket = fsockopen($at['host'], $at['port'], $errno, $error, 5);
    if (!$socket) { error_log("purge $path: $error"); return; }
    fwrite($socket, "PURGE $path HTTP/1.1\r\nHost: {$at['host']}:{$at['port']}\r\nConnection: close\r\n\r\n");
    error_log("purge $path: " . trim(fgets($socket)));
    fclose($socket);
}

function bed_purge_post($id) {
    if (wp_is_post_revision($id)) return;
    $url = parse_url(get_permalink($id));
    foreach (['/', '/?esi_sidebar=1', '/?feed=rss2', '/?cat=1', '/?author=1'] as $path) bed_purge($path);
    bed_purge(($url['path'] ?? '/') . (isset($url['query']) ? '?' . $url['query'] : ''));
}

// Addresses of pages don't depend on what the installation finds out about the web server.
add_filter('pre_option_permalink_structure', function () { return ''; });
// Later than everything that still changes the post: the next request must find it whole.
add_action('wp_after_insert_post', 'bed_purge_post', 99);
add_action('deleted_post', 'bed_purge_post', 99);
add_action('comment_post', function ($id) { bed_purge_post(get_comment($id)->comment_post_ID); }, 99);
// Comments of strangers show without a moderator.
add_filter('pre_comment_approved', function ($approved) { return $approved === 'spam' ? $approved : 1; });
