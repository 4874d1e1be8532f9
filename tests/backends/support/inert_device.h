// A device that does nothing, for tests that override a few of its functions.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "backends/exec/backend.h"

namespace runner::backends::testing {

class InertExecutable final : public Executable {
 public:
  size_t arena_bytes() const override { return 0; }
  int64_t flops() const override { return 0; }
  int64_t bytes() const override { return 0; }
};

class InertDevice : public Device {
 public:
  std::string_view name() const override { return "inert"; }
  std::shared_ptr<Buffer> allocate(size_t) override { return nullptr; }
  std::shared_ptr<Buffer> wrap(std::shared_ptr<std::byte>, size_t) override { return nullptr; }
  void write(Buffer&, size_t, std::span<const std::byte>) override {}
  void read(const Buffer&, size_t, std::span<std::byte>) override {}
  std::shared_ptr<Executable> compile(const Program&) override { return std::make_shared<InertExecutable>(); }
  Ticket submit(Executable&, const Submission&) override { return 0; }
  void read_output(Executable&, int, std::span<std::byte>) override {}
  void wait(Ticket) override {}
  void synchronize() override {}
  size_t temporary_bytes() const override { return 0; }
  void release_temporary() override {}
};

}  // namespace runner::backends::testing
