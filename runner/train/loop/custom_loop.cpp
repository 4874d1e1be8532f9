#include "runner/train/loop/custom_loop.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "backends/ir/type_text.h"
#include "runner/train/engine/reduction.h"
#include "runner/train/step/digest.h"
#include "runner/train/step/loss_scaler.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

// Calls that all ranks must make alike.
enum Decision : uint64_t { kBackward, kClipNorm, kClipValue, kStep, kZeroGrad, kEvenBatches };

}  // namespace

CustomLoop::CustomLoop(TrainState& state, Hooks& hooks, TrainLoop& loop)
    : HookTensors(state, hooks),
      ranks_(trainer_.stepper().is_local() ? nullptr : session_.ranks),
      shards_(ranks_ == nullptr ? std::vector<Shard>()
                                : all_shards(trainer_.model().parameters, trainer_.optimizers(), session_.recipe.comm,
                                             ranks_->size())),
      loop_(loop),
      training_(state, loop),
      reached_(held_parameters()),
      batch_state_{.stepped = std::vector<bool>(optimizers().size())} {}

void CustomLoop::run() {
  begin_region();
  try {
    hooks_.train(*this);
  } catch (const Error&) {
    drop_region();
    if (!stopped_) throw;
    return;
  }
  end_batch();
  end_region();
  drop_step();
  loop_.close_step();
  if (may_return_early_ && !state_.reached_end()) state_.control.end_by_hook();
}

// ---- traced regions ------------------------------------------------------------------------------------------------

void CustomLoop::require_region() {
  fail(ErrorKind::kRun, "the loop has ended with an error and cannot continue");
}

void CustomLoop::begin_region() {
  start_region({.training = batch() != nullptr && !in_evaluation(),
                .gradients = trainer_.arrays().gradients(),
                .reached = reached_,
                .losses = open_step_.losses,
                .voided = !open_step_.result.finite,
                .accumulation = trainer_.accumulation.batches_per_step,
                .rank = ranks_ != nullptr ? std::optional(ranks_->rank()) : std::nullopt,
                .shards = shards_});
}

void CustomLoop::end_region() {
  hooks_.record(nullptr);
  if (has_region()) run_region();
  drop_region();
}

void CustomLoop::run_region() {
  if (!training()) reduce_at_end();  // otherwise done at the end of the optimizer step
  region().finish();
  trainer_.arrays().set_gradients(region().gradients());
  reached_ = region().reached();
  open_step_.losses = region().losses();
  if (!region().does_something()) return;
  const std::string_view name = in_evaluation() ? "evaluation region" : "traced region";
  run_program(name);
  const auto holds = [&](int output) { return output < 0 || trainer_.regions().read_output(region(), output) != 0; };
  const bool own = holds(region().own_finite_output()), reduced = holds(region().finite_output());
  // The loss scaler also skips steps whose losses are finite.
  const bool applied = take_steps();
  const bool finite = reduced && (applied || first_scale(session_.recipe).has_value());
  open_step_.overflowed |= finite && !applied;
  for (const TracedRegion::Logged& logged : region().logged())
    loop_.point(logged.name, trainer_.regions().read_output(region(), logged.output));
  // Finding the cause runs other Programs, which overwrite the outputs, so they have been read first.
  if (!own || !finite) note_not_finite();
  if (!finite || (!own && ranks_ == nullptr)) skip_step();
}

// Each rank for itself.
void CustomLoop::note_not_finite() {
  if (!not_finite_ && !open_step_.found) open_step_.found = trainer_.regions().explain_not_finite(region(), batch());
}

// All ranks at once, because the reduced value is not finite.
void CustomLoop::skip_step() {
  if (!std::exchange(open_step_.result.finite, false)) return;
  if (!not_finite_)
    not_finite_ = first_found(open_step_.found, "a loss, or the gradient of one", ranks_,
                              {"what is not finite", trainer_.counters.steps + 1});
  loop_.not_finite(*not_finite_, open_step_.start ? *open_step_.start : loop_.here(), open_step_.untouched);
}

// Returns whether all updates of the region that has run were applied. Takes back the counts of the others.
bool CustomLoop::take_steps() {
  Counters& counters = trainer_.counters;
  bool all = true;
  for (const TracedRegion::Step& step : region().steps()) {
    const bool applied = trainer_.regions().read_output(region(), step.output) != 0;
    open_step_.untouched = open_step_.untouched && !applied;
    counters.update_was_skipped = !applied;
    all = all && applied;
    if (applied) continue;
    --counters.updates[optimizers()[static_cast<size_t>(step.optimizer)]];
    counters.scheduled -= step.scheduled;
  }
  return all;
}

