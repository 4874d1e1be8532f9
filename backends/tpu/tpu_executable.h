// What the host computes for an emulated TPU, and the graph that it counts as.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "backends/tpu/eager_account.h"
#include "backends/tpu/range_check.h"

namespace runner::backends::tpu {

// What it took to have something that the host runs.
struct Making {
  int64_t ns = 0;
  bool compiled = false;             // not all of it was in the store
  std::vector<std::string> damages;  // since the store had these damaged

  void add(const Making& other);
};

class TpuExecutable : public Executable {
 public:
  // The engine's own affair, of which there is no account.
  explicit TpuExecutable(std::shared_ptr<Executable> host) : host_(std::move(host)) {}
  // `program`: that the host runs; `graph`: as the user's code has traced it.
  TpuExecutable(std::shared_ptr<Executable> host, Making making, const Program& program, const Program& graph);

  size_t arena_bytes() const override { return host_->arena_bytes(); }
  int64_t flops() const override { return host_->flops(); }
  int64_t bytes() const override { return host_->bytes(); }

  const std::shared_ptr<Executable>& host() const { return host_; }
  bool is_graph() const { return graph_ != nullptr; }
  // Asked once, when it first runs.
  Making take_making() { return std::exchange(making_, {}); }

  const std::shared_ptr<const Program>& graph() const { return graph_; }
  const std::vector<GivenTensor>& given() const { return given_; }
  // The graph with the numbers of a submission that it takes, and those absent states that it reads.
  GraphIdentity identity(const Arguments& arguments, const ScalarRules& rules) const;
  // Whether the user's code hands a number over: a rule of a hook may leave the rate alone.
  bool hands_over(const TracedScalar& scalar) const;
  // By kScalar input of the graph what it is handed; NaN: the value is not known.
  std::vector<TracedScalar> scalars(const Arguments& arguments) const;

  // Of a device that runs operations one by one.
  EagerAccount::Seen seen;
  double traced_seconds = 0;  // that the graph is predicted to take at least

 private:
  bool takes(const TracedScalar& scalar) const;

  // A kScalar input of the graph, and which of the Program's it is; none: it is not among these.
  struct ScalarInput {
    Origin origin;
    std::optional<size_t> index;
  };
  static std::vector<ScalarInput> scalar_inputs(const Program& graph, const Program& program);

  const std::shared_ptr<Executable> host_;
  Making making_;
  const std::shared_ptr<const Program> graph_;
  const std::vector<int32_t> states_;  // that the graph reads
  const std::vector<Origin> origins_;  // of nodes that outputs are computed from, in order
  const std::vector<Origin> idle_;     // of inputs that no node takes
  const std::vector<ScalarInput> scalars_;
  const std::vector<GivenTensor> given_;
};

}  // namespace runner::backends::tpu
