// What the models of an emulated TPU share, whether it traces graphs (lazy_tpu_model.h) or runs operations one by one
// (eager_tpu_model.h).
//
// The device counts transfers itself, and a TPU has no streams.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/tpu/device_data_cache.h"
#include "backends/tpu/graph_statistics.h"
#include "backends/tpu/metrics.h"
#include "backends/tpu/tpu_device.h"
#include "backends/tpu/tpu_device_model.h"
#include "backends/tpu/tpu_step.h"

namespace runner::backends::tpu {

// Calls begun() and ended() of a listener for the duration of a compilation, also if it throws.
class NotifiedCompilation {
 public:
  // `listener`: null if there is none.
  NotifiedCompilation(CompileListener* listener, std::function<std::string()> what) : listener_(listener) {
    if (listener_ != nullptr) listener_->begun(std::move(what));
  }
  ~NotifiedCompilation() {
    if (listener_ != nullptr) listener_->ended();
  }
  NotifiedCompilation(const NotifiedCompilation&) = delete;
  NotifiedCompilation& operator=(const NotifiedCompilation&) = delete;

 private:
  CompileListener* const listener_;
};

// Pending warnings. Each text is reported once.
class PendingWarnings {
 public:
  void add(std::string text) {
    if (seen_.insert(text).second) texts_.push_back(std::move(text));
  }
  void add(std::vector<std::string> texts) {
    for (std::string& text : texts) add(std::move(text));
  }
  std::vector<std::string> take() { return std::exchange(texts_, {}); }

 private:
  std::set<std::string> seen_;  // reported or pending
  std::vector<std::string> texts_;
};

class TpuModelBase : public TpuDeviceModel {
 public:
  bool traces_graphs() const override { return options_.tracks_graphs; }
  std::optional<int64_t> memory_limit() const override { return std::nullopt; }  // graphs are checked one by one

  Compiled on_compile(const Program& program, const UserGraph& user_graph,
                      const std::function<std::shared_ptr<Executable>()>& compile) override;

  void pause() override { ++pauses_; }
  void resume() override { --pauses_; }

  StateTensors set_state_tensors(StateTensors tensors) override {
    return std::exchange(state_tensors_, std::move(tensors));
  }
  const std::deque<Graph>& graphs() const override { return graphs_.cache().compiled(); }
  MetricsSnapshot metrics() const override;
  void set_listener(CompileListener& listener) override { listener_ = &listener; }
  std::vector<std::string> take_warnings() override { return warnings_.take(); }

 protected:
  // `device` must outlive the object.
  TpuModelBase(TpuDevice& device, const TpuOptions& options)
      : options_(options), device_(device), metrics_(device.metrics()) {}

  // Compiles a Program. `graph`: what the user's code has traced; it has nodes.
  virtual Compiled compile_graph(const Program& program, const Program& graph,
                                 const std::function<std::shared_ptr<Executable>()>& compile) = 0;

  // Counts the training batch and the scalars of a submission, and checks the range of its tensor literals.
  void count_submission(const TpuStep& step, const Submission& submission, const SubmissionInfo& info);
  // Counts an action of the user's code.
  void count_event(HostEvent event, int64_t times);
  GraphIdentity identity_of(const TpuStep& step, const SubmissionInfo& info) const;
  SubmissionSlot& slot() const { return device_.slot(); }

  const TpuOptions options_;
  TpuDevice& device_;
  MetricsRegistry& metrics_;
  const ScalarRules rules_ = scalar_rules(options_.dialect, options_.hardware.types);
  GraphStatistics graphs_{options_.hardware, rules_, metrics_, options_.max_graphs};
  CompileListener* listener_ = nullptr;
  int64_t batches_ = 0;  // training batches
  StateTensors state_tensors_;
  PendingWarnings warnings_;

 private:
  int pauses_ = 0;
  int64_t newest_step_ = 0;  // newest training batch
  DeviceDataCache numbers_{rules_, options_.hardware.types};
};

}  // namespace runner::backends::tpu
