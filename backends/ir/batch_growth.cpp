#include "backends/ir/batch_growth.h"

#include <algorithm>
#include <span>

#include "backends/ir/op_def.h"
#include "schema/base/error.h"

namespace runner::backends {
namespace {

// Whether a node that reads a value which grows grows itself.
bool passes_growth_on(const Program& program, ValueId id, const std::vector<char>& grows) {
  const auto grown = [&](size_t i) { return grows[static_cast<size_t>(program.operands(id)[i])] != 0; };
  const std::span<const int64_t> attrs = program.attrs(id);
  switch (def_of(program.node(id).op).batch) {
    case BatchRule::kGrows: return true;
    case BatchRule::kUnlessReduced: return attrs.empty() || attrs[0] != 0;
    case BatchRule::kUnlessContracted: return program.type(id).shape.rank() != 2 || !grown(0) || !grown(1);
    case BatchRule::kSumsSamples: return false;
  }
  RUN_ASSERT(false);
}

}  // namespace

std::optional<int64_t> batch_size_of(const Program& program) {
  for (const Input& input : program.inputs())
    if (input.kind == InputKind::kBatch && program.type(input.value).shape.rank() > 0)
      return program.type(input.value).shape[0];
  return std::nullopt;
}

std::vector<char> grows_with_batch(const Program& program) {
  std::vector<char> grows(static_cast<size_t>(program.size()), 0);
  const std::optional<int64_t> batch = batch_size_of(program);
  if (!batch) return grows;
  for (const Input& input : program.inputs()) {
    const Shape& shape = program.type(input.value).shape;
    grows[static_cast<size_t>(input.value)] = input.kind == InputKind::kBatch && shape.rank() > 0 && shape[0] == *batch;
  }
  for (ValueId id = 0; id < program.size(); ++id) {
    const std::span<const ValueId> operands = program.operands(id);
    const bool reads = std::any_of(operands.begin(), operands.end(),
                                   [&](ValueId operand) { return grows[static_cast<size_t>(operand)] != 0; });
    if (reads && passes_growth_on(program, id, grows)) grows[static_cast<size_t>(id)] = 1;
  }
  return grows;
}

}  // namespace runner::backends
