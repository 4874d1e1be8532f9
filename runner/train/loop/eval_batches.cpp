#include "runner/train/loop/eval_batches.h"

#include "runner/train/loop/evaluator.h"

namespace runner::train {

data::DataPlan EvalBatches::plan() const {
  return evaluation_plan(session_.trainer.builder(), session_.data.eval->size(), session_.recipe.num_processes,
                         Padding::kHookLoop);
}

void EvalBatches::begin(std::optional<bool> even) {
  end();
  const data::DataPlan plan = this->plan().with_even_batches(even);
  loader_.emplace(*session_.data.eval, plan, evaluation_loader(session_.rank(), /*never_empty=*/true));
  left_ = plan.steps_per_epoch();
  pads_ = plan.spec().pad_last;
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
  pads_ = false;
}

}  // namespace runner::train
