/* See tls.h. */
#include "server/net/tls.h"

#include <gnutls/abstract.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "kernels/base/buffer.h"
#include "kernels/base/file.h"
#include "kernels/base/log.h"

#define PEM_BYTES_MAX ((size_t)1 << 20)
#define CHAIN_MAX 16

static enum status read_pem(const char *path, char **out, struct error *error)
{
    struct buffer text = {0};
    enum status status = file_read(path, PEM_BYTES_MAX, &text, error);
    if (status == STATUS_OK && (text.size == 0 || strlen(text.data) != text.size))
        status = error_set(error, STATUS_INVALID, "%s is not a PEM file", path);
    if (status != STATUS_OK) {
        buffer_free(&text);
        return status;
    }
    *out = text.data;
    return STATUS_OK;
}

static gnutls_datum_t datum(const char *text)
{
    return (gnutls_datum_t){.data = (unsigned char *)text, .size = (unsigned)strlen(text)};
}

static void warn_of_expiry(const char *path, gnutls_x509_crt_t certificate)
{
    if (gnutls_x509_crt_get_expiration_time(certificate) < time(NULL))
        log_line(LOG_WARN, "the certificate in %s has expired; clients will refuse it", path);
}

static enum status check_certificate(const char *path, const char *pem, struct error *error)
{
    gnutls_x509_crt_t chain[CHAIN_MAX];
    gnutls_datum_t data = datum(pem);
    unsigned count = CHAIN_MAX;
    int result = gnutls_x509_crt_list_import(chain, &count, &data, GNUTLS_X509_FMT_PEM,
                                             GNUTLS_X509_CRT_LIST_IMPORT_FAIL_IF_EXCEED);
    if (result < 0)
        return error_field(error, STATUS_INVALID, "tls-cert", "%s has no certificate chain in PEM form: %s", path,
                           gnutls_strerror(result));
    warn_of_expiry(path, chain[0]);
    for (int i = 0; i < result; i++)
        gnutls_x509_crt_deinit(chain[i]);
    return STATUS_OK;
}

static enum status check_key(const char *path, const char *pem, struct error *error)
{
    gnutls_privkey_t key;
    gnutls_datum_t data = datum(pem);
    if (gnutls_privkey_init(&key) < 0)
        return error_no_memory(error, "the TLS key");
    int result = gnutls_privkey_import_x509_raw(key, &data, GNUTLS_X509_FMT_PEM, NULL, 0);
    gnutls_privkey_deinit(key);
    if (result >= 0)
        return STATUS_OK;
    return error_field(error, STATUS_INVALID, "tls-key", "%s has no private key in PEM form without a password: %s",
                       path, gnutls_strerror(result));
}

static enum status check_pair(const struct tls *tls, const char *certificate_path, const char *key_path,
                              struct error *error)
{
    gnutls_certificate_credentials_t credentials;
    gnutls_datum_t certificate = datum(tls->certificate), key = datum(tls->key);
    if (gnutls_certificate_allocate_credentials(&credentials) < 0)
        return error_no_memory(error, "the TLS key");
    int result = gnutls_certificate_set_x509_key_mem2(credentials, &certificate, &key, GNUTLS_X509_FMT_PEM, NULL, 0);
    gnutls_certificate_free_credentials(credentials);
    if (result >= 0)
        return STATUS_OK;
    return error_field(error, STATUS_INVALID, "tls-key", "%s and %s do not belong together: %s", certificate_path,
                       key_path, gnutls_strerror(result));
}

enum status tls_open(const char *certificate_path, const char *key_path, struct tls **out, struct error *error)
{
    *out = NULL;
    struct tls *tls = calloc(1, sizeof(*tls));
    if (tls == NULL)
        return error_no_memory(error, "the TLS key");
    enum status status = read_pem(certificate_path, &tls->certificate, error);
    if (status == STATUS_OK)
        status = read_pem(key_path, &tls->key, error);
    if (status == STATUS_OK)
        status = check_certificate(certificate_path, tls->certificate, error);
    if (status == STATUS_OK)
        status = check_key(key_path, tls->key, error);
    if (status == STATUS_OK)
        status = check_pair(tls, certificate_path, key_path, error);
    if (status != STATUS_OK) {
        tls_close(tls);
        return status;
    }
    *out = tls;
    return STATUS_OK;
}

void tls_close(struct tls *tls)
{
    if (tls == NULL)
        return;
    free(tls->certificate);
    if (tls->key != NULL)
        explicit_bzero(tls->key, strlen(tls->key));
    free(tls->key);
    free(tls);
}
