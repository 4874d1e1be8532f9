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

// Inputs of a batch on their way into the memory of the device, and there.
class BatchCopy : public Launchable {
 public:
  // What launches copy from now on; inputs of no bytes are left out.  What was there is lost.
  void set(std::span<const std::span<const std::byte>> inputs);
  // Where the device has an input of so many bytes then; null: none such is copied.
  const std::byte* copy_of(size_t input, size_t bytes) const {
    return input < inputs_.size() && inputs_[input].size() == bytes ? copies_[input] : nullptr;
  }
  int32_t launches() const { return static_cast<int32_t>(copied_.size()); }

  void launch(int32_t index) override;
  std::string describe(int32_t) const override { return "a copy of a batch"; }

 private:
  Arena memory_;
  std::vector<std::span<const std::byte>> inputs_;  // in the host's memory
  std::vector<const std::byte*> copies_;
  std::vector<size_t> copied_;  // inputs that are not left out
};

}  // namespace runner::backends::gpu
