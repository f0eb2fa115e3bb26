/*
 * ops_elements — tests norms, activations, embeddings, loss and optimizer against naive loops in
 * double.
 */
#include "tests/trainer/ops_case.h"

#include "ckpt/format/cast.h"

static const double TOLERANCE = 1e-12, ONE = 1;

enum { ITEMS = 5, TOKENS = 13, ROWS = ITEMS * TOKENS, COLS = 45, COUNT = ROWS * COLS };

static int open_ops(void **state)
{
    *state = ops_case_open(DTYPE_F64, 2);
    return 0;
}

static int close_ops(void **state)
{
    struct ops *ops = *state;
    struct err err;
    assert_ok(ops->table->sync(ops, &err), &err);
    ops_close(ops);
    return 0;
}

static void norms_match_their_definition(void **state)
{
    struct ops *ops = *state;
    double *x = ops_case_values(1, COUNT, 3), *weight = ops_case_values(2, COLS, 1),
           *bias = ops_case_values(3, COLS, 1);
    double layer[COUNT], rms[COUNT], out[COUNT], mean[ROWS], rstd[ROWS];
    for (int r = 0; r < ROWS; r++) {
        double sum = 0, squares = 0, deviations = 0;
        for (int j = 0; j < COLS; j++) {
            sum += x[r * COLS + j] / COLS;
            squares += x[r * COLS + j] * x[r * COLS + j] / COLS;
        }
        for (int j = 0; j < COLS; j++)
            deviations += pow(x[r * COLS + j] - sum, 2) / COLS;
        for (int j = 0; j < COLS; j++) {
            layer[r * COLS + j] =
                (x[r * COLS + j] - sum) / sqrt(deviations + 0.1) * weight[j] + bias[j];
            rms[r * COLS + j] = x[r * COLS + j] / sqrt(squares + 0.1) * weight[j];
        }
    }
    ops->table->norm_fwd(ops, &(struct norm_shape){NORM_LAYER, ROWS, COLS, 0.1}, out, mean, rstd, x,
                         weight, bias);
    ops_case_assert_near("LayerNorm", out, layer, COUNT, TOLERANCE);
    ops->table->norm_fwd(ops, &(struct norm_shape){NORM_RMS, ROWS, COLS, 0.1}, out, NULL, rstd, x,
                         weight, NULL);
    ops_case_assert_near("RMSNorm", out, rms, COUNT, TOLERANCE);
    free(x), free(weight), free(bias);
}

static void activations_match_their_definition(void **state)
{
    struct ops *ops = *state;
    double *x = ops_case_values(4, COUNT, 9), *gate_up = ops_case_values(5, 2 * COUNT, 9),
           gelu[COUNT], swiglu[COUNT], out[COUNT];
    for (int i = 0; i < COUNT; i++) {
        gelu[i] = 0.5 * x[i] *
                  (1 + tanh(sqrt(2 / 3.14159265358979323846) * (x[i] + 0.044715 * pow(x[i], 3))));
        double gate = gate_up[i / COLS * 2 * COLS + i % COLS],
               up = gate_up[i / COLS * 2 * COLS + COLS + i % COLS];
        swiglu[i] = gate / (1 + exp(-gate)) * up;
    }
    ops->table->gelu_fwd(ops, out, x, COUNT);
    ops_case_assert_near("GELU", out, gelu, COUNT, TOLERANCE);
    ops->table->swiglu_fwd(ops, out, gate_up, ROWS, COLS);
    ops_case_assert_near("SwiGLU", out, swiglu, COUNT, TOLERANCE);
    free(x), free(gate_up);
}

