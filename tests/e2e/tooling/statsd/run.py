#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Black-box tests of `lacquer statsd` and `lacquer munin`: packets and commands in, Graphite's points and answers out.

run.py [--server 'COMMAND'] [--munin 'COMMAND'] [WORD...]      runs the cases whose names hold a WORD
"""
import argparse, contextlib, json, os, pickle, queue, re, shlex, signal, socket, struct, subprocess, sys, tempfile
import threading, time, traceback, urllib.request

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.join(HERE, '..', '..', '..', '..')
sys.path.insert(0, os.path.join(ROOT, 'tests'))
from bed import built
from bed.daemon import free_port

PATIENCE = 60
CASES, SLOW = [], []


def case(f):
    CASES.append(f)
    return f


class Graphite:
    """Takes what is sent to it, a payload for each connection."""

    def __init__(self, port=0):
        self.listener = socket.create_server(('127.0.0.1', port))
        self.port = self.listener.getsockname()[1]
        self.payloads = queue.Queue()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            data = b''
            try:
                with connection:
                    while more := connection.recv(65536):
                        data += more
            except ConnectionError:
                # A connection that was reset is no flush, and the next one comes all the same.
                continue
            self.payloads.put(data)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def flush(self):
        return self.payloads.get(timeout=PATIENCE)

    def points(self):
        return dict(line.split(' ')[:2] for line in self.flush().decode().splitlines())

    def until(self, name):
        """The first flush with this point."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            points = self.points()
            if name in points:
                return points
        raise AssertionError(f'no flush with {name}')


