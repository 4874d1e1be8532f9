#include "backends/graph/plan.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "backends/graph/fusion.h"
#include "backends/graph/passes/passes.h"
#include "backends/graph/passes/rewriter.h"
#include "backends/graph/print.h"
#include "backends/kernels/eltwise.h"
#include "backends/runtime/debug.h"
#include "backends/tensor/float16.h"
#include "schema/error.h"

namespace runner::backends {
namespace {

// The most operands and results of one step; plan building refuses more, so that run_plan needs no heap.
constexpr size_t kMaxArguments = 256;

// Wherever an output is an input, or a view of one, puts a copy between: outputs are computed values.
Program with_computed_outputs(const Program& program) {
  Rewriter rewriter(program);
  for (ValueId id = 0; id < program.size(); ++id) rewriter.copy(id);
  Program& to = rewriter.to();
  for (const Output& output : program.outputs()) {
    ValueId value = output.value;
    ValueId base = value;
    while (program.node(base).op == Op::kReshape || is_contiguous_slice(program, base))
      base = program.operands(base)[0];
    if (program.node(base).op == Op::kInput) {
      rewriter.mark_as(value);
      const ValueId operands[] = {value};
      value = to.record(Op::kCast, operands, {}, program.type(value));
    }
    to.output(output.name, value, output.state);
  }
  return std::move(to);
}

// An element-wise group as its kernel sees it, and the values that its inputs are.
struct LoweredGroup {
  EltwiseGroup eltwise;
  std::vector<ValueId> inputs;
};

class GroupLowering {
 public:
  GroupLowering(const Program& program, const Group& group)
      : program_(program), group_(group), shape_(program.type(group.nodes[0]).shape) {}

  LoweredGroup run() {
    lowered_.eltwise.shape = shape_;
    for (const ValueId id : group_.nodes)
      for (const ValueId operand : sources(id)) add_source(operand);
    const size_t first_result = lowered_.inputs.size() + lowered_.eltwise.constants.size();
    for (size_t i = 0; i < group_.nodes.size(); ++i) {
      const ValueId id = group_.nodes[i];
      EltwiseInstruction instruction{.op = instruction_op(id), .dtype = program_.type(id).dtype};
      size_t n = 0;
      for (const ValueId operand : sources(id)) instruction.sources[n++] = register_of(operand);
      lowered_.eltwise.code.push_back(instruction);
      results_.emplace_back(id, static_cast<int16_t>(first_result + i));
    }
    for (const ValueId id : group_.results) lowered_.eltwise.outputs.push_back(register_of(id));
    return std::move(lowered_);
  }

 private:
  struct Source {
    ValueId operand;
    bool constant;
    size_t index;
  };

  bool is_copy(ValueId id) const { return !is_elementwise(program_.node(id).op); }
  Op instruction_op(ValueId id) const { return is_copy(id) ? Op::kCast : program_.node(id).op; }

  // What a node reads: a materialised expand reads like an element-wise node that uses it, a constant reads itself.
  std::vector<ValueId> sources(ValueId id) const {
    if (is_copy(id)) return {id};
    const auto operands = program_.operands(id);
    return {operands.begin(), operands.end()};
  }

  bool in_group(ValueId id) const {
    return std::find(group_.nodes.begin(), group_.nodes.end(), id) != group_.nodes.end();
  }

  void add_source(ValueId operand) {
    const bool self = is_copy(group_.nodes[0]);
    if (!self && in_group(operand)) return;
    for (const Source& source : sources_)
      if (source.operand == operand) return;
    const Node& node = program_.node(operand);
    if (node.op == Op::kConstant) {
      add_constant(operand, round_to(node.type.dtype, program_.constant_value(operand)));
    } else if (node.op == Op::kExpand) {
      add_input(operand, program_.operands(operand)[0]);
    } else {
      add_input(operand, operand);
    }
  }

  void add_constant(ValueId operand, double value) {
    std::vector<double>& constants = lowered_.eltwise.constants;
    const auto same = [value](double c) { return std::memcmp(&c, &value, sizeof value) == 0; };
    const auto found = std::find_if(constants.begin(), constants.end(), same);
    const size_t index = static_cast<size_t>(found - constants.begin());
    if (found == constants.end()) constants.push_back(value);
    sources_.push_back({operand, true, index});
  }