static void activations_of_large_floats_are_finite(void **state)
{
    (void)state;
    struct ops *ops = ops_case_open(DTYPE_F32, 1);
    const float x[] = {-1e6f, -100, -12, 0, 12, 100, 1e6f}, d_out[] = {1, 1, 1, 1, 1, 1, 1};
    const float gelu[] = {0, 0, 0, 0, 12, 100, 1e6f}, slope[] = {0, 0, 0, 0.5f, 1, 1, 1};
    float out[7], d_x[7];
    ops->table->gelu_fwd(ops, out, x, 7);
    ops->table->gelu_bwd(ops, d_x, d_out, x, 7);
    for (int i = 0; i < 7; i++) {
        assert_true(fabsf(out[i] - gelu[i]) < 1e-6f);
        assert_true(fabsf(d_x[i] - slope[i]) < 1e-6f);
    }
    ops_close(ops);
}

static void sums_and_means_run_over_the_right_axis(void **state)
{
    struct ops *ops = *state;
    double *x = ops_case_values(6, COUNT, 1), *start = ops_case_values(7, COUNT, 1);
    double columns[COLS], positions[TOKENS * COLS], pool[ITEMS * COLS], spread[COUNT],
        squares[ROWS], out[COUNT];
    memcpy(columns, start, sizeof columns);
    memcpy(positions, start, sizeof positions);
    memset(pool, 0, sizeof pool);
    memset(squares, 0, sizeof squares);
    for (int i = 0; i < COUNT; i++) {
        int row = i / COLS, col = i % COLS;
        columns[col] += x[i];
        positions[row % TOKENS * COLS + col] += x[i];
        pool[row / TOKENS * COLS + col] += x[i] / TOKENS;
        spread[i] = start[row / TOKENS * COLS + col] / TOKENS;
        squares[row] += x[i] * x[i];
    }
    memcpy(out, start, sizeof out);
    ops->table->bias_bwd(ops, out, x, ROWS, COLS, true);
    ops_case_assert_near("bias_bwd", out, columns, COLS, TOLERANCE);
    memcpy(out, start, sizeof out);
    ops->table->positions_bwd(ops, out, x, ITEMS, TOKENS, COLS, true);
    ops_case_assert_near("positions_bwd", out, positions, TOKENS * COLS, TOLERANCE);
    ops->table->pool_fwd(ops, out, x, ITEMS, TOKENS, COLS);
    ops_case_assert_near("pool_fwd", out, pool, ITEMS * COLS, TOLERANCE);
    ops->table->pool_bwd(ops, out, start, ITEMS, TOKENS, COLS);
    ops_case_assert_near("pool_bwd", out, spread, COUNT, TOLERANCE);
    ops->table->row_sumsq(ops, out, x, ROWS, COLS);
    ops_case_assert_near("row_sumsq", out, squares, ROWS, TOLERANCE);
    for (int i = 0; i < COUNT; i++)
        spread[i] = x[i] + start[i];
    ops->table->add(ops, out, x, start, COUNT);
    ops_case_assert_near("add", out, spread, COUNT, 0);
    memcpy(out, start, sizeof out);
    ops->table->tree_add(ops, out, x, COUNT);
    ops_case_assert_near("tree_add", out, spread, COUNT, 0);
    free(x), free(start);
}

static void non_accumulating_sums_overwrite_their_output(void **state)
{
    struct ops *ops = *state;
    double *x = ops_case_values(8, COUNT, 1), *sums = ops_case_blank(ops, COUNT),
           *zeros = calloc(COUNT, sizeof *zeros);
    double *again = calloc(COUNT, sizeof *again);
    int32_t *ids = ops_case_ids(9, ROWS, 7);
    ops->table->bias_bwd(ops, sums, x, ROWS, COLS, false);
    ops->table->bias_bwd(ops, zeros, x, ROWS, COLS, true);
    ops_case_assert_near("bias_bwd", sums, zeros, COLS, 0);
    ops->table->embed_bwd(ops, sums, x, ids, TOKENS, NULL, ITEMS, TOKENS, COLS, 8,
                          false); /* row 7 has no id: its output is zero */
    ops->table->embed_bwd(ops, again, x, ids, TOKENS, NULL, ITEMS, TOKENS, COLS, 8, true);
    ops_case_assert_near("embed_bwd", sums, again, 8 * COLS, 0);
    free(x), free(sums), free(zeros), free(again), free(ids);
}