CustomLoop::Cost CustomLoop::cost() const {
  const backends::PlanCacheCounters cache = trainer_.plan_use().cache;
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  return {now.count(), cache.hits + cache.misses, cache.misses};
}

const StepInputs& CustomLoop::inputs(int64_t number) {
  if (in_evaluation() && training() && number == training().number) leave_evaluation();
  return HookTensors::inputs(number);
}

// ---- epochs --------------------------------------------------------------------------------------------------------

CustomLoop::Epochs CustomLoop::begin_epochs(std::optional<int64_t> count) {
  end_left_batch();
  const Epochs epochs = training_.begin_epochs(count);
  // Epochs that earlier loops left early are skipped for good. The checkpoint of their last optimizer step agrees.
  if (position().epoch < epochs.first && epochs.first < epochs.end && !state_.finished()) {
    end_region();
    skip_to(epochs.first);
    begin_region();
  }
  return epochs;
}

std::optional<int64_t> CustomLoop::next_epoch(const Epochs& epochs) {
  end_left_batch();
  end_region();
  leave_epoch();
  stop_where_interrupted();
  if (open_step_.result.batches == 0) loop_.close_step();
  const std::optional<int64_t> epoch = training_.next_epoch(epochs, position());
  begin_region();
  return epoch;
}

// Position of the next batch.
data::Position CustomLoop::position() const {
  return open_step_.result.batches > 0 ? open_step_.result.next : state_.position;
}

// An epoch that the hook has left early is skipped for good. Checkpoints agree.
void CustomLoop::leave_epoch() {
  const int64_t epoch = position().epoch;
  if (training_.is_in_epoch(epoch) && !state_.finished()) skip_to(epoch + 1);
}

void CustomLoop::skip_to(int64_t epoch) {
  state_.set_position({epoch, 0});
  training_.drop();
  drop_step();
}

// If a loop over batches was left with break, its batch ends when the next call does not belong to it.
void CustomLoop::end_left_batch() {
  if (!training()) return;
  end_batch();
  begin_region();
}

// Batches of an optimizer step that the hook has not finished do not count.
void CustomLoop::drop_step() {
  if (open_step_.result.batches > 0) {
    trainer_.arrays().set_gradients(std::vector<GradientState>(trainer_.arrays().gradients().size()));
    reached_ = held_parameters();
  }
  open_step_ = {};
}

// ---- batches -------------------------------------------------------------------------------------------------------

int64_t CustomLoop::count_batches(Split split) const {
  return split == Split::kTrain ? session_.plan.steps_per_epoch() : HookTensors::count_batches(split);
}

void CustomLoop::begin_batches(Split split) {
  if (split == Split::kEval) return HookTensors::begin_batches(split);
  end_left_batch();
  training_.check_epoch(position());
  end_region();
  if (state_.finished()) stop();
  training_.begin(position());
  begin_region();
}

std::optional<int64_t> CustomLoop::next_batch(Split split) {
  return split == Split::kTrain ? next_train_batch() : HookTensors::next_batch(split);
}

std::optional<int64_t> CustomLoop::next_train_batch() {
  end_batch();
  end_region();
  const bool leaves_epoch = training_.ends_before(position()), over = state_.finished() || leaves_epoch;
  if (!over) {
    stop_where_interrupted();
    const bool begins_step = open_step_.result.batches == 0;
    if (begins_step) open_step_.start = loop_.begin_step();
    training_.load(position(), even_batches_);
    if (begins_step && !training_.wait()) stop();
    training_.take();
    ++trainer_.counters.batches;
    trainer_.marks().begin_batch(/*training=*/true);
    if (begins_step) open_step_.samples = session_.samples_of_step(training()->position);
    batch_state_ = {.stepped = std::vector<bool>(optimizers().size())};
  } else if (leaves_epoch) {
    trainer_.marks().end_batches(/*training=*/true);
  }
  begin_region();
  return over ? std::nullopt : std::optional(training().number);
}

std::optional<bool> CustomLoop::set_even_batches(std::optional<bool> even) {
  add_to_call_digest({kEvenBatches, static_cast<uint64_t>(even ? *even : 2)});
  if (even && session_.ranks != nullptr && session_.recipe.data.dispatch_batches &&
      !std::exchange(warned_of_even_batches_, true))
    loop_.warn(
        "acc:join: even_batches has no effect on dispatched training batches (data.dispatch_batches, implied by "
        "data.stream), whose last step is divided evenly");
  return std::exchange(even_batches_, even);
}

