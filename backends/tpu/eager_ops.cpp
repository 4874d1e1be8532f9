#include "backends/tpu/eager_ops.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "backends/ir/passes/passes.h"
#include "backends/tpu/graph_cache.h"
#include "backends/tpu/tensor_graph.h"

namespace runner::backends::tpu {
namespace {

// Returns the graph with baked scalars as constants and without absent states.
GraphIdentity with_numbers(const GraphIdentity& graph, const BakedNumbers& numbers) {
  std::vector<std::optional<double>> constants;
  size_t scalar = 0;
  for (const Input& input : graph.program->inputs()) {
    const bool is_baked = input.kind == InputKind::kScalar && numbers[scalar++].has_value();
    constants.push_back(is_baked ? std::make_optional(numbers[scalar - 1]->value) : std::nullopt);
  }
  GraphIdentity specialised = GraphIdentity::of(with_constants(*graph.program, constants));
  specialised.scalars = graph.scalars;
  specialised.signature = graph.signature;
  return specialised;
}

// Descriptions of baked scalars, looked up for the first one that an operation reads.
class NumberTexts {
 public:
  NumberTexts(const Program& graph, const BakedNumbers& numbers) {
    size_t scalar = 0;
    for (const Input& input : graph.inputs())
      if (input.kind == InputKind::kScalar && numbers[scalar++])
        texts_.emplace(graph.node(input.value).origin, text_of(input.name, *numbers[scalar - 1]));
  }

  BakedText of(const Program& tensors, const SplitOp& op) const {
    for (const ValueId operand : tensors.operands(op.node)) {
      const ValueId from = tensors.node(operand).op == Op::kExpand ? tensors.operands(operand)[0] : operand;
      if (tensors.node(from).op != Op::kConstant) continue;
      if (const auto text = texts_.find(tensors.node(from).origin); text != texts_.end()) return text->second;
    }
    return {};
  }

 private:
  static BakedText text_of(const std::string& name, const BakedNumber& number) {
    return {fmt::format("{} is {}{}", name, number.value,
                        number.is_attribute ? ", a constant of the graph because it is an attribute of the op"
                                            : "; the numbers 0, 1 and -1 are constants of the graph"),
            number.is_attribute};
  }