/* Ids are stored in rows of TOKENS + 1, as in a language model's inputs. */
static void embeddings_gather_rows_and_scatter_gradients(void **state)
{
    struct ops *ops = *state;
    enum { STRIDE = TOKENS + 1, VOCABULARY = 11 };
    double *table = ops_case_values(10, VOCABULARY * COLS, 1),
           *positions = ops_case_values(11, TOKENS * COLS, 1);
    double *d_out = ops_case_values(12, COUNT, 1), expected[COUNT], added[COUNT], out[COUNT];
    double expected_table[VOCABULARY * COLS] = {0}, expected_positions[TOKENS * COLS] = {0};
    double d_table[VOCABULARY * COLS], d_positions[TOKENS * COLS];
    int32_t *ids = ops_case_ids(13, ITEMS * STRIDE, VOCABULARY);
    for (int i = 0; i < COUNT; i++) {
        int row = i / COLS, col = i % COLS, item = row / TOKENS, t = row % TOKENS,
            id = ids[item * STRIDE + t];
        expected[i] = table[id * COLS + col] + positions[t * COLS + col];
        added[i] = d_out[i] + positions[t * COLS + col];
        expected_table[id * COLS + col] += d_out[i];
        expected_positions[t * COLS + col] += d_out[i];
    }
    ops->table->embed_fwd(ops, out, ids, STRIDE, table, positions, ITEMS, TOKENS, COLS);
    ops_case_assert_near("embed_fwd", out, expected, COUNT, 0);
    ops->table->positions_fwd(ops, out, d_out, positions, ITEMS, TOKENS, COLS);
    ops_case_assert_near("positions_fwd", out, added, COUNT, 0);
    ops->table->embed_fwd(ops, out, ids, STRIDE, table, NULL, ITEMS, TOKENS, COLS);
    for (int i = 0; i < COUNT; i++)
        expected[i] = table[ids[i / COLS / TOKENS * STRIDE + i / COLS % TOKENS] * COLS + i % COLS];
    ops_case_assert_near("embed_fwd without positions", out, expected, COUNT, 0);
    ops->table->embed_bwd(ops, d_table, d_out, ids, STRIDE, NULL, ITEMS, TOKENS, COLS, VOCABULARY,
                          false);
    ops->table->positions_bwd(ops, d_positions, d_out, ITEMS, TOKENS, COLS, false);
    /* exact, because terms are summed in row order */
    ops_case_assert_near("embed_bwd", d_table, expected_table, VOCABULARY * COLS, 0);
    ops_case_assert_near("positions_bwd", d_positions, expected_positions, TOKENS * COLS, 0);
    free(table), free(positions), free(d_out), free(ids);
}

static void patches_are_rows_of_normalized_pixels(void **state)
{
    struct ops *ops = *state;
    enum {
        SIDE = 12,
        PATCH = 4,
        ACROSS = SIDE / PATCH,
        IMAGES = 2,
        PIXELS = IMAGES * SIDE * SIDE * 3
    };
    const float mean[3] = {0.5f, 0.25f, 0.125f}, deviation[3] = {0.25f, 0.5f, 0.2f};
    uint8_t images[PIXELS];
    double out[PIXELS], expected[PIXELS];
    for (int i = 0; i < PIXELS; i++)
        images[i] = (uint8_t)(i * 37 + i / 7);
    for (int i = 0; i < PIXELS; i++) {
        int colour = i % 3, x = i / 3 % SIDE, y = i / 3 / SIDE % SIDE, image = i / 3 / SIDE / SIDE;
        int row = (image * ACROSS + y / PATCH) * ACROSS + x / PATCH;
        expected[((row * PATCH + y % PATCH) * PATCH + x % PATCH) * 3 + colour] =
            (images[i] / 255.0 - (double)mean[colour]) / (double)deviation[colour];
    }
    ops->table->patches(ops, out, images, IMAGES, SIDE, PATCH, mean, deviation);
    ops_case_assert_near("patches", out, expected, PIXELS, TOLERANCE);
}

