#include "backends/graph/autograd.h"

#include "backends/graph/ops.h"
#include "schema/error.h"

namespace runner::backends {
namespace {

// For each node up to `last`: does it depend on a value of `wrt`?
std::vector<char> dependents(const Program& program, ValueId last, std::span<const Value> wrt) {
  std::vector<char> depends(static_cast<size_t>(last) + 1, 0);
  for (const Value& value : wrt)
    if (value.id <= last) depends[static_cast<size_t>(value.id)] = 1;
  for (ValueId id = 0; id <= last; ++id)
    for (const ValueId operand : program.operands(id))
      if (depends[static_cast<size_t>(operand)]) depends[static_cast<size_t>(id)] = 1;
  return depends;
}

// While one lives, nodes can be recorded as made from others; afterwards the line in force counts again.
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

}  // namespace

std::vector<Value> differentiate(Value root, Value seed, std::span<const Value> wrt) {
  Program& program = *root.program;
  RUN_ASSERT(seed.type() == root.type());
  const std::vector<char> depends = dependents(program, root.id, wrt);
  std::vector<Value> grads(static_cast<size_t>(root.id) + 1);
  grads[static_cast<size_t>(root.id)] = seed;

  std::vector<Value> operand_grads;
  Derivation derivation(program);
  for (ValueId id = root.id; id >= 0; --id) {
    const Value grad = grads[static_cast<size_t>(id)];
    const auto vjp = row_of(program.node(id).op).vjp;
    if (!grad || !vjp || !depends[static_cast<size_t>(id)]) continue;
    derivation.of(id);  // an error in the derivative is an error of the line that made the node
    operand_grads.assign(program.operands(id).size(), Value{});
    vjp({&program, id}, grad, operand_grads);
    for (size_t i = 0; i < operand_grads.size(); ++i) {
      const auto operand = static_cast<size_t>(program.operands(id)[i]);
      if (!operand_grads[i] || !depends[operand]) continue;
      grads[operand] = grads[operand] ? ops::add(grads[operand], operand_grads[i]) : operand_grads[i];
    }
  }

  std::vector<Value> result;
  for (const Value& value : wrt) result.push_back(value.id <= root.id ? grads[static_cast<size_t>(value.id)] : Value{});
  return result;
}

}  // namespace runner::backends
