#include <algorithm>
#include <map>

#include "backends/ir/op_def.h"
#include "backends/tpu/graph.h"

namespace runner::backends::tpu {
namespace {

constexpr std::string_view kPrefix = "xla::";

std::string counter_name(std::string_view aten) {
  return std::string(kPrefix).append(aten.substr(aten.find("::") + 2));
}

// Inputs and constants are not calls.
bool is_call(Op op) {
  return kind_of(op) != OpKind::kLeaf;
}

}  // namespace

std::vector<std::string> op_counter_names() {
  std::vector<std::string> names;
  for (int op = 0; op < kOpCount; ++op) {
    if (!is_call(static_cast<Op>(op))) continue;
    const XlaNames& of_op = def_of(static_cast<Op>(op)).xla;
    for (const std::string_view name : {of_op.aten, of_op.aten_of_matrices})
      if (!name.empty()) names.push_back(counter_name(name));
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

TracedWork traced_work(const Program& tensor_graph, const DeviceTypes& types) {
  static const std::vector<std::string> names = op_counter_names();
  std::map<size_t, int64_t> calls;
  for (ValueId id = 0; id < tensor_graph.size(); ++id)
    if (is_call(tensor_graph.node(id).op))
      ++calls[static_cast<size_t>(std::ranges::lower_bound(names, counter_name(aten_name(tensor_graph, id))) -
                                  names.begin())];
  TracedWork work{{calls.begin(), calls.end()}, {}};
  for (const Input& input : tensor_graph.inputs())
    if (input.kind == InputKind::kBatch)
      work.uploads.push_back(static_cast<int64_t>(types.of(tensor_graph.type(input.value)).bytes()));
  return work;
}

void count(const TracedWork& work, MetricsRegistry& metrics) {
  for (const auto& [op, calls] : work.ops) metrics.count_op(op, calls);
  for (const int64_t bytes : work.uploads) metrics.add(XlaMetric::kOutboundData, bytes);
}

}  // namespace runner::backends::tpu