static void cross_entropy_matches_its_definition(void **state)
{
    struct ops *ops = *state;
    double *logits = ops_case_values(14, COUNT, 20), expected[COUNT] = {0}, losses[ROWS],
           expected_losses[ROWS] = {0};
    uint8_t correct[ROWS], expected_correct[ROWS] = {0};
    int32_t *targets = ops_case_ids(15, ITEMS * (TOKENS + 1), COLS);
    targets[3] = targets[TOKENS + 1] = -1;
    for (int r = 0; r < ROWS; r++) {
        int32_t target = targets[r / TOKENS * (TOKENS + 1) + r % TOKENS];
        double *x = logits + r * COLS, sum = 0;
        if (target < 0)
            continue;
        if (r % 3 == 0)
            x[target] = 25; /* the target is the largest */
        for (int j = 0; j < COLS; j++)
            sum += exp(x[j]);
        expected_losses[r] = log(sum) - x[target];
        expected_correct[r] = 1;
        for (int j = 0; j < COLS; j++) {
            expected[r * COLS + j] = exp(x[j]) / sum - (j == target);
            if (x[j] > x[target] || (x[j] == x[target] && j < target))
                expected_correct[r] = 0;
        }
    }
    double *untouched = malloc(COUNT * sizeof *untouched);
    memcpy(untouched, logits, COUNT * sizeof *untouched);
    ops->table->xent(ops, &(struct xent_shape){ITEMS, TOKENS, TOKENS + 1, COLS, COLS}, logits,
                     losses, correct, targets, NULL, NULL);
    ops_case_assert_near("losses", losses, expected_losses, ROWS, TOLERANCE);
    ops_case_assert_near("logits that no gradient is wanted of", logits, untouched, COUNT, 0);
    double *scaled = malloc(COUNT * sizeof *scaled);
    memcpy(scaled, logits, COUNT * sizeof *scaled);
    ops->table->xent(ops, &(struct xent_shape){ITEMS, TOKENS, TOKENS + 1, COLS, COLS}, scaled,
                     losses, correct, targets, NULL, &(const double){1024});
    ops_case_assert_near("losses", losses, expected_losses, ROWS, TOLERANCE);
    for (int i = 0; i < COUNT; i++)
        scaled[i] /= 1024;
    ops_case_assert_near("scaled gradients", scaled, expected, COUNT, TOLERANCE);
    ops->table->xent(ops, &(struct xent_shape){ITEMS, TOKENS, TOKENS + 1, COLS, COLS}, logits,
                     losses, correct, targets, NULL, &ONE);
    ops_case_assert_near("losses", losses, expected_losses, ROWS, TOLERANCE);
    ops_case_assert_near("gradients", logits, expected, COUNT, TOLERANCE);
    assert_memory_equal(correct, expected_correct, ROWS);
    free(logits), free(targets), free(untouched), free(scaled);
}

static void the_first_of_equal_logits_is_predicted(void **state)
{
    struct ops *ops = *state;
    double logits[2][5] = {{1, 7, 7, 0, 0}, {1, 7, 7, 0, 0}}, losses[2];
    uint8_t correct[2];
    const int32_t targets[2] = {1, 2};
    ops->table->xent(ops, &(struct xent_shape){2, 1, 1, 5, 5}, logits, losses, correct, targets,
                     NULL, &ONE);
    assert_int_equal(correct[0], 1);
    assert_int_equal(correct[1], 0);
}

