// The model of an emulated TPU that traces graphs: a graph ends at a step marker, and is compiled once and kept.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/tpu/pending_trace.h"
#include "backends/tpu/persistent_cache.h"
#include "backends/tpu/tpu_model_base.h"

namespace runner::backends::tpu {

// How a graph was obtained.
struct CompileRecord {
  int64_t ns = 0;
  bool compiled = false;             // false: everything was loaded from the store
  std::vector<std::string> damages;  // descriptions of damaged store entries

  void add(const CompileRecord& other);
};

class LazyTpuModel final : public TpuModelBase {
 public:
  // `device` must outlive the object.
  LazyTpuModel(TpuDevice& device, const TpuOptions& options)
      : TpuModelBase(device, options), batches_per_mark_(options.batches_per_mark) {}

  void keep_graphs_in(GraphStore& store) override { stored_.use(store); }
  GraphForecast forecast(const Program& graph) const override;

  void on_submitted(ModelStep& step, const SubmissionInfo& info, bool failed) override;
  std::vector<std::string> analysis() const override;

 private:
  // The trace since the last step marker.
  struct PendingBatches {
    int64_t batch = 0, batches = 0;  // first training batch, and number of training batches
    CompileRecord record;
  };

  struct Reads {
    int64_t training = 0, evaluation = 0;
  };

  Compiled compile_graph(const Program& program, const Program& graph,
                         const std::function<std::shared_ptr<Executable>()>& compile) override;
  void submit_graph(TpuStep& step, GraphIdentity graph, const Submission& submission,
                    const SubmissionInfo& info) override;
  void handle_event(HostEvent event, int64_t times) override;
  // `damage`: describes the damaged store entry of the graph; empty: no entry is damaged.
  Compiled compile_uncached(const Program& program, const Program& graph,
                            const std::function<std::shared_ptr<Executable>()>& compile, const std::string& damage);
  std::string describe(const GraphIdentity& graph) const;
  void warn_of_damage(const std::string& damage, const GraphKey& graph);

  // Whether a submission becomes a part of the pending trace. It starts at once; it is counted with everything else
  // before the next step marker.
  bool is_pending(const SubmissionInfo& info) const { return batches_per_mark_ != 1 && !info.reads; }
  // Batches of the trace since the last step marker.
  int64_t batches_until(int64_t step) const { return step - pending_batches_.batch + 1; }
  void check_length(const SubmissionInfo& info);
  void end_long_trace();
  void warn_of_growth();
  void mark_step();

  Graph& graph_of(GraphIdentity identity, int64_t step, const CompileRecord& record);
  // Takes the prediction from the store. Counts like PyTorch/XLA: a damaged entry is not a miss.
  bool is_in_store(Graph& graph, const CompileRecord& record, int64_t begin_ns);
  void launch(Graph& graph);

  const int64_t batches_per_mark_;
  PersistentCache stored_{hardware()};
  Reads reads_;           // values that a hook has read
  int64_t begun_ns_ = 0;  // time of the first submission
  PendingTrace pending_{statistics().cache().rules()};
  PendingBatches pending_batches_;
  bool warned_of_growth_ = false, warned_of_length_ = false;
};

}  // namespace runner::backends::tpu
