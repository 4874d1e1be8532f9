// A rank that is laid out and compiled but has neither memory nor other ranks, to find out what training would need.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backends/device_model/modelled_device.h"
#include "backends/dist/process_group.h"
#include "runner/train/engine/trainer.h"
#include "runner/train/loop/hooks.h"
#include "runner/train/loop/run_stand_in.h"
#include "schema/base/error.h"

namespace runner::train {

// Rank 0 of `size` ranks, without the others. Collectives of a hook on host values act as if all ranks had the same
// values.
class LoneRank final : public backends::ProcessGroup {
  using Site = backends::Site;
  using Type = backends::TensorType;

 public:
  explicit LoneRank(int size) : size_(size) {}
  int rank() const override { return 0; }
  int size() const override { return size_; }

  void barrier(const Site&) override {}
  bool any(bool mine, const Site&) override {
    no_other_ranks();
    return mine;
  }
  void all_reduce(const Type&, std::span<std::byte>, backends::Reduction reduction, const Site&) override {
    if (reduction != backends::Reduction::kMax) no_other_ranks();
  }
  void reduce_scatter(const Type&, std::span<const std::byte>, std::span<const int64_t>, std::span<std::byte>,
                      backends::Reduction, const Site&) override {
    no_other_ranks();
  }
  void all_gather(const Type&, std::span<const std::byte>, std::span<std::byte>, const Site&) override {
    no_other_ranks();
  }
  void broadcast(const Type&, std::span<std::byte>, int, const Site&) override { no_other_ranks(); }
  std::vector<std::string> gather_objects(std::string_view mine, const Site&) override {
    return std::vector<std::string>(static_cast<size_t>(size_), std::string(mine));
  }
  bool has_symmetric_memory() const override { return true; }  // as the ranks of the run have
  std::shared_ptr<std::byte> symmetric_alloc(const Type&, Pages, const Site&) override { no_other_ranks(); }
  void fail(std::string_view, const SourceMark&) noexcept override {}
  bool has_failed() const override { return false; }
  void throw_failure() const override {}

 private:
  [[noreturn]] static void no_other_ranks() { assertion_failed("a trial rank has no other ranks", __FILE__, __LINE__); }

  const int size_;
};

// The steps of a hook are known only in a run, for this reason.
class UnknownBeforeRun final : public Error {
 public:
  explicit UnknownBeforeRun(std::string reason)
      : Error(ErrorKind::kUsage,
              fmt::format(
                  "{}, so their memory is known only in a run; `runner show RUN` prints the memory that a run used",
                  reason)),
        reason_(std::move(reason)) {}

  const std::string& reason() const { return reason_; }

 private:
  std::string reason_;
};

class TrialRank {
 public:
  // A hook sees the beginning of a run of `steps` optimizer steps. All other arguments must outlive the object. Throws
  // like Trainer.
  TrialRank(const schema::Recipe& recipe, int64_t steps, const data::Encoding& encoding,
            backends::ModelledDevice& device, Hooks* hooks)
      : recipe_(recipe),
        encoding_(encoding),
        device_(device),
        hooks_(hooks),
        others_(recipe.num_processes > 1 ? std::make_optional<LoneRank>(static_cast<int>(recipe.num_processes))
                                         : std::nullopt),
        former_{device, device.set_state_tensors({})},
        run_(hooks, {.steps = steps, .accumulation = recipe.gradient_accumulation_steps, .ranks = ranks()}) {
    trainer_.emplace(recipe_, encoding_, device_, hooks_, ranks());
  }
  TrialRank(const TrialRank&) = delete;
  TrialRank& operator=(const TrialRank&) = delete;

  Trainer& trainer() { return *trainer_; }
  // Null if there is only one rank.
  backends::ProcessGroup* ranks() { return others_ ? &*others_ : nullptr; }

  // See Trainer::set_halt(); holds for all trainers made here.
  void set_halt(std::function<void()> halt) {
    halt_ = std::move(halt);
    trainer_->set_halt(halt_);
  }

  // Returns work(), which compiles steps. Throws UnknownBeforeRun if the hook reads values in them.
  template <class Work>
  auto compile(const Work& work) {
    try {
      return work();
    } catch (const Error&) {
      if (!trainer_->steps().lacked_batch()) throw;
      throw UnknownBeforeRun("the hook reads values of tensors in its steps");
    }
  }

  // Limits micro-batches from now on, for batches of up to `largest_batch` samples. May replace the trainer.
  void set_max_micro_batch(int64_t samples, int64_t largest_batch) {
    if (samples < largest_batch && !trainer_->layout().has(ArrayRole::kGradients)) {
      trainer_.emplace(recipe_, encoding_, device_, hooks_, ranks());
      trainer_->keep_gradients();
      trainer_->set_halt(halt_);
    }
    trainer_->accumulation.max_micro_batch = samples;
  }

 private:
  // State tensors of the device model before the trial, restored at its end.
  struct FormerTensors {
    backends::ModelledDevice& device;
    backends::StateTensors tensors;

    ~FormerTensors() { device.set_state_tensors(tensors); }
  };

  const schema::Recipe& recipe_;
  const data::Encoding& encoding_;
  backends::ModelledDevice& device_;
  Hooks* const hooks_;
  std::optional<LoneRank> others_;
  const FormerTensors former_;
  const RunStandIn run_;
  std::optional<Trainer> trainer_;
  std::function<void()> halt_;
};

}  // namespace runner::train
