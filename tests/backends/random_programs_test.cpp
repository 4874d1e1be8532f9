// Properties of every Program, checked on many random ones.
//
// RUNNER_RANDOM_PROGRAMS sets the number. A failure prints the seed and the fewest steps that still fail.
#include <cstdlib>

#include <gtest/gtest.h>

#include "backends/exec/plan.h"
#include "backends/ir/passes/passes.h"
#include "backends/ir/print.h"
#include "backends/ir/views.h"
#include "backends/tpu/numerics.h"
#include "tests/backends/support/memory_plan_check.h"
#include "tests/backends/support/op_by_op_device.h"
#include "tests/backends/support/random_program.h"

namespace runner::backends::testing {
namespace {

constexpr int kSteps = 24;
constexpr uint32_t kFirstSeed = 1;

int program_count() {
  const char* text = std::getenv("RUNNER_RANDOM_PROGRAMS");
  return text ? std::atoi(text) : 1000;
}

std::string difference(const char* what, const Results& got, const Results& want) {
  const auto compare = [&](const char* kind, const auto& a, const auto& b) -> std::string {
    for (size_t i = 0; i < a.size(); ++i)
      if (!(a[i] == b[i]))
        return fmt::format("{}: {} {} is {}, not {}", what, kind, i, ::testing::PrintToString(a[i]),
                           ::testing::PrintToString(b[i]));
    return "";
  };
  const std::string outputs = compare("output", got.outputs, want.outputs);
  return outputs.empty() ? compare("state", got.states, want.states) : outputs;
}

// Checks of the properties of one Program. Each returns an empty string or a description of the failure.
class Properties {
 public:
  Properties() : one_(1), three_(3) {}

  std::string check(uint32_t seed, int steps) {
    const RandomProgram random(seed, steps);
    using Property = std::string (Properties::*)(const RandomProgram&);
    constexpr Property kProperties[] = {&Properties::passes, &Properties::plans, &Properties::groups,
                                        &Properties::memory_plan};
    if (const std::string fault = on_a_tpu(seed, random); !fault.empty()) return fault;
    for (const Property property : kProperties)
      if (const std::string fault = (this->*property)(random); !fault.empty()) return fault;
    return hashes(seed, steps, random);
  }

 private:
  // Every pass keeps all results bit-identical and produces a well-formed Program.
  std::string passes(const RandomProgram& random) {
    struct Pass {
      const char* name;
      Program (*run)(const Program&);
    };
    constexpr Pass kPasses[] = {
        {"fold", fold}, {"cse", cse}, {"dce", dce}, {"legalise", legalise}, {"optimise", optimise}};
    if (const std::string fault = verify(random.program); !fault.empty()) return "recorded: " + fault;
    expected_ = run_program(device_, random.program, random.inputs);
    for (const Pass& pass : kPasses) {
      const Program program = pass.run(random.program);
      if (const std::string fault = verify(program); !fault.empty()) return fmt::format("{}: {}", pass.name, fault);
      const std::string fault = difference(pass.name, run_program(device_, program, random.inputs), expected_);
      if (!fault.empty()) return fault;
    }
    return "";
  }

  // A plan is bit-identical to the ops run one by one, with any optimisation, fusion, reuse and number of threads.
  std::string plans(const RandomProgram& random) {
    struct Way {
      const char* name;
      PlanBuildOptions options;
      WorkerPool* pool;
    };
    const Way ways[] = {{"plan", {}, &one_},
                        {"plan on three threads", {}, &three_},
                        {"not optimised", {.optimise = false}, &one_},
                        {"not fused", {.fusion = Fusion::kNone}, &one_},
                        {"flat parts fused", {.fusion = Fusion::kFlat}, &one_},
                        {"not reused", {.reuse = false}, &one_},
                        {"as recorded", {.optimise = false, .fusion = Fusion::kNone, .reuse = false}, &one_}};
    for (const Way& way : ways) {
      const Results results = run_plan_once(random.program, random.inputs, way.options, *way.pool);
      if (const std::string fault = difference(way.name, results, expected_); !fault.empty()) return fault;
    }
    return "";
  }

