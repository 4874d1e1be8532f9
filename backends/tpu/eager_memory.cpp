#include <algorithm>

#include "backends/ir/batch_growth.h"
#include "backends/tpu/eager_ops.h"
#include "backends/tpu/hbm.h"
#include "backends/tpu/hbm_advice.h"

namespace runner::backends::tpu {
namespace {

class Walk {
 public:
  Walk(const Program& tensors, const std::vector<SplitOp>& ops, const DeviceTypes& types)
      : tensors_(tensors),
        ops_(ops),
        types_(types),
        grows_(grows_with_batch(tensors)),
        own_(own_of_hook(tensors)),
        dies_at_(static_cast<size_t>(tensors.size()), -1) {}

  std::vector<EagerMoment> run() {
    find_ends();
    EagerMoment now;
    for (const Input& input : tensors_.inputs()) add(now, input.value, 1);
    std::vector<EagerMoment> moments;
    for (size_t i = 0; i < ops_.size(); ++i) {
      add(now, ops_[i].node, 1);
      now.result = bytes_of(ops_[i].node);
      moments.push_back(now);
      for (const ValueId dead : dying_[i]) add(now, dead, -1);
    }
    return moments;
  }

  int64_t bytes_of(ValueId id) const {
    const TensorType type = types_.of(tensors_.type(id));
    return (tensors_.node(id).op == Op::kInput ? argument_layout(type) : row_major_layout(type)).bytes;
  }

 private:
  void add(EagerMoment& moment, ValueId id, int64_t sign) const {
    const int64_t bytes = sign * bytes_of(id);
    moment.padded += bytes;
    if (grows_[static_cast<size_t>(id)]) moment.with_batch += bytes;
    if (own_[static_cast<size_t>(id)]) moment.with_own += bytes;
    moment.unpadded += sign * static_cast<int64_t>(types_.of(tensors_.type(id)).bytes());
  }

  // Finds where values die. Inputs stay, except replaced states; results stay if they are outputs.
  void find_ends() {
    std::vector<char> stays(dies_at_.size(), 0);
    for (const Input& input : tensors_.inputs()) stays[static_cast<size_t>(input.value)] = 1;
    for (size_t i = 0; i < ops_.size(); ++i) {
      dies_at_[static_cast<size_t>(ops_[i].node)] = static_cast<int>(i);
      for (const ValueId operand : ops_[i].operands) dies_at_[static_cast<size_t>(operand)] = static_cast<int>(i);
    }
    for (const Output& output : tensors_.outputs()) {
      stays[static_cast<size_t>(output.value)] = 1;
      if (output.state >= 0) replace(output, stays);
    }
    dying_.resize(ops_.size());
    for (ValueId id = 0; id < tensors_.size(); ++id)
      if (const int end = dies_at_[static_cast<size_t>(id)]; end >= 0 && !stays[static_cast<size_t>(id)])
        dying_[static_cast<size_t>(end)].push_back(id);
  }

  void replace(const Output& output, std::vector<char>& stays) {
    const ValueId old = tensors_.inputs()[static_cast<size_t>(output.state)].value;
    if (old == output.value) return;
    const auto made = std::ranges::find(ops_, output.value, &SplitOp::node);
    if (made == ops_.end()) return;  // the new value is another argument, which stays
    stays[static_cast<size_t>(old)] = 0;
    int& end = dies_at_[static_cast<size_t>(old)];
    end = std::max(end, static_cast<int>(made - ops_.begin()));
  }

  const Program& tensors_;
  const std::vector<SplitOp>& ops_;
  const DeviceTypes types_;
  const std::vector<char> grows_;            // by value: grows with the batch
  const std::vector<bool> own_;              // by value: created by a hook, grows with neither batch nor model
  std::vector<int> dies_at_;                 // by value: last operation that reads or computes it
  std::vector<std::vector<ValueId>> dying_;  // values that die after the operation, by operation
};

}  // namespace

EagerMemory eager_memory(const Program& tensors, const std::vector<SplitOp>& ops, int64_t programs,
                         const Hardware& hardware) {
  const TpuDataSheet& row = row_of(hardware.machine.generation);
  Walk walk(tensors, ops, hardware.types);
  EagerMemory memory{.moments = walk.run(),
                     .reserved = row.reserved_bytes,
                     .usable = row.usable_bytes(),
                     .code = programs * kCodeOfGroup};
  for (const Input& input : tensors.inputs())
    if (input.kind == InputKind::kBatch) memory.prefetched += hardware.prefetched_batches * walk.bytes_of(input.value);
  return memory;
}

}  // namespace runner::backends::tpu
