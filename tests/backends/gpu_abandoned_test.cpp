// A kernel that never ends keeps neither its device nor the process.
#include <atomic>
#include <chrono>
#include <memory>
#include <semaphore>
#include <thread>

#include <gtest/gtest.h>

#include "backends/dist/process_group.h"
#include "backends/gpu/gpu_device.h"
#include "backends/ir/ops.h"
#include "backends/runtime/abandoned.h"
#include "schema/base/error.h"

namespace runner::backends::gpu {
namespace {

// Two ranks. The other one never calls a collective.
class StuckRanks final : public ProcessGroup {
 public:
  std::atomic<bool> has_begun{false};
  std::binary_semaphore gate{0};

  int rank() const override { return 0; }
  int size() const override { return 2; }
  void barrier(const Site&) override {}
  bool any(bool mine, const Site&) override { return mine; }
  void all_reduce(const TensorType&, std::span<std::byte>, Reduction, const Site&) override {
    has_begun = true;
    gate.acquire();
  }
  void reduce_scatter(const TensorType&, std::span<const std::byte>, std::span<const int64_t>, std::span<std::byte>,
                      Reduction, const Site&) override {}
  void all_gather(const TensorType&, std::span<const std::byte>, std::span<std::byte>, const Site&) override {}
  void broadcast(const TensorType&, std::span<std::byte>, int, const Site&) override {}
  std::vector<std::string> gather_objects(std::string_view, const Site&) override { return {}; }
  void fail(std::string_view, const SourceMark&) noexcept override {}
  bool has_failed() const override { return false; }
  void throw_failure() const override {}
};

TEST(GpuDevice, IsAbandonedIfAKernelNeverEnds) {
  static StuckRanks ranks;  // used until the kernel ends
  static Exchange exchange(ranks);
  Program program;
  const Value x{&program, program.input(InputKind::kScalar, "x", {DType::kF32, {}})};
  program.output("sum", ops::all_reduce(x, Reduction::kSum, Subject::kLoss).id);
  auto device = make_gpu_device({.index = 3, .own_thread = true, .patience = std::chrono::milliseconds(100)});
  auto step = device->compile(program);
  const double scalars[] = {1};
  exchange.begin(1, /*again=*/false);
  const Ticket ticket = device->submit(*step, {.states = {}, .batch = {}, .scalars = scalars, .exchange = &exchange});
  while (!ranks.has_begun) std::this_thread::yield();  // otherwise the waiting host may execute it
  EXPECT_THROW(device->wait(ticket), Error);
  const auto begin = std::chrono::steady_clock::now();
  step.reset();
  device.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  ASSERT_EQ(abandoned().size(), 1u);
  EXPECT_EQ(abandoned()[0].substr(0, 9), "gpu 3 is ");
  ranks.gate.release();
}

}  // namespace
}  // namespace runner::backends::gpu
