#include "schema/recipe/other_names.h"

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "schema/base/text.h"

namespace runner::schema {
namespace {

constexpr OtherKey kOtherKeys[] = {
    // Launchers
    {"nprocs", "num_processes"},
    {"nproc_per_node", "num_processes"},
    {"num_devices", "num_processes"},
    {"devices", "num_processes"},
    {"world_size", "num_processes"},
    {"accelerator", "backend"},
    {"device", "backend"},
    {"num_cpu_threads_per_process", "threads"},
    {"num_threads", "threads"},
    {"device_placement", "", "the backend places models, data and optimizers"},
    {"use_cpu", "backend", "write backend: cpu"},
    {"num_machines", "", "all processes run on one machine; num_processes is their number"},
    {"main_process_port", "", "processes of one machine need no port"},
    {"num_cores", "num_processes"},
    {"tpu_cores", "num_processes"},
    {"tpu_num_cores", "num_processes"},
    {"strategy", "num_processes", "each process has the whole model, as with DDP; num_processes is their number"},
    {"timeout", "collective_timeout"},
    {"find_unused_parameters", "comm.unused"},
    {"bucket_cap_mb", "", "gradients are in one buffer; gpu.bucket_cap is the size of buckets on an emulated GPU"},
    {"dynamo_backend", "", "every step is compiled"},
    {"torch_compile", "", "every step is compiled"},
    // Precision
    {"bf16", "mixed_precision", "write mixed_precision: bf16"},
    {"fp16", "mixed_precision", "write mixed_precision: fp16"},
    {"precision", "mixed_precision"},
    {"tf32", "gpu.allow_tf32"},
    {"xla_use_bf16", "mixed_precision", "write mixed_precision: bf16"},
    // Batches and length
    {"per_device_train_batch_size", "data.batch_size"},
    {"train_batch_size", "data.batch_size", "write data.batch_size, which is per process unless split_batches is true"},
    {"per_gpu_train_batch_size", "data.batch_size"},
    {"batch", "data.batch_size"},
    {"per_device_eval_batch_size", "eval.batch_size"},
    {"eval_batch_size", "eval.batch_size"},
    {"accumulate_grad_batches", "gradient_accumulation_steps"},
    {"gradient_accumulation", "gradient_accumulation_steps"},
    {"num_train_epochs", "train.epochs"},
    {"num_epochs", "train.epochs"},
    {"max_epochs", "train.epochs"},
    {"epoch", "train.epochs"},
    {"max_steps", "train.steps"},
    {"num_steps", "train.steps"},
    {"max_train_steps", "train.steps"},
    {"dataloader_drop_last", "data.drop_last"},
    {"dataloader_num_workers", "", "batches are assembled in the background, data.prefetch of them"},
    {"num_workers", "", "batches are assembled in the background, data.prefetch of them"},
    {"non_blocking", "", "batches are copied in the background, data.prefetch of them"},
    {"data_seed", "data.seed"},
    {"use_seedable_sampler", "", "the order of the samples always follows from data.seed and the epoch"},
    {"rng_types", "", "random numbers follow from the seed, the epoch and the sample, so nothing is broadcast"},
    {"dataset", "data.train"},
    {"train_file", "data.train.path"},
    {"validation_file", "data.eval.path"},
    {"max_seq_length", "data.train.sequence_length"},
    // Optimizer and schedule
    {"learning_rate", "optimizer.lr"},
    {"optim", "optimizer.type"},
    {"adam_beta1", "optimizer.betas", "write it as the first of optimizer.betas"},
    {"adam_beta2", "optimizer.betas", "write it as the second of optimizer.betas"},
    {"adam_epsilon", "optimizer.eps"},
    {"lr_scheduler", "scheduler"},
    {"lr_scheduler_type", "scheduler.type"},
    {"warmup_steps", "scheduler.warmup"},
    {"num_warmup_steps", "scheduler.warmup"},
    {"warmup_ratio", "scheduler.warmup", "write scheduler.warmup: 10 %"},
    {"max_grad_norm", "train.clip_grad_norm"},
    {"gradient_clip_val", "train.clip_grad_norm"},
    {"clip", "train.clip_grad_norm"},
    {"grad_clip", "train.clip_grad_norm"},
    {"gradient_clipping", "train.clip_grad_norm"},
    {"gradient_checkpointing", "", "activations are not recomputed; train.auto_batch_size makes micro-batches fit"},
    {"step_scheduler_with_optimizer", "scheduler",
     "schedules count optimizer steps; scheduler.compat: accelerate counts one per process"},
    {"hidden_size", "model.hidden"},
    {"model_name_or_path", "model.init_from"},
    {"label_smoothing_factor", "train.label_smoothing"},
    // Evaluations, states, logs
    {"eval_steps", "eval.every"},
    {"evaluation_strategy", "eval.every"},
    {"eval_strategy", "eval.every"},
    {"val_check_interval", "eval.every"},
    {"save_steps", "checkpoint.every"},
    {"save_strategy", "checkpoint.every"},
    {"checkpointing_steps", "checkpoint.every"},
    {"early_stopping_patience", "train.early_stopping.patience"},
    {"greater_is_better", "checkpoint.keep_best.mode", "write checkpoint.keep_best.mode: max or min"},
    {"save_total_limit", "checkpoint.keep_last"},
    {"metric_for_best_model", "checkpoint.keep_best.metric"},
    {"load_best_model_at_end", "", "`--state best` of eval, predict and export uses the best state"},
    {"resume_from_checkpoint", "", "`runner resume RUN` continues a run"},
    {"logging_steps", "log.every"},
    {"log_every", "log.every"},
    {"log_with", "", "log.tensorboard, log.csv and log.jsonl write logs"},
    {"project_dir", "", "all runs are in one store, `--db FILE`"},
    {"report_to", "", "log.tensorboard, log.csv and log.jsonl write logs"},
    {"run_name", "name"},
    {"output_dir", "", "all runs are in one store, `--db FILE`"},
};

struct OtherChoice {
  std::string_view path, text, choice;
};

constexpr OtherChoice kOtherChoices[] = {
    {"backend", "cuda", "gpu"},
    {"backend", "nvidia", "gpu"},
    {"backend", "rocm", "gpu"},
    {"backend", "hip", "gpu"},
    {"backend", "xla", "tpu"},
    {"backend", "mps", "cpu"},
    {"mixed_precision", "fp32", "no"},
    {"mixed_precision", "float32", "no"},
    {"mixed_precision", "none", "no"},
    {"mixed_precision", "half", "fp16"},
    {"mixed_precision", "16", "fp16"},
    {"mixed_precision", "float16", "fp16"},
    {"mixed_precision", "bfloat16", "bf16"},

};

}  // namespace

std::span<const OtherKey> other_keys() {
  return kOtherKeys;
}

const OtherKey* find_other_key(std::string_view name) {
  std::string word = lower_case(name);
  std::ranges::replace(word, '-', '_');
  const auto row = std::ranges::find(kOtherKeys, word, &OtherKey::name);
  return row != std::end(kOtherKeys) ? row : nullptr;
}

std::string hint_of(const OtherKey& other) {
  return other.hint.empty() ? fmt::format("write {}", other.key) : std::string(other.hint);
}

std::string_view choice_of_other_name(std::string_view path, std::string_view text) {
  const auto row = std::ranges::find_if(kOtherChoices, [&, word = lower_case(text)](const OtherChoice& each) {
    return each.path == path && each.text == word;
  });
  return row != std::end(kOtherChoices) ? row->choice : std::string_view();
}

}  // namespace runner::schema
