/* SPDX-License-Identifier: BSD-2-Clause */
/* Origin for the benchmarks: one thread, epoll.  usage: origin PORT [FILEDIR]; compiled with -DTLS (libssl): origin PORT FILEDIR PEM
 * /c/SIZE/ID   cacheable for a day      /n/SIZE/ID  Cache-Control: no-store
 * /z/ID        cacheable, size is a fixed function of ID (log-uniform 512 B..32 KB)
 * /f/NAME      file FILEDIR/NAME, text/html, cacheable (NAME.gz sent when the client takes gzip)
 * /stats       number of requests answered so far (without /stats itself)
 * /m/SIZE/ID   one ID in ten is no-store, the rest cacheable */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <errno.h>
#include <stdint.h>
#include <fcntl.h>
#include <math.h>
#include <time.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/stat.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include "sealed.h"

struct conn { int fd, inlen, out, close; char *o; size_t olen, ocap, osent; char in[32768];
#ifdef TLS
	SSL *ssl;
#endif
};
#ifdef TLS
#define rx(c, p, n) tls_read((c)->ssl, p, n)
#define tx(c, p, n) tls_write((c)->ssl, p, n)
#else
#define rx(c, p, n) recv((c)->fd, p, n, 0)
#define tx(c, p, n) send((c)->fd, p, n, MSG_NOSIGNAL)
#endif
static int ep; static unsigned long nreq; static const char *dir = "."; static char *filler;
struct fc { char name[64]; char *d; size_t n; } fcache[32]; static int nfc;

static void put(struct conn *c, const void *p, size_t n)
{
	if (c->olen + n > c->ocap) { c->ocap = (c->olen + n) * 2; c->o = realloc(c->o, c->ocap); }
	memcpy(c->o + c->olen, p, n); c->olen += n;
}
static struct fc *getfile(const char *nm)
{
	for (int i = 0; i < nfc; i++) if (!strcmp(fcache[i].name, nm)) return &fcache[i];
	if (nfc == 32 || strstr(nm, "..") || strlen(nm) > 60) return 0;
	char p[512]; snprintf(p, sizeof p, "%s/%s", dir, nm);
	int fd = open(p, O_RDONLY); if (fd < 0) return 0;
	struct stat st; fstat(fd, &st); struct fc *f = &fcache[nfc++]; strcpy(f->name, nm);
	f->d = malloc(st.st_size); f->n = read(fd, f->d, st.st_size); close(fd); return f;
}
static void answer(struct conn *c, char *req, char *end)
{
	char url[512]; char *s = memchr(req, ' ', end - req); *end = 0;
	if (!s) { c->close = 1; return; }
	size_t l = strcspn(s + 1, " \r\n"); if (l > 511) l = 511; memcpy(url, s + 1, l); url[l] = 0;
	int head = !strncmp(req, "HEAD ", 5);
	char *u = url; if (!strncmp(u, "http://", 7)) { u = strchr(u + 7, '/'); if (!u) u = "/"; }
	char *q = strchr(u, '?'); if (q) *q = 0;
	const char *cc = "public, max-age=86400", *xtra = ""; size_t sz = 0; const char *body = filler; int st = 200; char tmp[32];
	int gz = 0; char *ae = strcasestr(req, "\r\nAccept-Encoding:"); if (ae) { char *e2 = strstr(ae + 2, "\r\n"); char *g = strcasestr(ae, "gzip"); gz = g && (!e2 || g < e2); }
	if (!strncmp(u, "/c/", 3)) sz = strtoul(u + 3, 0, 10);
	else if (!strncmp(u, "/n/", 3)) { sz = strtoul(u + 3, 0, 10); cc = "private, no-store"; }
	else if (!strncmp(u, "/m/", 3)) { char *e; sz = strtoul(u + 3, &e, 10); if (*e && strtoul(e + 1, 0, 10) % 10 == 0) cc = "private, no-store"; }
	else if (!strncmp(u, "/z/", 3)) { uint64_t x = strtoull(u + 3, 0, 10) * 0x9E3779B97F4A7C15ull; x ^= x >> 29; x *= 0xBF58476D1CE4E5B9ull; x ^= x >> 32; sz = (size_t)(512 * exp2((double)(x & 0xffffff) / 0x1000000 * 6)); }
	else if (!strncmp(u, "/f/", 3)) {
		char nm[80]; struct fc *f = 0; if (gz) { snprintf(nm, sizeof nm, "%.64s.gz", u + 3); f = getfile(nm); if (f) xtra = "Content-Encoding: gzip\r\nVary: Accept-Encoding\r\n"; }
		if (!f) f = getfile(u + 3);
		if (f) { body = f->d; sz = f->n; } else st = 404;
	} else if (!strcmp(u, "/stats")) { cc = "no-store"; sz = snprintf(tmp, sizeof tmp, "%lu\n", nreq); body = tmp; nreq--; }
	else sz = 1024;
	nreq++;
	if (sz > 64u << 20) sz = 64u << 20;
	char h[512];
	int cl = strcasestr(req, "\r\nConnection: close") != 0 || !strncmp(s + 1 + l, " HTTP/1.0", 9);
	if (strcasestr(req, "\r\nConnection: keep-alive")) cl = 0;
	int n = snprintf(h, sizeof h, "HTTP/1.1 %d OK\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nServer: origin\r\nContent-Type: text/html; charset=utf-8\r\n"
	    "Cache-Control: %s\r\nLast-Modified: Wed, 31 Dec 2025 00:00:00 GMT\r\n%sContent-Length: %zu\r\nConnection: %s\r\n\r\n", st, cc, xtra, sz, cl ? "close" : "keep-alive");
	/* a real Date is needed by caches that compute age from it */
	static time_t lt; static char ds[64]; time_t now = time(0); if (now != lt) { lt = now; strftime(ds, sizeof ds, "%a, %d %b %Y %H:%M:%S GMT", gmtime(&now)); }
	memcpy(strstr(h, "Date: ") + 6, ds, 29);
	put(c, h, n); if (!head) put(c, body, sz); c->close |= cl;
}
static void drop(struct conn *c) {
#ifdef TLS
	SSL_free(c->ssl);
#endif
	close(c->fd); free(c->o); free(c); }
