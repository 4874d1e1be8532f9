// The model of an emulated TPU that runs operations one by one (tpu.eager): each is a graph of its own, and a
// submission is complete when submit() returns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/tpu/eager_statistics.h"
#include "backends/tpu/tpu_model_base.h"

namespace runner::backends::tpu {

class EagerTpuModel final : public TpuModelBase {
 public:
  // `device` must outlive the object. Its host runs operations one by one (eager_host.h).
  EagerTpuModel(TpuDevice& device, const TpuOptions& options) : TpuModelBase(device, options) {}

  void keep_graphs_in(GraphStore&) override {}  // operations are not stored
  GraphForecast forecast(const Program& graph) const override;

  void on_submitted(ModelStep& step, const SubmissionInfo& info, bool failed) override;
  std::vector<std::string> analysis() const override;

 private:
  Compiled compile_graph(const Program& program, const Program& graph,
                         const std::function<std::shared_ptr<Executable>()>& compile) override;
  void submit_graph(TpuStep& step, GraphIdentity graph, const Submission& submission,
                    const SubmissionInfo& info) override;
  void handle_event(HostEvent event, int64_t times) override;

  EagerStatistics operations_{statistics()};
};

}  // namespace runner::backends::tpu
