#include "runner/train/loop/declared_loop.h"

#include <utility>

namespace runner::train {

void DeclaredLoop::run() {
  origin_ = {loop_.here(), state_.result.batches};
  data::Loader loader(session_.data.train, session_.plan, loop_.loader_spec());
  bool is_new = true;
  BatchFeed batches = session_.trainer.stepper().feed(loader, [this] { return state_.interrupted(); });
  try {
    while (should_continue() && loop_.wait_for_batch(loader, std::exchange(is_new, false))) {
      if (state_.result.batches == 0 && !begin_step()) break;
      advance(batches);
      state_.result.done ? end_step() : loop_.end_substep();
    }
  } catch (...) {
    resolve_in_flight();  // an earlier failure takes precedence
    throw;
  }
  resolve_in_flight();
}

// Within an optimizer step, only an interruption ends the loop; requests of a hook take effect at its end.
bool DeclaredLoop::should_continue() const {
  return !state_.interrupted() && (state_.result.batches > 0 || !state_.finished());
}

// Returns false if the hook has changed the accumulation so that the remaining batches fill no optimizer step.
bool DeclaredLoop::begin_step() {
  origin_ = {loop_.begin_step(), 0};
  return state_.step() < session_.length.total_steps;
}

// A failure of the previous optimizer step takes precedence.
void DeclaredLoop::advance(BatchFeed& batches) {
  try {
    session_.trainer.stepper().advance(batches, session_.rates(), state_.result,
                                       [this] { return state_.control.asked_to_stop(); });
  } catch (...) {
    resolve_in_flight();
    keep_before(origin_);
    throw;
  }
  in_flight_.reset();
}

void DeclaredLoop::end_step() {
  if (loop_.may_run_ahead(state_.result, origin_.start)) {
    in_flight_ = origin_;
  } else {
    resolve(state_.result, origin_);
    if (!state_.result.finite) skip_step(origin_);
  }
  loop_.end_step(state_.result);
}

void DeclaredLoop::resolve_in_flight() {
  const std::optional<StepOrigin> origin = std::exchange(in_flight_, std::nullopt);
  StepResult newest;
  resolve(newest, origin.value_or(origin_));
  if (origin && !newest.finite) skip_step(*origin);
}

// `origin`: where the failed optimizer step began.
void DeclaredLoop::resolve(StepResult& result, const StepOrigin& origin) {
  try {
    session_.trainer.stepper().resolve(result);
  } catch (...) {
    keep_before(origin);
    throw;
  }
}

void DeclaredLoop::keep_before(const StepOrigin& origin) {
  if (origin.first_batch == 0 && !session_.trainer.stepper().may_be_half_updated()) loop_.keep_before(origin.start);
}

// If not_finite() throws, the run ends at the beginning of the optimizer step. A checkpoint can be made of it if this
// process has run the whole step.
void DeclaredLoop::skip_step(const StepOrigin& origin) {
  if (!not_finite_) {
    data::LoaderSpec spec = loop_.loader_spec();
    spec.from = origin.start.at;
    spec.prefetch = 0;
    spec.use = nullptr;  // not part of training
    data::Loader again(session_.data.train, session_.plan, spec);
    not_finite_ = session_.trainer.search().explain(again, origin.first_batch, origin.start.recorded);
  }
  loop_.not_finite(*not_finite_, origin.start, /*untouched=*/origin.first_batch == 0);
}

}  // namespace runner::train
