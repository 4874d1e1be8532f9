#include "backends/exec/plan.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "backends/exec/fusion.h"
#include "backends/exec/lowering.h"
#include "backends/ir/op_def.h"
#include "backends/ir/passes/passes.h"
#include "backends/ir/print.h"
#include "backends/ir/type_text.h"
#include "backends/runtime/debug.h"
#include "backends/runtime/kernel_times.h"
#include "backends/runtime/spans.h"
#include "schema/base/error.h"

namespace runner::backends {
namespace {

std::string summary(const Plan& plan) {
  return fmt::format("-- plan: {} steps, {} bytes of arena, {} flops, {} bytes moved\n", plan.steps.size(),
                     plan.arena_bytes, plan.flops, plan.bytes);
}

class PlanBuilder {
 public:
  // `program`: after the passes.
  PlanBuilder(Program program, const PlanBuildOptions& options, PlaceBlocks place_blocks)
      : options_(options), place_blocks_(std::move(place_blocks)) {
    plan_.program = std::move(program);
  }

  Plan run() {
    const std::vector<Group> groups = make_groups(program(), options_.fusion);
    if (debug_level() >= kDebugGroups) debug_print("-- groups\n" + to_string(program(), groups));
    for (const Group& group : groups) prepare(group);
    std::vector<size_t> scratch_bytes;
    for (const PlanStep& step : plan_.steps) scratch_bytes.push_back(step.kernel.scratch_bytes);
    place(groups, plan_memory(program(), groups, scratch_bytes, options_.reuse, place_blocks_));
    if (debug_level() >= kDebugPlans) debug_print(debug_level() >= kDebugKernels ? to_string(plan_) : summary(plan_));
    return std::move(plan_);
  }

 private:
  const Program& program() const { return plan_.program; }

  void prepare(const Group& group) {
    PlanStep step;
    step.node = group.nodes.back();
    std::vector<ValueId> operands;
    if (group.kind == GroupKind::kEltwise) {
      LoweredGroup lowered = lower(program(), group);
      step.kernel = options_.kernels.eltwise(lowered.eltwise);
      operands = std::move(lowered.inputs);
    } else {
      operands.assign(program().operands(step.node).begin(), program().operands(step.node).end());
      step.kernel = prepare_node(step.node);
    }
    count(group, operands, step);
    operands_.push_back(std::move(operands));
    plan_.steps.push_back(std::move(step));
  }

  Kernel prepare_node(ValueId id) const {
    const std::vector<TensorType> types = operand_types(program(), id);
    try {
      return options_.kernels.node({program().node(id).op, types, program().attrs(id), program().type(id)});
    } catch (Error& error) {
      error.locate(program().mark_of(id));
      throw;
    }
  }

  void count(const Group& group, const std::vector<ValueId>& operands, PlanStep& step) const {
    for (const ValueId id : group.nodes) step.flops += NodeQuery(program(), id).flops();
    for (const ValueId id : operands) step.bytes += static_cast<int64_t>(program().type(id).bytes());
    for (const ValueId id : group.results) step.bytes += static_cast<int64_t>(program().type(id).bytes());
  }

  // Sets the places of each step and drops the steps of concats that are written part by part.
  void place(const std::vector<Group>& groups, MemoryPlan memory) {
    const auto place_of = [&](ValueId id) {
      const SlotOffset place = memory.places[static_cast<size_t>(id)];
      RUN_ASSERT(place.slot >= 0);
      return place;
    };
    std::vector<PlanStep> kept;
    size_t most_arguments = 0;
    for (size_t g = 0; g < groups.size(); ++g) {
      if (memory.elided[g]) continue;
      PlanStep& step = plan_.steps[g];
      for (const ValueId id : operands_[g]) step.operands.push_back(place_of(id));
      for (const ValueId id : groups[g].results) step.results.push_back(place_of(id));
      step.writes_state = std::ranges::any_of(step.results, [](const SlotOffset& place) { return place.slot > 0; });
      step.operand_values = std::move(operands_[g]);
      step.result_values = groups[g].results;
      step.scratch = memory.scratch[g];
      plan_.flops += step.flops;
      plan_.bytes += step.bytes;
      most_arguments = std::max(most_arguments, step.operands.size() + step.results.size());
      kept.push_back(std::move(step));
    }
    plan_.steps = std::move(kept);
    plan_.copies = std::move(memory.copies);
    for (const ArenaBlock& block : memory.blocks) plan_.offsets.push_back(block.offset);
    for (const Output& output : program().outputs()) plan_.outputs.push_back(place_of(output.value));
    plan_.pointers_offset = memory.arena_bytes;
    plan_.arena_bytes = memory.arena_bytes + most_arguments * sizeof(std::byte*);
  }

