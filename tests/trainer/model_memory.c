/*
 * model_memory (test) — tests ways to save memory: recomputed and offloaded activations, and logits
 * computed a few rows at a time.
 */
#include "tests/support/test.h"
#include "tests/trainer/model_case.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 3 };

static void open_and_run_passes(struct model_case *c, const struct model_config *config,
                                enum dtype dtype)
{
    case_open(c, config, ITEMS, dtype, 2);
    case_forward(c, true);
    case_backward(c, c->gradients);
}

static void assert_recomputing_is_bit_identical(const struct model_config *plain)
{
    struct model_case kept, again;
    open_and_run_passes(&kept, plain, DTYPE_F32);
    uint64_t bytes = model_params(kept.model)->elements * sizeof(float), least = UINT64_MAX;
    for (uint32_t every = plain->layers + 1; every > 0; every--) {
        struct model_config config = *plain;
        config.recompute_every = every;
        open_and_run_passes(&again, &config, DTYPE_F32);
        assert_memory_equal(kept.gradients, again.gradients, bytes);
        assert_memory_equal(kept.losses, again.losses, kept.rows * sizeof *kept.losses);
        assert_true(again.activation_bytes <= least); /* more blocks recomputed, less memory */
        least = again.activation_bytes;
        case_close(&again);
    }
    assert_true(least < kept.activation_bytes);
    case_close(&kept);
}

static void recomputed_blocks_are_bit_identical_in_less_memory(void **state)
{
    (void)state;
    struct model_config vit = case_vit, gpt2 = case_gpt2, llama = case_llama;
    vit.layers = gpt2.layers = llama.layers = 5;
    assert_recomputing_is_bit_identical(&vit);
    assert_recomputing_is_bit_identical(&gpt2);
    assert_recomputing_is_bit_identical(&llama);
}

/* Tests every number of offloaded blocks; blocks are copied out and in if there are more than the
 * ring holds. */
static void assert_offloading_is_bit_identical(const struct model_config *plain, uint32_t recompute)
{
    struct model_case kept, again;
    struct model_config config = *plain;
    config.recompute_every = recompute;
    open_and_run_passes(&kept, &config, DTYPE_F32);
    assert_null(kept.activations.offload);
    uint64_t bytes = model_params(kept.model)->elements * sizeof(float), least = UINT64_MAX;
    uint32_t candidates = recompute ? plain->layers - plain->layers / recompute : plain->layers;
    for (uint32_t every = candidates + 1; every > 0; every--) {
        uint32_t items = candidates / every;
        uint64_t moved = items > OFFLOAD_SLOTS ? items - OFFLOAD_SLOTS : 0;
        config.offload_every = every;
        open_and_run_passes(&again, &config, DTYPE_F32);
        assert_memory_equal(kept.gradients, again.gradients, bytes);
        assert_memory_equal(kept.losses, again.losses, kept.rows * sizeof *kept.losses);
        uint64_t pinned = model_offload_bytes(again.model, &again.whole);
        assert_int_equal(kept.activation_bytes, again.activation_bytes + pinned);
        assert_int_equal(pinned > 0, moved > 0);
        assert_true(again.activation_bytes <= least);
        least = again.activation_bytes;
        if (moved > 0) {
            assert_int_equal(offload_copied_bytes(again.activations.offload), 2 * pinned);
            case_loss(&again); /* an evaluation keeps no activations */
            assert_int_equal(offload_copied_bytes(again.activations.offload), 2 * pinned);
        } else {
            assert_null(again.activations.offload);
        }
        case_close(&again);
    }
    assert_true(least < kept.activation_bytes);
    case_close(&kept);
}

static void offloaded_blocks_are_bit_identical_in_less_device_memory(void **state)
{
    (void)state;
    struct model_config vit = case_vit, gpt2 = case_gpt2, llama = case_llama;
    vit.layers = gpt2.layers = llama.layers = 7;
    assert_offloading_is_bit_identical(&vit, 0);
    assert_offloading_is_bit_identical(&gpt2, 2);
    assert_offloading_is_bit_identical(&llama, 3);
}

/* Chunks of part of an item, with a remainder; one item; several items, with a remainder; all. */
static void assert_chunks_agree(const struct model_config *plain)
{
    const uint32_t rows[] = {1, plain->language.block - 1, plain->language.block,
                             2 * plain->language.block + 1, 1000 * plain->language.block};
    struct model_case whole, cut;
    open_and_run_passes(&whole, plain, DTYPE_F64);
    uint64_t elements = model_params(whole.model)->elements;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct model_config config = *plain;
        config.language.head_rows = rows[i];
        open_and_run_passes(&cut, &config, DTYPE_F64);
        for (uint64_t e = 0; e < elements; e++) {
            double a = case_get_element(DTYPE_F64, whole.gradients, e),
                   b = case_get_element(DTYPE_F64, cut.gradients, e);
            if (!(fabs(a - b) <= 1e-12 * (1 + fabs(a))))
                fail_msg("%u rows at a time: gradient %llu is %.17g, all at once: %.17g", rows[i],
                         (unsigned long long)e, b, a);
        }
        for (uint64_t row = 0; row < whole.rows; row++)
            assert_true(fabs(whole.losses[row] - cut.losses[row]) < 1e-13);
        assert_memory_equal(whole.correct, cut.correct, whole.rows);
        double sum = 0, evaluated = case_loss(&cut);
        for (uint64_t row = 0; row < whole.rows; row++)
            sum += whole.losses[row];
        assert_true(fabs(sum - evaluated) < 1e-11);
        assert_true((rows[i] >= whole.rows) ==
                    (model_logits(cut.model, &cut.whole, &cut.activations) != NULL));
        case_close(&cut);
    }
    case_close(&whole);
}

static void logits_can_be_computed_a_few_rows_at_a_time(void **state)
{
    (void)state;
    assert_chunks_agree(&case_gpt2);
    assert_chunks_agree(&case_llama);
}

static void a_scaled_loss_scales_every_gradient(void **state)
{
    (void)state;
    const struct model_config *const configs[] = {&case_vit, &case_gpt2, &case_llama, &case_llama3,
                                                  &case_qwen3};
    for (size_t m = 0; m < sizeof configs / sizeof configs[0]; m++) {
        struct model_case plain, scaled;
        open_and_run_passes(&plain, configs[m], DTYPE_F32);
        case_open(&scaled, configs[m], ITEMS, DTYPE_F32, 1);
        scaled.loss_scale = 1024; /* a power of two: exact */
        case_forward(&scaled, true);
        case_backward(&scaled, scaled.gradients);
        for (uint64_t e = 0; e < model_params(plain.model)->elements; e++)
            assert_true(case_get_element(DTYPE_F32, scaled.gradients, e) ==
                        1024 * case_get_element(DTYPE_F32, plain.gradients, e));
        assert_memory_equal(plain.losses, scaled.losses, plain.rows * sizeof *plain.losses);
        case_close(&scaled);
        case_close(&plain);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recomputed_blocks_are_bit_identical_in_less_memory),
        cmocka_unit_test(offloaded_blocks_are_bit_identical_in_less_device_memory),
        cmocka_unit_test(logits_can_be_computed_a_few_rows_at_a_time),
        cmocka_unit_test(a_scaled_loss_scales_every_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