static void logit_padding_is_no_class_and_has_no_gradient(void **state)
{
    struct ops *ops = *state;
    enum { TWO = 2, FIVE = 5, WIDE = 8 };
    double dense[TWO][FIVE] = {{1, 7, -2, 0, 3}, {4, 4, 0, 1, 2}}, padded[TWO][WIDE],
           losses[2][TWO];
    uint8_t correct[2][TWO];
    const int32_t targets[TWO] = {1, -1};
    for (int row = 0; row < TWO; row++)
        for (int col = 0; col < WIDE; col++)
            padded[row][col] = col < FIVE ? dense[row][col] : 100;
    ops->table->xent(ops, &(struct xent_shape){TWO, 1, 1, FIVE, FIVE}, dense, losses[0], correct[0],
                     targets, NULL, &ONE);
    ops->table->xent(ops, &(struct xent_shape){TWO, 1, 1, FIVE, WIDE}, padded, losses[1],
                     correct[1], targets, NULL, &ONE);
    assert_memory_equal(losses[0], losses[1], sizeof losses[0]);
    assert_memory_equal(correct[0], correct[1], sizeof correct[0]);
    for (int row = 0; row < TWO; row++)
        for (int col = 0; col < WIDE; col++)
            assert_true(padded[row][col] == (col < FIVE ? dense[row][col] : 0));
}

static void a_second_target_has_the_remaining_weight(void **state)
{
    struct ops *ops = *state;
    enum { FIVE = 5, MIXED = 6 };
    static const double row[FIVE] = {1, 3, -2, 0.5, 2};
    static const int32_t firsts[MIXED] = {1, 1, 4, 4, 2, -1}, seconds[MIXED] = {4, 4, 1, 1, 2, 9};
    static const float weights[MIXED] = {0.75f, 0.25f, 0.25f, 0.5f, 0.375f, 0.5f};
    static const uint8_t expected_correct[MIXED] = {
        /* whether class 1 is the target with the larger weight */
        1, 0, 1, 0, 0, 0};
    double logits[MIXED][FIVE], losses[MIXED], sum = 0;
    uint8_t correct[MIXED];
    for (int i = 0; i < MIXED; i++)
        memcpy(logits[i], row, sizeof row);
    for (int j = 0; j < FIVE; j++)
        sum += exp(row[j]);
    const struct xent_mix mix = {seconds, weights};
    ops->table->xent(ops, &(struct xent_shape){MIXED, 1, 1, FIVE, FIVE}, logits, losses, correct,
                     firsts, &mix, &(const double){2});
    for (int i = 0; i < MIXED; i++) {
        double loss = 0, gradient[FIVE] = {0}, part = weights[i];
        for (int j = 0; j < FIVE && firsts[i] >= 0; j++) {
            double counts = part * (j == firsts[i]) + (1 - part) * (j == seconds[i]);
            loss += counts * (log(sum) - row[j]);
            gradient[j] = 2 * (exp(row[j]) / sum - counts);
        }
        ops_case_assert_near("loss", &losses[i], &loss, 1, TOLERANCE);
        ops_case_assert_near("gradient", logits[i], gradient, FIVE, TOLERANCE);
    }
    assert_memory_equal(correct, expected_correct, sizeof correct);
}

static void a_first_target_of_full_weight_equals_a_single_target(void **state)
{
    struct ops *ops = *state;
    double *logits = ops_case_values(17, COUNT, 20), *mixed = malloc(COUNT * sizeof *mixed),
           losses[2][ROWS];
    uint8_t correct[2][ROWS];
    int32_t *targets = ops_case_ids(18, ROWS, COLS), *seconds = ops_case_ids(19, ROWS, COLS);
    float weights[ROWS];
    memcpy(mixed, logits, COUNT * sizeof *mixed);
    for (int r = 0; r < ROWS; r++)
        weights[r] = 1;
    ops->table->xent(ops, &(struct xent_shape){ROWS, 1, 1, COLS, COLS}, logits, losses[0],
                     correct[0], targets, NULL, &ONE);
    ops->table->xent(ops, &(struct xent_shape){ROWS, 1, 1, COLS, COLS}, mixed, losses[1],
                     correct[1], targets, &(struct xent_mix){seconds, weights}, &ONE);
    assert_memory_equal(mixed, logits, COUNT * sizeof *mixed);
    assert_memory_equal(losses[1], losses[0], sizeof losses[0]);
    assert_memory_equal(correct[1], correct[0], sizeof correct[0]);
    free(logits), free(mixed), free(targets), free(seconds);
}

