# SPDX-License-Identifier: BSD-2-Clause
# Completion for fish: commands, options and words that they take, as the programs' own helps have them.

# Commands as a help lists them, each with what it is for.
function __lacquer_commands
    $argv 2>/dev/null | string replace -rf '^  ([a-z]+) +(?:[A-Z][A-Z. ]*  +)?(.*)$' '$1\t$2'
end

# The words of the command: `vcl` has a second one.
function __lacquer_command
    set -l words (commandline -opc)
    if test (count $words) -ge 3 -a "$words[2]" = vcl
        echo $words[2]
        echo $words[3]
    else if test (count $words) -ge 2
        echo $words[2]
    end
end

# Options: where lines of the help begin, and long ones where a line speaks of them.
function __lacquer_options
    set -l lines (lacquer help (__lacquer_command) 2>/dev/null | string replace -rf '^ {1,2}\[?(-[^ ].*)$' '$1')
    string replace -r '  .*' '' -- $lines | string match -ra '(?:^|[ ,])(--?[-a-zA-Z?][-a-z0-9]*)' -g
    string match -ra -- '--[a-z][-a-z0-9]*' $lines
end

# What may stand behind an option, where the help says it as `this|that`.
function __lacquer_values
    set -l words (commandline -opc)
    set -l option $words[-1]
    string match -q -- '-*' "$option"; or return
    lacquer help (__lacquer_command) 2>/dev/null | string match -rg -- "^ +\\[?(?:.*[ ,])?$option"'[ =]<?([a-z0-9.-]+(?:\\|[a-z0-9.-]+)+)' | head -n 1 | string split '|'
end

function __lacquer_is_at
    test (count (commandline -opc)) -eq $argv[1]
end

complete -c lacquer -n '__lacquer_is_at 1' -f -a '(__lacquer_commands lacquer help)'
complete -c lacquer -n '__lacquer_is_at 2; and __fish_seen_subcommand_from help man' -f -a '(__lacquer_commands lacquer help)'
complete -c lacquer -n '__lacquer_is_at 2; and __fish_seen_subcommand_from vcl' -f -a '(__lacquer_commands lacquer help vcl)'
complete -c lacquer -n 'not __lacquer_is_at 1; and string match -q -- "-*" (commandline -ct)' -f -a '(__lacquer_options)'
complete -c lacquer -n 'not __lacquer_is_at 1; and count (__lacquer_values) >/dev/null' -f -a '(__lacquer_values)'

# Programs of Varnish's: their letters as getopt has them.
function __lacquer_letters
    set -l words (commandline -opc)
    $words[1] --optstring 2>/dev/null | string replace -a ':' '' | string split '' | string replace -rf '^(.)$' -- '-$1'
end
for program in varnishd varnishlog varnishlog-json varnishncsa varnishstat varnishtop varnishhist varnishadm
    complete -c $program -n 'string match -q -- "-*" (commandline -ct)' -f -a '(__lacquer_letters)'
end
complete -c varnishadm -n 'not string match -q -- "-*" (commandline -ct)' -f -a '(varnishadm -t 1 help 2>/dev/null | string replace -r " .*" "")'