  // `base` is in memory; the group sees it broadcast to its shape.
  void add_input(ValueId operand, ValueId base) {
    const TensorType& type = program_.type(base);
    EltwiseInput input{.dtype = type.dtype, .strides = {}};
    const auto strides = type.shape.strides();
    const int added = shape_.rank() - type.shape.rank();
    for (int axis = 0; axis < type.shape.rank(); ++axis)
      if (type.shape[axis] == shape_[axis + added] && shape_[axis + added] != 1)
        input.strides[static_cast<size_t>(axis + added)] = strides[static_cast<size_t>(axis)];
    for (size_t i = 0; i < lowered_.inputs.size(); ++i)
      if (lowered_.inputs[i] == base && lowered_.eltwise.inputs[i].strides == input.strides) {
        sources_.push_back({operand, false, i});
        return;
      }
    sources_.push_back({operand, false, lowered_.inputs.size()});
    lowered_.inputs.push_back(base);
    lowered_.eltwise.inputs.push_back(input);
  }

  int16_t register_of(ValueId id) const {
    for (const auto& [node, reg] : results_)
      if (node == id) return reg;
    for (const Source& source : sources_)
      if (source.operand == id)
        return static_cast<int16_t>(source.constant ? lowered_.inputs.size() + source.index : source.index);
    RUN_ASSERT(false && "a source was not collected");
    return -1;
  }

  const Program& program_;
  const Group& group_;
  const Shape shape_;
  LoweredGroup lowered_;
  std::vector<Source> sources_;
  std::vector<std::pair<ValueId, int16_t>> results_;
};

class PlanBuilder {
 public:
  PlanBuilder(const Program& program, const PlanOptions& options) : options_(options) {
    plan_.program = with_computed_outputs(options.optimise ? optimise(program) : program);
  }

  Plan run() {
    const std::vector<Group> groups = make_groups(plan_.program, options_.fuse);
    if (debug_level() >= kDebugGroups) fmt::print(stderr, "-- groups\n{}", to_string(plan_.program, groups));
    std::vector<size_t> scratch_bytes;
    for (const Group& group : groups) {
      prepare(group);
      scratch_bytes.push_back(plan_.steps.back().kernel.scratch_bytes);
    }
    Storage storage = plan_storage(plan_.program, groups, scratch_bytes, options_.reuse);
    place(groups, storage);
    plan_.copies = std::move(storage.copies);
    plan_.arena_bytes = storage.arena_bytes;
    for (const Output& output : plan_.program.outputs())
      plan_.outputs.push_back(storage.places[static_cast<size_t>(output.value)]);
    if (debug_level() >= kDebugKernels) fmt::print(stderr, "{}", to_string(plan_));
    return std::move(plan_);
  }

 private:
  const Program& program() const { return plan_.program; }

  void prepare(const Group& group) {
    PlanStep step;
    step.node = group.nodes.back();
    step.mark = program().mark_of(step.node);
    std::vector<ValueId> operands;
    if (group.kind == GroupKind::kEltwise) {
      LoweredGroup lowered = GroupLowering(program(), group).run();
      step.kernel = prepare_eltwise(lowered.eltwise);
      operands = std::move(lowered.inputs);
    } else {
      operands.assign(program().operands(step.node).begin(), program().operands(step.node).end());
      step.kernel = prepare_node(step.node);
    }
    RUN_CHECK(operands.size() + group.results.size() <= kMaxArguments, ErrorKind::kRun,
              "{}: {} operands are more than one kernel takes ({})", name_of(program().node(step.node).op),
              operands.size(), kMaxArguments);
    count(group, operands, step);
    operands_.push_back(std::move(operands));
    plan_.steps.push_back(std::move(step));
  }

  Kernel prepare_node(ValueId id) const {
    std::vector<TensorType> types;
    for (const ValueId operand : program().operands(id)) types.push_back(program().type(operand));
    try {
      return options_.prepare({program().node(id).op, types, program().attrs(id), program().type(id)});
    } catch (const Error& error) {
      throw Error(error.kind(), error.message(), program().mark_of(id));
    }
  }

