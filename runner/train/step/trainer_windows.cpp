// The windows of a Trainer: batches up to where all replicas have the sums of all, and what is not finite in them.
#include <algorithm>
#include <array>
#include <string>

#include <fmt/format.h>

#include "backends/graph/ops.h"
#include "backends/runtime/spans.h"
#include "runner/train/replicas/reduction.h"
#include "runner/train/step/digest.h"
#include "runner/train/step/loss_scaler.h"
#include "runner/train/step/step_completion.h"
#include "runner/train/step/trainer.h"
#include "schema/error.h"

namespace runner::train {
namespace {

// An error of the device says of which training batch it is, whenever the host learns of it.
template <class Work>
auto in_batch(int64_t batch, int64_t epoch, const Work& work) {
  try {
    return work();
  } catch (Error& error) {
    error.note(fmt::format("in training batch {} (epoch {})", batch, epoch));
    throw;
  }
}

}  // namespace

bool Trainer::ends_window(const data::Batch& batch, int64_t before) const {
  return (batch.last_of_epoch && recipe_.sync_with_dataloader) || before + 1 == accumulation_;
}

void take_in(const data::Batch& batch, TrainingWindow& window) {
  for (size_t i = 0; i < batch.ids.size(); ++i) {
    const auto word = static_cast<uint64_t>(2 * batch.ids[i] + (batch.weights[i] != 0));
    window.batch_digest = mixed(window.batch_digest, word);
  }
  ++window.batches;
  window.samples += batch.samples;
  window.repeats += batch.repeats;
  window.next = batch.next();
  window.ends_epoch |= batch.last_of_epoch;
}

// One replica has the sums of all at any time.
bool Trainer::sums_behind(const TrainingWindow& window) const {
  if (is_local()) return window.done;
  return window.done || ranks_ == nullptr || recipe_.sync_each_batch || window.next.begins_epoch() ||
         window.batches % kBatchesOfPart == 0;
}

bool Trainer::holds_any_gradients() const {
  return std::ranges::any_of(gradients_, [](Held held) { return held != Held::kNothing; });
}

bool Trainer::is_of_parameters(const DeviceArray& array) const {
  return holds_parameters(array) && (array.role != Role::kGradients || holds_gradients(array.buffer));
}

void Trainer::set_gradients(std::vector<Held> held) {
  const bool with_rank_0 = shares_ && ranks_->rank() != 0;
  gradients_ = with_rank_0 ? std::vector<Held>(held.size()) : std::move(held);
}

void Trainer::hold(Held held) {
  for (size_t b = 0; b < gradients_.size(); ++b)
    if (model_.parameters.buffers()[b].group >= 0) gradients_[b] = held;
}

Trainer::Step Trainer::run_batches(data::Loader& loader, const WindowRates& rates, TrainingWindow& window) {
  Step step;
  do {
    const data::Batch& batch = loader.next();
    begin_batch(/*training=*/true);
    window.done = ends_window(batch, window.batches);
    take_in(batch, window);
    largest_ = batch.largest;
    if (messages_) messages_->make_room(largest_);
    if (window.done && clock_) clock_->begin_window(rates);
    if (is_local() || batch.weighs()) {
      for (int64_t first = 0; first < batch.size; first += at_once(batch.size)) {
        const data::Batch part = batch.part(first, at_once(batch.size - first));
        step = run_part(part, window.done && first + part.size == batch.size);
      }
    } else {
      record(batch, /*training=*/true);
    }
    if (batch.last_of_epoch) end_batches(/*training=*/true);
  } while (!sums_behind(window));
  return step;
}

void Trainer::record(const data::Batch& batch, bool training) {
  if (batch.size == 0 || !builder_.varies(training) || replays(training)) return;
  if (scalars_.empty()) set_scalars({});
  begin_recording();
  builder_.record_into(*recorded_, batch.size, training, reader(&batch));
}

Trainer::Step Trainer::run_part(const data::Batch& part, bool last) {
  const bool completes = last && steps_alone();
  Step step = training_step(shape_of(part.size, !holds_any_gradients(), completes), &part, last && !completes);
  backends::Arguments arguments =
      this->arguments(part, recording_of_step(true), last ? Traced::kUpdate : Traced::kBackward);
  arguments.states = states_of_step(last && !completes && message_size(part.largest) > 0);
  const int64_t epoch = part.position.epoch;
  const backends::Ticket ticket = in_batch(batches_, epoch, [&] {
    return submit(completes ? "forward, backward, update" : "forward, backward", *step, arguments);
  });
  under_way_ = {ticket, step, recording_of_step(true), completes, batches_, epoch};
  hold(steps_alone() ? Held::kSum : Held::kShare);
  return step;
}

// What the device reads of a recording stays until it is done.
void Trainer::begin_recording() {
  const bool is_read = under_way_ && under_way_->recorded == &recordings_[0];
  recorded_ = &recordings_[is_read];
}

void Trainer::settle() {
  if (!under_way_) return;
  const UnderWay done = *std::exchange(under_way_, std::nullopt);
  try {
    in_batch(done.batch, done.epoch, [&] { device_.wait(done.ticket); });
    const int first_metric = done.completes ? outcome_outputs() + (clock_ ? 2 : 0) : 0;
    if (done.recorded != nullptr) read_metrics(done.step, *done.recorded, first_metric, batch_metrics_);
    if (steps_alone())
      for (const auto& [name, sum] : std::exchange(batch_metrics_, {})) metrics_[name] += sum;
    if (done.completes && ended_) read_end(*done.step);
  } catch (...) {
    failure_ = std::current_exception();
    if (done.completes) take_back();
    ended_.reset();
  }
}

Trainer::Step Trainer::run_batches_together(data::Loader& loader, const WindowRates& rates, TrainingWindow& window) {
  run_batches(loader, rates, window);
  settle();
  throw_failure();
  const int64_t message = message_size(largest_);
  if (!holds_any_gradients()) clear_window();
  if (builder_.varies(true))
    for (const auto& [name, sum] : merged(std::exchange(batch_metrics_, {}), *ranks_, site("metrics")))
      metrics_[name] += sum;
  const Step& step = meeting_step(window.done, message);
  backends::Arguments end = arguments(nullptr, nullptr);
  end.states = states_of_window(message > 0);
  begin_exchange(/*again=*/false);
  ranks_->barrier(site("gradients"));
  execute("update", *step, end, backends::SpanKind::kOptimizer);
  if (rounded_ && window.done) rounded_->round_share();
  ranks_->barrier(site("the update"));
  if (!window.done && ranks_->rank() == 0) keep_sum_of_part(*step);
  hold(ranks_->rank() == 0 ? Held::kSum : Held::kNothing);
  return step;
}

void Trainer::keep_sum_of_part(backends::Executable& part) {
  std::array<double, 2> sums{};
  device_.read_output(part, kPartSum, std::as_writable_bytes(std::span(sums)));
  write(layout_.find(Role::kSum, 0, kWindowSum), std::as_bytes(std::span(sums)));
}

const Trainer::Step& Trainer::meeting_step(bool ends_window, int64_t message) {
  Step& step = meeting_steps_[{ends_window, message}];
  if (!step) {
    const MessageLayout layout = message > 0 ? messages_->layout(message) : MessageLayout();
    step = device_.compile(complete_window(builder_, *shares_, ends_window, layout));
  }
  return step;
}

std::span<backends::Buffer* const> Trainer::states_of_step(bool sends_message) {
  joined_states_ = states_;
  if (sends_message) joined_states_.push_back(&messages_->mine());
  if (rounded_)
    for (const auto& copy : rounded_->states()) joined_states_.push_back(copy.get());
  return joined_states_;
}

std::span<backends::Buffer* const> Trainer::states_of_window(bool reads_messages) {
  joined_states_ = window_states_;
  if (reads_messages)
    for (const auto& message : messages_->of_all_ranks()) joined_states_.push_back(message.get());
  return joined_states_;
}

int64_t Trainer::message_size(int64_t largest) {
  return messages_ && messages_->layout(largest).elements > 0 ? largest : 0;
}

void Trainer::clear_window() {
  if (message_size(largest_) > 0) messages_->send_nothing(largest_);
  for (size_t i = 0; i < arrays_.size(); ++i) {
    const DeviceArray& array = layout_.arrays()[i];
    if (!is_read_by_all(array)) continue;
    const std::vector<std::byte> zeros(array.type.bytes());
    device_.write(*arrays_[i], 0, zeros);
  }
}

void Trainer::advance(data::Loader& loader, const WindowRates& rates, TrainingWindow& window) {
  set_scalars(rates);
  if (window.batches == 0) hold(Held::kNothing);
  newest_step_.reset();
  const Step step = steps_alone() ? run_batches(loader, rates, window) : run_batches_together(loader, rates, window);
  if (!window.done) return;
  newest_step_ = step;
  outcome_.reset();
  end_window(rates, window);
}

bool Trainer::may_learn_late() const {
  return device_.runs_beside_host() && ranks_ == nullptr && !clock_ && recipe_.train.on_nan == schema::OnNan::kStop;
}

TrainingWindow Trainer::run_window(data::Loader& loader, const WindowRates& rates) {
  TrainingWindow window;
  while (!window.done) advance(loader, rates, window);
  learn_end(window);
  return window;
}

// Counted as if it were finite: what is not is taken back when the host learns of it.
void Trainer::end_window(const WindowRates& rates, TrainingWindow& window) {
  hold(Held::kNothing);
  window.decisions = mixed(rates.digest(), recorded_->form);
  window.lr = optimizers_.lr * rates.factor;
  window.finite = true;
  window.applied = !clock_;
  ended_ = {.scheduled = rates.schedule_steps, .samples = window.samples, .repeats = window.repeats};
  count(window);
  if (clock_) return;
  counters.scheduled += rates.schedule_steps;
  for (const std::string& optimizer : optimizers_.names) ++counters.updates[optimizer];
}

void Trainer::learn_end(TrainingWindow& newest) {
  settle();
  throw_failure();
  if (!ended_) return;
  if (!ended_->known) read_end(*newest_step_);
  const Ended end = *std::exchange(ended_, std::nullopt);
  newest.finite = end.finite;
  newest.grad_norm = end.grad_norm;
  // What explains it runs something else: what is to be read has been read.
  if (clock_ && (clock_->is_full() || !newest.finite)) learn(newest);
}

void Trainer::read_end(backends::Executable& step) {
  uint8_t finite = 1;
  device_.read_output(step, kFinite, std::as_writable_bytes(std::span(&finite, 1)));
  ended_->finite = finite != 0;
  if (recipe_.train.clip_grad_norm) {
    float norm = 0;
    device_.read_output(step, kGradNorm, std::as_writable_bytes(std::span(&norm, 1)));
    ended_->grad_norm = norm;
  }
  ended_->known = true;
  if (!ended_->finite) take_back();
}

// A window that is not finite counts only where such are skipped.
void Trainer::take_back() {
  if (!clock_) {
    --counters.applied;
    counters.scheduled -= ended_->scheduled;
    for (const std::string& optimizer : optimizers_.names) --counters.updates[optimizer];
  }
  if (ended_->finite || recipe_.train.on_nan == schema::OnNan::kStop) {
    --counters.windows;
    counters.samples -= ended_->samples;
    counters.repeats -= ended_->repeats;
  }
}

void Trainer::throw_failure() {
  if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
}

void Trainer::learn() {
  settle();
  if (failure_) std::rethrow_exception(failure_);
  if (pending() == 0) return;
  if (newest_step_) {
    uint8_t applied = 0;
    double factor = 0;
    const int first = outcome_outputs();
    device_.read_output(*newest_step_, first, std::as_writable_bytes(std::span(&applied, 1)));
    device_.read_output(*newest_step_, first + 1, std::as_writable_bytes(std::span(&factor, 1)));
    outcome_ = {applied != 0, optimizers_.lr * factor};
  }
  clock_->learn();
}

void Trainer::learn(TrainingWindow& newest) {
  learn();
  if (!outcome_) return;
  newest.applied = outcome_->applied || !newest.finite;
  newest.lr = outcome_->lr;
}

void Trainer::count(const TrainingWindow& window) {
  if (!window.finite && recipe_.train.on_nan == schema::OnNan::kStop) return;
  ++counters.windows;
  counters.applied += window.finite && window.applied;
  counters.samples += window.samples;
  counters.repeats += window.repeats;
}

NotFinite Trainer::explain_not_finite(data::Loader& loader, int64_t before) {
  // Recording once more must not move what a hook keeps.
  const std::string kept = hooks_ != nullptr ? hooks_->state() : "";
  const std::string otherwise =
      fmt::format("the forward pass is finite, a gradient is not{}",
                  travels_in_fp16(recipe_) ? ", at the latest as fp16 on its way between the replicas "
                                             "(comm.hook: bf16 has float32's range)"
                                           : "");
  NotFinite found = first_found(find_not_finite(loader, before), otherwise, is_local() ? nullptr : ranks_,
                                site("what is not finite"));
  if (hooks_ != nullptr) hooks_->restore(kept);
  return found;
}

std::optional<NotFinite> Trainer::find_not_finite(data::Loader& loader, int64_t before) {
  for (;; ++before) {
    const data::Batch& batch = loader.next();
    const bool last = ends_window(batch, before);
    std::optional<NotFinite> found;
    for (int64_t first = 0; first < batch.size && !found; first += at_once(batch.size))
      found = find_not_finite(batch.part(first, at_once(batch.size - first)));
    if (found || last) return found;
  }
}

std::optional<NotFinite> Trainer::find_not_finite(const data::Batch& batch) {
  const StepBuilder::Recorded recorded = builder_.record(batch.size, true, reader(&batch));
  backends::Program program = recorded.program;
  const backends::Value losses{&program, recorded.losses}, counted{&program, recorded.counted};
  backends::ops::sum(backends::ops::mul(losses, counted));
  const auto batch_input = [&](BatchInput input) {
    return program.inputs()[layout_.arrays().size() + static_cast<size_t>(input)].value;
  };
  const ForwardPass pass{program,        recorded.parameters, batch_input(kFeatures), batch_input(kLabels),
                         program.size(), recorded.weights};
  return first_not_finite(device_, pass, model_.parameters, arguments(batch, &recorded), memory_);
}

}  // namespace runner::train
