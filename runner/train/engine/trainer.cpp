#include "runner/train/engine/trainer.h"

#include <span>

#include <fmt/format.h>

#include "backends/runtime/debug.h"
#include "backends/runtime/kernel_times.h"
#include "runner/train/step/device_rules.h"
#include "runner/train/step/loss_scaler.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

// Whether gradients must be kept between the batches of an optimizer step. Between micro-batches of one batch, see
// keep_gradients().
bool keeps_gradients(const schema::Recipe& recipe, const backends::ProcessGroup* ranks, const StepHooks* hooks) {
  return recipe.gradient_accumulation_steps > 1 || ranks != nullptr || hooks != nullptr;
}

// See Trainer::accumulating_ranks(). If a hook's loop keeps gradients over several batches, rounding their sum over all
// ranks after each batch would lose more than rounding it once.
bool accumulate(const schema::Recipe& recipe, const backends::ProcessGroup* ranks, const StepHooks* hooks) {
  if (ranks == nullptr || trains_locally(recipe, ranks)) return false;
  return !has(hooks, HookEntry::kTrain) || rounds_to_bf16(recipe);
}

// Whether an optimizer step without any label updates nothing. A hook's own loop and losses decide for themselves. With
// local SGD, a rank would skip a step that the others count.
bool skips_unlabelled(const schema::Recipe& recipe, const data::Encoding& encoding, const StepHooks* hooks,
                      const backends::ProcessGroup* ranks) {
  return may_weigh_nothing(recipe.train, encoding) && !has(hooks, HookEntry::kTrain) &&
         !has(hooks, HookEntry::kTrainingStep) && !trains_locally(recipe, ranks);
}

}  // namespace

Trainer::Trainer(const schema::Recipe& recipe, const data::Encoding& encoding, backends::ModelledDevice& device,
                 StepHooks* hooks, backends::ProcessGroup* ranks, Purpose purpose)
    : accumulation{.end_with_epochs = recipe.sync_with_dataloader,
                   .batches_per_step = recipe.gradient_accumulation_steps},
      recipe_(recipe),
      encoding_(encoding),
      device_(device),
      model_(make_model(recipe, encoding, hooks)),
      optimizers_(make_optimizers(recipe, encoding, hooks, model_)),
      layout_(purpose == Purpose::kEvaluation
                  ? DeviceLayout::for_evaluation(model_.parameters, optimizers_)
                  : DeviceLayout(model_.parameters, optimizers_, keeps_gradients(recipe, ranks, hooks),
                                 first_scale(recipe), recipe.comm, skips_unlabelled(recipe, encoding, hooks, ranks))),
      builder_(recipe, model_, optimizers_, layout_, encoding, hooks),
      accumulating_ranks_(accumulate(recipe, ranks, hooks) ? ranks : nullptr),
      arrays_(builder_, device, ranks, accumulating_ranks_ != nullptr && !has(hooks, HookEntry::kTrain)),
      clock_(layout_.has(ArrayRole::kClock) ? std::make_optional<UpdateClock>(arrays_, counters, optimizers_)
                                            : std::nullopt),
      marks_(recipe, device),
      executor_(device, ranks, counters),
      parts_{.builder = builder_,
             .encoding = encoding,
             .device = device,
             .arrays = arrays_,
             .executor = executor_,
             .user = user_,
             .arguments = arguments_,
             .in_flight = in_flight_,
             .steps = steps_,
             .counters = counters,
             .metrics = metrics,
             .accumulation = accumulation,
             .clock = clock_ ? &*clock_ : nullptr,
             .hooks = hooks,
             .ranks = ranks},
      user_(parts_),
      arguments_(parts_),
      in_flight_(recipe, device, optimizers_, counters, metrics, clock_.has_value()),
      steps_(parts_),
      stepper_(parts_, marks_),
      regions_(parts_),
      forward_(parts_),
      step_memory_(parts_, stepper_, forward_),
      means_(parts_),
      search_(parts_) {
  device_.set_state_tensors(layout_.tensors());
}

void Trainer::check_memory() {
  executor_.set_memory(arrays_.memory_left());
  arrays_.check_machine_memory(/*temporary=*/0);
}

void Trainer::allocate(FirstWeights weights) {
  executor_.set_memory(arrays_.memory_left());
  arrays_.allocate(weights, [this] { executor_.check_halt(); });
}

void Trainer::keep_gradients() {
  if (layout_.has(ArrayRole::kGradients)) return;
  layout_.keep_gradients();
  device_.set_state_tensors(layout_.tensors());
  if (arrays_.states().empty()) return;
  executor_.set_memory(arrays_.memory_left());
  arrays_.allocate_added();
}

Trainer::~Trainer() {
  const PlanUse use = plan_use();
  if (backends::debug_level() >= backends::kDebugPlans)
    backends::debug_print(fmt::format("-- plan cache: {} hits, {} misses, {} collisions; {} steps held their plan\n",
                                      use.cache.hits, use.cache.misses, use.cache.collisions, use.replayed) +
                          backends::take_kernel_times());
}

LostGradient Trainer::lost_gradient() const {
  LostGradient lost = in_flight_.lost_gradient();
  lost += regions_.lost_gradient();
  return lost;
}

MemoryUse Trainer::memory() const {
  MemoryUse use = arrays_.memory();
  use.activations = static_cast<int64_t>(device_.temporary_bytes());
  return use;
}

std::optional<double> Trainer::loss_scale() {
  if (!layout_.has(ArrayRole::kScaler)) return std::nullopt;
  float scale = 0;
  arrays_.read(layout_.find(ArrayRole::kScaler, 0, kScale), 0, std::as_writable_bytes(std::span(&scale, 1)));
  return scale;
}

}  // namespace runner::train
