// A RunControl that records nothing and never ends the run, for tests of a hook's training loop only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runner/train/engine/hooks.h"
#include "runner/train/loop/session.h"

namespace runner::train {

class IdleRunControl : public RunControl {
 public:
  explicit IdleRunControl(const Session& session) : session_(session) {}

  std::string_view run() const override { return "run"; }
  std::string_view name() const override { return "name"; }
  int64_t epoch() const override { return 0; }
  int64_t step() const override { return session_.trainer.counters.steps; }
  int64_t steps() const override { return session_.length.total_steps; }
  std::optional<double> metric(const std::string&) const override { return std::nullopt; }
  void log(const std::string&, double) override {}
  int64_t accumulation() const override { return session_.accumulation(); }
  void set_accumulation(int64_t) override {}
  void save() override {}
  void stop() override {}
  bool must_end() const override { return false; }
  void print(std::string_view) override {}
  backends::ProcessGroup* ranks() const override { return nullptr; }
  void save_artifact(const std::string&, std::string_view, std::vector<std::byte>) override {}
  void save_model(const std::string&, int64_t) override {}

 private:
  const Session& session_;
};

}  // namespace runner::train
