#include "runner/train/loop/session.h"

#include <algorithm>
#include <utility>

#include <fmt/ranges.h>

#include "backends/tensor/rounding.h"
#include "runner/formats/model_files.h"
#include "runner/model/initial_weights.h"
#include "runner/model/model_def.h"
#include "runner/model/pretrained_folder.h"
#include "runner/train/step/device_rules.h"
#include "runner/train/step/lost_gradient.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::train {
namespace {

// A run that ends before the end of its warm-up never reaches its learning rate. The recipe reader reports this if the
// recipe alone determines it.
void check_warmup(const schema::SchedulerSpec& spec, const optim::RunLength& run) {
  if (!spec.warmup) return;
  const int64_t warmup = optim::to_steps(*spec.warmup, run);
  const int64_t length = spec.length ? optim::to_steps(*spec.length, run) : run.total_steps;
  RUN_CHECK(warmup <= length, ErrorKind::kRecipe, "scheduler.warmup, {}, is longer than the schedule, {}",
            count_text(warmup, "step"), count_text(length, "step"));
}

std::vector<data::DataFile> weight_files_of(const schema::ModelSpec& model) {
  const bool is_pretrained = !model.pretrained.empty();
  const std::string key = is_pretrained ? "model.pretrained" : "model.init_from";
  std::vector<data::DataFile> files;
  if (!is_pretrained && model.init_from.empty()) return files;
  std::string weights = model.init_from;
  if (is_pretrained) {
    const nn::PretrainedFiles found = about_key(key, [&] { return nn::find_pretrained(model.pretrained); });
    weights = found.weights;
    files.push_back({key, found.config, data::stamp_of(found.config)});
  }
  for (const std::string& path : formats::files_of_model(weights)) {
    const std::string name = files.empty() ? key : fmt::format("{}/{}", key, relative_path(folder_of(weights), path));
    files.push_back({name, path, data::stamp_of(path)});
  }
  return files;
}

}  // namespace

optim::RunLength run_length(const schema::Recipe& recipe, const data::DataPlan& plan) {
  optim::RunLength length;
  length.steps_per_epoch = recipe.sync_with_dataloader
                               ? optim::StepsPerEpoch(plan.optimizer_steps(1))
                               : optim::StepsPerEpoch(plan.steps_per_epoch(), recipe.gradient_accumulation_steps);
  length.total_steps = recipe.train.steps ? *recipe.train.steps : plan.optimizer_steps(*recipe.train.epochs);
  RUN_CHECK(length.total_steps > 0, ErrorKind::kRecipe,
            "gradient_accumulation_steps is {}, but the run of {} has only {}, so no optimizer step is complete; "
            "increase train.epochs, or remove sync_with_dataloader: false",
            recipe.gradient_accumulation_steps, count_text(*recipe.train.epochs, "epoch"),
            count_text(*recipe.train.epochs * plan.steps_per_epoch(), "batch"));
  length.samples_per_epoch = plan.samples_per_epoch();
  length.samples_per_step = plan.full_step_size();
  length.num_processes = recipe.split_batches ? 1 : recipe.num_processes;
  return length;
}

Session::Session(const schema::Recipe& recipe_, Hooks* hooks, backends::ProcessGroup* ranks_, data::SharedData read,
                 std::optional<bool> own_thread)
    : recipe(recipe_),
      shared_data(read != nullptr ? std::move(read)
                                  : std::make_shared<const data::Data>(
                                        data::load(recipe, nullptr, /*has_recipe=*/true, data::WithoutFiles::kPlan))),
      data(*shared_data),
      plan(data::train_plan(recipe, data.train.size())),
      length(run_length(recipe, plan)),
      weight_files(weight_files_of(recipe.model)),
      device(device_rules(recipe).make(recipe, ranks_, own_thread)),
      trainer(recipe, data.encoding, *device, hooks, ranks_),
      schedule(recipe.scheduler, trainer.optimizers().lr, length),
      has_custom_loop(has(hooks, HookEntry::kTrain)),
      has_training_step(has(hooks, HookEntry::kTrainingStep)),
      ranks(ranks_),
      hooks_(hooks) {
  about_key("scheduler.warmup", [&] { check_warmup(recipe.scheduler, length); });
  trainer.set_length(length);
  if (has(hooks, HookEntry::kSchedule)) use_hook_schedule();
}