// The hook left a loop over the evaluation data with break: continues with the training batch around it.
void CustomLoop::leave_evaluation() {
  end_region();
  eval_.end();
  begin_region();
}

// Ends the training batch, and the optimizer step if it was its last batch.
void CustomLoop::end_batch() {
  eval_.end();
  if (!training()) return;
  const bool last = sync_gradients();
  if (last) reduce_at_end();
  end_region();
  const data::Batch batch = *training().batch;
  training_.end_batch();
  open_step_.result.add_batch(batch);
  if (!last) return;
  OpenStep ended = std::exchange(open_step_, {});
  ended.result.applied = !ended.overflowed || !ended.untouched;
  ended.result.lr = ended.rate.value_or(rate(0));
  trainer_.counters.add_step(ended.result, session_.recipe.train.on_nan);
  loop_.end_step(ended.result);
}

// An interrupted run saves a checkpoint to be resumed later. The hook must not continue without it.
void CustomLoop::stop_where_interrupted() {
  if (state_.interrupted() && open_step_.result.batches == 0) stop();
}

void CustomLoop::stop() {
  stopped_ = true;
  fail(ErrorKind::kInterrupted, "the run has ended");
}

void CustomLoop::add_to_call_digest(std::initializer_list<uint64_t> words) {
  for (const uint64_t word : words) open_step_.result.call_digest = mixed(open_step_.result.call_digest, word);
}

// ---- gradients and updates -----------------------------------------------------------------------------------------

bool CustomLoop::sync_gradients() const {
  return !training() || trainer_.accumulation.ends(*training().batch, open_step_.result.batches);
}

// The mean over an optimizer step is the sum over the samples of all its batches, on all ranks that add up their
// gradients, divided by the number of samples. Without a batch it is the mean over ranks.
void CustomLoop::backward(Value loss) {
  add_to_call_digest({kBackward, loss_shape_digest(loss.shape())});
  RUN_CHECK(!in_evaluation(), ErrorKind::kRun,
            "backward: expected a training batch, got a batch of the evaluation data");
  const bool by_sample = loss.shape().rank() > 0;
  double samples = 1, step_samples = 1;
  if (training()) {
    RUN_CHECK(!by_sample || loss.shape()[0] == training()->size, ErrorKind::kRun,
              "backward: the loss is {}, but the batch has {} samples: expected one loss per sample, or a scalar",
              loss.type(), training()->size);
    samples = static_cast<double>(training()->real());
    step_samples = static_cast<double>(open_step_.samples);
  } else {
    if (by_sample) samples = static_cast<double>(loss.shape()[0]);
    step_samples = samples * (ranks_ != nullptr ? ranks_->size() : 1);
  }
  const bool again = in_step() && batch_state_.counted;
  const double counted = again ? 0 : samples;
  // A rank that steps by itself may have no sample.
  const double share = step_samples == 0 ? 0 : (by_sample ? 1 : samples) / step_samples;
  region().backward(loss, share, samples, counted);
  batch_state_.counted = in_step();  // only if backward did not fail
}

// Before the gradients of an optimizer (none: of all) are used.
void CustomLoop::reduce(std::optional<int32_t> optimizer) {
  region().reduce(trainer_.accumulating_ranks() != nullptr ? optimizer : std::nullopt);
}

// Gradients that the loop keeps for a later step stay the sums of each rank if they are reduced in that step.
void CustomLoop::reduce_at_end() {
  trainer_.accumulating_ranks() != nullptr ? region().reduce_losses() : region().reduce();
}

Value CustomLoop::clip_grad_norm(std::optional<int32_t> optimizer, double limit) {
  if (!sync_gradients()) return {};
  add_to_call_digest({kClipNorm, static_cast<uint64_t>(optimizer.value_or(-1)), std::bit_cast<uint64_t>(limit)});
  reduce(optimizer);
  return region().clip_grad_norm(optimizer, limit);
}

void CustomLoop::clip_grad_value(std::optional<int32_t> optimizer, double limit) {
  if (!sync_gradients()) return;
  add_to_call_digest({kClipValue, static_cast<uint64_t>(optimizer.value_or(-1)), std::bit_cast<uint64_t>(limit)});
  reduce(optimizer);
  region().clip_grad_value(optimizer, limit);
}

