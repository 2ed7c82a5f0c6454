#include "server/tls.h"

#ifdef HAVE_GNUTLS
#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdlib.h>

#include "base/mem.h"

static gnutls_datum_t datum(struct sv s) {
    return (gnutls_datum_t){(unsigned char *)mem_textn(s.p, s.n), (unsigned)s.n};
}

static bool check_key(const char *file, const gnutls_datum_t *pem, struct error *e) {
    gnutls_privkey_t key;
    int result = gnutls_privkey_init(&key);
    if (result >= 0) {
        result = gnutls_privkey_import_x509_raw(key, pem, GNUTLS_X509_FMT_PEM, NULL, 0);
        gnutls_privkey_deinit(key);
    }
    if (result == GNUTLS_E_DECRYPTION_FAILED)
        return fail(e, "--ssl-key-file %s: needs a password; write it without one", file);
    if (result == GNUTLS_E_REQUESTED_DATA_NOT_AVAILABLE)
        return fail(e, "--ssl-key-file %s: holds no private key", file);
    return result >= 0 || fail(e, "--ssl-key-file %s: %s", file, gnutls_strerror(result));
}

static bool check_cert(const char *file, const gnutls_datum_t *pem, struct error *e) {
    gnutls_x509_crt_t *list = NULL;
    unsigned n = 0;
    int result = gnutls_x509_crt_list_import2(&list, &n, pem, GNUTLS_X509_FMT_PEM, 0);
    for (unsigned i = 0; result >= 0 && i < n; i++) gnutls_x509_crt_deinit(list[i]);
    if (result >= 0) gnutls_free(list);
    return result >= 0 || fail(e, "--ssl-cert-file %s: %s", file, gnutls_strerror(result));
}

static bool check_pair(const gnutls_datum_t *key, const gnutls_datum_t *cert, struct error *e) {
    gnutls_certificate_credentials_t both;
    int result = gnutls_certificate_allocate_credentials(&both);
    if (result >= 0) {
        result = gnutls_certificate_set_x509_key_mem(both, cert, key, GNUTLS_X509_FMT_PEM);
        gnutls_certificate_free_credentials(both);
    }
    return result >= 0 ||
           fail(e, "--ssl-key-file and --ssl-cert-file: %s", gnutls_strerror(result));
}

bool tls_check(const struct pem *key, const struct pem *cert, struct error *e) {
    gnutls_datum_t k = datum(key->text), c = datum(cert->text);
    bool ok = check_key(key->file, &k, e) && check_cert(cert->file, &c, e) && check_pair(&k, &c, e);
    free(k.data);
    free(c.data);
    return ok;
}

#else

bool tls_check(const struct pem *key, const struct pem *cert, struct error *e) {
    (void)key, (void)cert, (void)e;
    return true;
}

#endif
