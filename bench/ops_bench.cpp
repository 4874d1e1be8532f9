// Speed of every op on large tensors, through plans as the CPU device runs them.
//
//     ops_bench [THREADS [NAME]]      NAME: only functions whose name contains it
//
// GF/s counts the op table's flops, GB/s every operand and result once. Compare with `peak` on the same machine.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "backends/exec/plan.h"
#include "backends/ir/print.h"
#include "backends/runtime/arena.h"
#include "tests/backends/op_cases.h"

namespace runner::backends::testing {
namespace {

double best_seconds(const Plan& plan, std::span<std::byte* const> slots, WorkerPool& pool) {
  using Clock = std::chrono::steady_clock;
  constexpr double kBudget = 0.2;
  double best = 1e9, spent = 0;
  for (int run = 0; run < 5 || spent < kBudget; ++run) {
    const auto start = Clock::now();
    run_plan(plan, slots, pool);
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    best = std::min(best, seconds);
    spent += seconds;
  }
  return best;
}

void measure(const OpCase& c, WorkerPool& pool) {
  RecordedCase recorded(c);
  const Plan plan = build_plan(recorded.program);
  const Arena arena(plan.arena_bytes);
  std::vector<std::byte*> slots = {arena.data()};
  for (HostTensor& tensor : recorded.tensors) slots.push_back(tensor.bytes.data());
  const double seconds = best_seconds(plan, slots, pool);
  std::printf("%9.1f us %8.1f GF/s %8.1f GB/s  %s\n", seconds * 1e6, static_cast<double>(plan.flops) / seconds * 1e-9,
              static_cast<double>(plan.bytes) / seconds * 1e-9,
              to_string(plan.program, plan.steps.back().node).c_str());
}

}  // namespace
}  // namespace runner::backends::testing

int main(int argc, char** argv) {
  using namespace runner::backends;
  WorkerPool pool(argc > 1 ? std::atoi(argv[1]) : 1);
  const std::string only = argc > 2 ? argv[2] : "";
  for (const testing::OpCase& c : testing::op_cases(testing::OpCaseSize::kLarge))
    if (c.function.find(only) != std::string::npos) testing::measure(c, pool);
}
