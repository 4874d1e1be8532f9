#include "runner/train/custom_loop.h"

#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "backends/graph/type_text.h"
#include "runner/train/run.h"
#include "schema/error.h"

namespace runner::train {
namespace {

int64_t samples_of(const data::Batch& batch) {
  return std::accumulate(batch.weights.begin(), batch.weights.end(), int64_t{0},
                         [](int64_t n, float weight) { return n + (weight != 0); });
}

}  // namespace

CustomLoop::CustomLoop(Session& session, Hooks& hooks, LoopHost& host)
    : session_(session), trainer_(session.trainer), hooks_(hooks), host_(host) {}

void CustomLoop::run() {
  begin_part();
  try {
    hooks_.train(*this);
  } catch (const Error&) {
    end_part(/*run=*/false);
    if (!stopped_) throw;
    return;
  }
  end_batch();
  end_part();
  host_.settle();
}

// ---- parts ---------------------------------------------------------------------------------------------------------

// The one under way.  A hook that goes on after an error of the loop's has none.
Segment& CustomLoop::part() {
  RUN_CHECK(part_.has_value(), ErrorKind::kRun, "the loop has ended with an error; there is nothing to go on with");
  return *part_;
}

void CustomLoop::begin_part() {
  const data::Batch* const on = batch();
  const bool training = on != nullptr && eval_.batch == nullptr;
  part_.emplace(trainer_.builder(), on != nullptr ? std::optional(on->size) : std::nullopt, training,
                trainer_.kept_gradients, /*voided=*/!window_.finite);
  reads_ = 0;
  part_->inputs().read = [this, on](Value value) {
    constexpr int kMostReads = 1000;
    RUN_CHECK(++reads_ <= kMostReads, ErrorKind::kRun,
              "more than {} values are read in one step; read many at once, with tensor:tolist()", kMostReads);
    return trainer_.read_value(part_->program(), value.id, on, part_->scalars());
  };
  hooks_.record(&part_->inputs());
}

// `run`: false drops what was recorded.
void CustomLoop::end_part(bool run) {
  hooks_.record(nullptr);
  if (part_ && run) run_part();
  part_.reset();
}

void CustomLoop::run_part() {
  part_->finish();
  trainer_.kept_gradients = part_->kept();
  if (!part_->does_something()) return;
  trainer_.run_segment(*part_, batch());
  Counters& counters = trainer_.counters;
  bool finite = true;
  if (const int output = part_->finite_output(); output >= 0) finite = trainer_.read_output(*part_, output) != 0;
  for (const Segment::Step& step : part_->steps()) {
    const bool applied = trainer_.read_output(*part_, step.output) != 0;
    untouched_ = untouched_ && !applied;
    finite = finite && applied;
    counters.update_was_skipped = !applied;
    if (applied) continue;
    --counters.updates[optimizers()[static_cast<size_t>(step.optimizer)]];
    counters.scheduled -= step.scheduled;
  }
  if (!finite && std::exchange(window_.finite, false)) {
    if (!std::exchange(explained_, true)) not_finite_ = trainer_.explain_not_finite(*part_, batch());
    host_.not_finite(not_finite_, untouched_);
  }
  for (const Segment::Logged& logged : part_->logged())
    host_.point(logged.name, trainer_.read_output(*part_, logged.output));
}

LoopControl::Cost CustomLoop::cost() const {
  const backends::PlanCacheCounters cache = trainer_.plan_use().cache;
  return {seconds_since_process_start(), cache.hits + cache.misses, cache.misses};
}

void CustomLoop::mark_step() {
  end_part();
  begin_part();
}

const StepInputs& CustomLoop::inputs() {
  return part().inputs();
}

const StepInputs& CustomLoop::inputs(int64_t number) {
  RUN_CHECK(batch() != nullptr && number == current().number, ErrorKind::kRun,
            "this batch is over; keep numbers, with tensor:item() or tensor:tolist()");
  return part().inputs();
}

// ---- epochs --------------------------------------------------------------------------------------------------------

LoopControl::Epochs CustomLoop::begin_epochs(std::optional<int64_t> count) {
  refuse_inside("acc:epochs");
  const int64_t first = epochs_before_;
  const int64_t steps = session_.scale.steps_per_epoch;
  const int64_t all = (session_.scale.total_steps + steps - 1) / steps;
  RUN_CHECK(!count || first + *count <= all, ErrorKind::kRun,
            "acc:epochs: {} epochs after {} are more than the {} that the recipe trains for; make train.{} larger",
            *count, first, all, session_.recipe.train.steps ? "steps" : "epochs");
  const int64_t end = count ? first + *count : all;
  epochs_before_ = end;
  epoch_.reset();
  return {first, end};
}

std::optional<int64_t> CustomLoop::next_epoch(const Epochs& epochs) {
  refuse_inside("acc:epochs");
  end_part();
  leave_epoch();
  stop_where_interrupted();
  host_.settle();
  const int64_t epoch = host_.position().epoch;
  const bool over = host_.finished() || epoch >= epochs.end;
  epoch_ = over ? std::nullopt : std::optional(epoch);
  begin_part();
  return epoch_;
}

// An epoch that the hook has left early is not come back to: states say so, too.
void CustomLoop::leave_epoch() {
  const int64_t epoch = host_.position().epoch;
  if (epoch_ != epoch || host_.finished()) return;
  host_.set_position({epoch + 1, 0});
  train_loader_.reset();
  drop_window();
}

void CustomLoop::refuse_inside(std::string_view what) const {
  RUN_CHECK(train_.batch == nullptr, ErrorKind::kRun, "{}: a batch of a loop over acc:batches(\"train\") is under way",
            what);
}

// The batches of a window that the hook has not finished count for nothing.
void CustomLoop::drop_window() {
  if (micro_ > 0) trainer_.kept_gradients.assign(trainer_.kept_gradients.size(), false);
  micro_ = 0;
  window_ = {};
  untouched_ = true;
}

// ---- batches -------------------------------------------------------------------------------------------------------

void CustomLoop::begin_batches(Split split) {
  if (split == Split::kTrain) {
    refuse_inside("acc:batches");
    end_part();
    if (host_.finished()) stop();
    batch_epoch_ = host_.position().epoch;
  } else {
    RUN_CHECK(session_.data.eval.has_value(), ErrorKind::kRun,
              "acc:batches(\"eval\"): the recipe has no evaluation data; add data.eval or data.split");
    end_part();
    close_evaluation();
    const data::DataPlan plan(data::eval_plan(session_.recipe, session_.data.eval->size()));
    eval_loader_.emplace(*session_.data.eval, plan, data::LoaderSpec{.shuffle = false, .epochs = 1, .prefetch = 0});
    eval_left_ = plan.steps_per_epoch();
  }
  begin_part();
}

std::optional<int64_t> CustomLoop::next_batch(Split split) {
  return split == Split::kTrain ? next_train_batch() : next_eval_batch();
}

std::optional<int64_t> CustomLoop::next_train_batch() {
  end_batch();
  end_part();
  const bool over = host_.finished() || host_.position().epoch != batch_epoch_;
  if (!over) {
    stop_where_interrupted();
    if (micro_ == 0) host_.begin_window();
    if (!train_loader_) {
      train_loader_.emplace(session_.data.train, session_.plan, host_.loader_spec());
    }
    train_ = {&train_loader_->next(), ++batches_};
    stepped_.assign(optimizers().size(), false);
  }
  begin_part();
  return over ? std::nullopt : std::optional(train_.number);
}

std::optional<int64_t> CustomLoop::next_eval_batch() {
  end_part();
  const bool over = !eval_loader_ || eval_left_ == 0;
  if (over) {
    close_evaluation();
  } else {
    --eval_left_;
    eval_ = {&eval_loader_->next(), ++batches_};
  }
  begin_part();
  return over ? std::nullopt : std::optional(eval_.number);
}

void CustomLoop::close_evaluation() {
  eval_ = {};
  eval_loader_.reset();
}

void CustomLoop::end_batches(Split split) {
  if ((split == Split::kTrain ? train_ : eval_).batch == nullptr) return;
  end_part();
  split == Split::kTrain ? end_batch() : close_evaluation();
  begin_part();
}

// The training batch is done: with it, perhaps, the window.
void CustomLoop::end_batch() {
  close_evaluation();
  if (train_.batch == nullptr) return;
  end_part();
  const data::Batch batch = *train_.batch;
  const bool last = sync_gradients();
  train_ = {};
  take_in(batch, window_);
  ++micro_;
  if (!last) return;
  micro_ = 0;
  const Trainer::Window window = std::exchange(window_, {});
  untouched_ = true;
  host_.end_window(window, std::exchange(stepped_rate_, std::nullopt).value_or(rate(0)));
}

// An interrupted run saves its state and goes on another day; the hook must not go on without it.
void CustomLoop::stop_where_interrupted() {
  if (host_.interrupted() && micro_ == 0) stop();
}

void CustomLoop::stop() {
  stopped_ = true;
  fail(ErrorKind::kInterrupted, "the run is over");
}

// ---- gradients and updates -----------------------------------------------------------------------------------------

bool CustomLoop::sync_gradients() const {
  return train_.batch == nullptr || trainer_.ends_window(*train_.batch, micro_);
}

// The mean over a window is Σ over its batches of the sum over samples, divided by the samples of the window.
void CustomLoop::backward(Value loss) {
  RUN_CHECK(eval_.batch == nullptr, ErrorKind::kRun, "backward: this is a batch of the evaluation data");
  const bool by_sample = loss.shape().rank() > 0;
  double samples = 1, window = 1;
  if (train_.batch != nullptr) {
    RUN_CHECK(!by_sample || loss.shape()[0] == train_.batch->size, ErrorKind::kRun,
              "backward: the loss is {}, but the batch has {} samples: expected one loss for each, or a scalar",
              loss.type(), train_.batch->size);
    samples = static_cast<double>(samples_of(*train_.batch));
    const int64_t index = train_.batch->position.step / session_.recipe.gradient_accumulation_steps;
    window = static_cast<double>(session_.plan.window(index).samples);
  } else if (by_sample) {
    samples = window = static_cast<double>(loss.shape()[0]);
  }
  const int64_t number = train_.number;  // 0: there is no batch
  const double counted = number > 0 && std::exchange(counted_, number) == number ? 0 : samples;
  part().backward(loss, by_sample ? 1.0 / window : samples / window, samples, counted);
}

Value CustomLoop::clip_grad_norm(std::optional<int32_t> optimizer, double limit) {
  return sync_gradients() ? part().clip_grad_norm(optimizer, limit) : Value{};
}

void CustomLoop::clip_grad_value(std::optional<int32_t> optimizer, double limit) {
  if (sync_gradients()) part().clip_grad_value(optimizer, limit);
}

const std::vector<std::string>& CustomLoop::optimizers() const {
  return trainer_.optimizers().names;
}

void CustomLoop::step(int32_t optimizer) {
  if (!sync_gradients()) return;
  Counters& counters = trainer_.counters;
  int64_t& updates = counters.updates[optimizers()[static_cast<size_t>(optimizer)]];
  ++updates;  // taken back when the segment has run and the step was skipped
  const double factor = session_.schedule.factor(counters.scheduled);
  const auto momentum = session_.schedule.momentum(counters.scheduled);
  part().step(optimizer, [&](const optim::Rule& rule) {
    const optim::StepRates rates{.lr = rule.hyper.lr * factor,
                                 .momentum = momentum.value_or(optim::base_momentum(rule))};
    std::vector<double> scalars(optim::scalar_names(rule.type).size());
    optim::step_scalars(rule, rates, updates, scalars);
    return scalars;
  });
  if (!part().applied()) counters.update_was_skipped = false;
  stepped_rate_ = base_rate(0) * factor;
  stepped_[static_cast<size_t>(optimizer)] = true;
}

void CustomLoop::zero_grad(int32_t optimizer) {
  if (!sync_gradients()) return;
  RUN_CHECK(micro_ == 0 || stepped_[static_cast<size_t>(optimizer)], ErrorKind::kRun,
            "zero_grad: the gradients of the {} batches before in this window would be lost; call it behind step",
            micro_);
  part().zero_grad(optimizer);
}

double CustomLoop::base_rate(int32_t optimizer) const {
  for (const OptimizerGroup& group : trainer_.optimizers().groups)
    if (group.optimizer == optimizer) return group.rule.hyper.lr;
  return 0;
}

double CustomLoop::rate(int32_t optimizer) {
  return base_rate(optimizer) * session_.schedule.factor(scheduled());
}

// Where a step under way turns out to be skipped, what has been scheduled with it is taken back.
int64_t CustomLoop::scheduled() {
  int64_t count = trainer_.counters.scheduled;
  if (session_.recipe.train.on_nan != schema::OnNan::kSkip || !part_) return count;
  for (const Segment::Step& step : part_->steps())
    if (step.scheduled > 0 && part_->inputs().read(step.applied).front() == 0) count -= step.scheduled;
  return count;
}

// With the newest update: where that is skipped, so is this, as soon as it shows.
void CustomLoop::step_schedule() {
  if (!sync_gradients()) return;
  if (part().applied()) {
    part().step_schedule();
  } else if (trainer_.counters.update_was_skipped) {
    return;
  }
  ++trainer_.counters.scheduled;
}

// Costs a read where the newest step is in the part under way and may be skipped.
bool CustomLoop::step_was_skipped() {
  if (!part().applied()) return trainer_.counters.update_was_skipped;
  if (session_.recipe.train.on_nan != schema::OnNan::kSkip) return false;
  return part().inputs().read(part().applied()).front() == 0;
}

// ---- states and points ---------------------------------------------------------------------------------------------

bool CustomLoop::in_window() const {
  return train_.batch != nullptr;
}

void CustomLoop::log(const std::string& name, Value value) {
  part().log(name, value);
}

void CustomLoop::log(const std::string& name, double value) {
  host_.point(name, value);
}

void CustomLoop::save() {
  host_.save_soon();
}

void CustomLoop::load(std::optional<int64_t> state) {
  host_.settle();
  host_.check_state(state);
  end_part(/*run=*/false);
  host_.load(state);
  counted_ = 0;
  stepped_rate_.reset();
  stepped_.assign(stepped_.size(), false);
  begin_part();
}

}  // namespace runner::train
