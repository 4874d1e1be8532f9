// Layouts of factored gradients (factored_layout.h), and the shared memory in which ranks read them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "backends/dist/process_group.h"
#include "backends/exec/backend.h"
#include "runner/train/step/factored_layout.h"
#include "runner/train/step/step_builder.h"

namespace runner::train {

// Whether gradients may be exchanged as factors if an optimizer step has one batch. Requires unmodified gradients of a
// step that is the same for every batch. A hook may change the accumulation during training, so it is checked per
// batch.
bool may_factor_gradients(const schema::Recipe& recipe, const StepBuilder& builder);

class FactoredGradients {
 public:
  // All arguments must outlive the object.
  FactoredGradients(const StepBuilder& builder, backends::Device& device, backends::ProcessGroup& ranks);

  // Returns the layout for a batch whose largest part on any rank has `largest` samples; the same object each time.
  // Null if gradients stay in their arrays.
  const FactoredLayout* layout(int64_t largest);
  // Like layout(), and allocates memory for the next batch. Collective. Factored gradients take at most half the memory
  // of the gradients that they replace, whose arrays are untouched while optimizer steps have one batch. So their
  // memory is not counted.
  const FactoredLayout* begin_batch(int64_t largest);

  // States of a step that sends factored gradients, and of the end of an optimizer step that reads those of all ranks.
  backends::Buffer& mine() const { return *of_rank_[static_cast<size_t>(ranks_.rank())]; }
  std::span<const std::shared_ptr<backends::Buffer>> of_all_ranks() const { return of_rank_; }
  // Writes zeros, for a rank without samples.
  void write_zeros(const FactoredLayout& layout);

 private:
  void make_room(int64_t elements);

  const StepBuilder& builder_;
  backends::Device& device_;
  backends::ProcessGroup& ranks_;
  std::map<int64_t, FactoredLayout> layouts_;
  int64_t room_ = 0;  // floats per rank
  std::vector<std::shared_ptr<backends::Buffer>> of_rank_;
};

}  // namespace runner::train
