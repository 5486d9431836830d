/* SPDX-License-Identifier: BSD-2-Clause */
/* Load generator: one thread, epoll, HTTP/1.1.
 * closed loop (default): every connection sends again as soon as its reply is complete
 * open loop (-r RATE): request i is due at t0 + i/RATE; latency counts from the due time, so a stalled
 *   server is charged for the requests that had to wait (no coordinated omission)
 * -p PORT  -c CONNS  -d SECONDS  -n TOTAL  -k REQUESTS-PER-CONNECTION (last one says Connection: close)
 * -P PIPELINE-DEPTH  -u PATH  -N COUNT (append 0..COUNT-1 to PATH, cyclic)  -f FILE (path[TAB host[TAB ua]] a line, cyclic)
 * -o START (offset for -N)  -H 'Header: x'  -w SECONDS not counted at the start
 * -I  open CONNS connections, one request each, print READY, keep them until stdin closes
 * -B  never sleep (busy poll): the server is not charged for waking the generator's core, an IPI that is dear in a VM
 * compiled with -DTLS (libssl):
 * -T 1.2|1.3 (that version alone)  -C CIPHERS (both kinds' names)  -G GROUPS  -R (resume: each connection by its predecessor's
 *   session or ticket)  -S NAME (SNI)
 * prints one JSON object */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>
#include <stdint.h>
#include <time.h>
#include <math.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif
#include "sealed.h"

enum { S_CONN, S_HELLO, S_IDLE, S_HEAD, S_BODY, S_CHUNK, S_EOF };
#define BUF 32768
struct conn { int fd, st, sent_n, done_n, inflight, outlen, outoff, wout; int srvclose, trail; uint64_t left; int have; uint64_t t[64]; unsigned th, tt; char *obuf; size_t ocap; char *in;
#ifdef TLS
	SSL *ssl; SSL_SESSION *session;
#endif
};
static int inbuf = BUF, spin, port, nconn = 64, perconn, depth = 1, idle, ep, stop_issue; static double dur = 5, rate, warm; static uint64_t total; static long count, start_off;
static const char *path = "/", *file, *hdr = ""; static char xh[2048];
struct line { char *p, *h, *u; }; static struct line *lines; static size_t nlines, cur;
static uint64_t issued, ok, bad, errs, bytes, conns_made, t0, tend, twarm, dues; static uint64_t stc[6];
#define HB 64
static uint64_t hist[64 * HB], hmax; static double lsum;
static uint64_t now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec * 1000000000ull + t.tv_nsec; }
static void rec(uint64_t ns) { if (ns > hmax) hmax = ns; lsum += ns; if (ns < HB) { hist[ns]++; return; } int e = 63 - __builtin_clzll(ns); hist[(e - 5) * HB + ((ns >> (e - 6)) & (HB - 1))]++; }
static double pct(double q) { uint64_t tot = 0, s = 0; for (int i = 0; i < 64 * HB; i++) tot += hist[i]; for (int i = 0; i < 64 * HB; i++) { s += hist[i]; if (s && s >= q * tot) { if (i < HB) return i; int e = i / HB + 5; return ((double)((1ull << e) + ((uint64_t)(i % HB) << (e - 6)))); } } return 0; }
static uint64_t resumed; static char spoken[128];
#ifdef TLS
static const char *version, *ciphers, *groups, *sni = "www.example.com"; static int resuming;
static ssize_t rx(struct conn *c, void *p, size_t n) { return tls_read(c->ssl, p, n); }
static ssize_t rx_away(struct conn *c, size_t n) { static char away[65536]; return tls_read(c->ssl, away, n > sizeof away ? sizeof away : n); }
static ssize_t tx(struct conn *c, const void *p, size_t n) { return tls_write(c->ssl, p, n); }
static int more(struct conn *c) { return c->ssl && SSL_pending(c->ssl) > 0; }
static void hang_up(struct conn *c) { if (c->ssl) tls_free(c->ssl); c->ssl = 0; close(c->fd); }
static int keep_session(SSL *s, SSL_SESSION *session) { struct conn *c = SSL_get_app_data(s); if (c->session) SSL_SESSION_free(c->session); c->session = session; return 1; }
static void client_setup(void)
{
	static const unsigned char alpn[] = "\x08http/1.1"; char list[512] = "", suites[512] = "", all[1024], *save, *w;
	tls_setup(TLS_client_method());
	SSL_CTX_set_alpn_protos(tls, alpn, sizeof alpn - 1);
	int v = !version ? 0 : strcmp(version, "1.2") ? TLS1_3_VERSION : TLS1_2_VERSION;
	SSL_CTX_set_min_proto_version(tls, v ? v : TLS1_2_VERSION); SSL_CTX_set_max_proto_version(tls, v);
	if (ciphers) {
		snprintf(all, sizeof all, "%s", ciphers);
		for (w = strtok_r(all, ":", &save); w; w = strtok_r(0, ":", &save)) { char *to = strncmp(w, "TLS_", 4) ? list : suites; if (*to) strcat(to, ":"); strcat(to, w); }
		if ((*list && !SSL_CTX_set_cipher_list(tls, list)) || (*suites && !SSL_CTX_set_ciphersuites(tls, suites))) tls_fatal("lg: -C");
	}
	if (groups && !SSL_CTX_set1_groups_list(tls, groups)) tls_fatal("lg: -G");
	if (resuming) { SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL); SSL_CTX_sess_set_new_cb(tls, keep_session); }
}
#else
static ssize_t rx(struct conn *c, void *p, size_t n) { return recv(c->fd, p, n, 0); }
static ssize_t rx_away(struct conn *c, size_t n) { return recv(c->fd, 0, n, MSG_TRUNC); }
static ssize_t tx(struct conn *c, const void *p, size_t n) { return send(c->fd, p, n, MSG_NOSIGNAL); }
static int more(struct conn *c) { return 0; }
static void hang_up(struct conn *c) { close(c->fd); }
#endif
static struct conn *C; static int *freeq; static unsigned fqh, fqt, fqm; /* idle connections for the open loop */
static uint64_t linked;

