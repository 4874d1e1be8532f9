#include "runner/train/loop/custom_loop.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "backends/ir/type_text.h"
#include "runner/train/engine/digest.h"
#include "runner/train/engine/loss_scaler.h"
#include "runner/train/engine/reduction.h"
#include "runner/train/loop/evaluator.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

// Calls that all ranks must make alike.
enum Decision : uint64_t { kBackward, kClipNorm, kClipValue, kStep, kZeroGrad, kEvening };

}  // namespace

CustomLoop::CustomLoop(Session& session, Hooks& hooks, TrainLoop& loop)
    : session_(session),
      trainer_(session.trainer),
      ranks_(session.trainer.stepper().is_local() ? nullptr : session.ranks),
      hooks_(hooks),
      loop_(loop),
      shares_(ranks_ == nullptr ? std::vector<Shares>()
                                : shares_of_all(trainer_.model().parameters, trainer_.optimizers(), session.recipe.comm,
                                                ranks_->size())),
      reached_(held_parameters()),
      touched_{.stepped = std::vector<bool>(optimizers().size())} {}

void CustomLoop::run() {
  begin_segment();
  try {
    hooks_.train(*this);
  } catch (const Error&) {
    end_segment(/*run=*/false);
    if (!stopped_) throw;
    return;
  }
  end_batch();
  end_segment();
  drop_window();
  loop_.settle();
}

// ---- traced regions ------------------------------------------------------------------------------------------------

// The current region. There is none if a hook continues after an error of the loop.
Segment& CustomLoop::segment() {
  RUN_CHECK(segment_.has_value(), ErrorKind::kRun, "the loop has ended with an error and cannot continue");
  return *segment_;
}

// Runs `work` on the device and adds the current batch to its errors.
template <class Work>
auto CustomLoop::compute(const Work& work) {
  if (batch() == nullptr) return work();
  const data::Position& at = batch()->position;
  if (eval_.batch != nullptr) return in_batch({BatchPlace::Of::kEvaluation, at.step + 1}, work);
  return in_batch({BatchPlace::Of::kTraining, trainer_.counters.batches, at.epoch}, work);
}

void CustomLoop::begin_segment() {
  const data::Batch* const on = batch();
  const bool training = on != nullptr && eval_.batch == nullptr;
  trainer_.segments().begin();
  segment_.emplace(trainer_.builder(),
                   Segment::Beginning{.batch = on != nullptr ? std::optional(on->size) : std::nullopt,
                                      .training = training,
                                      .gradients = trainer_.arrays().gradients(),
                                      .reached = reached_,
                                      .losses = window_.losses,
                                      .voided = !window_.seen.finite,
                                      .accumulation = trainer_.parts.accumulation,
                                      .rank = ranks_ != nullptr ? std::optional(ranks_->rank()) : std::nullopt,
                                      .shares = shares_});
  reads_ = 0;
  caught_up_ = 0;
  segment_->inputs().read = [this, on](Value value) {
    count_reading();
    return compute([&] { return trainer_.segments().read_value(*segment_, value.id, on); });
  };
  hooks_.record(&segment_->inputs());
}

void CustomLoop::count_reading() {
  constexpr int kMostReads = 1000;
  RUN_CHECK(++reads_ <= kMostReads, ErrorKind::kRun,
            "more than {} values are read in one step: tensor:item(), tensor:tolist() and collectives on tensors such "
            "as acc:gather execute the recorded operations each time; stack the values to read, or call "
            "acc:mark_step() in between",
            kMostReads);
  caught_up_ = segment_->meetings();
}

HostTensor CustomLoop::read(Value value) {
  RUN_ASSERT(segment_.has_value());
  count_reading();
  return {value.type(), compute([&] { return trainer_.segments().read_bytes(*segment_, value.id, batch()); })};
}

// `run`: false drops what was recorded.
void CustomLoop::end_segment(bool run) {
  hooks_.record(nullptr);
  if (segment_ && run) run_segment();
  segment_.reset();
}

void CustomLoop::run_segment() {
  if (train_.batch == nullptr) segment_->reduce();  // otherwise done at the end of the optimizer step
  segment_->finish();
  trainer_.arrays().set_gradients(segment_->gradients());
  reached_ = segment_->reached();
  window_.losses = segment_->losses();
  if (!segment_->does_something()) return;
  const std::string_view name = eval_.batch != nullptr ? "evaluation segment" : "segment";
  compute([&] { trainer_.segments().run(name, *segment_, batch()); });
  const auto holds = [&](int output) { return output < 0 || trainer_.segments().read_output(*segment_, output) != 0; };
  const bool own = holds(segment_->own_finite_output()), reduced = holds(segment_->finite_output());
  // The loss scaler also skips steps whose losses are finite.
  const bool applied = take_steps();
  const bool finite = reduced && (applied || first_scale(session_.recipe).has_value());
  window_.overflowed |= finite && !applied;
  for (const Segment::Logged& logged : segment_->logged())
    loop_.point(logged.name, trainer_.segments().read_output(*segment_, logged.output));
  // Finding the cause runs other Programs, which overwrite the outputs, so they have been read first.
  if (!own || !finite) note_not_finite();
  if (!finite || (!own && ranks_ == nullptr)) void_window();
}