static void cross_entropy_of_huge_logits_is_finite(void **state)
{
    (void)state;
    struct ops *ops = ops_case_open(DTYPE_F32, 1);
    float logits[] = {1e30f, -1e30f, 0};
    double loss;
    uint8_t correct;
    const int32_t target = 1;
    ops->table->xent(ops, &(struct xent_shape){1, 1, 1, 3, 3}, logits, &loss, &correct, &target,
                     NULL, &ONE);
    assert_true(fabs(loss - 2e30) < 1e24);
    assert_true(logits[0] == 1 && logits[1] == -1 && logits[2] == 0);
    ops_close(ops);
}

static const double LIMIT = 0.6; /* clips some of the values in [-1, 1] */

static void adamw_matches_its_definition_and_can_be_skipped(void **state)
{
    struct ops *ops = *state;
    double *w = ops_case_values(16, COUNT, 1), *m = calloc(COUNT, sizeof *m),
           *v = calloc(COUNT, sizeof *v);
    uint8_t decays[(COUNT + OPS_DECAY_ELEMENTS - 1) / OPS_DECAY_ELEMENTS];
    for (size_t i = 0; i < sizeof decays; i++)
        decays[i] = i % 3 != 1;
    const struct update_options options = {
        .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1};
    double ew[COUNT], em[COUNT] = {0}, ev[COUNT] = {0};
    memcpy(ew, w, sizeof ew);
    for (int step = 1; step <= 5; step++) {
        double *g = ops_case_values(16 + (uint64_t)step, COUNT, 4);
        struct update_scalars s = {
            1e-2, 1 / (1 - pow(0.9, step)), 1 / (1 - pow(0.95, step)), 0.25, LIMIT, false};
        for (int i = 0; i < COUNT; i++) {
            double seen = fmax(-LIMIT, fmin(LIMIT, g[i] / 4));
            em[i] = 0.9 * em[i] + (1 - 0.9) * seen;
            ev[i] = 0.95 * ev[i] + (1 - 0.95) * seen * seen;
            ew[i] -= 1e-2 *
                     (em[i] / (1 - pow(0.9, step)) / (sqrt(ev[i] / (1 - pow(0.95, step))) + 1e-8) +
                      (decays[i / OPS_DECAY_ELEMENTS] ? 0.1 : 0) * ew[i]);
        }
        const struct update_arrays arrays = {w, NULL, m, v, g, decays, COUNT};
        ops->table->update(ops, UPDATE_ADAMW, &options, &arrays, &s);
        s.is_skipped = true;
        ops->table->update(ops, UPDATE_ADAMW, &options, &arrays, &s);
        free(g);
    }
    ops_case_assert_near("weights", w, ew, COUNT, TOLERANCE);
    ops_case_assert_near("first moment", m, em, COUNT, TOLERANCE);
    ops_case_assert_near("second moment", v, ev, COUNT, TOLERANCE);
    free(w), free(m), free(v);
}