  void count(const Group& group, const std::vector<ValueId>& operands, PlanStep& step) const {
    for (const ValueId id : group.nodes) {
      std::vector<TensorType> types;
      for (const ValueId operand : program().operands(id)) types.push_back(program().type(operand));
      step.flops += row_of(program().node(id).op).flops({types, program().attrs(id), {}}, program().type(id));
    }
    for (const ValueId id : operands) step.bytes += static_cast<int64_t>(program().type(id).bytes());
    for (const ValueId id : group.results) step.bytes += static_cast<int64_t>(program().type(id).bytes());
  }

  // Gives each step its places and drops the steps of concats that are written part by part.
  void place(const std::vector<Group>& groups, const Storage& storage) {
    std::vector<PlanStep> kept;
    for (size_t g = 0; g < groups.size(); ++g) {
      if (storage.elided[g]) continue;
      PlanStep& step = plan_.steps[g];
      const auto place_of = [&](ValueId id) {
        const Place place = storage.places[static_cast<size_t>(id)];
        RUN_ASSERT(place.slot >= 0);
        return place;
      };
      for (const ValueId id : operands_[g]) step.operands.push_back(place_of(id));
      for (const ValueId id : groups[g].results) step.results.push_back(place_of(id));
      step.scratch = storage.scratch[g];
      plan_.flops += step.flops;
      plan_.bytes += step.bytes;
      kept.push_back(std::move(step));
    }
    plan_.steps = std::move(kept);
  }

  const PlanOptions options_;
  Plan plan_;
  std::vector<std::vector<ValueId>> operands_;  // by step
};

std::string to_string(const Place& place) {
  return place.slot == 0 ? fmt::format("@{}", place.offset) : fmt::format("in{}+{}", place.slot - 1, place.offset);
}

}  // namespace

Plan build_plan(const Program& program, const PlanOptions& options) {
  return PlanBuilder(program, options).run();
}

void run_plan(const Plan& plan, std::span<std::byte* const> slots, WorkerPool& pool) {
  std::array<std::byte*, kMaxArguments> pointers;
  const auto resolve = [&](const Place& place) { return slots[static_cast<size_t>(place.slot)] + place.offset; };
  const WorkerPool::StepScope awake(pool);
  const PlanStep* running = nullptr;
  try {
    for (const PlanStep& step : plan.steps) {
      running = &step;
      size_t n = 0;
      for (const Place& place : step.operands) pointers[n++] = resolve(place);
      for (const Place& place : step.results) pointers[n++] = resolve(place);
      const std::span<std::byte* const> all(pointers.data(), n);
      step.kernel.run(step.kernel.params.get(), {.operands = all.first(step.operands.size()),
                                                 .results = all.subspan(step.operands.size()),
                                                 .scratch = resolve(step.scratch),
                                                 .pool = pool});
    }
  } catch (const Error& error) {
    throw Error(error.kind(), error.message(), running->mark);
  }
  for (const StateCopy& copy : plan.copies) std::memcpy(resolve(copy.to), resolve(copy.from), copy.bytes);
}

std::string to_string(const Plan& plan) {
  std::string text = fmt::format("-- plan: {} steps, {} bytes of arena, {} flops, {} bytes moved\n", plan.steps.size(),
                                 plan.arena_bytes, plan.flops, plan.bytes);
  for (const PlanStep& step : plan.steps) {
    text += fmt::format("{:<32}", step.kernel.name);
    for (const Place& place : step.operands) text += " " + to_string(place);
    text += " ->";
    for (const Place& place : step.results) text += " " + to_string(place);
    text += fmt::format("  {} flops, {} bytes: {}\n", step.flops, step.bytes, to_string(plan.program, step.node));
  }
  for (const StateCopy& copy : plan.copies)
    text += fmt::format("copy {} -> {}, {} bytes\n", to_string(copy.from), to_string(copy.to), copy.bytes);
  return text;
}

}  // namespace runner::backends
