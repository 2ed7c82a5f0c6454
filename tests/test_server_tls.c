// mlxcel-server speaking TLS, with a certificate made for the test.
#include "server_client.h"

#include <gnutls/gnutls.h>
#include <gnutls/x509.h>

#define GREET "{\"prompt\":\"\\n\",\"temperature\":0,\"stream\":true}"

static char key_file[] = "/tmp/mlxcel-key-XXXXXX", cert_file[] = "/tmp/mlxcel-cert-XXXXXX";

static void good(int result) {
    if (result < 0) fail_msg("gnutls: %s", gnutls_strerror(result));
}

static void write_file(char *path, const gnutls_datum_t *d) {
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, d->data, d->size), d->size);
    close(fd);
}

static gnutls_x509_privkey_t make_key(char *path) {
    gnutls_x509_privkey_t key;
    gnutls_datum_t pem;
    good(gnutls_x509_privkey_init(&key));
    good(gnutls_x509_privkey_generate(key, GNUTLS_PK_ECDSA,
                                      GNUTLS_CURVE_TO_BITS(GNUTLS_ECC_CURVE_SECP256R1), 0));
    good(gnutls_x509_privkey_export2(key, GNUTLS_X509_FMT_PEM, &pem));
    write_file(path, &pem);
    gnutls_free(pem.data);
    return key;
}

static int make_certificate(void **state) {
    gnutls_x509_privkey_t key = make_key(key_file);
    gnutls_x509_crt_t cert;
    gnutls_datum_t pem;
    time_t now = time(NULL);
    (void)state;
    good(gnutls_x509_crt_init(&cert));
    good(gnutls_x509_crt_set_version(cert, 3));
    good(gnutls_x509_crt_set_serial(cert, "\1", 1));
    good(gnutls_x509_crt_set_activation_time(cert, now - 3600));
    good(gnutls_x509_crt_set_expiration_time(cert, now + 86400));
    good(gnutls_x509_crt_set_dn_by_oid(cert, GNUTLS_OID_X520_COMMON_NAME, 0, "localhost", 9));
    good(gnutls_x509_crt_set_subject_alt_name(cert, GNUTLS_SAN_DNSNAME, "localhost", 9, 0));
    good(gnutls_x509_crt_set_basic_constraints(cert, 1, -1));
    good(gnutls_x509_crt_set_key(cert, key));
    good(gnutls_x509_crt_sign2(cert, cert, key, GNUTLS_DIG_SHA256, 0));
    good(gnutls_x509_crt_export2(cert, GNUTLS_X509_FMT_PEM, &pem));
    write_file(cert_file, &pem);
    gnutls_free(pem.data);
    gnutls_x509_privkey_deinit(key);
    gnutls_x509_crt_deinit(cert);
    return 0;
}

static int remove_certificate(void **state) {
    (void)state;
    return unlink(key_file) | unlink(cert_file);
}

struct secure {
    int fd;
    gnutls_session_t session;
    gnutls_certificate_credentials_t trust;
};

static void secure_open(struct secure *t, const struct server *s) {
    t->fd = client_open(s);
    good(gnutls_certificate_allocate_credentials(&t->trust));
    good(gnutls_certificate_set_x509_trust_file(t->trust, cert_file, GNUTLS_X509_FMT_PEM));
    good(gnutls_init(&t->session, GNUTLS_CLIENT));
    good(gnutls_set_default_priority(t->session));
    good(gnutls_credentials_set(t->session, GNUTLS_CRD_CERTIFICATE, t->trust));
    gnutls_session_set_verify_cert(t->session, "localhost", 0);
    gnutls_transport_set_int(t->session, t->fd);
    gnutls_handshake_set_timeout(t->session, WAIT_MS);
    int result;
    do result = gnutls_handshake(t->session);
    while (result < 0 && !gnutls_error_is_fatal(result));
    good(result);
}

static void secure_close(struct secure *t) {
    gnutls_deinit(t->session);
    gnutls_certificate_free_credentials(t->trust);
    close(t->fd);
}

static void secure_ask(struct secure *t, const char *request) {
    assert_int_equal(gnutls_record_send(t->session, request, strlen(request)), strlen(request));
}