static void check_sgd(struct ops *ops, const struct update_options *options)
{
    double *w = ops_case_values(22, COUNT, 1), m[COUNT] = {0}, ew[COUNT], em[COUNT] = {0};
    uint8_t decays[(COUNT + OPS_DECAY_ELEMENTS - 1) / OPS_DECAY_ELEMENTS];
    for (size_t i = 0; i < sizeof decays; i++)
        decays[i] = i % 3 != 1;
    memcpy(ew, w, sizeof ew);
    for (int step = 1; step <= 4; step++) {
        double *g = ops_case_values(22 + (uint64_t)step, COUNT, 4);
        struct update_scalars s = {.lr = 0.1 / step,
                                   .gradient_scale = 0.25,
                                   .gradient_limit = step == 3 ? LIMIT : INFINITY};
        for (int i = 0; i < COUNT; i++) {
            double seen = fmax(-s.gradient_limit, fmin(s.gradient_limit, g[i] / 4));
            seen += (decays[i / OPS_DECAY_ELEMENTS] ? options->weight_decay : 0) * ew[i];
            em[i] = options->momentum * em[i] + seen;
            ew[i] -= s.lr * (options->nesterov ? seen + options->momentum * em[i] : em[i]);
        }
        const struct update_arrays arrays = {.params = w,
                                             .moment1 = options->momentum > 0 ? m : NULL,
                                             .gradients = g,
                                             .decays = decays,
                                             .count = COUNT};
        ops->table->update(ops, UPDATE_SGD, options, &arrays, &s);
        s.is_skipped = true;
        ops->table->update(ops, UPDATE_SGD, options, &arrays, &s);
        free(g);
    }
    ops_case_assert_near("weights", w, ew, COUNT, TOLERANCE);
    if (options->momentum > 0)
        ops_case_assert_near("momentum", m, em, COUNT, TOLERANCE);
    free(w);
}

