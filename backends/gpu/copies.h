// Copies between host and device, as launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/gpu/streams.h"
#include "backends/runtime/arena.h"
#include "backends/runtime/spans.h"

namespace runner::backends::gpu {

// A copy that can be launched repeatedly and set again.
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

// Copies the inputs of a batch into device memory and holds them there.
class BatchCopy : public Launchable {
 public:
  // Sets the inputs to copy; empty inputs are skipped. Discards earlier copies.
  void set(std::span<const std::span<const std::byte>> inputs);
  // Device address of an input of this size, or null if no such input is copied.
  const std::byte* copy_of(size_t input, size_t bytes) const {
    return input < inputs_.size() && inputs_[input].size() == bytes ? copies_[input] : nullptr;
  }
  int32_t launches() const { return static_cast<int32_t>(copied_.size()); }

  void launch(int32_t index) override;
  std::string describe(int32_t) const override { return "a copy of a batch"; }

 private:
  Arena memory_;
  std::vector<std::span<const std::byte>> inputs_;  // in host memory
  std::vector<const std::byte*> copies_;
  std::vector<size_t> copied_;  // inputs that are not skipped
};

}  // namespace runner::backends::gpu