void Session::set_max_micro_batch(int64_t samples) {
  trainer.accumulation.max_micro_batch = samples;
  if (trainer.accumulation.micro_batch(plan.max_batch()) != plan.max_batch()) trainer.keep_gradients();
}

void Session::use_hook_schedule() {
  const std::vector<std::string>& names = trainer.optimizers().names;
  schedule.set_function([this, &names](int64_t step, int32_t optimizer) {
    return hooks_->schedule(step, length.total_steps, names[static_cast<size_t>(optimizer)]);
  });
}

int64_t Session::used_before(const data::Position& position) const {
  return position.start + plan_at(position).consumed(position.step);
}

int64_t Session::samples_of_step(const data::Position& position) const {
  const data::DataPlan rest = plan_at(position);
  const int64_t left = rest.steps_per_epoch() - position.step;
  const int64_t batches = recipe.sync_with_dataloader ? std::min(accumulation(), left) : accumulation();
  return trainer.stepper().is_local() ? rest.samples_ahead_of(rank(), position.step, batches)
                                      : rest.samples_ahead(position.step, batches);
}

void Session::set_accumulation(int64_t batches) {
  data::PlanSpec spec = plan.spec();
  spec.accumulation = batches;
  plan = data::DataPlan(spec);
  trainer.accumulation.batches_per_step = batches;
}

void Session::count_steps_from(const data::Position& position, int64_t before) {
  if (!recipe.train.epochs) return;
  const int64_t left =
      plan.optimizer_steps(plan_at(position), *recipe.train.epochs - position.epoch, before - position.step);
  const int64_t by_recipe = length.total_steps - extra_steps_;
  set_extra_steps(trainer.counters.steps + left - by_recipe);
}

// Statistics of a batch do not add up like gradients.
std::optional<std::string> Session::batch_statistics_warning() const {
  const int64_t count = recipe.gradient_accumulation_steps;
  if (!trainer.model().parameters.moves_buffers() || (count == 1 && !recipe.train.auto_batch_size)) return std::nullopt;
  return fmt::format(
      "{} in batch norm each micro-batch has its own statistics, so an optimizer step is not that of one large batch; "
      "group norm has no such statistics",
      count > 1 ? fmt::format("gradient_accumulation_steps is {}:", count)
                : "train.auto_batch_size may divide a batch into micro-batches:");
}

std::optional<std::string> Session::end_of_schedule_warning() const {
  const int64_t zero = schedule.updates_at_zero(length.total_steps);
  const int64_t rising = zero > 0 ? 0 : schedule.updates_after_rise(length.total_steps);
  if (zero == 0 && rising == 0) return std::nullopt;
  const char* const keys = recipe.scheduler.length
                               ? "remove scheduler.length (stretches the schedule), or set scheduler.beyond: hold (the "
                                 "last rate) or restart (the schedule again)"
                               : "remove scheduler.compat: accelerate";
  if (zero > 0)
    return fmt::format(
        "the learning rate is 0 in the last {} of {} steps, after the end of the schedule; to train in them, {}", zero,
        length.total_steps, keys);
  return fmt::format(
      "the learning rate rises again in the last {} of {} steps, after the end of the schedule; to prevent this, {}",
      rising, length.total_steps, keys);
}

// The order of the data is a guess if the checkpoint does not name its classes.
std::optional<std::string> Session::unnamed_classes_warning() const {
  const nn::LoadReport* const report = trainer.arrays().load_report();
  const bool is_pretrained = report != nullptr && !recipe.model.pretrained.empty();
  if (!is_pretrained || !recipe.data.classes.empty() || recipe.model.new_head) return std::nullopt;
  const nn::PretrainedDef& def = nn::find_model(recipe.model.type)->pretrained();
  const bool is_new = std::ranges::any_of(
      report->missing, [&](const std::string& parameter) { return any_matches(def.outputs, parameter); });
  if (is_new || !def.head_of(recipe.model).has_labels || !data.encoding.has_names()) return std::nullopt;
  return fmt::format(
      "model.pretrained does not name its classes, and its outputs are taken for {} in this order; set data.classes to "
      "the order in which the model was trained",
      fmt::join(data.encoding.class_names, ", "));
}