  // The same holds with the numerics of a TPU: a Program rewritten for its types, rounding and matmul precision gives
  // the same results op by op and as a plan.
  std::string on_a_tpu(uint32_t seed, const RandomProgram& random) {
    constexpr tpu::DeviceTypes kTypes[] = {tpu::kFullTypes, tpu::kBf16Types, tpu::kDowncastBf16Types};
    constexpr tpu::MatmulPrecision kPrecisions[] = {tpu::MatmulPrecision::kDefault, tpu::MatmulPrecision::kHigh,
                                                    tpu::MatmulPrecision::kHighest};
    const tpu::Rounding rounding = seed / 9 % 2 == 0 ? tpu::Rounding::kPerOp : tpu::Rounding::kFused;
    const Program typed = tpu::with_device_types(random.program, kTypes[seed % 3], rounding);
    const Program program = tpu::with_matmul_precision(typed, kPrecisions[seed / 3 % 3]);
    if (const std::string fault = verify(program); !fault.empty()) return "on a TPU: " + fault;
    const Results wanted = run_program(device_, program, random.inputs);
    for (const bool optimise : {true, false}) {
      const Results results = run_plan_once(program, random.inputs, {.optimise = optimise}, one_);
      const char* const what = optimise ? "on a TPU" : "on a TPU, not optimised";
      if (const std::string fault = difference(what, results, wanted); !fault.empty()) return fault;
    }
    return "";
  }

  // Groups contain every computed node once, in topological order, and have one shape each.
  std::string groups(const RandomProgram& random) {
    const Program program = legalise(optimise(random.program));
    for (const Fusion fusion : {Fusion::kAll, Fusion::kFlat, Fusion::kNone}) {
      const std::vector<Group> groups = make_groups(program, fusion);
      std::vector<int> step_of(static_cast<size_t>(program.size()), -1);
      for (size_t g = 0; g < groups.size(); ++g)
        for (const ValueId id : groups[g].nodes) {
          int& step = step_of[static_cast<size_t>(id)];
          if (step >= 0) return fmt::format("%{} is in two groups", id);
          step = static_cast<int>(g);
          if (program.type(id).shape != program.type(groups[g].nodes[0]).shape)
            return fmt::format("%{} has another shape than its group", id);
        }
      for (ValueId id = 0; id < program.size(); ++id) {
        const bool computed = !is_free(program, id) && program.node(id).op != Op::kInput;
        if (computed && step_of[static_cast<size_t>(id)] < 0) return fmt::format("%{} is in no group", id);
        if (step_of[static_cast<size_t>(id)] >= 0 && !reads_earlier(program, id, step_of, true))
          return fmt::format("%{} is computed before its operands", id);
      }
    }
    return "";
  }

  // Whether the computed values that `id` reads, also through free nodes, are in earlier groups or, if read directly,
  // in its own.
  static bool reads_earlier(const Program& program, ValueId id, const std::vector<int>& step_of, bool direct,
                            ValueId reader = kNoValue) {
    if (reader == kNoValue) reader = id;
    const int step = step_of[static_cast<size_t>(reader)];
    for (const ValueId operand : program.operands(id)) {
      const int from = step_of[static_cast<size_t>(operand)];
      if (from > step || (from == step && (!direct || operand >= reader))) return false;
      if (from < 0 && !reads_earlier(program, operand, step_of, false, reader)) return false;
    }
    return true;
  }

  std::string memory_plan(const RandomProgram& random) {
    const Program program = legalise(optimise(random.program));
    const std::vector<Group> groups = make_groups(program);
    std::vector<size_t> scratch;
    for (size_t g = 0; g < groups.size(); ++g) scratch.push_back(g % 3 == 0 ? 100 * g : 0);
    for (const bool reuse : {true, false}) {
      const MemoryPlan plan = plan_memory(program, groups, scratch, reuse, assign_offsets);
      if (const std::string fault = memory_plan_fault(program, groups, plan, scratch); !fault.empty()) return fault;
    }
    return "";
  }

  // The same recording has the same hash and structure; with one more node, or a different one, it does not.
  std::string hashes(uint32_t seed, int steps, const RandomProgram& random) {
    const RandomProgram again(seed, steps);
    if (!(again.program.hash() == random.program.hash())) return "the same recording has another hash";
    if (!again.program.same_structure(random.program)) return "the same recording has another structure";
    const RandomProgram other(seed, steps - 1);
    const bool same = other.program.same_structure(random.program);
    if (same != (other.program.hash() == random.program.hash())) return "hash and structure do not agree";
    return "";
  }

  OpByOpDevice device_;
  WorkerPool one_, three_;
  Results expected_;
};

TEST(RandomPrograms, SatisfyAllProperties) {
  Properties properties;
  const auto fault_of = [&](uint32_t seed, int steps) {
    try {
      return properties.check(seed, steps);
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  for (uint32_t seed = kFirstSeed; seed < kFirstSeed + static_cast<uint32_t>(program_count()); ++seed) {
    if (fault_of(seed, kSteps).empty()) continue;
    int steps = 1;
    while (fault_of(seed, steps).empty()) ++steps;
    const Program program = RandomProgram(seed, steps).program;
    FAIL() << fmt::format("seed {}, {} steps: {}\n{}", seed, steps, fault_of(seed, steps), to_string(program));
  }
}

}  // namespace
}  // namespace runner::backends::testing