static void addreq(struct conn *c, uint64_t due)
{
	char b[8192]; int n; const char *p = path, *h = "www.example.com", *u = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"; char pb[1024];
	if (lines) { struct line *l = &lines[cur++ % nlines]; p = l->p; if (l->h) h = l->h; if (l->u) u = l->u; }
	else if (count) { snprintf(pb, sizeof pb, "%s%lu", path, (unsigned long)(start_off + issued % count)); p = pb; }
	c->sent_n++; issued++;
	int last = perconn && c->sent_n >= perconn;
	n = snprintf(b, sizeof b, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: %s\r\nAccept: text/html,application/xhtml+xml,*/*;q=0.8\r\nAccept-Language: en-GB,en;q=0.5\r\n%s%s\r\n", p, h, u, xh, last ? "Connection: close\r\n" : "");
	if (c->outlen + n > (int)c->ocap) { c->ocap = (c->outlen + n) * 2; c->obuf = realloc(c->obuf, c->ocap); }
	memcpy(c->obuf + c->outlen, b, n); c->outlen += n; c->t[c->th++ & 63] = due; c->inflight++;
}
static void mod(struct conn *c, int w) { if (c->wout == w) return; c->wout = w; struct epoll_event e = { EPOLLIN | (w ? EPOLLOUT : 0), { .ptr = c } }; epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e); }
static void fail(struct conn *c);
static void flushc(struct conn *c)
{
	while (c->outoff < c->outlen) { ssize_t w = tx(c, c->obuf + c->outoff, c->outlen - c->outoff);
		if (w < 0) { if (errno == EAGAIN) { mod(c, 1); return; } return; /* the read side reports it */ } c->outoff += w; }
	c->outlen = c->outoff = 0; mod(c, 0);
}
static void openc(struct conn *c)
{
	int one = 1; c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0); if (c->fd < 0) { perror("socket"); exit(1); }
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one); setsockopt(c->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one);
	struct sockaddr_in s = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002 + conns_made % 32) };
	bind(c->fd, (void *)&s, sizeof s);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	conns_made++; c->sent_n = c->done_n = c->inflight = c->outlen = c->outoff = c->have = 0; c->srvclose = 0; c->th = c->tt = 0; c->st = S_CONN; c->wout = 1;
	if (connect(c->fd, (void *)&a, sizeof a) < 0 && errno != EINPROGRESS) { perror("connect"); errs++; usleep(1000); }
	struct epoll_event e = { EPOLLIN | EPOLLOUT, { .ptr = c } }; epoll_ctl(ep, EPOLL_CTL_ADD, c->fd, &e);
}
static int canissue(void) { return !stop_issue && !(total && issued >= total); }
static void kick(struct conn *c)
{	/* closed loop: fill the pipeline; open loop: join the idle queue */
	c->st = S_IDLE;
	if (idle && c->done_n) return;
	if (rate > 0) { freeq[fqt++ & fqm] = c - C; return; }
	uint64_t n = now();
	while (c->inflight < depth && canissue() && !(perconn && c->sent_n >= perconn)) { addreq(c, n); }
	if (c->inflight) { c->st = S_HEAD; flushc(c); }
}
static void fail(struct conn *c);
static void shake(struct conn *c)
{	/* the next step of the handshake, or none where there is no TLS */
#ifdef TLS
	if (!c->ssl) {
		c->ssl = SSL_new(tls); SSL_set_fd(c->ssl, c->fd); SSL_set_app_data(c->ssl, c); SSL_set_tlsext_host_name(c->ssl, sni);
		/* A copy: the library takes back what was used once. */
		if (c->session) { SSL_SESSION *copy = SSL_SESSION_dup(c->session); SSL_set_session(c->ssl, copy); SSL_SESSION_free(copy); }
	}
	ERR_clear_error(); errno = 0; c->st = S_HELLO;
	if (tls_result(c->ssl, SSL_connect(c->ssl)) <= 0) { if (errno == EAGAIN) { mod(c, SSL_want_write(c->ssl)); return; } if (errs < 4) ERR_print_errors_fp(stderr); fail(c); return; }
	resumed += SSL_session_reused(c->ssl);
	if (!*spoken) snprintf(spoken, sizeof spoken, "%s %s", SSL_get_version(c->ssl), SSL_get_cipher_name(c->ssl));
#endif
	mod(c, 0); kick(c);
	if (c->fd >= 0 && c->inflight == 0 && !canissue() && rate == 0) { hang_up(c); c->fd = -1; }
}
static void reopen(struct conn *c) { hang_up(c); openc(c); }
static void fail(struct conn *c) { errs += c->inflight ? c->inflight : 1; if (errs < 4) fprintf(stderr, "lg: connection failed in state %d (%d in flight, %d done): %s\n", c->st, c->inflight, c->done_n, strerror(errno)); reopen(c); }
static void finished(struct conn *c)
{
	uint64_t n = now(), due = c->t[c->tt++ & 63]; c->inflight--; c->done_n++;
	if (n >= twarm && (total || n <= tend)) { ok++; rec(n - due); }
	if ((perconn && c->done_n >= perconn) || c->srvclose) {
		if (c->inflight) errs += c->inflight;
		if (canissue() || rate > 0) reopen(c); else { hang_up(c); c->fd = -1; }
		return;
	}
	if (c->inflight) { c->st = S_HEAD; } else kick(c);
}
static void gotdata(struct conn *c)
{
	for (;;) {
		if (c->fd < 0) return;
		if (c->st == S_BODY && !c->have && c->left) {
			ssize_t r = rx_away(c, c->left > (1 << 20) ? 1 << 20 : c->left);
			if (r < 0 && errno == EAGAIN) return;
			if (r <= 0) { fail(c); return; }
			bytes += r; c->left -= r; if (!c->left) { int f = c->fd; finished(c); if (c->fd != f || c->st != S_HEAD) return; } continue;
		}
		ssize_t r = rx(c, c->in + c->have, inbuf - c->have);
		if (r < 0 && errno == EAGAIN) return;
		if (r <= 0) {
			if (r == 0 && c->st == S_EOF) { c->srvclose = 1; finished(c); return; }
			if (c->st == S_IDLE) { if (rate > 0) { /* server closed an idle one: take it out of the queue */
				unsigned w = fqh; for (unsigned i = fqh; i != fqt; i++) if (freeq[i & fqm] != c - C) freeq[w++ & fqm] = freeq[i & fqm]; fqt = w; } if (idle) { errs++; hang_up(c); c->fd = -1; return; } reopen(c); return; }
			fail(c); return;
		}
		bytes += r; c->have += r; int full = c->have == inbuf;
		char *p = c->in, *end = c->in + c->have;
		for (;;) {
			if (c->st == S_HEAD) {
				char *q = memmem(p, end - p, "\r\n\r\n", 4); if (!q) break;
				int code = atoi(p + 9); if (code / 100 < 6) stc[code / 100]++; if (code != 200 && now() >= twarm) bad++;
				char sv = *q; *q = 0; char *x;
				if (strcasestr(p, "\r\nConnection: close")) c->srvclose = 1;
				if (code == 304 || code == 204) { c->left = 0; c->st = S_BODY; }
				else if ((x = strcasestr(p, "\r\nContent-Length:"))) { c->left = strtoull(x + 17, 0, 10); c->st = S_BODY; }
				else if (strcasestr(p, "\r\nTransfer-Encoding: chunked")) { c->st = S_CHUNK; c->left = 0; c->trail = 0; }
				else c->st = S_EOF;
				*q = sv; p = q + 4;
			}
			if (c->st == S_BODY) {
				uint64_t n = end - p; if (n > c->left) n = c->left; p += n; c->left -= n; if (c->left) break;
				c->have = end - p; int f = c->fd; unsigned long cm = conns_made; finished(c); if (c->fd != f || conns_made != cm) return; if (c->st != S_HEAD || p == end) break; continue;
			}
			if (c->st == S_CHUNK) {
				int fin = 0;
				while (p < end) {
					if (c->left) { uint64_t n = end - p; if (n > c->left) n = c->left; p += n; c->left -= n; continue; }
					char *q = memmem(p, end - p, "\r\n", 2); if (!q) break;
					if (q == p) { p += 2; if (c->trail) { fin = 1; break; } continue; }
					uint64_t sz = strtoull(p, 0, 16); p = q + 2; if (sz) c->left = sz + 2; else c->trail = 1;
				}
				if (!fin) break;
				c->have = end - p; int f = c->fd; unsigned long cm = conns_made; finished(c); if (c->fd != f || conns_made != cm) return; if (c->st != S_HEAD || p == end) break; continue;
			}
			if (c->st == S_EOF) { p = end; break; }
			if (c->st == S_IDLE) { p = end; break; }
		}
		c->have = end - p; if (c->have && p != c->in) memmove(c->in, p, c->have);
		if (c->st == S_IDLE) return;
		if (!full && c->st != S_BODY && !more(c)) return;
	}
}