static int out(struct conn *c)
{
	while (c->osent < c->olen) {
		ssize_t w = tx(c, c->o + c->osent, c->olen - c->osent);
		if (w < 0) { if (errno != EAGAIN) return -1;
			if (!c->out) { struct epoll_event e = { EPOLLIN | EPOLLOUT, { .ptr = c } }; epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e); c->out = 1; } return 0; }
		c->osent += w;
	}
	c->olen = c->osent = 0; if (c->ocap > 1 << 18) { free(c->o); c->o = 0; c->ocap = 0; }
	if (c->out) { struct epoll_event e = { EPOLLIN, { .ptr = c } }; epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &e); c->out = 0; }
	return c->close ? -1 : 0;
}
int main(int argc, char **argv)
{
	int port = atoi(argv[1]); if (argc > 2) dir = argv[2];
	filler = malloc(64u << 20); for (size_t i = 0; i < 64u << 20; i++) filler[i] = "the quick brown fox jumps over the lazy dog\n"[i % 44];
#ifdef TLS
	tls_setup(TLS_server_method());
	if (argc < 4 || SSL_CTX_use_certificate_chain_file(tls, argv[3]) != 1 || SSL_CTX_use_PrivateKey_file(tls, argv[3], SSL_FILETYPE_PEM) != 1) tls_fatal("origin");
#endif
	int one = 1, ls = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0); setsockopt(ls, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	if (bind(ls, (void *)&a, sizeof a) || listen(ls, 4096)) { perror("bind"); return 1; }
	ep = epoll_create1(0); struct epoll_event e = { EPOLLIN, { .ptr = 0 } }, ev[256]; epoll_ctl(ep, EPOLL_CTL_ADD, ls, &e);
	for (;;) {
		int n = epoll_wait(ep, ev, 256, -1);
		for (int i = 0; i < n; i++) {
			struct conn *c = ev[i].data.ptr;
			if (!c) { for (;;) { int fd = accept4(ls, 0, 0, SOCK_NONBLOCK); if (fd < 0) break; setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
				c = calloc(1, sizeof *c); c->fd = fd;
#ifdef TLS
				c->ssl = SSL_new(tls); SSL_set_fd(c->ssl, fd); SSL_set_accept_state(c->ssl);
#endif
				 struct epoll_event x = { EPOLLIN, { .ptr = c } }; epoll_ctl(ep, EPOLL_CTL_ADD, fd, &x); } continue; }
			if (ev[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) {
				ssize_t r = rx(c, c->in + c->inlen, sizeof c->in - 1 - c->inlen);
				if (r <= 0) { if (r < 0 && errno == EAGAIN) goto w; drop(c); continue; }
				c->inlen += r; char *p = c->in, *end = c->in + c->inlen, *q;
				while (!c->close && (q = memmem(p, end - p, "\r\n\r\n", 4))) { answer(c, p, q + 2); p = q + 4; }
				c->inlen = end - p; if (p != c->in) memmove(c->in, p, c->inlen);
			}
		w:	if (c->olen && out(c) < 0) drop(c);
		}
	}
}
