/*
 * model_case — helpers for the model tests: small configurations, and a micro-batch of random data
 * in separate memory.
 */
#ifndef MILLRACE_TESTS_TRAINER_MODEL_CASE_H
#define MILLRACE_TESTS_TRAINER_MODEL_CASE_H

#include "trainer/models/model.h"

/* A model with its own device and ops, and the memory of one micro-batch. */
struct model_case {
    struct device *device;
    struct ops *ops;
    struct model *model;
    struct model_config config;
    uint64_t items, rows;
    struct model_stage whole;
    void *weights, *gradients;
    struct model_activations activations;
    uint64_t activation_bytes;
    double *losses;
    uint8_t *correct;
    uint8_t *images;
    int32_t *labels, *tokens, *targets; /* targets: next tokens, for masking */
    const int32_t *row_starts; /* NULL: attention reaches the start of the window; borrowed */
    double loss_scale;         /* 1 when opened */
};

/* Small enough that central differences take only seconds. */
extern const struct model_config case_vit, case_gpt2, case_llama, case_llama3, case_qwen2,
    case_qwen3;

void open_test_ops(enum dtype dtype, unsigned threads, struct device **ret_device,
                   struct ops **ret_ops);

/* A normally distributed number, determined by the arguments. */
double case_random(uint64_t seed, uint64_t i);
void case_set_element(enum dtype dtype, void *memory, uint64_t element, double value);
double case_get_element(enum dtype dtype, const void *memory, uint64_t element);

/* Weights are initial values plus noise, so that no bias is 0 and no norm 1. The data is
 * micro-batch 0. */
void case_open(struct model_case *c, const struct model_config *config, uint64_t items,
               enum dtype dtype, unsigned threads);
void case_close(struct model_case *c);
void case_randomize_inputs(struct model_case *c, uint64_t micro); /* replaces the random data */
struct model_input case_input(const struct model_case *c);

/* These first fill activations and gradients with NaN, to detect reads before writes; the
 * gradients' padding is then zeroed again. trains: case_backward will compute the losses. */
void case_forward(struct model_case *c, bool trains);
void case_backward(struct model_case *c, void *gradients);
/* For a model that accumulates: adds to the existing gradients. */
void case_backward_adding(struct model_case *c, void *gradients);
struct weights;
/* The arena has the layout of params. */
void case_fill_weights(struct weights *weights, const struct params *params, const void *arena);

double case_loss(struct model_case *c); /* runs a forward pass; returns the sum of losses */

#endif