  const PlanBuildOptions options_;
  const PlaceBlocks place_blocks_;
  Plan plan_;
  std::vector<std::vector<ValueId>> operands_;  // by group
};

std::string to_string(const SlotOffset& place) {
  return place.slot == 0 ? fmt::format("@{}", place.offset) : fmt::format("in{}+{}", place.slot - 1, place.offset);
}

}  // namespace

Plan build_plan(const Program& program, const PlanBuildOptions& options) {
  Program made = options.optimise ? optimise(program) : dce(program);
  const bool fuses = options.fusion == Fusion::kAll;
  if (fuses) made = join_pads(made);
  made = legalise(made);
  if (fuses) made = repeat_casts(made);
  return PlanBuilder(std::move(made), options, assign_offsets).run();
}

Plan restore_plan(PlanImage image) {
  const auto place = [&](std::vector<ArenaBlock>& blocks) { return set_offsets(blocks, image.offsets); };
  return PlanBuilder(std::move(image.program), {}, place).run();
}

void PlanRun::run(const PlanStep& step) const {
  const ScopedSpan span(SpanKind::kKernel, step.kernel.name, {.bytes = step.bytes, .flops = step.flops});
  auto* const pointers = reinterpret_cast<std::byte**>(slots_[0] + plan_.pointers_offset);
  std::byte** end = pointers;
  for (const SlotOffset& place : step.operands) *end++ = resolve(place);
  std::byte** const results = end;
  for (const SlotOffset& place : step.results) *end++ = resolve(place);
  const bool is_timed = debug_level() >= kDebugKernels;
  const int64_t begin_ns = is_timed ? monotonic_ns() : 0;
  try {
    step.kernel.run(step.kernel.params.get(), {.operands = {pointers, results},
                                               .results = {results, end},
                                               .scratch = resolve(step.scratch),
                                               .pool = pool_,
                                               .exchange = exchange_,
                                               .line = exchange_ ? &mark_of(plan_, step, lines_) : nullptr});
  } catch (Error& error) {
    error.locate(mark_of(plan_, step, lines_));
    throw;
  }
  if (is_timed)
    add_kernel_time(fmt::format("{} {}", step.kernel.name, plan_.program.type(step.node)), monotonic_ns() - begin_ns,
                    step.flops, step.bytes);
}

void PlanRun::update_states() const {
  for (const StateCopy& copy : plan_.copies) std::memcpy(resolve(copy.to), resolve(copy.from), copy.bytes);
}

void run_plan(const Plan& plan, std::span<std::byte* const> slots, WorkerPool& pool, const SourceLines* lines,
              Exchange* exchange, bool* has_written, const std::function<void(int32_t launch)>& after) {
  bool unasked = false;
  bool& written = has_written != nullptr ? *has_written : unasked;
  written = false;
  const PlanRun execution(plan, slots, pool, lines, exchange);
  int32_t launch = 0;
  for (const PlanStep& step : plan.steps) {
    written |= step.writes_state;
    execution.run(step);
    if (after) after(launch++);
  }
  written |= !plan.copies.empty();
  execution.update_states();
  if (after && !plan.copies.empty()) after(launches_of(plan) - 1);
}

const SourceMark& mark_of(const Plan& plan, const PlanStep& step, const SourceLines* lines) {
  const Origin origin = plan.program.node(step.node).origin;
  return (lines && lines->has(origin) ? *lines : plan.program.lines()).at(origin);
}

std::string to_string(const Plan& plan) {
  std::string text = summary(plan);
  for (const PlanStep& step : plan.steps) {
    text += fmt::format("{:<32}", step.kernel.name);
    for (const SlotOffset& place : step.operands) text += " " + to_string(place);
    text += " ->";
    for (const SlotOffset& place : step.results) text += " " + to_string(place);
    text += fmt::format("  {} flops, {} bytes: {}\n", step.flops, step.bytes, to_string(plan.program, step.node));
  }
  for (const StateCopy& copy : plan.copies)
    text += fmt::format("copy {} -> {}, {} bytes\n", to_string(copy.from), to_string(copy.to), copy.bytes);
  return text;
}

}  // namespace runner::backends