int main(int argc, char **argv)
{
	int o; while ((o = getopt(argc, argv, "p:c:d:n:k:P:u:N:f:o:H:w:r:IBT:C:G:RS:")) != -1) switch (o) {
		case 'p': port = atoi(optarg); break; case 'c': nconn = atoi(optarg); break; case 'd': dur = atof(optarg); break; case 'n': total = strtoull(optarg, 0, 10); break;
		case 'k': perconn = atoi(optarg); break; case 'P': depth = atoi(optarg); if (depth > 63) depth = 63; break; case 'u': path = optarg; break; case 'N': count = atol(optarg); break;
		case 'f': file = optarg; break; case 'o': start_off = atol(optarg); break; case 'H': strcat(xh, optarg); strcat(xh, "\r\n"); break; case 'w': warm = atof(optarg); break;
		case 'r': rate = atof(optarg); break; case 'I': idle = 1; break; case 'B': spin = 1; break;
#ifdef TLS
		case 'T': version = optarg; break; case 'C': ciphers = optarg; break; case 'G': groups = optarg; break; case 'R': resuming = 1; break; case 'S': sni = optarg; break;
#endif
		default: return 2; }
#ifdef TLS
	client_setup();
#endif

	(void)hdr; (void)linked;
	if (file) { FILE *f = fopen(file, "r"); if (!f) { perror(file); return 1; } char *b = 0; size_t cap = 0, lc = 0; ssize_t n;
		while ((n = getline(&b, &cap, f)) > 0) { if (b[n - 1] == '\n') b[n - 1] = 0; if (!*b) continue; if (nlines == lc) { lc = lc ? lc * 2 : 1024; lines = realloc(lines, lc * sizeof *lines); }
			char *s = strdup(b); struct line *l = &lines[nlines++]; l->p = strsep(&s, "\t"); l->h = s ? strsep(&s, "\t") : 0; l->u = s; }
		fclose(f); cur = start_off; }
	prctl(PR_SET_TIMERSLACK, 1); ep = epoll_create1(0); C = calloc(nconn, sizeof *C);
	for (fqm = 1; (int)fqm < nconn * 2; fqm <<= 1) ;
	freeq = malloc(fqm * sizeof(int)); fqm--;
	if (idle) inbuf = 4096; /* thousands of them */
	for (int i = 0; i < nconn; i++) { C[i].in = malloc(inbuf); C[i].obuf = malloc(C[i].ocap = 2048); }
	if (idle) { total = nconn; depth = 1; }
	t0 = now(); twarm = t0 + warm * 1e9; tend = total ? ~0ull : twarm + (uint64_t)(dur * 1e9);
	int opened = 0; uint64_t batch = idle ? 128 : nconn;
	while (opened < nconn && opened < (int)batch) openc(&C[opened++]);
	struct epoll_event ev[512]; uint64_t lastok = t0, lastn = 0, tstart = t0; int ready = 0;
	for (;;) {
		uint64_t n = now(); struct timespec ts = { 0, 50000000 };
		if (rate > 0 && !stop_issue) {
			for (;;) {
				uint64_t due = tstart + (uint64_t)(dues * 1e9 / rate); if (due > n || (total && dues >= total)) break;
				if (fqh == fqt) break; /* all busy: stays due, its latency keeps growing */
				struct conn *c = &C[freeq[fqh++ & fqm]]; dues++; addreq(c, due); c->st = S_HEAD; flushc(c);
			}
			uint64_t due = tstart + (uint64_t)(dues * 1e9 / rate);
			if (due > n && due - n < 50000000) ts.tv_nsec = due - n; else if (due <= n && fqh != fqt) ts.tv_nsec = 0;
		}
		if (n > tend && !stop_issue) { stop_issue = 1;
			if (rate > 0) { uint64_t want = (uint64_t)((tend - tstart) / 1e9 * rate); while (dues < want) { rec(n - (tstart + (uint64_t)(dues * 1e9 / rate))); dues++; errs++; } }
			break; }
		if (total && ok + errs >= total && !idle) break;
		if (total && ok != lastn) { lastn = ok; lastok = n; } else if (total && n - lastok > 10000000000ull) break;
		if (idle) {
			while (opened < nconn && opened < (int)(ok + errs + batch)) openc(&C[opened++]);
			if (!ready && ok + errs >= (uint64_t)nconn) { ready = 1; printf("READY %lu ok %lu err\n", ok, errs); fflush(stdout); char b; while (read(0, &b, 1) > 0) ; return 0; }
		}
		if (spin) ts.tv_nsec = 0;
		int k = epoll_pwait2(ep, ev, 512, &ts, 0);
		for (int i = 0; i < k; i++) {
			struct conn *c = ev[i].data.ptr; if (c->fd < 0) continue;
			if (c->st == S_CONN) {
				if (ev[i].events & (EPOLLERR | EPOLLHUP)) { int er = 0; socklen_t sl = sizeof er; getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &er, &sl); errno = er; errs++; if (errs < 4) perror("lg: connect"); reopen(c); usleep(200); continue; }
				if (ev[i].events & EPOLLOUT) shake(c);
				continue;
			}
			if (c->st == S_HELLO) { shake(c); continue; }
			if (ev[i].events & EPOLLOUT) flushc(c);
			if (ev[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) gotdata(c);
		}
	}
	uint64_t n = now(); double el = ((n < tend ? n : tend) - twarm) / 1e9;
	printf("{\"ok\":%lu,\"errors\":%lu,\"non200\":%lu,\"issued\":%lu,\"conns\":%lu,\"bytes\":%lu,\"seconds\":%.3f,\"rps\":%.1f,\"mean_us\":%.1f,\"p50_us\":%.1f,\"p90_us\":%.1f,\"p99_us\":%.1f,\"p999_us\":%.1f,\"max_us\":%.1f,\"resumed\":%lu,\"spoken\":\"%s\"}\n",
	    ok, errs, bad, issued, conns_made, bytes, el, ok / el, ok ? lsum / ok / 1e3 : 0, pct(.5) / 1e3, pct(.9) / 1e3, pct(.99) / 1e3, pct(.999) / 1e3, hmax / 1e3, resumed, spoken);
	return 0;
}