class Server:
    def __init__(self, settings, udp='address: "127.0.0.1", port: "any"', mgmt='mgmt_address: "127.0.0.1", mgmt_port: "any"'):
        self.directory = tempfile.TemporaryDirectory()
        self.path = os.path.join(self.directory.name, 'statsd.js')
        self.fixed = ', '.join(text for text in (udp, mgmt) if text)
        self.write(settings)
        self.process = subprocess.Popen(OPTIONS.server + [self.path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.lines, self.ports = [], {}
        self.fresh = threading.Condition()
        threading.Thread(target=self.read, daemon=True).start()
        self.line('server is up')

    def write(self, settings):
        with open(self.path + '.new', 'w') as f:
            f.write('{ %s, %s }\n' % (self.fixed, settings) if self.fixed else settings)
        os.rename(self.path + '.new', self.path)

    def read(self):
        for line in self.process.stdout:
            with self.fresh:
                self.lines.append(line.rstrip('\n'))
                if found := re.search(r'listening on (\w+) .*:(\d+)$', line):
                    self.ports[found[1]] = int(found[2])
                self.fresh.notify_all()

    def line(self, pattern, after=0):
        """Waits for a line of output; answers its index."""
        with self.fresh:
            found = lambda: next((n for n, l in enumerate(self.lines) if n >= after and re.search(pattern, l)), None)
            assert self.fresh.wait_for(lambda: found() is not None, PATIENCE), f'no {pattern!r} in {self.lines}'
            return found()

    def send(self, *packets):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            for packet in packets:
                s.sendto(packet.encode() if isinstance(packet, str) else packet, ('127.0.0.1', self.ports['udp']))

    def ask(self, command, until=b'END\n\n'):
        with socket.create_connection(('127.0.0.1', self.ports['management']), PATIENCE) as s:
            s.sendall(command.encode() + b'\n')
            text = b''
            while not text.endswith(until):
                more = s.recv(65536)
                if not more:
                    break
                text += more
            return text.decode()

    def stats(self):
        return dict(line.split(': ') for line in self.ask('stats').splitlines() if ': ' in line)

    def wait_for(self, test, seen=lambda: ''):
        """Waits until `test` holds; `seen` says what there is if it never does."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if test():
                return
            time.sleep(0.01)
        raise AssertionError(f'it did not come to be: {seen()}')

    def received(self, packets):
        self.wait_for(lambda: int(self.stats()['server.packets_received']) >= packets, self.stats)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(PATIENCE)
        self.directory.cleanup()
        return code


@contextlib.contextmanager
def running(settings, **options):
    server = Server(settings, **options)
    try:
        yield server
        assert server.process.poll() is None, f'it ended: {server.lines}'
    finally:
        code = server.stop()
    assert code == 0, f'exit code {code}'


@contextlib.contextmanager
def with_graphite(settings, **options):
    graphite = Graphite()
    try:
        with running(f'graphiteHost: "127.0.0.1", graphitePort: {graphite.port}, graphitePicklePort: {graphite.port}, {settings}',
                     **options) as server:
            yield server, graphite
    finally:
        graphite.close()


NEW = 'graphite: {legacyNamespace: false}'
OWN = re.compile(r'numStats|graphiteStats|processing_time|timestamp_lag|packets_received|metrics_received')


def golden():
    """Each case has a server of its own, of which one flush is looked at: the rate needs an interval of 0.7 s."""
    cases = json.load(open(os.path.join(HERE, 'golden.json')))
    crashers = json.load(open(os.path.join(HERE, 'crashers.json')))
    for name, case_ in list(cases.items()) + [(n, c) for n, c in crashers.items() if not n.startswith('_')]:
        expected = dict(case_['got'])
        prefix = 'stats.counters.statsd.bad_lines_seen'
        if name == 'key-proto':
            expected = {'stats.counters.__proto__.rate': '1.4285714285714286', 'stats.counters.__proto__.count': '1'}
        if case_.get('died') and name.startswith('c-rate'):
            expected = {f'{prefix}.rate': '1.4285714285714286', f'{prefix}.count': '1'}
        yield name, case_['send'], expected, bool(case_.get('died'))


def golden_case(name, packets, expected, died):
    # The next flush is far away but the interval that rates are worked out with is 700 ms all the same.
    with with_graphite(f'flushInterval: 700, backends: ["./backends/graphite"], deleteIdleStats: true, {NEW}') as (server, graphite):
        graphite.flush()
        got = one_interval(server, graphite, packets)
        if died and name == 't-proto':
            assert got['stats.timers.constructor.upper'] == '1', got
        else:
            assert got == expected, f'{got}\n   expected {expected}'


def one_interval(server, graphite, packets):
    """Sends the packets; the points of the interval that has all of them. If one ends between two packets, they are sent again in a later one."""
    count = lambda points: int(points['stats.counters.statsd.packets_received.count'])
    deadline, received = time.monotonic() + PATIENCE, 0
    while time.monotonic() < deadline:
        server.send(*packets)
        whole = received = 0
        while received < len(packets) and time.monotonic() < deadline:
            points = graphite.points()
            whole = count(points)
            received += whole
        if whole < len(packets):
            # Nothing of it is left after an interval without a packet.
            while count(graphite.points()):
                pass
        else:
            return {n: v for n, v in points.items() if not OWN.search(n) and not ('bad_lines_seen' in n and v == '0')}
    raise AssertionError(f'{received} of {len(packets)} packets came')


for name, packets, expected, died in golden():
    run = lambda name=name, packets=packets, expected=expected, died=died: golden_case(name, packets, expected, died)
    run.__name__ = f'golden_{name}'
    CASES.append(run)


@case
def pickle_arrives():
    with with_graphite('flushInterval: 100, graphiteProtocol: "pickle", backends: ["./backends/graphite"]') as (server, graphite):
        server.send('a:1.5|g', "b:1|c|#t:x")
        deadline, points = time.monotonic() + PATIENCE, {}
        while 'stats.gauges.a' not in points and time.monotonic() < deadline:
            data = graphite.flush()
            length, = struct.unpack('!L', data[:4])
            assert length == len(data) - 4
            points = {name: value for name, (_, value) in pickle.loads(data[4:])}
        assert points['stats.gauges.a'] == '1.5' and points['stats_counts.b;t=x'] is not None, points


@case
def tcp_and_unix_take_lines():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'in')
        servers = 'servers: [{server: "./servers/udp", address: "127.0.0.1", port: "any"}, ' \
            '{server: "./servers/tcp", address: "127.0.0.1", port: "any"}, ' \
            f'{{server: "./servers/tcp", socket: "{path}", socket_mod: "0600"}}]'
        with running(f'{servers}, flushInterval: 100000, backends: []', udp=None) as server:
            assert os.stat(path).st_mode & 0o777 == 0o600
            with socket.create_connection(('127.0.0.1', server.ports['tcp'])) as s:
                s.sendall(b'tcp:1|c\ntcp:')
                s.sendall(b'2|c\nlost:1|c')
            with socket.socket(socket.AF_UNIX) as s:
                s.connect(path)
                s.sendall(b'unix:5|c\n')
            server.send('udp:7|c')
            server.wait_for(lambda: all(text in server.ask('counters') for text in ('tcp: 3', 'unix: 5', 'udp: 7')))
            assert 'lost' not in server.ask('counters')
        assert not os.path.exists(path), 'the socket went with the server'


@case
def several_backends_and_the_files_lines():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'out')
        with with_graphite(f'"flushInterval": 100, "deleteIdleStats": true, "deleteGauges": false, '
                           f'"backends": ["Graphite", "Console", "File"], "file": {{"name": "{path}",}}, ') as (server, graphite):
            server.send('c:2|c', 't:1.5|ms', 'g:3|g', 's:x|s:y|s', 'statsd.mine:1|c')
            graphite.until('stats_counts.c')
            server.line('"counters":{.*"c":2')
            # An interval may end between two packets.
            read = lambda: open(path).read().splitlines()
            server.wait_for(lambda: {'c\tc\t2', 't\tt\t1.500000', 'g\tg\t3.000000', 's\ts\tx;y'} <= set(read()), read)
        lines = read()
        assert not any('statsd.' in line for line in lines), lines


@case
def management_as_nodes():
    with with_graphite('flushInterval: 100000, backends: ["./backends/graphite"]') as (server, graphite):
        server.send('a.b:1|c', 'a.c:2|c', 'd:3|c', 't:4|ms:5|ms', 'g:6|g', 's:x|s', 'bad')
        server.received(7)
        own = "  'statsd.bad_lines_seen': 1,\n  'statsd.packets_received': 7,\n  'statsd.metrics_received': 7,\n"
        assert server.ask('counters') == "{\n" + own + "  'a.b': 1,\n  'a.c': 2,\n  d: 3\n}\nEND\n\n", server.ask('counters')
        assert server.ask('timers') == "{ t: [ 4, 5 ] }\nEND\n\n"
        assert server.ask('gauges') == "{ g: 6 }\nEND\n\n"
        assert server.ask('sets') == "{ s: [ 'x' ] }\nEND\n\n"
        assert server.ask('delcounters a.* d e') == 'deleted: a.b\ndeleted: a.c\ndeleted: d\nmetric e not found\nEND\n\n'
        assert server.ask('deltimers t') == 'deleted: t\nEND\n\n' and server.ask('delgauges g') == 'deleted: g\nEND\n\n'
        assert server.ask('gauges') == '{}\nEND\n\n'
        assert server.ask('health', b'\n') == 'health: up\n' and server.ask('health DOWN', b'\n') == 'health: down\n'
        assert server.ask('what', b'\n') == 'ERROR\n'
        assert server.ask('help', b'\n\n').startswith(
            'Commands: stats, counters, timers, gauges, delcounters, deltimers, delgauges, health, config, quit\n')
        assert server.ask('quit') == ''
        assert 'flushInterval: 100000\n' in server.ask('config\nquit') and 'backends > 0: ./backends/graphite\n' in server.ask('config\nquit')
        stats = server.ask('stats').splitlines()
        assert [line.split(':')[0] for line in stats[:7]] == [
            'uptime', 'messages.last_msg_seen', 'messages.bad_lines_seen', 'graphite.last_flush', 'graphite.last_exception',
            'graphite.flush_time', 'graphite.flush_length'], stats


@case
def management_as_the_perl_ports():
    with running('"flushInterval": 100000, "backends": ["Console"]') as server:
        server.send('a:1|c', 's:x|s')
        server.received(2)
        assert json.loads(server.ask('counters').removesuffix('END\n\n'))['a'] == 1
        assert json.loads(server.ask('sets').removesuffix('END\n\n')) == {'s': ['x']}


@case
def prometheus_scrapes():
    with running('flushInterval: 100, backends: ["./backends/prometheus"], prometheus: {address: "127.0.0.1", port: "any"}') as server:
        server.send('a.b:2|c|#x:y', 'a.b:3|c|#x:y', 't:1|ms:3|ms', 'g:1.5|g')
        url = f'http://127.0.0.1:{server.ports["prometheus"]}/metrics'
        page = lambda: urllib.request.urlopen(url, timeout=PATIENCE).read().decode()
        server.wait_for(lambda: all(line in page() for line in ('t{quantile="0.9"} 3\n', 'g 1.5\n')), page)
        text = page()
        for line in ('# TYPE a_b counter\na_b{x="y"} 5\n', 'g 1.5\n', 't_sum 4\nt_count 2\n'.replace('t_sum 4\nt_count 2', 't_count 2\nt_sum 4')):
            assert line in text, text
        names = [line.split(' ')[2] for line in text.splitlines() if line.startswith('# TYPE')]
        assert len(names) == len(set(names))


@case
def repeats_packets():
    with running('flushInterval: 100000, backends: []') as target, \
            running(f'flushInterval: 100000, backends: ["./backends/repeater"], repeater: [{{host: "127.0.0.1", port: {target.ports["udp"]}}}]') as server:
        server.wait_for(lambda: (server.send('x:1|c\ny:1|c'), int(target.stats()['server.packets_received']))[1] > 0)
        assert 'y: ' in target.ask('counters')


@case
def repeats_packets_over_tcp():
    inputs = 'servers: [{server: "./servers/tcp", address: "127.0.0.1", port: "any"}]'
    with running(f'{inputs}, flushInterval: 100000, backends: []', udp=None) as target:
        repeater = f'repeaterProtocol: "tcp", repeater: [{{host: "127.0.0.1", port: {target.ports["tcp"]}}}]'
        with running(f'flushInterval: 100000, backends: ["./backends/repeater"], {repeater}') as server:
            server.send('x:1|c')
            target.wait_for(lambda: 'x: 1' in target.ask('counters'))


@case
def graphite_away_and_back():
    port = free_port()
    with running(f'flushInterval: 100, backends: ["./backends/graphite"], graphiteHost: "127.0.0.1", graphitePort: {port}, deleteIdleStats: true') as server:
        server.send('early:1|c')
        server.wait_for(lambda: int(server.stats()['graphite.failures']) >= 3 and int(server.stats()['graphite.waiting_points']) > 0)
        graphite = Graphite(port)
        assert graphite.until('stats_counts.early')['stats_counts.early'] == '1'
        server.wait_for(lambda: server.stats()['graphite.waiting_points'] == '0')
        assert server.stats()['graphite.dropped_points'] == '0'
        graphite.close()


@case
def graphite_away_for_too_long():
    with running('flushInterval: 20, backends: ["./backends/graphite"], graphiteHost: "127.0.0.1", graphitePort: 1, graphiteBacklog: 3000') as server:
        server.wait_for(lambda: int(server.stats()['graphite.dropped_points']) > 0)
        assert int(server.stats()['graphite.waiting_points']) < 120


@case
def reload_on_change_and_at_sighup():
    with with_graphite('flushInterval: 100000, backends: ["./backends/graphite"]') as (server, graphite):
        server.send('a:1|c')
        server.received(1)
        tail = f'graphiteHost: "127.0.0.1", graphitePort: {graphite.port}'
        at = len(server.lines)
        server.write('flushInterval: "soon"')
        server.line('stays as it was', at)
        server.write(f'flushInterval: 100, backends: ["./backends/graphite"], {tail}, {NEW}, prefixStats: "own"')
        points = graphite.until('stats.counters.a.count')
        assert 'stats.own.numStats' in points, points
        at = len(server.lines)
        server.write(f'flushInterval: 100, backends: ["./backends/graphite"], {tail}, automaticConfigReload: false')
        server.line('reading config', at)
        server.write(f'flushInterval: 100, backends: ["./backends/graphite"], {tail}, graphite: {{globalSuffix: "z"}}')
        server.process.send_signal(signal.SIGHUP)
        graphite.until('statsd.numStats.z')
        assert int(server.stats()['server.reload_failures']) == 1


@case
def several_sockets():
    with running('flushInterval: 100000, backends: [], sockets: 4') as server:
        for _ in range(40):
            server.send('a:1|c')
        server.received(40)
        assert 'a: 40' in server.ask('counters') and server.stats()['server.udp_sockets'] == '4'


@case
def limits_hold():
    with running('flushInterval: 100000, backends: [], maxMetrics: 100, maxMemory: 200000') as server:
        for n in range(0, 1000, 20):
            server.send('\n'.join(f'n{n + i}:1|c' for i in range(20)))
        server.received(50)
        # One after the other: the kernel has no room for all of them.
        for n in range(20):
            server.send('s:' + 'x' * 60000 + str(n) + '|s')
            server.received(51 + n)
        stats = server.stats()
        assert int(stats['server.metrics']) <= 101 and int(stats['server.metrics_dropped']) >= 900, stats
        assert int(stats['server.memory_held']) <= 220000, stats


@case
def junk_is_counted_and_survived():
    import random
    seed = int(os.environ.get('SEED') or 1)
    print(f'     statsd: junk of seed {seed}')
    chance = random.Random(seed)
    with running('flushInterval: 50, backends: ["./backends/console"]') as server:
        pieces = [b':', b'|', b'|@', b'|#', b'\n', b'ms', b'g', b'c', b's', b'0.1', b'-1e309', b'Infinity', b'__proto__', b'\xff\x00', b'a' * 300]
        packets = [b''.join(chance.choices(pieces, k=chance.randrange(40))) for _ in range(3000)] + [b'', b'\n' * 9000, chance.randbytes(60000)]
        for n in range(0, len(packets), 50):
            server.send(*packets[n:n + 50])
            server.received(min(n + 50, len(packets)) - 5)
        assert int(server.stats()['messages.bad_lines_seen']) > 100
        with socket.create_connection(('127.0.0.1', server.ports['management'])) as s:
            with contextlib.suppress(OSError):
                s.sendall(chance.randbytes(200000))
        server.send('fine:1|c')
        server.line('fine: 1')


@case
def kernel_drops_are_counted():
    with running('flushInterval: 100000, backends: [], receiveBuffer: 4096') as server:
        os.kill(server.process.pid, signal.SIGSTOP)
        server.send(*['a:1|c'] * 500)
        os.kill(server.process.pid, signal.SIGCONT)
        server.wait_for(lambda: int(server.stats()['server.udp_drops']) + int(server.stats()['server.packets_received']) == 500)
        line = next(l for l in open('/proc/net/udp') if l.split()[1].endswith(f':{server.ports["udp"]:04X}'))
        drops = server.stats()['server.udp_drops']
        assert drops == line.split()[12] and int(drops) > 0
        server.wait_for(lambda: f"'statsd.udp_drops': {drops}" in server.ask('counters'), lambda: server.ask('counters'))


@case
def last_flush_at_sigterm():
    with with_graphite('flushInterval: 100000, backends: ["./backends/graphite"]') as (server, graphite):
        server.send('late:1|c')
        server.process.send_signal(signal.SIGTERM)
        assert graphite.until('stats_counts.late')['stats_counts.late'] == '1'
        server.process.wait(PATIENCE)
        server.process.poll = lambda: None
        server.stop = lambda: 0


@case
def flushes_come_in_time():
    with with_graphite('flushInterval: 200, backends: ["./backends/graphite"]') as (server, graphite):
        stamps, deadline = [], time.monotonic() + PATIENCE
        # Ten intervals take two seconds of the server's clock, which is read in whole ones. A busy machine leaves some out for a while.
        while len(stamps) < 11 or stamps[-1] - stamps[-11] > 3:
            assert time.monotonic() < deadline, stamps
            stamps.append(int(graphite.flush().split()[2]))
        assert stamps[-1] - stamps[-11] >= 1 and stamps == sorted(stamps), stamps


@case
def key_report():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'keys')
        with running(f'flushInterval: 100000, backends: [], keyFlush: {{interval: 200, percent: 50, log: "{path}"}}') as server:
            server.send('a:1|c\na:1|c\na:1|c\nb:1|c')
            server.wait_for(lambda: os.path.exists(path) and 'count=3 key=a\n' in open(path).read())
            assert 'key=b' not in open(path).read()


@case
def bad_configurations_are_refused():
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, 'c.js')
        for text, why in [('{a: }', 'line 1 column 5'), ('{port: "x"}', 'port: expected'), ('{backends: ["rrdtool"]}', "isn't built here"),
                          ('[' * 100000, 'too deeply'), ('', 'expected a value'), ('{' + 'a' * 2_000_000, 'longer than')]:
            open(path, 'w').write(text)
            done = subprocess.run(OPTIONS.server + ['--check', path], capture_output=True, text=True, timeout=PATIENCE)
            assert done.returncode == 1 and why in done.stderr, (text[:40], done.stderr[:300])
        done = subprocess.run(OPTIONS.server + [os.path.join(d, 'none')], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 1 and 'No such file' in done.stderr
        done = subprocess.run(OPTIONS.server + ['--help'], capture_output=True, text=True, timeout=PATIENCE)
        assert done.returncode == 0 and 'Examples:' in done.stdout


@case
def the_field_reports_configurations_load():
    post = '''{ graphitePort: 2003
, graphiteHost: "graphite.localdomain"
, host: "0.0.0.0"
, port: 8125
, backends: [ "./backends/graphite", "./backends/console" ]
, mgmt_address: "0.0.0.0"
, mgmt_port: 8126
}'''
    perl = '''{ "graphitePort": 2003,
  "graphiteHost": "graphite.localdomain",
  "host" : "0.0.0.0",
  "port": 8125,
  "mgmt_address" : "0.0.0.0",
  "mgmt_port": 8126,
  "backends": [ "Graphite", "Console" ],
  "log" : {
    "backend" : "stdout",
    "level" : "LOG_WARN",
  }
}'''
    with tempfile.TemporaryDirectory() as d:
        for text in (post, perl):
            path = os.path.join(d, 'c.js')
            open(path, 'w').write(text)
            done = subprocess.run(OPTIONS.server + ['--check', path], capture_output=True, text=True, timeout=PATIENCE)
            assert done.returncode == 0, done.stderr


def munin(*args, **variables):
    return subprocess.run(OPTIONS.munin + list(args), capture_output=True, text=True, timeout=PATIENCE,
                          env=dict(os.environ, **variables))


@case
def munin_shows_a_statsd():
    if not OPTIONS.munin:
        return 'skipped: no --munin'
    with running('flushInterval: 50, backends: []') as server:
        server.send('site.logins:5|c', 'site.users:7|g', 'site.time:3|ms', 'other:1|c')
        server.received(4)
        at = ['--statsd', f'127.0.0.1:{server.ports["management"]}']
        config = munin(*at, 'site.', 'config').stdout
        assert 'graph_title statsd site\n' in config and 'site_logins.type DERIVE\nsite_logins.min 0\n' in config, config
        assert 'other' not in config and 'site_users.type GAUGE\n' in config
        values = munin(*at, 'site.').stdout.splitlines()
        assert {'site_logins.value 5', 'site_users.value 7', 'site_time_count.value 1', 'site_time_sum.value 3'} == set(values), values
        assert munin(*at, 'autoconf').stdout == 'yes\n'
        assert 'site.' in munin(*at, 'suggest').stdout
    refused = munin('--statsd', '127.0.0.1:1', 'autoconf')
    assert refused.returncode == 0 and refused.stdout.startswith('no ('), refused


@case
def the_packages_plugin_shows_a_statsd_by_a_link():
    if not OPTIONS.munin:
        return 'skipped: no --munin'
    plugin = os.path.join(HERE, '../../../../packaging/files/usr/share/munin/plugins/lacquer_')
    with running('flushInterval: 50, backends: []') as server, tempfile.TemporaryDirectory() as d:
        server.send('site.logins:5|c', 'other:1|c')
        server.received(2)
        link = os.path.join(d, 'statsd_site.')
        os.symlink(os.path.abspath(plugin), link)
        # The plugin knows nothing but what munin-node's configuration says.
        variables = {'PATH': '/usr/bin:/bin', 'lacquer': OPTIONS.munin[0], 'statsd': f'127.0.0.1:{server.ports["management"]}'}
        for words, want in ((['config'], 'site_logins.type DERIVE'), ([], 'site_logins.value 5')):
            p = subprocess.run([link, *words], capture_output=True, text=True, timeout=PATIENCE, env=variables)
            assert p.returncode == 0 and want in p.stdout.splitlines() and 'other' not in p.stdout, (words, p)
        del variables['statsd']
        p = subprocess.run([link, 'autoconf'], capture_output=True, text=True, timeout=PATIENCE, env=variables)
        assert p.returncode == 0 and ('127.0.0.1:8126' in p.stdout or p.stdout == 'yes\n'), p


@case
def munin_and_export_show_an_accelerator():
    if not OPTIONS.munin or not OPTIONS.varnishd:
        return 'skipped: no --munin or no varnishd'
    with tempfile.TemporaryDirectory() as d:
        os.chmod(d, 0o755)
        work = os.path.join(d, 'n')
        daemon = subprocess.Popen([OPTIONS.varnishd, '-F', '-n', work, '-a', '127.0.0.1:0', '-b', '127.0.0.1:1', '-T', 'none'],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            deadline = time.monotonic() + PATIENCE
            while 'MAIN_uptime' not in munin('-n', work, 'MAIN.').stdout and time.monotonic() < deadline:
                time.sleep(0.05)
            config = munin('-n', work, 'MAIN.cache_', 'config').stdout
            assert 'MAIN_cache_hit.type DERIVE\n' in config and 'MAIN_cache_hit.label cache_hit\n' in config, config
            assert 'MAIN_cache_hit.value 0\n' in munin('MAIN.cache_', name=work).stdout
            assert 'MAIN.cache\n' in munin('-n', work, 'suggest').stdout
            with running('flushInterval: 100000, backends: []') as server:
                export = subprocess.Popen(OPTIONS.server + ['--export', f'127.0.0.1:{server.ports["udp"]}', '-n', work, '-i', '0.05', '--prefix', 'v.'])
                try:
                    server.wait_for(lambda: "'v.MAIN.threads'" in server.ask('gauges') and "'v.MAIN.uptime'" in server.ask('counters'))
                finally:
                    export.terminate()
                    assert export.wait(PATIENCE) == 0
        finally:
            daemon.terminate()
            daemon.wait(PATIENCE)


def main():
    failed, passed = [], 0
    chosen = [c for c in CASES if not OPTIONS.words or any(word in c.__name__ for word in OPTIONS.words)]
    lock, work = threading.Lock(), iter(chosen)

    def worker():
        nonlocal passed
        while True:
            with lock:
                one = next(work, None)
            if one is None:
                return
            try:
                said = one()
                with lock:
                    passed += 1
                    if said:
                        print(f'{one.__name__}: {said}')
            except Exception as error:
                with lock:
                    failed.append(one.__name__)
                    text = f'{type(error).__name__} {error}'.replace('\n', '\\n')
                    print(f'FAIL statsd: {one.__name__}: {text}\n{traceback.format_exc(limit=-3)}')

    threads = [threading.Thread(target=worker) for _ in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    print(f'statsd: {passed} passed, {len(failed)} failed')
    return 1 if failed else 0


def options():
    lacquer = built.program('lacquer')
    parser = argparse.ArgumentParser()
    parser.add_argument('--server', type=shlex.split, default=[lacquer, 'statsd'])
    parser.add_argument('--munin', type=shlex.split, default=[lacquer, 'munin'])
    parser.add_argument('--varnishd', default=next((p for p in (os.path.join(os.path.dirname(lacquer), 'varnishd'), '/usr/sbin/varnishd') if os.path.exists(p)), None))
    parser.add_argument('words', nargs='*')
    return parser.parse_args()


OPTIONS = options()
sys.exit(main())
