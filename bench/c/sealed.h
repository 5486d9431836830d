/* SPDX-License-Identifier: BSD-2-Clause */
/* TLS below the generator and the origin, compiled in with -DTLS (libssl): reads and writes that fail as a socket's do. */
#ifdef TLS
#include <openssl/err.h>
#include <openssl/ssl.h>
static SSL_CTX *tls;
static ssize_t tls_result(SSL *s, int r)
{
	if (r > 0) return r;
	switch (SSL_get_error(s, r)) {
		case SSL_ERROR_WANT_READ: case SSL_ERROR_WANT_WRITE: errno = EAGAIN; return -1;
		case SSL_ERROR_ZERO_RETURN: return 0;
		case SSL_ERROR_SSL: errno = EPROTO; return -1;
		default: if (!errno) errno = ECONNRESET; return -1;
	}
}
static ssize_t tls_read(SSL *s, void *p, size_t n) { ERR_clear_error(); errno = 0; return tls_result(s, SSL_read(s, p, n)); }
static ssize_t tls_write(SSL *s, const void *p, size_t n) { ERR_clear_error(); errno = 0; return tls_result(s, SSL_write(s, p, n > 1 << 20 ? 1 << 20 : n)); }
/* Marked as ended in order, else the library takes the session back. */
static void tls_free(SSL *s) { SSL_set_shutdown(s, SSL_SENT_SHUTDOWN | SSL_RECEIVED_SHUTDOWN); SSL_free(s); }
static void tls_setup(const SSL_METHOD *method)
{
	tls = SSL_CTX_new(method);
	SSL_CTX_set_mode(tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER | SSL_MODE_RELEASE_BUFFERS);
	SSL_CTX_set_options(tls, SSL_OP_IGNORE_UNEXPECTED_EOF);
}
static void tls_fatal(const char *what) { fprintf(stderr, "%s: ", what); ERR_print_errors_fp(stderr); exit(2); }
#endif
