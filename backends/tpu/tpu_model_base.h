// What the models of an emulated TPU share, whether it traces graphs (lazy_tpu_model.h) or runs operations one by one
// (eager_tpu_model.h). It counts what the user's code does; a derived class decides which graphs run.
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
                      const std::function<std::shared_ptr<Executable>()>& compile) final;
  void on_submit(ModelStep& step, Submission& submission, const SubmissionInfo& info) final;
  void on_host_event(HostEvent event, int64_t times) final;

  void pause() override { ++pauses_; }
  void resume() override { --pauses_; }

  StateTensors set_state_tensors(StateTensors tensors) override {
    return std::exchange(state_tensors_, std::move(tensors));
  }
  const std::deque<Graph>& graphs() const override { return statistics_.cache().compiled(); }
  MetricsSnapshot metrics() const override;
  std::string ir_text(const Program& graph) const override;
  void set_listener(CompileListener& listener) override { listener_ = &listener; }
  std::vector<std::string> take_warnings() override { return warnings_.take(); }

 protected:
  // `device` must outlive the object.
  TpuModelBase(TpuDevice& device, const TpuOptions& options) : options_(options), device_(device) {}

  TpuDevice& device() const { return device_; }
  GraphStatistics& statistics() { return statistics_; }
  const GraphStatistics& statistics() const { return statistics_; }
  const Hardware& hardware() const { return options_.hardware; }
  const ShortBatches& short_batches() const { return options_.short_batches; }
  const StateTensors& state_tensors() const { return state_tensors_; }
  // Number of training batches so far.
  int64_t batches() const { return batches_; }
  // Adds a warning, or several, for take_warnings(). A text that was reported before is ignored.
  template <class Texts>
  void warn(Texts texts) {
    warnings_.add(std::move(texts));
  }
  // Announces a compilation to the listener until the result is destroyed. `what`: see CompileListener.
  NotifiedCompilation begin_compile(std::function<std::string()> what) { return {listener_, std::move(what)}; }

 private:
  // Compiles a Program. `graph`: what the user's code has traced; it has nodes.
  virtual Compiled compile_graph(const Program& program, const Program& graph,
                                 const std::function<std::shared_ptr<Executable>()>& compile) = 0;
  // Called by on_submit() after the batch and its scalars have been counted. `step`: made by compile_graph().
  virtual void submit_graph(TpuStep& step, GraphIdentity graph, const Submission& submission,
                            const SubmissionInfo& info) = 0;
  // Called by on_host_event() after the event has been counted.
  virtual void handle_event(HostEvent event, int64_t times) = 0;

  void count_submission(const TpuStep& step, const Submission& submission, const SubmissionInfo& info);
  void count_event(HostEvent event, int64_t times);
  GraphIdentity identity_of(const TpuStep& step, const SubmissionInfo& info) const;

  const TpuOptions options_;
  TpuDevice& device_;
  GraphStatistics statistics_{options_.hardware, scalar_rules(options_.dialect, options_.hardware.types),
                              device_.metrics(), options_.max_graphs, options_.short_batches};
  DeviceDataCache numbers_{statistics_.cache().rules(), options_.hardware.types};
  CompileListener* listener_ = nullptr;
  PendingWarnings warnings_;
  StateTensors state_tensors_;
  int pauses_ = 0;
  int64_t newest_step_ = 0;  // newest training batch
  int64_t batches_ = 0;
};

}  // namespace runner::backends::tpu
