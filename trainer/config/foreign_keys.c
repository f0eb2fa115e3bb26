/*
 * foreign_keys — see foreign_keys.h.
 */
#include "trainer/config/foreign_keys.h"

#include <stdio.h>
#include <string.h>

/* Also matches all keys below it. The first match applies. */
struct foreign_key {
    const char *key;
    const char *name;        /* of the feature, or "TRAINER's key" */
    const char *replacement; /* millrace's key or option; NULL: unsupported */
};

static const struct foreign_key foreign_keys[] = {
    {"parallel.tp", "tensor parallelism", NULL},
    {"parallel.tensor_parallel", "tensor parallelism", NULL},
    {"parallel.pp", "pipeline parallelism", NULL},
    {"parallel.pipeline_parallel", "pipeline parallelism", NULL},
    {"parallel.cp", "context parallelism", NULL},
    {"parallel.context_parallel", "context parallelism", NULL},
    {"parallel.sp", "sequence parallelism", NULL},
    {"parallel.sequence_parallel", "sequence parallelism", NULL},
    {"parallel.ep", "expert parallelism", NULL},
    {"parallel.expert_parallel", "expert parallelism", NULL},
    {"cost", "the price of a run", NULL},
    {"zero_optimization.offload_optimizer", "DeepSpeed's key", "parallel.offload.optimizer"},
    {"zero_optimization.offload_param", "DeepSpeed's key", "parallel.offload.params"},
    {"zero_optimization.reduce_bucket_size", "DeepSpeed's key", "parallel.bucket"},
    {"zero_optimization", "DeepSpeed's key", "parallel.strategy"},
    {"train_batch_size", "DeepSpeed's key", "batch.global"},
    {"train_micro_batch_size_per_gpu", "DeepSpeed's key", "batch.micro"},
    {"gradient_accumulation_steps", "DeepSpeed's and Accelerate's key", "batch.accumulation"},
    {"gradient_clipping", "DeepSpeed's and Accelerate's key", "optimizer.clip_norm"},
    {"fp16.initial_scale_power", "DeepSpeed's key", "precision.loss_scale.first"},
    {"fp16", "DeepSpeed's key", "precision.compute: fp16"},
    {"bf16", "DeepSpeed's key", "precision.compute: bf16"},
    {"activation_checkpointing", "DeepSpeed's key", "model.recompute"},
    {"steps_per_print", "DeepSpeed's key", "log.every"},
    {"scheduler", "DeepSpeed's key", "schedule.type"},
    {"mixed_precision", "Accelerate's key", "precision.compute"},
    {"fsdp_config.fsdp_activation_checkpointing", "Accelerate's key", "model.recompute"},
    {"fsdp_config.fsdp_offload_params", "Accelerate's key", "parallel.offload.params"},
    {"fsdp_config", "Accelerate's key", "parallel.strategy"},
    {"deepspeed_config", "Accelerate's key", "parallel.strategy"},
    {"megatron_lm_config", "Megatron-LM", NULL},
    {"distributed_type", "Accelerate's key", "parallel.strategy"},
    {"num_processes", "Accelerate's key", "`millrace launch -n RANKS`"},
    {"num_machines", "Accelerate's key", "`millrace launch --nnodes`"},
    {"machine_rank", "Accelerate's key", "`millrace launch --node-rank`"},
    {"dynamo_backend", "torch.compile", NULL},
    {"dynamo_config", "torch.compile", NULL},
};

const char *foreign_key_advice(const char *key, char *text, size_t bytes)
{
    for (size_t i = 0; i < sizeof foreign_keys / sizeof foreign_keys[0]; i++) {
        size_t length = strlen(foreign_keys[i].key);
        if (strncmp(key, foreign_keys[i].key, length) != 0 || (key[length] && key[length] != '.'))
            continue;
        if (foreign_keys[i].replacement)
            snprintf(text, bytes, "this is %s; use %s", foreign_keys[i].name,
                     foreign_keys[i].replacement);
        else
            snprintf(text, bytes, "%s is not supported; remove the key", foreign_keys[i].name);
        return text;
    }
    return NULL;
}