  std::map<Origin, BakedText> texts_;
};

// By node of `op`: whether it is engine bookkeeping. Empty if the device has no other types for these nodes, so that
// operations of bookkeeping and of the user's code are of one kind.
std::vector<bool> bookkeeping_in(const Program& op, const SplitOp& split, const std::vector<bool>& bookkeeping,
                                 const DeviceTypes& types) {
  std::vector<bool> by_node(static_cast<size_t>(op.size()), bookkeeping[static_cast<size_t>(split.node)]);
  size_t input = 0;
  bool keeps_any = false;
  for (ValueId id = 0; id < op.size(); ++id) {
    const auto at = static_cast<size_t>(id);
    if (op.node(id).op == Op::kInput) by_node[at] = bookkeeping[static_cast<size_t>(split.operands[input++])];
    keeps_any |= by_node[at] && types.of(op.type(id)) != op.type(id);
  }
  return keeps_any ? by_node : std::vector<bool>();
}

EagerOp op_of(Program program, Origin origin, std::vector<bool> bookkeeping = {}) {
  program.output("result", program.size() - 1);
  EagerOp op{.graph = GraphIdentity::of(std::move(program))};
  op.graph.bookkeeping = std::move(bookkeeping);
  op.key = key_of(op.graph);
  op.origin = origin;
  return op;
}

std::vector<EagerOp> ops_that_make(const std::vector<int32_t>& absent, const StateTensors& state_tensors) {
  std::vector<EagerOp> ops;
  for (const int32_t state : absent) {
    if (static_cast<size_t>(state) >= state_tensors.size()) continue;
    for (const StateTensor& tensor : state_tensors[static_cast<size_t>(state)]) {
      Program zeros;
      const ValueId zero[] = {zeros.constant(0, {tensor.type.dtype, {}})};
      zeros.record(Op::kExpand, zero, {}, tensor.type);
      ops.push_back(op_of(std::move(zeros), kNoOrigin));
    }
  }
  return ops;
}

int64_t count_programs(const std::vector<EagerOp>& ops) {
  std::set<std::pair<uint64_t, uint64_t>> keys;
  for (const EagerOp& op : ops) keys.emplace(op.key.hi, op.key.lo);
  return std::ssize(keys);
}

}  // namespace

EagerStep eager_step(const GraphIdentity& graph, const BakedNumbers& numbers, const StateTensors& state_tensors,
                     const Hardware& hardware) {
  ShownGraph shown = shown_graph_as_traced(with_numbers(graph, numbers), state_tensors);
  EagerStep step{.tensors = std::move(shown.program),
                 .split_ops = {},
                 .memory = {},
                 .ops = ops_that_make(graph.absent, state_tensors),
                 .uploads = {}};
  const size_t first = step.ops.size();
  step.split_ops = split_into_ops(step.tensors, parts_of_readers(step.tensors), TensorInputs::kAlike);
  const NumberTexts texts(*graph.program, numbers);
  for (SplitOp& split : step.split_ops) {
    std::vector<bool> kept = bookkeeping_in(split.program, split, shown.bookkeeping, hardware.types);
    step.ops.push_back(op_of(std::exchange(split.program, {}), step.tensors.node(split.node).origin, std::move(kept)));
    step.ops.back().number = texts.of(step.tensors, split);
  }
  step.memory = eager_memory(step.tensors, step.split_ops, count_programs(step.ops), hardware);
  for (size_t i = first; i < step.ops.size(); ++i) {
    const EagerMoment& moment = step.memory.moments[i - first];
    step.ops[i].hbm_bytes = step.memory.peak(i - first);
    step.ops[i].unpadded_bytes = moment.unpadded;
    step.ops[i].padded_bytes = moment.padded;
  }
  step.uploads = traced_work(step.tensors, hardware.types).uploads;
  return step;
}

void match(EagerStep& step, std::span<const OpTimes> host) {
  using Kind = std::pair<Origin, Op>;
  std::map<Kind, std::vector<size_t>> wanted;  // indices into step.ops
  for (size_t i = 0; i < step.ops.size(); ++i) {
    const Program& program = *step.ops[i].graph.program;
    wanted[{step.ops[i].origin, program.node(program.size() - 1).op}].push_back(i);
  }
  std::map<Kind, std::vector<std::vector<size_t>>> found;  // host operations, each with the unmatched ones before it
  std::vector<size_t> before;
  for (size_t h = 0; h < host.size(); ++h) {
    before.push_back(h);
    const Kind kind{host[h].origin, host[h].op};
    if (wanted.contains(kind)) found[kind].push_back(std::exchange(before, {}));
  }
  for (const auto& [kind, ops] : wanted) {
    const std::vector<std::vector<size_t>>& hosts = found[kind];
    for (size_t i = 0; i < ops.size(); ++i) {
      EagerOp& op = step.ops[ops[i]];
      op.hosts.clear();
      op.shared_by = hosts.size() == ops.size() ? 1 : ops.size();
      for (size_t h = 0; h < hosts.size(); ++h)
        if (op.shared_by > 1 || h == i) op.hosts.insert(op.hosts.end(), hosts[h].begin(), hosts[h].end());
    }
  }
}

int64_t ns_of(const EagerOp& op, std::span<const OpTimes> host, int64_t OpTimes::*figure) {
  int64_t ns = 0;
  for (const size_t h : op.hosts) ns += host[h].*figure;
  return ns / static_cast<int64_t>(op.shared_by);
}

bool has_run(const EagerOp& op, std::span<const OpTimes> host) {
  return std::ranges::all_of(op.hosts, [&](size_t h) { return host[h].has_run; });
}

std::optional<size_t> first_beyond_memory(const EagerStep& step) {
  for (size_t i = 0; i < step.split_ops.size(); ++i)
    if (step.memory.used(i) > step.memory.usable) return i;
  return std::nullopt;
}

}  // namespace runner::backends::tpu
