<?php
// SPDX-License-Identifier: BSD-2-Clause
// The site of the bed; DIR and URL are put in by run.py.
define('DB_NAME', 'wordpress'); define('DB_USER', 'wp'); define('DB_PASSWORD', 'wp'); define('DB_HOST', 'localhost:@DIR@/my.sock');
define('WP_HOME', '@URL@'); define('WP_SITEURL', '@URL@');
define('WPMU_PLUGIN_DIR', '@DIR@/plugins');
// Nothing happens but what the bed asks for.
define('DISABLE_WP_CRON', true); define('WP_HTTP_BLOCK_EXTERNAL', true); define('AUTOMATIC_UPDATER_DISABLED', true);
foreach (['AUTH', 'SECURE_AUTH', 'LOGGED_IN', 'NONCE'] as $name) { define($name . '_KEY', "bed-$name-key"); define($name . '_SALT', "bed-$name-salt"); }
$table_prefix = 'wp_';
if (!defined('ABSPATH')) define('ABSPATH', '@DIR@/wordpress/');
require_once ABSPATH . 'wp-settings.php';
