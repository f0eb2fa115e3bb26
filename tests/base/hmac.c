/*
 * hmac — the test vectors of FIPS 180-4 and RFC 4231, and MAC comparison.
 */
#include "base/hmac.h"

#include "tests/support/test.h"

#include <string.h>

static void assert_digest(const uint8_t digest[SHA256_BYTES], const char *expected)
{
    char text[2 * SHA256_BYTES + 1];
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    assert_string_equal(text, expected);
}

static void digests_match_fips_180(void **state)
{
    static const struct {
        const char *text, *digest;
    } cases[] = {
        {"", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {"abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
    };
    uint8_t digest[SHA256_BYTES];
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(sha256(cases[i].text, strlen(cases[i].text), digest), 0);
        assert_digest(digest, cases[i].digest);
    }
}

/* RFC 4231, cases 1 to 4, 6 and 7; case 5 is about truncation. */
static void macs_match_rfc_4231(void **state)
{
    static const char large_key[] = "Test Using Larger Than Block-Size Key - Hash Key First";
    static const char large_both[] = "This is a test using a larger than block-size key and a "
                                     "larger than block-size data. The key needs "
                                     "to be hashed before being used by the HMAC algorithm.";
    uint8_t key[131], data[50], mac[SHA256_BYTES];
    (void)state;
    memset(key, 0x0b, 20);
    assert_int_equal(hmac_sha256(key, 20, "Hi There", 8, mac), 0);
    assert_digest(mac, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    assert_int_equal(hmac_sha256("Jefe", 4, "what do ya want for nothing?", 28, mac), 0);
    assert_digest(mac, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    memset(data, 0xdd, sizeof data);
    assert_int_equal(hmac_sha256(key, 20, data, sizeof data, mac), 0);
    assert_digest(mac, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    assert_int_equal(hmac_sha256(key, sizeof key, large_key, strlen(large_key), mac), 0);
    assert_digest(mac, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    assert_int_equal(hmac_sha256(key, sizeof key, large_both, strlen(large_both), mac), 0);
    assert_digest(mac, "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
    for (int i = 0; i < 25; i++)
        key[i] = (uint8_t)(i + 1);
    memset(data, 0xcd, sizeof data);
    assert_int_equal(hmac_sha256(key, 25, data, sizeof data, mac), 0);
    assert_digest(mac, "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
}

static void an_empty_key_is_valid(void **state)
{
    uint8_t mac[SHA256_BYTES];
    (void)state;
    assert_int_equal(hmac_sha256("", 0, "", 0, mac), 0);
    assert_digest(mac, "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
}

static void a_flipped_bit_makes_macs_unequal(void **state)
{
    uint8_t a[SHA256_BYTES], b[SHA256_BYTES];
    (void)state;
    assert_int_equal(sha256("abc", 3, a), 0);
    memcpy(b, a, sizeof b);
    assert_true(hmac_is_equal(a, b));
    for (int bit = 0; bit < 8 * SHA256_BYTES; bit++) {
        b[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(hmac_is_equal(a, b));
        b[bit / 8] ^= (uint8_t)(1 << bit % 8);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_match_fips_180),
        cmocka_unit_test(macs_match_rfc_4231),
        cmocka_unit_test(an_empty_key_is_valid),
        cmocka_unit_test(a_flipped_bit_makes_macs_unequal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
