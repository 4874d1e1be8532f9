// The line of a predicted time.
#include "runner/report/device_time.h"

#include <gtest/gtest.h>

#include "runner/report/run_text.h"

namespace runner::report {
namespace {

TEST(DeviceTimeText, ShowsOneTimeOrARange) {
  const DeviceTime one{.device = "t4", .least = 0.5, .most = 0.5, .samples = 32, .steps = 10};
  EXPECT_EQ(device_time_text(one), "0.50 s per step, 64.0 samples per second, 5.00 s for 10 steps on t4");
  DeviceTime range = one;
  range.most = 1;
  EXPECT_EQ(device_time_text(range),
            "0.50 s … 1.00 s per step, 32.0 … 64.0 samples per second, 5.00 s … 10.0 s for 10 steps on t4");
  range.advice = "increase data.batch_size";
  EXPECT_EQ(device_time_text(range), device_time_text([&] {
                                       DeviceTime without = range;
                                       without.advice.clear();
                                       return without;
                                     }()) +
                                         "\nincrease data.batch_size");
}

// A run's own figures and the document that is stored of them give the same advice.
TEST(DeviceTimeText, AdviceOfARunIsThatOfItsDocument) {
  using backends::gpu::StreamKind;
  using train::GpuDeviceUse;
  const auto stream = [](GpuDeviceUse& use, StreamKind kind) -> backends::gpu::StreamTime& {
    return use.training.streams[static_cast<size_t>(kind)];
  };
  const auto waited_for = [&](GpuDeviceUse& use, StreamKind kind) -> backends::gpu::Picoseconds& {
    return stream(use, StreamKind::kCompute).waited[static_cast<size_t>(kind)];
  };
  GpuDeviceUse plain;
  plain.steps = 4;
  plain.training.elapsed = 8'000'000'000'000;  // 2 s for each step
  plain.training.classes[0] = 4'000'000'000'000;
  GpuDeviceUse late = plain, reduces = plain, copies = plain, captured = plain;
  stream(late, StreamKind::kCompute).unfed = 4'000'000'000'000;
  waited_for(reduces, StreamKind::kCommunication) = 2'000'000'000'000;
  waited_for(copies, StreamKind::kCopyIn) = 6'000'000'000'000;
  captured = late;
  captured.captures.emplace();
  const std::pair<GpuDeviceUse, std::string> cases[] = {
      {plain, ""},
      {late, "50 % of a step waits for the host; with gpu.capture: true it would take about 1.00 s instead of 2.00 s"},
      {captured, ""},
      {reduces, "25 % of a step waits for all-reduces; increase data.batch_size or gradient_accumulation_steps"},
      {copies, "75 % of a step waits for batches; increase data.batch_size"}};
  for (const auto& [use, advice] : cases) {
    const train::GpuUse run{.model = "t4", .devices = {use}};
    const std::optional<DeviceTime> time = gpu_time(run, 32);
    ASSERT_TRUE(time.has_value());
    EXPECT_EQ(time->advice, advice);
    EXPECT_EQ(time->least, 2);
    EXPECT_EQ(time->steps, 4);
    const std::string shown = gpu_text(train::gpu_json(run), 100, false), line = '\n' + advice + '\n';
    EXPECT_TRUE(advice.empty() ? shown.find("% of a step") == shown.npos : shown.ends_with(line)) << shown;
  }
  EXPECT_FALSE(gpu_time({.model = "t4", .devices = {GpuDeviceUse()}}, 32).has_value());
}

}  // namespace
}  // namespace runner::report