static void sgd_matches_its_definition_and_can_be_skipped(void **state)
{
    check_sgd(*state, &(struct update_options){.momentum = 0.9, .weight_decay = 0.1});
    check_sgd(*state,
              &(struct update_options){.momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
    check_sgd(*state, &(struct update_options){.weight_decay = 0.1});
}

/* sign(0) is 0, so without a gradient and a moment only weight decay changes a weight. */
static void lion_matches_its_definition_and_can_be_skipped(void **state)
{
    struct ops *ops = *state;
    const struct update_options options = {.beta1 = 0.9, .beta2 = 0.99, .weight_decay = 0.1};
    double *w = ops_case_values(22, COUNT, 1), m[COUNT] = {0}, ew[COUNT], em[COUNT] = {0};
    uint8_t decays[(COUNT + OPS_DECAY_ELEMENTS - 1) / OPS_DECAY_ELEMENTS];
    for (size_t i = 0; i < sizeof decays; i++)
        decays[i] = i % 3 != 1;
    memcpy(ew, w, sizeof ew);
    for (int step = 1; step <= 4; step++) {
        double *g = ops_case_values(22 + (uint64_t)step, COUNT, 4);
        struct update_scalars s = {
            .lr = 0.1 / step, .gradient_scale = 0.25, .gradient_limit = LIMIT};
        g[7] = 0;
        for (int i = 0; i < COUNT; i++) {
            double seen = fmax(-LIMIT, fmin(LIMIT, g[i] / 4));
            double c = 0.9 * em[i] + (1 - 0.9) * seen;
            em[i] = 0.99 * em[i] + (1 - 0.99) * seen;
            ew[i] -= s.lr * ((c > 0   ? 1
                              : c < 0 ? -1
                                      : 0) +
                             (decays[i / OPS_DECAY_ELEMENTS] ? 0.1 : 0) * ew[i]);
        }
        const struct update_arrays arrays = {
            .params = w, .moment1 = m, .gradients = g, .decays = decays, .count = COUNT};
        ops->table->update(ops, UPDATE_LION, &options, &arrays, &s);
        s.is_skipped = true;
        ops->table->update(ops, UPDATE_LION, &options, &arrays, &s);
        free(g);
    }
    ops_case_assert_near("weights", w, ew, COUNT, TOLERANCE);
    ops_case_assert_near("moment", m, em, COUNT, TOLERANCE);
    free(w);
}

/* Lists every half-precision number, each midpoint to the next one, and the neighboring floats of
 * both. */
static uint64_t list_halves_and_neighbors(enum dtype type, float *floats)
{
    uint64_t count = 0;
    for (uint32_t half = 0; half < 65536; half++) {
        uint16_t pair[2] = {(uint16_t)half, (uint16_t)(half + 1)};
        float value[2];
        cast_elements(type, pair, DTYPE_F32, value, 2);
        float middle = value[0] / 2 + value[1] / 2;
        const float tried[] = {value[0], middle};
        for (int i = 0; i < 2; i++) {
            floats[count++] = tried[i];
            floats[count++] = nextafterf(tried[i], INFINITY);
            floats[count++] = nextafterf(tried[i], -INFINITY);
        }
    }
    return count;
}

static void halves_are_rounded_as_in_checkpoint_casts(void **state)
{
    enum { FLOATS_MAX = 6 * 65536 };
    const enum dtype types[] = {DTYPE_BF16, DTYPE_F16};
    struct ops *ops = ops_case_open(DTYPE_F32, 2);
    float *floats = malloc(FLOATS_MAX * sizeof *floats), *back = malloc(FLOATS_MAX * sizeof *back),
          *scaled = malloc(FLOATS_MAX * sizeof *scaled);
    uint16_t *halves = malloc(FLOATS_MAX * sizeof *halves),
             *cast = malloc(FLOATS_MAX * sizeof *cast);
    (void)state;
    assert_true(floats && back && scaled && halves && cast);
    for (int t = 0; t < 2; t++) {
        uint64_t count = list_halves_and_neighbors(types[t], floats);
        for (uint64_t i = 0; i < count; i++)
            scaled[i] = floats[i] * 4;
        for (int scales = 0; scales < 2; scales++) {
            ops->table->narrow(ops, types[t], halves, floats, scales ? 4 : 1, count);
            cast_elements(DTYPE_F32, scales ? scaled : floats, types[t], cast, count);
            assert_memory_equal(halves, cast, count * sizeof *halves);
        }
        ops->table->widen(ops, types[t], back, halves, 0.25f, count);
        cast_elements(types[t], halves, DTYPE_F32, scaled, count);
        for (uint64_t i = 0; i < count; i++)
            assert_true(back[i] == scaled[i] / 4 || (isnan(back[i]) && isnan(scaled[i])));
    }
    free(floats), free(back), free(scaled), free(halves), free(cast);
    ops_close(ops);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_match_their_definition),
        cmocka_unit_test(activations_match_their_definition),
        cmocka_unit_test(activations_of_large_floats_are_finite),
        cmocka_unit_test(sums_and_means_run_over_the_right_axis),
        cmocka_unit_test(non_accumulating_sums_overwrite_their_output),
        cmocka_unit_test(embeddings_gather_rows_and_scatter_gradients),
        cmocka_unit_test(patches_are_rows_of_normalized_pixels),
        cmocka_unit_test(cross_entropy_matches_its_definition),
        cmocka_unit_test(the_first_of_equal_logits_is_predicted),
        cmocka_unit_test(a_second_target_has_the_remaining_weight),
        cmocka_unit_test(a_first_target_of_full_weight_equals_a_single_target),
        cmocka_unit_test(cross_entropy_of_huge_logits_is_finite),
        cmocka_unit_test(logit_padding_is_no_class_and_has_no_gradient),
        cmocka_unit_test(adamw_matches_its_definition_and_can_be_skipped),
        cmocka_unit_test(sgd_matches_its_definition_and_can_be_skipped),
        cmocka_unit_test(lion_matches_its_definition_and_can_be_skipped),
        cmocka_unit_test(halves_are_rounded_as_in_checkpoint_casts),
    };
    return cmocka_run_group_tests(tests, open_ops, close_ops);
}
