// Trace of emulated GPUs in real time: gradients are reduced while others are still being computed.
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "backends/runtime/affinity.h"
#include "tests/cli/command.h"

namespace runner::cli::testing {
namespace {

constexpr const char* kRecipe = R"(schema_version: 1
model: {type: mlp, hidden: [512, 512]}
data:
  train: {format: synthetic, samples: 4096, features: [256], classes: 10}
  batch_size: 256
optimizer: {type: sgd, lr: 0.01}
train: {epochs: 1}
backend: gpu
num_processes: 2
profile: {active: 8, repeat: 1}
)";

struct Span {
  int rank;
  double begin, end;  // microseconds
  bool is_inside(const Span& other) const { return rank == other.rank && other.begin <= begin && end <= other.end; }
};

std::vector<Span> spans(const nlohmann::json& trace, const std::string& name) {
  std::vector<Span> found;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X" || event.at("name") != name) continue;
    const double begin = event.at("ts");
    found.push_back({event.at("pid"), begin, begin + event.at("dur").get<double>()});
  }
  return found;
}

// The last rank to finish the gradients of a bucket reduces the bucket's slice before it continues; the last bucket is
// complete at the end of backward. With one core, hosts do the work of their devices after all submissions, so no
// reduction is submitted late.
TEST(GpuOverlap, BucketsAreReducedDuringBackward) {
  const backends::PinnedThread on_one_core({backends::usable_core_ids().front()});
  const Folder folder;
  write_text(folder.path() / "r.yaml", kRecipe);
  const Result result = run_command(
      "runner exec r.yaml gpu.bucket_cap='512 KiB' name=traced --quiet >&2 && runner trace traced", folder.path());
  ASSERT_EQ(result.exit_code, 0) << result.err;
  const nlohmann::json trace = nlohmann::json::parse(result.out);
  const std::vector<Span> reductions = spans(trace, "all-reduce"), backwards = spans(trace, "forward, backward");
  ASSERT_EQ(backwards.size(), 16u);   // 8 optimizer steps of 2 ranks
  ASSERT_EQ(reductions.size(), 32u);  // 2 buckets each
  int overlapped = 0;
  for (const Span& reduction : reductions)
    for (const Span& backward : backwards) overlapped += reduction.is_inside(backward);
  EXPECT_GE(overlapped, 8) << "one in each optimizer step";
}

}  // namespace
}  // namespace runner::cli::testing
