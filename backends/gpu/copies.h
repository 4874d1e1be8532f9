// Copies between the host and a device, as launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/gpu/streams.h"
#include "backends/graph/program.h"
#include "backends/runtime/arena.h"
#include "backends/runtime/spans.h"

namespace runner::backends::gpu {

// One copy, the same that is launched each time until it is set anew.
class Copy : public Launchable {
 public:
  explicit Copy(std::string_view name) : name_(name) {}
  void set(const std::byte* from, std::span<std::byte> to) {
    from_ = from;
    to_ = to;
  }
  void launch(int32_t) override {
    const ScopedSpan span(SpanKind::kTransfer, name_, {.bytes = static_cast<int64_t>(to_.size())});
    if (!to_.empty()) std::memcpy(to_.data(), from_, to_.size());
  }
  std::string describe(int32_t) const override { return std::string(name_); }

 private:
  const std::string_view name_;
  const std::byte* from_ = nullptr;
  std::span<std::byte> to_;
};

// The batch of a submission in the memory of the device.
class StagedBatch : public Launchable {
 public:
  // Makes room for the batch inputs of a Program; launches copy them from the host's memory.  What was there is lost.
  void stage(const Program& program, std::span<const std::byte* const> batch);
  // Where the device has them then.
  std::span<const std::byte* const> staged() const { return staged_; }
  int32_t launches() const { return static_cast<int32_t>(staged_.size()); }

  void launch(int32_t index) override;
  std::string describe(int32_t) const override { return "a copy of a batch"; }

 private:
  Arena memory_;
  std::vector<const std::byte*> from_, staged_;  // by input
  std::vector<size_t> bytes_;
};

}  // namespace runner::backends::gpu