void CustomLoop::step(int32_t optimizer) {
  if (!sync_gradients()) return;
  Counters& counters = trainer_.counters;
  const ScheduleRates rates = session_.rates();
  add_to_call_digest({kStep, static_cast<uint64_t>(optimizer), rates.digest()});
  reduce(optimizer);
  trainer_.steps().note_unused(region().unused(optimizer));
  int64_t& updates = counters.updates[optimizers()[static_cast<size_t>(optimizer)]];
  region().step(
      optimizer, [this](int64_t ahead) { return session_.rates(ahead); }, updates + 1);
  ++updates;  // undone after the region has run, if the step was skipped
  if (!region().applied()) counters.update_was_skipped = false;
  open_step_.rate = base_rate(0) * rates.factor;
  batch_state_.stepped[static_cast<size_t>(optimizer)] = true;
}

void CustomLoop::zero_grad(int32_t optimizer) {
  if (!sync_gradients()) return;
  RUN_CHECK(open_step_.result.batches == 0 || batch_state_.stepped[static_cast<size_t>(optimizer)], ErrorKind::kRun,
            "zero_grad: would discard the gradients of {} accumulated batches; call it after step",
            open_step_.result.batches);
  add_to_call_digest({kZeroGrad, static_cast<uint64_t>(optimizer)});
  region().zero_grad(optimizer);
}

double CustomLoop::base_rate(int32_t optimizer) const {
  for (const OptimizerGroup& group : trainer_.optimizers().groups)
    if (group.optimizer == optimizer) return group.rule.hyper.lr;
  return 0;
}

double CustomLoop::rate(int32_t optimizer) {
  return base_rate(optimizer) * session_.schedule.factor(scheduled(), optimizer);
}

// If a step of the current region turns out to be skipped, its schedule steps are not counted.
int64_t CustomLoop::scheduled() {
  int64_t count = trainer_.counters.scheduled;
  if (!may_skip() || !has_region()) return count;
  for (const TracedRegion::Step& step : region().steps())
    if (step.scheduled > 0 && region().inputs().read(step.applied).front() == 0) count -= step.scheduled;
  return count;
}

// The schedule advances together with the last update: if that is skipped, so is this, once it is known.
void CustomLoop::step_schedule() {
  if (!sync_gradients()) return;
  if (region().applied()) {
    region().step_schedule(session_.schedule.steps_per_update());
  } else if (trainer_.counters.update_was_skipped) {
    return;
  }
  trainer_.counters.scheduled += session_.schedule.steps_per_update();
}

bool CustomLoop::may_skip() const {
  return session_.recipe.train.on_nan == schema::OnNan::kSkip || first_scale(session_.recipe).has_value();
}

// Needs a read if the last step is in the current region.
bool CustomLoop::step_was_skipped() {
  if (!region().applied()) return trainer_.counters.update_was_skipped;
  if (!may_skip()) return false;
  return region().inputs().read(region().applied()).front() == 0;
}

// A checkpoint only says which gradients exist, not which parameters they depend on.
std::vector<bool> CustomLoop::held_parameters() const {
  std::vector<bool> held;
  for (const nn::Parameter& parameter : trainer_.model().parameters.parameters())
    held.push_back(trainer_.arrays().holds_gradients(parameter.buffer));
  return held;
}

// ---- checkpoints and points ----------------------------------------------------------------------------------------

void CustomLoop::log(const std::string& name, double value) {
  loop_.point(name, value);
}

void CustomLoop::save(const std::string& name) {
  state_.control.request_save(in_step(), name);
}

// A checkpoint that is due is saved with the weights of its metrics.
void CustomLoop::load_model(const nn::WeightSource& source) {
  loop_.close_step();
  HookTensors::load_model(source);
}

void CustomLoop::load(const std::string& state) {
  loop_.close_step();
  run_pending_collectives();  // other ranks may wait in a collective of the region that is dropped
  loop_.find_state(state);
  // A step that was taken keeps its loss. Without one, losses so far belong to a model that was not trained with them.
  const bool has_stepped = in_step() && std::ranges::count(batch_state_.stepped, true) > 0;
  if (has_stepped) {
    reduce_at_end();
    end_region();
  }
  const std::array<double, 2> logged = trainer_.arrays().logged_sums();
  drop_region();
  trainer_.regions().forget_exchanged();
  open_step_.losses = false;
  loop_.load_state();
  if (has_stepped) trainer_.arrays().set_logged_sums(logged);
  if (open_step_.start) open_step_.start->hook = loop_.here().hook;
  reached_ = held_parameters();
  batch_state_ = {.counted = has_stepped && batch_state_.counted, .stepped = std::vector<bool>(optimizers().size())};
  open_step_.rate.reset();
  begin_region();
}

}  // namespace runner::train