std::vector<std::string> Session::plan_warnings() const {
  std::vector<std::string> warnings = plan.warnings();
  if (has(hooks_, HookEntry::kOptimizers)) {
    const std::vector<std::string> more = hook_optimizer_warnings(recipe, trainer.optimizers());
    warnings.insert(warnings.end(), more.begin(), more.end());
  }
  if (const nn::LoadReport* report = trainer.arrays().load_report(); report != nullptr && report->has_news())
    warnings.push_back(fmt::format("{}: {}", report->key, report->text()));
  if (auto text = unnamed_classes_warning()) warnings.push_back(std::move(*text));
  const auto used = std::ranges::count_if(data.class_counts, [](int64_t count) { return count > 0; });
  if (data.encoding.label_kind == data::LabelKind::kClass && (data.encoding.outputs == 1 || used == 1))
    warnings.emplace_back("all labels are of one class; the model cannot learn anything");
  if (auto text = batch_statistics_warning()) warnings.push_back(std::move(*text));
  if (auto text = end_of_schedule_warning()) warnings.push_back(std::move(*text));
  if (recipe.train.swa && optim::to_steps(recipe.train.swa->start, length) >= length.total_steps)
    warnings.push_back(
        fmt::format("train.swa.start is step {}, but the run has {}: the average is equal to the weights",
                    optim::to_steps(recipe.train.swa->start, length), count_text(length.total_steps, "step")));
  const int64_t batch = plan.max_batch();
  const int64_t gradients =
      plan.optimizer_step(0).steps * backends::ceil_div(batch, trainer.accumulation.micro_batch(batch));
  if (rounds_to_bf16(recipe) && gradients > kMaxEqualInBf16)
    warnings.push_back(
        fmt::format("gradient_accumulation_steps: each process adds up {} gradients in the TPU's bf16, but a sum of "
                    "equal ones stops growing at {}; use a larger data.batch_size, or more processes",
                    gradients, kMaxEqualInBf16));
  if (recipe.sync_with_dataloader || !recipe.train.epochs) return warnings;
  const int64_t batches = *recipe.train.epochs * plan.steps_per_epoch();
  if (const int64_t left = batches % recipe.gradient_accumulation_steps; left > 0)
    warnings.push_back(fmt::format("sync_with_dataloader is false: the last {} of the run {} no optimizer step of {}",
                                   left == 1 ? "batch" : fmt::format("{} batches", left), left == 1 ? "fills" : "fill",
                                   recipe.gradient_accumulation_steps));
  return warnings;
}

void Session::set_extra_steps(int64_t extra) {
  if (extra == extra_steps_) return;
  length.total_steps += extra - std::exchange(extra_steps_, extra);
  const optim::PlateauState plateau = schedule.plateau();
  schedule = optim::LrSchedule(recipe.scheduler, trainer.optimizers().lr, length);
  schedule.restore(plateau);
  if (recipe.scheduler.type == schema::SchedulerType::kHook) use_hook_schedule();
}

ScheduleRates Session::rates(int64_t ahead) const {
  const int64_t step = trainer.counters.scheduled + (trainer.stepper().pending() + ahead) * schedule.steps_per_update();
  ScheduleRates rates{.factor = schedule.factor(step),
                      .momentum = schedule.momentum(step),
                      .schedule_steps = schedule.steps_per_update()};
  for (int32_t i = 1; schedule.is_function() && i < std::ssize(trainer.optimizers().names); ++i)
    rates.other_factors.push_back(schedule.factor(step, i));
  return rates;
}

double Session::broadcast_from_rank_0(double value) const {
  if (ranks != nullptr)
    ranks->broadcast({backends::DType::kF64, {}}, std::as_writable_bytes(std::span(&value, 1)), 0,
                     {"a decision", trainer.counters.steps});
  return value;
}

uint64_t Session::data_seed() const {
  return data::data_seed(recipe);
}

const std::string& Session::train_fingerprint() {
  if (train_fingerprint_.empty()) train_fingerprint_ = data.train.fingerprint().to_string();
  return train_fingerprint_;
}

const std::string& Session::eval_fingerprint() {
  if (data.eval && eval_fingerprint_.empty()) eval_fingerprint_ = data.eval->fingerprint().to_string();
  return eval_fingerprint_;
}

}  // namespace runner::train
