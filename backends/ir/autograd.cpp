#include "backends/ir/autograd.h"

#include <map>

#include <fmt/format.h>

#include "backends/ir/op_def.h"
#include "backends/ir/ops.h"
#include "schema/base/error.h"

namespace runner::backends {
namespace {

// By node up to `last`: whether it depends on a value of `wrt`.
std::vector<char> dependents(const Program& program, ValueId last, std::span<const Value> wrt) {
  std::vector<char> depends(static_cast<size_t>(last) + 1, 0);
  for (const Value& value : wrt)
    if (value.id <= last) depends[static_cast<size_t>(value.id)] = 1;
  for (ValueId id = 0; id <= last; ++id)
    for (const ValueId operand : program.operands(id))
      if (depends[static_cast<size_t>(operand)]) depends[static_cast<size_t>(id)] = 1;
  return depends;
}

// By node up to `last`: the values of `wrt` whose first reader it is. After this node the backward walk adds nothing to
// their gradients. Values without a reader are listed at the first node.
std::vector<std::vector<size_t>> completed_after(const Program& program, ValueId last, std::span<const Value> wrt) {
  std::vector<ValueId> first_reader(static_cast<size_t>(last) + 1, 0);
  for (ValueId id = last; id >= 0; --id)
    for (const ValueId operand : program.operands(id)) first_reader[static_cast<size_t>(operand)] = id;
  std::vector<std::vector<size_t>> complete(static_cast<size_t>(last) + 1);
  for (size_t i = 0; i < wrt.size(); ++i)
    if (wrt[i].id <= last) complete[static_cast<size_t>(first_reader[static_cast<size_t>(wrt[i].id)])].push_back(i);
  return complete;
}

// "layer_norm" of "layer_norm_grad_x".
std::string_view op_of_gradient(std::string_view name) {
  return name.substr(0, name.find("_grad"));
}

// Scope in which nodes are recorded with the origin of other nodes. Its end restores the current source line.
class Derivation {
 public:
  explicit Derivation(Program& program) : program_(program) {}
  ~Derivation() { program_.set_origin(std::nullopt); }
  Derivation(const Derivation&) = delete;
  Derivation& operator=(const Derivation&) = delete;
  void of(ValueId id) { program_.set_origin(program_.node(id).origin); }

 private:
  Program& program_;
};

// Whether a value depends on nothing but states and constants. Equal nodes that read only such values are merged, which
// keeps casts of weights, for example.
std::vector<char> fixed_in_step(const Program& program, ValueId last) {
  std::vector<char> fixed(static_cast<size_t>(last) + 1, 1);
  for (ValueId id = 0; id <= last; ++id) {
    if (const Input* const input = program.input_of(id))
      fixed[static_cast<size_t>(id)] = input->kind == InputKind::kState;
    for (const ValueId operand : program.operands(id))
      fixed[static_cast<size_t>(id)] &= fixed[static_cast<size_t>(operand)];
  }
  return fixed;
}

// Copies of the recomputed nodes of a Program, recorded block by block from the last to the first. A collective takes
// place once.
class Recomputation {
 public:
  Recomputation(Program& program, ValueId last)
      : program_(program), blocks_(program.recomputed().begin(), program.recomputed().end()) {
    std::erase_if(blocks_, [&](const NodeRange& block) { return block.end > last + 1; });
    if (blocks_.empty()) return;
    fixed_ = fixed_in_step(program, last);
    copies_.assign(static_cast<size_t>(last) + 1, kNoValue);
  }

  // Records the block that ends with this node. `grads`: by node. The copies are computed after the gradient that
  // reaches the block first. Does nothing if none does.
  void before(ValueId id, std::span<const Value> grads) {
    if (blocks_.empty() || blocks_.back().end != id + 1) return;
    const NodeRange block = blocks_.back();
    blocks_.pop_back();
    for (ValueId at = id; at >= block.first; --at)
      if (const Value grad = grads[static_cast<size_t>(at)]) return copy(block, grad);
  }

  // The node whose operands and result the gradient of this one reads.
  ValueId of(ValueId id) const {
    const ValueId copy = copies_.empty() ? kNoValue : copies_[static_cast<size_t>(id)];
    return copy == kNoValue ? id : copy;
  }

 private:
  void copy(const NodeRange& block, Value after) {
    std::map<ValueId, ValueId> outside;
    for (ValueId id = block.first; id < block.end; ++id) {
      RUN_ASSERT(program_.node(id).op != Op::kInput);
      if (is_collective(program_.node(id).op)) continue;  // its result is kept
      program_.set_origin(program_.node(id).origin);
      std::vector<ValueId> operands(program_.operands(id).begin(), program_.operands(id).end());
      for (ValueId& operand : operands) {
        if (operand >= block.first) {
          operand = of(operand);
        } else if (!fixed_[static_cast<size_t>(operand)]) {
          ValueId& read = outside.try_emplace(operand, kNoValue).first->second;
          if (read == kNoValue) read = ops::barrier({&program_, operand}, after).id;
          operand = read;
        }
      }
      const std::vector<int64_t> attrs(program_.attrs(id).begin(), program_.attrs(id).end());
      copies_[static_cast<size_t>(id)] = program_.record(program_.node(id).op, operands, attrs, program_.type(id));
    }
  }

  Program& program_;
  std::vector<NodeRange> blocks_;  // not yet reached
  std::vector<char> fixed_;        // fixed_in_step()
  std::vector<ValueId> copies_;    // by node; empty if nothing is recomputed
};

}  // namespace

std::vector<Value> differentiate(Value root, Value seed, std::span<const Value> wrt, const Finish& finish) {
  Program& program = *root.program;
  RUN_ASSERT(seed.type() == root.type());
  const std::vector<char> depends = dependents(program, root.id, wrt);
  const std::vector<std::vector<size_t>> complete = completed_after(program, root.id, wrt);
  std::vector<Value> grads(static_cast<size_t>(root.id) + 1), result(wrt.size());
  grads[static_cast<size_t>(root.id)] = seed;

  std::vector<Value> operand_grads;
  Derivation derivation(program);
  Recomputation recomputation(program, root.id);
  const auto propagate = [&](ValueId id) {
    const Value grad = grads[static_cast<size_t>(id)];
    const Op op = program.node(id).op;
    const Gradient gradient = def_of(op).gradient;
    if (!grad || !depends[static_cast<size_t>(id)]) return;
    derivation.of(id);  // errors in the gradient are reported at the line of the node
    if (gradient == kNotDifferentiable)
      throw Error(ErrorKind::kRun,
                  fmt::format("the gradient of {} cannot be differentiated again", op_of_gradient(name_of(op))),
                  program.mark_of(id));
    if (gradient == kNoGradient) return;
    operand_grads.assign(program.operands(id).size(), Value{});
    gradient({&program, recomputation.of(id)}, grad, operand_grads);
    for (size_t i = 0; i < operand_grads.size(); ++i) {
      const auto operand = static_cast<size_t>(program.operands(id)[i]);
      if (!operand_grads[i] || !depends[operand]) continue;
      grads[operand] = grads[operand] ? ops::add(grads[operand], operand_grads[i]) : operand_grads[i];
    }
  };
  for (ValueId id = root.id; id >= 0; --id) {
    recomputation.before(id, grads);
    propagate(id);
    for (const size_t i : complete[static_cast<size_t>(id)]) {
      const Value grad = grads[static_cast<size_t>(wrt[i].id)];
      result[i] = grad && finish ? finish(i, grad) : grad;
    }
  }
  return result;
}

}  // namespace runner::backends
