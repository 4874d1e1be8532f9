#include "runner/train/loop/declared_loop.h"

#include <utility>

namespace runner::train {

void DeclaredLoop::run() {
  result_ = loop_.result();
  begun_ = {loop_.here(), result_.batches};
  data::Loader loader(session_.data.train, session_.plan, loop_.loader_spec());
  const auto gives_up = [this] { return loop_.interrupted(); };
  BatchFeed batches = session_.trainer.stepper().feed(loader, gives_up);
  try {
    while (should_continue() && loader.wait(gives_up)) {
      if (result_.batches == 0 && !begin_step()) break;
      advance(batches);
      result_.done ? end_step() : keep_step();
    }
  } catch (...) {
    resolve_newest();  // an earlier failure takes precedence
    throw;
  }
  resolve_newest();
}

// Within an optimizer step, only an interruption ends the loop; requests of a hook take effect at its end.
bool DeclaredLoop::should_continue() const {
  return !loop_.interrupted() && (result_.batches > 0 || !loop_.finished());
}

// Returns false if the hook has changed the accumulation so that the remaining batches fill no optimizer step.
bool DeclaredLoop::begin_step() {
  begun_ = {loop_.begin_step(), 0};
  return loop_.step() < session_.scale.total_steps;
}

// A failure of the previous optimizer step takes precedence.
void DeclaredLoop::advance(BatchFeed& batches) {
  try {
    session_.trainer.stepper().advance(batches, session_.rates(), result_, [this] { return loop_.asked_to_stop(); });
  } catch (...) {
    resolve_newest();
    keep_before(begun_);
    throw;
  }
  newest_.reset();
}

void DeclaredLoop::keep_step() {
  loop_.end_substep(result_);
  result_ = loop_.result();
}

void DeclaredLoop::end_step() {
  if (loop_.may_run_ahead(result_, begun_.start)) {
    newest_ = begun_;
  } else {
    resolve(result_, begun_);
    if (!result_.finite) void_step(begun_);
  }
  loop_.end_step(std::exchange(result_, {}));
}

void DeclaredLoop::resolve_newest() {
  const std::optional<Begun> begun = std::exchange(newest_, std::nullopt);
  StepResult newest;
  resolve(newest, begun.value_or(begun_));
  if (begun && !newest.finite) void_step(*begun);
}

// `begun`: where the failed optimizer step began.
void DeclaredLoop::resolve(StepResult& result, const Begun& begun) {
  try {
    session_.trainer.stepper().resolve(result);
  } catch (...) {
    keep_before(begun);
    throw;
  }
}

void DeclaredLoop::keep_before(const Begun& begun) {
  if (begun.behind == 0 && !session_.trainer.stepper().may_be_half_updated()) loop_.keep_before(begun.start);
}

// If not_finite() throws, the run ends at the beginning of the optimizer step. A checkpoint can be made of it if this
// process has run the whole step.
void DeclaredLoop::void_step(const Begun& begun) {
  if (!not_finite_) {
    data::LoaderSpec spec = loop_.loader_spec();
    spec.from = begun.start.at;
    spec.prefetch = 0;
    spec.use = nullptr;  // not part of training
    data::Loader again(session_.data.train, session_.plan, spec);
    not_finite_ = session_.trainer.search().explain(again, begun.behind, begun.start.recorded);
  }
  loop_.not_finite(*not_finite_, begun.start, /*untouched=*/begun.behind == 0);
}

}  // namespace runner::train
