#include <algorithm>
#include <map>
#include <vector>

#include "backends/ir/attention.h"
#include "backends/ir/op_def.h"
#include "backends/ir/ops.h"
#include "backends/ir/passes/passes.h"
#include "backends/ir/passes/rewriter.h"

namespace runner::backends {
namespace {

class AttentionComposer {
 public:
  explicit AttentionComposer(const Program& program) : rewriter_(program) {}

  Program run() {
    const Program& from = rewriter_.from();
    for (ValueId id = 0; id < from.size(); ++id) {
      const Op op = from.node(id).op;
      if (kind_of(op) == OpKind::kAttention)
        compose(id);
      else if (const ValueId part = op == Op::kSlice ? part_of_gradient(id) : kNoValue; part != kNoValue)
        rewriter_.map(id, part);
      else
        rewriter_.copy(id);
    }
    return rewriter_.finish();
  }

 private:
  void compose(ValueId id) {
    rewriter_.make_from(id);
    const Program& from = rewriter_.from();
    std::vector<Value> operands;
    for (const ValueId operand : rewriter_.mapped_operands(id)) operands.push_back({&rewriter_.to(), operand});
    const AttentionSpec spec = AttentionSpec::of(from.node(id).op, operands.size(), from.attrs(id));
    const ComposedAttention& attention = weights_of(id, spec, operands);
    if (spec.grad < 0) return rewriter_.map(id, composed_result(attention, operands).id);
    const ComposedGradients grads = composed_gradients(spec, attention, operands);
    std::vector<Value>& parts = gradients_[id];
    parts = {ops::flatten(grads.q), ops::flatten(grads.k), ops::flatten(grads.v)};
    rewriter_.map(id, ops::concat(parts, 0).id);
  }

  // The weights of the forward pass, which its gradient reads again, as in PyTorch.
  const ComposedAttention& weights_of(ValueId id, const AttentionSpec& spec, std::span<const Value> operands) {
    std::vector<int64_t> key(rewriter_.from().attrs(id).begin(), rewriter_.from().attrs(id).end());
    for (size_t i = 0; i < operands.size(); ++i)
      if (static_cast<int>(i) != spec.grad) key.push_back(operands[i].id);
    const auto [known, is_new] = weights_.try_emplace(std::move(key));
    if (is_new) known->second = compose_attention(spec, operands);
    return known->second;
  }

  // The gradient of q, k or v if the node cuts it out of the gradients of an attention; else kNoValue.
  ValueId part_of_gradient(ValueId slice) const {
    const Program& from = rewriter_.from();
    const auto known = gradients_.find(from.operands(slice)[0]);
    if (known == gradients_.end()) return kNoValue;
    const std::span<const int64_t> range = from.attrs(slice);  // start, stop, step
    int64_t first = 0;
    for (const Value& part : known->second) {
      const int64_t end = first + part.shape().elements();
      if (range[0] == first && range[1] == end && range[2] == 1) return part.id;
      first = end;
    }
    return kNoValue;
  }

  Rewriter rewriter_;
  std::map<std::vector<int64_t>, ComposedAttention> weights_;  // by attributes and operands
  std::map<ValueId, std::vector<Value>> gradients_;            // by attention_grad of the old Program
};

}  // namespace

Program compose_attention(const Program& program) {
  for (ValueId id = 0; id < program.size(); ++id)
    if (kind_of(program.node(id).op) == OpKind::kAttention) return AttentionComposer(program).run();
  return program;
}

}  // namespace runner::backends
