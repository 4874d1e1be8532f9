#include "schema/recipe/other_names.h"

#include <algorithm>
#include <string>

#include "schema/base/text.h"

namespace runner::schema {
namespace {

constexpr OtherKey kOtherKeys[] = {
    // Launchers
    {"nprocs", "that is num_processes here"},
    {"nproc_per_node", "that is num_processes here"},
    {"num_devices", "that is num_processes here"},
    {"devices", "that is num_processes here"},
    {"world_size", "that is num_processes here"},
    {"accelerator", "that is backend here"},
    {"device", "that is backend here"},
    {"num_cpu_threads_per_process", "that is threads here"},
    {"num_threads", "that is threads here"},
    // Precision
    {"bf16", "write mixed_precision: bf16"},
    {"fp16", "write mixed_precision: fp16"},
    {"precision", "that is mixed_precision here"},
    {"tf32", "that is gpu.allow_tf32 here"},
    // Batches and length
    {"per_device_train_batch_size", "that is data.batch_size here"},
    {"train_batch_size", "that is data.batch_size here, per process unless split_batches is true"},
    {"batch", "that is data.batch_size here"},
    {"per_device_eval_batch_size", "that is eval.batch_size here"},
    {"eval_batch_size", "that is eval.batch_size here"},
    {"accumulate_grad_batches", "that is gradient_accumulation_steps here"},
    {"gradient_accumulation", "that is gradient_accumulation_steps here"},
    {"num_train_epochs", "that is train.epochs here"},
    {"num_epochs", "that is train.epochs here"},
    {"max_epochs", "that is train.epochs here"},
    {"max_steps", "that is train.steps here"},
    {"num_steps", "that is train.steps here"},
    {"dataloader_drop_last", "that is data.drop_last here"},
    {"dataloader_num_workers", "batches are assembled in the background, data.prefetch of them"},
    {"num_workers", "batches are assembled in the background, data.prefetch of them"},
    {"dataset", "that is data.train here"},
    {"train_file", "that is data.train.path here"},
    {"validation_file", "that is data.eval.path here"},
    {"max_seq_length", "that is data.train.sequence_length here"},
    // Optimizer and schedule
    {"learning_rate", "that is optimizer.lr here"},
    {"optim", "that is optimizer.type here"},
    {"adam_beta1", "that is the first of optimizer.betas here"},
    {"adam_beta2", "that is the second of optimizer.betas here"},
    {"adam_epsilon", "that is optimizer.eps here"},
    {"lr_scheduler", "that is scheduler here"},
    {"lr_scheduler_type", "that is scheduler.type here"},
    {"warmup_steps", "that is scheduler.warmup here"},
    {"num_warmup_steps", "that is scheduler.warmup here"},
    {"warmup_ratio", "write scheduler.warmup: 10 %"},
    {"max_grad_norm", "that is train.clip_grad_norm here"},
    {"gradient_clip_val", "that is train.clip_grad_norm here"},
    {"clip", "that is train.clip_grad_norm here"},
    {"label_smoothing_factor", "that is train.label_smoothing here"},
    // Evaluations, states, logs
    {"eval_steps", "that is eval.every here"},
    {"evaluation_strategy", "that is eval.every here"},
    {"eval_strategy", "that is eval.every here"},
    {"val_check_interval", "that is eval.every here"},
    {"save_steps", "that is checkpoint.every here"},
    {"save_strategy", "that is checkpoint.every here"},
    {"save_total_limit", "that is checkpoint.keep_last here"},
    {"metric_for_best_model", "that is checkpoint.keep_best.metric here"},
    {"load_best_model_at_end", "`--state best` of eval, predict and export uses the best state"},
    {"resume_from_checkpoint", "`runner resume RUN` continues a run"},
    {"logging_steps", "that is log.every here"},
    {"report_to", "log.tensorboard, log.csv and log.jsonl write logs"},
    {"run_name", "that is name here"},
    {"output_dir", "all runs are in one store, `--db FILE`"},
    {"epoch", "that is train.epochs here"},
};

struct OtherChoice {
  std::string_view path, text, choice;
};

constexpr OtherChoice kOtherChoices[] = {
    {"backend", "cuda", "gpu"},        {"backend", "nvidia", "gpu"},
    {"backend", "rocm", "gpu"},        {"backend", "hip", "gpu"},
    {"backend", "xla", "tpu"},         {"backend", "mps", "cpu"},
    {"mixed_precision", "fp32", "no"}, {"mixed_precision", "float32", "no"},
    {"mixed_precision", "none", "no"}, {"mixed_precision", "half", "fp16"},
    {"mixed_precision", "16", "fp16"},
};

}  // namespace

std::span<const OtherKey> other_keys() {
  return kOtherKeys;
}

std::string_view hint_of_other_key(std::string_view name) {
  std::string word = lower_case(name);
  std::ranges::replace(word, '-', '_');
  const auto row = std::ranges::find(kOtherKeys, word, &OtherKey::name);
  return row != std::end(kOtherKeys) ? row->hint : std::string_view();
}

std::string_view choice_of_other_name(std::string_view path, std::string_view text) {
  const auto row = std::ranges::find_if(kOtherChoices, [&, word = lower_case(text)](const OtherChoice& each) {
    return each.path == path && each.text == word;
  });
  return row != std::end(kOtherChoices) ? row->choice : std::string_view();
}

}  // namespace runner::schema