static bool secure_take(struct secure *t, struct str *out) {
    char block[4096];
    ssize_t n;
    do n = gnutls_record_recv(t->session, block, sizeof block);
    while (n == GNUTLS_E_AGAIN || n == GNUTLS_E_INTERRUPTED);
    if (n > 0) str_add(out, sv_n(block, (size_t)n));
    return n > 0;
}

static void start(struct server *s, const char *const *args) {
    struct str all = {0};
    assert_true(server_launch(s, args));
    do { // until the model is loaded
        struct secure t;
        str_clear(&all);
        secure_open(&t, s);
        secure_ask(&t, "GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        while (secure_take(&t, &all)) continue;
        secure_close(&t);
    } while (sv_starts(str_sv(&all), sv("HTTP/1.1 503")));
    assert_true(sv_starts(str_sv(&all), sv("HTTP/1.1 200")));
    str_free(&all);
}

static void post_to(struct secure *t, const char *body) {
    struct str s = {0};
    str_printf(&s,
               "POST " TEXT " HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %zu"
               "\r\n\r\n%s",
               strlen(body), body);
    secure_ask(t, s.p);
    str_free(&s);
}

// Streams, a client that leaves in the middle of one, and those that speak no TLS.
static void streams(void **state) {
    struct server s;
    struct secure t;
    struct str all = {0};
    struct answer a;
    (void)state;
    start(&s, ARGS("-m", MODEL, "-np", "1", "--receive-timeout", "2", "--ssl-key-file", key_file,
                   "--ssl-cert-file", cert_file));
    secure_open(&t, &s);
    post_to(&t, "{\"prompt\":\"\\n\",\"temperature\":0,\"stream\":true,\"ignore_eos\":true,"
                "\"max_tokens\":-1}");
    while (sv_find(str_sv(&all), sv("Hello"), 0) < 0) assert_true(secure_take(&t, &all));
    secure_close(&t);
    server_wait_for(&s, "cut off");
    int plain = client_open(&s), silent = client_open(&s);
    client_send(plain, sv("GET /health HTTP/1.1\r\nHost: x\r\n\r\n"));
    secure_open(&t, &s);
    post_to(&t, GREET);
    str_clear(&all);
    while (secure_take(&t, &all)) continue;
    answer_read(&a, str_sv(&all));
    assert_int_equal(a.status, 200);
    assert_true(sv_ends(str_sv(&a.body), sv("data: [DONE]\n\n")));
    answer_free(&a);
    secure_close(&t);
    str_clear(&all);
    while (client_take(plain, &all)) continue;
    assert_true(sv_find(str_sv(&all), sv("HTTP"), 0) < 0);
    while (client_take(silent, &all)) continue; // it is late
    close(plain);
    close(silent);
    str_free(&all);
    assert_int_equal(server_stop(&s), 0);
}

static void wrong_files(void **state) {
    (void)state;
    assert_int_equal(server_run_to_end(ARGS("-m", MODEL, "--ssl-key-file", key_file),
                                       "--ssl-key-file is given without --ssl-cert-file"),
                     2);
    assert_int_equal(server_run_to_end(ARGS("-m", MODEL, "--ssl-key-file", "/nothing",
                                            "--ssl-cert-file", cert_file),
                                       "--ssl-key-file: /nothing"),
                     2);
    assert_int_equal(server_run_to_end(ARGS("-m", MODEL, "--ssl-key-file", cert_file,
                                            "--ssl-cert-file", cert_file),
                                       "holds no private key"),
                     2);
    assert_int_equal(server_run_to_end(
                         ARGS("-m", MODEL, "--ssl-key-file", key_file, "--ssl-cert-file", key_file),
                         "No certificate was found"),
                     2);
    static char other[] = "/tmp/mlxcel-key-XXXXXX";
    gnutls_x509_privkey_deinit(make_key(other));
    assert_int_equal(
        server_run_to_end(ARGS("-m", MODEL, "--ssl-key-file", other, "--ssl-cert-file", cert_file),
                          "--ssl-cert-file: The certificate and the given key"),
        2);
    assert_int_equal(unlink(other), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams),
        cmocka_unit_test(wrong_files),
    };
    return cmocka_run_group_tests_name("server_tls", tests, make_certificate, remove_certificate);
}
