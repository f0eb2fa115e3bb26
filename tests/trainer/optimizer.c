/*
 * optimizer (test) — AdamW and SGD against torch, the exact norm, and clipping.
 */
#include "tests/support/test.h"

#include "base/numeric/exact_sum.h"
#include "trainer/optim/optimizer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 7, COLS = 13, UPDATES = 5, ELEMENTS = 3 * PARAMS_ALIGN };

struct fixture {
    struct device *device;
    struct ops *ops;
    struct params params;
    struct partition partition;
    struct optimizer optimizer;
};

static int set_up(void **state)
{
    static struct fixture fixture;
    struct err err;
    struct fixture *f = &fixture;
    memset(f, 0, sizeof *f);
    assert_ok(device_open("cpu", &f->device, &err), &err);
    assert_ok(ops_cpu_open(f->device, DTYPE_F64, 1, &f->ops, &err), &err);
    uint64_t index;
    assert_ok(params_begin_unit(&f->params, "g", &err), &err);
    struct param_spec weight = {.name = "w", .rows = ROWS, .cols = COLS, .decay = true};
    struct param_spec bias = {.name = "b", .rows = 1, .cols = COLS, .decay = false};
    assert_ok(params_add(&f->params, &weight, &index, &err), &err);
    assert_ok(params_add(&f->params, &bias, &index, &err), &err);
    assert_true(f->params.elements <= ELEMENTS);
    struct optimizer_options options = {
        .update = {.beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1},
        .clip_norm = 1};
    const struct partition_options alone = {.rank = 0, .ranks = 1, .shards = 1};
    assert_ok(partition_init(&f->partition, &alone, &f->params, &err), &err);
    assert_ok(optimizer_init(&f->optimizer, &options, f->ops, &f->partition, &err), &err);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    optimizer_deinit(&f->optimizer);
    partition_deinit(&f->partition);
    params_deinit(&f->params);
    ops_close(f->ops);
    device_close(f->device);
    return 0;
}

static double test_value(int update, int element)
{
    return sin(1.0 + update * 31.7 + element * 0.37) * (1 + element % 3);
}

static void update(struct fixture *f, double *weights, const double *gradients, uint64_t updates,
                   double lr, double gradient_scale)
{
    const struct scheduled_scalars scheduled =
        optimizer_scheduled_scalars(&f->optimizer, updates, lr);
    const struct update_scalars scalars = {
        scheduled.lr, scheduled.correction1, scheduled.correction2, gradient_scale, INFINITY,
        false};
    optimizer_update_shard(&f->optimizer, 0, weights, NULL, gradients, &scalars);
}

/* maker: Python that constructs the same optimizer in torch, for the tensor w. */
static void check_five_updates(struct fixture *f, const char *maker)
{
    const char *python = test_need_python("torch");
    double weights[ELEMENTS] = {0}, gradients[ELEMENTS] = {0};
    for (int i = 0; i < ROWS * COLS; i++)
        weights[i] = test_value(-1, i);
    for (int u = 0; u < UPDATES; u++) {
        for (int i = 0; i < ROWS * COLS; i++)
            gradients[i] = test_value(u, i);
        update(f, weights, gradients, (uint64_t)u, 0.01 * (u + 1), 0.5);
    }
    char text[65536];
    assert_int_equal(
        test_run_output(
            text, sizeof text,
            "%s -c \"\nimport torch, math\n"
            "v = lambda u: torch.tensor([math.sin(1.0 + u * 31.7 + i * 0.37) * (1 + i %% 3) for "
            "i in range(%d)],"
            " dtype=torch.float64)\n"
            "w = v(-1).requires_grad_()\n"
            "o = torch.optim.%s\n"
            "for u in range(%d):\n"
            "    o.param_groups[0]['lr'] = 0.01 * (u + 1)\n"
            "    w.grad = v(u) * 0.5\n"
            "    o.step()\n"
            "print(' '.join(repr(float(x)) for x in w))\n\"",
            python, ROWS * COLS, maker, UPDATES),
        0);
    char *at = text;
    for (int i = 0; i < ROWS * COLS; i++) {
        double expected = strtod(at, &at);
        if (fabs(weights[i] - expected) > 1e-12 * (1 + fabs(expected)))
            fail_msg("%s: element %d: %.17g, torch has %.17g", maker, i, weights[i], expected);
    }
}

static void five_adamw_updates_match_torch(void **state)
{
    check_five_updates(*state,
                       "AdamW([w], lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)");
}

static void five_sgd_updates_match_torch(void **state)
{
    struct fixture *f = *state;
    static const struct {
        struct update_options options;
        const char *maker;
    } kinds[] = {{{.momentum = 0}, "SGD([w], lr=0.01, weight_decay=0.1)"},
                 {{.momentum = 0.9}, "SGD([w], lr=0.01, momentum=0.9, weight_decay=0.1)"},
                 {{.momentum = 0.9, .nesterov = true},
                  "SGD([w], lr=0.01, momentum=0.9, nesterov=True, weight_decay=0.1)"}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct optimizer_options options = {.rule = UPDATE_SGD, .update = kinds[i].options};
        struct err err;
        options.update.weight_decay = 0.1;
        optimizer_deinit(&f->optimizer);
        assert_ok(optimizer_init(&f->optimizer, &options, f->ops, &f->partition, &err), &err);
        check_five_updates(f, kinds[i].maker);
    }
}

static void only_decayed_parameters_shrink_without_gradients(void **state)
{
    struct fixture *f = *state;
    double weights[ELEMENTS], gradients[ELEMENTS] = {0};
    for (int i = 0; i < ELEMENTS; i++)
        weights[i] = 2;
    update(f, weights, gradients, 0, 0.5, 1);
    const double *w = weights + f->params.list[0].offset, *b = weights + f->params.list[1].offset;
    for (int i = 0; i < ROWS * COLS; i++)
        assert_true(fabs(w[i] - 2 * (1 - 0.5 * 0.1)) < 1e-15);
    for (int i = 0; i < COLS; i++)
        assert_true(b[i] == 2);
}

static const void *only_group(void *context, uint64_t group)
{
    assert_int_equal(group, 0);
    return context;
}

static void the_gradient_norm_is_exact_for_any_partition(void **state)
{
    struct fixture *f = *state;
    double gradients[ELEMENTS] = {0};
    long double squares = 0;
    for (int i = 0; i < ROWS * COLS; i++) {
        gradients[i] = ldexp(test_value(3, i), i % 40 - 20);
        squares += (long double)gradients[i] * gradients[i];
    }
    struct exact_sum whole = {0}, parts = {0};
    optimizer_sum_squares(&f->optimizer, only_group, gradients, whole.limb);
    /* adds rows one at a time, last first, as other owners would */
    for (int row = ROWS - 1; row >= 0; row--) {
        double sum;
        f->ops->table->row_sumsq(f->ops, &sum, gradients + row * COLS, 1, COLS);
        exact_sum_add(&parts, sum);
    }
    double a = exact_sum_value(&whole), b = exact_sum_value(&parts);
    assert_memory_equal(&a, &b, sizeof a);
    assert_true(fabs(a - (double)squares) <= 1e-13 * (double)squares);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(five_adamw_updates_match_torch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(five_sgd_updates_match_torch, set_up, tear_down),
        cmocka_unit_test_setup_teardown(only_decayed_parameters_shrink_without_gradients, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(the_gradient_norm_is_exact_for_any_partition, set_up,
                                        tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
