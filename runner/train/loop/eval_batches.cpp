#include "runner/train/loop/eval_batches.h"

#include "runner/train/loop/evaluator.h"

namespace runner::train {

// A hook's own loop need not know of padding, so that it gets none by default.
data::DataPlan EvalBatches::plan() const {
  data::PlanSpec spec = evaluation_plan(session_.trainer.builder(), session_.data.eval->size(), session_.ranks).spec();
  spec.pad_last = session_.recipe.eval.pad_last.value_or(false);
  return data::DataPlan(spec);
}

void EvalBatches::begin(std::optional<bool> even) {
  end();
  const data::DataPlan plan = this->plan().with_even_batches(even);
  loader_.emplace(*session_.data.eval, plan, evaluation_loader(session_.rank(), /*never_empty=*/true));
  left_ = plan.steps_per_epoch();
}

bool EvalBatches::take() {
  if (!loader_ || left_ == 0) return false;
  --left_;
  current_.take(*loader_);
  return true;
}

void EvalBatches::end() {
  current_.batch = nullptr;
  loader_.reset();
}

}  // namespace runner::train
