/*
 * hmac — see hmac.h. The only adapter of libcrypto.
 */
#include "base/hmac.h"

#include "base/versions.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>

/* The library queues errors per thread; discard them. */
static int take_openssl_error(void)
{
    int code = ERR_GET_REASON(ERR_peek_last_error()) == ERR_R_MALLOC_FAILURE ? -ENOMEM : -ENOTSUP;
    ERR_clear_error();
    return code;
}

int sha256(const void *data, size_t bytes, uint8_t ret_digest[SHA256_BYTES])
{
    return EVP_Digest(data, bytes, ret_digest, NULL, EVP_sha256(), NULL) ? 0 : take_openssl_error();
}

int hmac_sha256(const void *key, size_t key_bytes, const void *data, size_t bytes,
                uint8_t ret_mac[SHA256_BYTES])
{
    assert(key_bytes <= INT_MAX);
    return HMAC(EVP_sha256(), key, (int)key_bytes, data, bytes, ret_mac, NULL)
               ? 0
               : take_openssl_error();
}

bool hmac_is_equal(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES])
{
    return CRYPTO_memcmp(a, b, SHA256_BYTES) == 0;
}

const char *hmac_version(char *text)
{
    snprintf(text, VERSION_TEXT_BYTES, "OpenSSL %s", OpenSSL_version(OPENSSL_VERSION_STRING));
    return text;
}