// Each rank for itself.
void CustomLoop::note_not_finite() {
  if (!not_finite_ && !window_.found) window_.found = trainer_.segments().explain_not_finite(*segment_, batch());
}

// All ranks at once, because the reduced value is not finite.
void CustomLoop::void_window() {
  if (!std::exchange(window_.seen.finite, false)) return;
  if (!not_finite_)
    not_finite_ = first_found(window_.found, "a loss, or the gradient of one", ranks_,
                              {"what is not finite", trainer_.counters.windows + 1});
  loop_.not_finite(*not_finite_, window_.start ? *window_.start : loop_.here(), window_.untouched);
}

// Returns whether all updates of the region that has run were applied. Takes back the counts of the others.
bool CustomLoop::take_steps() {
  Counters& counters = trainer_.counters;
  bool all = true;
  for (const Segment::Step& step : segment_->steps()) {
    const bool applied = trainer_.segments().read_output(*segment_, step.output) != 0;
    window_.untouched = window_.untouched && !applied;
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

std::optional<CustomLoop::Rows> CustomLoop::rows() const {
  if (batch() == nullptr) return std::nullopt;
  return Rows{batch()->size, batch()->real()};
}

void CustomLoop::catch_up() {
  if (!segment_ || segment_->meetings() == std::exchange(caught_up_, segment_->meetings())) return;
  backends::Program& program = segment_->inputs().forward.program;
  const Value nothing{&program, program.constant(0, {backends::DType::kF32, {}})};
  compute([&] { return trainer_.segments().read_bytes(*segment_, nothing.id, batch()); });
}

void CustomLoop::mark_step() {
  end_segment();
  trainer_.on_host_event(backends::HostEvent::kStepMark);
  begin_segment();
}

const StepInputs& CustomLoop::inputs(int64_t number) {
  if (eval_.batch != nullptr && train_.batch != nullptr && number == train_.number) leave_evaluation();
  RUN_CHECK(batch() != nullptr && number == current().number, ErrorKind::kRun,
            "this batch has ended; keep its values as numbers, with tensor:item() or tensor:tolist()");
  return segment().inputs();
}

// ---- batches -------------------------------------------------------------------------------------------------------

void CustomLoop::begin_batches(Split split) {
  if (split == Split::kTrain) {
    end_left_batch();
    RUN_CHECK(!epochs_.given || *epochs_.given == place().epoch, ErrorKind::kRun,
              "acc:batches: this epoch has no more batches; start the next epoch");
    end_segment();
    if (loop_.finished()) stop();
    epochs_.batches = place().epoch;
  } else {
    RUN_CHECK(session_.data.eval.has_value(), ErrorKind::kRun,
              "acc:batches(\"eval\"): the recipe has no evaluation data; add data.eval or data.split");
    end_segment();
    close_evaluation();
    const data::DataPlan plan = evened(evaluation_plan(session_.recipe, session_.data.eval->size(), session_.ranks));
    eval_.loader.emplace(
        *session_.data.eval, plan,
        data::LoaderSpec{
            .shuffle = false, .replica = session_.rank(), .epochs = 1, .prefetch = 0, .never_empty = true});
    eval_.left = plan.steps_per_epoch();
  }
  begin_segment();
}

std::optional<int64_t> CustomLoop::next_batch(Split split) {
  return split == Split::kTrain ? next_train_batch() : next_eval_batch();
}

std::optional<int64_t> CustomLoop::next_train_batch() {
  end_batch();
  end_segment();
  const bool over = loop_.finished() || place().epoch != epochs_.batches;
  if (!over) {
    stop_where_interrupted();
    if (window_.seen.batches == 0) window_.start = loop_.begin_step();
    load_training();
    if (window_.seen.batches == 0 && !train_.loader->wait([this] { return loop_.interrupted(); })) stop();
    train_.batch = &train_.loader->next();
    ++trainer_.counters.batches;
    trainer_.marks().begin_batch(/*training=*/true);
    if (window_.seen.batches == 0) window_.samples = session_.samples_of_window(train_.batch->position);
    train_.number = ++batches_;
    touched_ = {.stepped = std::vector<bool>(optimizers().size())};
  } else if (place().epoch != epochs_.batches) {
    trainer_.marks().end_batches(/*training=*/true);
  }
  begin_segment();
  return over ? std::nullopt : std::optional(train_.number);
}

// Replaces the loader if even_batches has changed.
void CustomLoop::load_training() {
  if (train_.loader && train_.evening == evening_) return;
  train_.loader.reset();
  data::LoaderSpec spec = loop_.loader_spec();
  spec.from = place();
  train_.loader.emplace(session_.data.train, evened(session_.plan), spec);
  train_.evening = evening_;
}

std::optional<bool> CustomLoop::set_evening(std::optional<bool> even) {
  decide({kEvening, static_cast<uint64_t>(even ? *even : 2)});
  if (even && session_.ranks != nullptr && session_.recipe.data.dispatch_batches &&
      !std::exchange(warned_of_evening_, true))
    loop_.warn(
        "acc:join: even_batches has no effect on dispatched training batches (data.dispatch_batches, implied by "
        "data.stream), whose last step is divided evenly");
  return std::exchange(evening_, even);
}

data::DataPlan CustomLoop::evened(const data::DataPlan& plan) const {
  data::PlanSpec spec = plan.spec();
  spec.even_batches = evening_.value_or(spec.even_batches);
  return data::DataPlan(spec);
}

std::optional<int64_t> CustomLoop::next_eval_batch() {
  end_segment();
  const bool over = !eval_.loader || eval_.left == 0;
  if (over) {
    if (eval_.loader) trainer_.marks().end_batches(/*training=*/false);
    close_evaluation();
  } else {
    --eval_.left;
    eval_.batch = &eval_.loader->next();
    trainer_.marks().begin_batch(/*training=*/false);
    eval_.number = ++batches_;
  }
  begin_segment();
  return over ? std::nullopt : std::optional(eval_.number);
}

// The hook left a loop over the evaluation data with break: continues with the training batch around it.
void CustomLoop::leave_evaluation() {
  end_segment();
  close_evaluation();
  begin_segment();
}

void CustomLoop::close_evaluation() {
  eval_.batch = nullptr;
  eval_.loader.reset();
}

// Ends the training batch, and the optimizer step if it was its last batch.
void CustomLoop::end_batch() {
  close_evaluation();
  if (train_.batch == nullptr) return;
  const bool last = sync_gradients();
  if (last || session_.recipe.sync_each_batch) segment().reduce();
  end_segment();
  const data::Batch batch = *train_.batch;
  train_.batch = nullptr;
  take_in(batch, window_.seen);
  if (!last) return;
  Window window = std::exchange(window_, {});
  window.seen.applied = !window.overflowed || !window.untouched;
  window.seen.lr = window.rate.value_or(rate(0));
  count(window.seen, session_.recipe.train.on_nan, trainer_.counters);
  loop_.end_step(window.seen);
}

// An interrupted run saves a checkpoint to be resumed later. The hook must not continue without it.
void CustomLoop::stop_where_interrupted() {
  if (loop_.interrupted() && window_.seen.batches == 0) stop();
}

void CustomLoop::stop() {
  stopped_ = true;
  fail(ErrorKind::kInterrupted, "the run has ended");
}

void CustomLoop::decide(std::initializer_list<uint64_t> words) {
  for (const uint64_t word : words) window_.seen.decisions = mixed(window_.seen.decisions, word);
}

// ---- gradients and updates -----------------------------------------------------------------------------------------

bool CustomLoop::sync_gradients() const {
  return train_.batch == nullptr || trainer_.parts.ends(*train_.batch, window_.seen.batches);
}

// The mean over an optimizer step is the sum over the samples of all its batches, on all ranks that add up their
// gradients, divided by the number of samples. Without a batch it is the mean over ranks.
void CustomLoop::backward(Value loss) {
  decide({kBackward, form_of(loss.shape())});
  RUN_CHECK(eval_.batch == nullptr, ErrorKind::kRun,
            "backward: expected a training batch, got a batch of the evaluation data");
  const bool by_sample = loss.shape().rank() > 0;
  double samples = 1, window = 1;
  if (train_.batch != nullptr) {
    RUN_CHECK(!by_sample || loss.shape()[0] == train_.batch->size, ErrorKind::kRun,
              "backward: the loss is {}, but the batch has {} samples: expected one loss per sample, or a scalar",
              loss.type(), train_.batch->size);
    samples = static_cast<double>(train_.batch->real());
    window = static_cast<double>(window_.samples);
  } else {
    if (by_sample) samples = static_cast<double>(loss.shape()[0]);
    window = samples * (ranks_ != nullptr ? ranks_->size() : 1);
  }
  const bool again = train_.batch != nullptr && touched_.counted;
  const double counted = again ? 0 : samples;
  // A rank that steps by itself may have no sample.
  const double share = window == 0 ? 0 : (by_sample ? 1 : samples) / window;
  segment().backward(loss, share, samples, counted);
  touched_.counted = train_.batch != nullptr;  // only if backward did not fail
}

Value CustomLoop::clip_grad_norm(std::optional<int32_t> optimizer, double limit) {
  if (!sync_gradients()) return {};
  decide({kClipNorm, static_cast<uint64_t>(optimizer.value_or(-1)), std::bit_cast<uint64_t>(limit)});
  segment().reduce();
  return segment().clip_grad_norm(optimizer, limit);
}

void CustomLoop::clip_grad_value(std::optional<int32_t> optimizer, double limit) {
  if (!sync_gradients()) return;
  decide({kClipValue, static_cast<uint64_t>(optimizer.value_or(-1)), std::bit_cast<uint64_t>(limit)});
  segment().reduce();
  segment().clip_grad_value(optimizer, limit);
}

void CustomLoop::step(int32_t optimizer) {
  if (!sync_gradients()) return;
  Counters& counters = trainer_.counters;
  const WindowRates rates = session_.rates();
  decide({kStep, static_cast<uint64_t>(optimizer), rates.digest()});
  segment().reduce();
  trainer_.steps().note_unused(segment().unused(optimizer));
  int64_t& updates = counters.updates[optimizers()[static_cast<size_t>(optimizer)]];
  segment().step(
      optimizer, [this](int64_t ahead) { return session_.rates(ahead); }, updates + 1);
  ++updates;  // undone after the region has run, if the step was skipped
  if (!segment().applied()) counters.update_was_skipped = false;
  window_.rate = base_rate(0) * rates.factor;
  touched_.stepped[static_cast<size_t>(optimizer)] = true;
}

void CustomLoop::zero_grad(int32_t optimizer) {
  if (!sync_gradients()) return;
  RUN_CHECK(window_.seen.batches == 0 || touched_.stepped[static_cast<size_t>(optimizer)], ErrorKind::kRun,
            "zero_grad: would discard the gradients of {} accumulated batches; call it after step",
            window_.seen.batches);
  decide({kZeroGrad, static_cast<uint64_t>(optimizer)});
  segment().zero_grad(optimizer);
}

double CustomLoop::base_rate(int32_t optimizer) const {
  for (const OptimizerGroup& group : trainer_.optimizers().groups)
    if (group.optimizer == optimizer) return group.rule.hyper.lr;
  return 0;
}

double CustomLoop::rate(int32_t optimizer) {
  return base_rate(optimizer) * session_.schedule.factor(scheduled());
}

// If a step of the current region turns out to be skipped, its schedule steps are not counted.
int64_t CustomLoop::scheduled() {
  int64_t count = trainer_.counters.scheduled;
  if (!may_skip() || !segment_) return count;
  for (const Segment::Step& step : segment_->steps())
    if (step.scheduled > 0 && segment_->inputs().read(step.applied).front() == 0) count -= step.scheduled;
  return count;
}

// The schedule advances together with the last update: if that is skipped, so is this, once it is known.
void CustomLoop::step_schedule() {
  if (!sync_gradients()) return;
  if (segment().applied()) {
    segment().step_schedule(session_.schedule.steps_per_update());
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
  if (!segment().applied()) return trainer_.counters.update_was_skipped;
  if (!may_skip()) return false;
  return segment().inputs().read(segment().applied()).front() == 0;
}

// A checkpoint only says which gradients exist, not which parameters they depend on.
std::vector<bool> CustomLoop::held_parameters() const {
  std::vector<bool> held;
  for (const nn::Parameter& parameter : trainer_.model().parameters.parameters())
    held.push_back(trainer_.arrays().holds_gradients(parameter.buffer));
  return held;
}

// ---- checkpoints and points ----------------------------------------------------------------------------------------

void CustomLoop::log(const std::string& name, Value value) {
  segment().log(name, value);
}

void CustomLoop::log(const std::string& name, double value) {
  loop_.point(name, value);
}

void CustomLoop::save() {
  loop_.save_soon(in_window());
}

void CustomLoop::load(std::optional<int64_t> state) {
  loop_.settle();
  catch_up();  // other ranks may wait in a collective of the region that is dropped
  loop_.check_state(state);
  end_segment(/*run=*/false);
  trainer_.segments().forget_exchanged();
  window_.losses = false;
  loop_.load(state);
  if (window_.start) window_.start->hook = loop_.here().hook;
  reached_ = held_parameters();
  touched_ = {.stepped = std::vector<bool>(optimizers().size())};
  window_.rate.reset();
  begin_segment();
}

}  // namespace runner::train
