# SPDX-License-Identifier: BSD-2-Clause
# A PSGI application that writes what it was asked to $FILE.
use strict;
use warnings;
use Fcntl;
use JSON::PP;
sysopen(my $out, $ENV{FILE}, O_WRONLY | O_APPEND | O_CREAT) or die $!;
sub {
    my $env = shift;
    my $length = 0;
    while ((my $n = $env->{"psgi.input"}->read(my $data, 65536)) > 0) { $length += $n }
    my $line = JSON::PP->new->ascii->encode({ vxid => [$env->{HTTP_X_VXID} // ()], method => $env->{REQUEST_METHOD}, target => $env->{REQUEST_URI}, host => $env->{HTTP_HOST} // "", length => $length });
    syswrite($out, "$line\n");
    return [200, ["Content-Length" => 2, "Content-Type" => "text/plain"], ["ok"]];
};
