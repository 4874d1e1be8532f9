#include "runner/report/estimate.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "runner/report/format.h"
#include "runner/report/memory_text.h"
#include "runner/report/table.h"
#include "schema/base/json.h"

namespace runner::report {

namespace {

std::vector<Cell> row_of(const PrecisionEstimate& estimate, int64_t processes) {
  std::vector<Cell> row{{fmt::format("{}{}", estimate.precision, estimate.of_recipe ? " (recipe)" : ""),
                         estimate.of_recipe ? Color::kBold : Color::kNone}};
  if (!estimate.memory) {
    row.insert(row.end(), {"", "", "", "", {"does not fit", Color::kRed}, "", "", "", ""});
    return row;
  }
  const train::MemoryUse& use = estimate.memory->training;
  const train::PeakMemory& peak = estimate.memory->peak;
  const std::optional<int64_t>& max_micro_batch = estimate.memory->max_micro_batch;
  row.insert(row.end(), {bytes_text(use.parameters), use.gradients > 0 ? bytes_text(use.gradients) : "",
                         bytes_text(use.optimizer), bytes_text(use.activations), bytes_text(peak.training),
                         peak.evaluation > 0 ? bytes_text(peak.evaluation) : "", bytes_text(peak.saving),
                         processes > 1 ? bytes_text(estimate.memory->all_processes) : "",
                         max_micro_batch ? std::to_string(*max_micro_batch) : ""});
  return row;
}

json::Value row_json(const PrecisionEstimate& estimate) {
  const train::StepEstimate memory = estimate.memory.value_or(train::StepEstimate{});
  const train::MemoryUse& use = memory.training;
  const auto known = [&](json::Value figure) { return estimate.memory ? std::move(figure) : json::Value(); };
  return json::Object{{"mixed_precision", std::string(estimate.precision)},
                      {"of_recipe", estimate.of_recipe},
                      {"parameters", known(use.parameters)},
                      {"gradients", known(use.gradients)},
                      {"optimizer", known(use.optimizer)},
                      {"other", known(use.other)},
                      {"activations", known(use.activations)},
                      {"peak", known(peak_json(memory.peak))},
                      {"all_processes", known(memory.all_processes)},
                      {"at_once", memory.max_micro_batch ? json::Value(*memory.max_micro_batch) : json::Value()}};
}

}  // namespace

std::string estimate_text(std::span<const PrecisionEstimate> estimates, int64_t processes, int width, bool color) {
  const bool is_cut = std::ranges::any_of(
      estimates, [](const PrecisionEstimate& each) { return each.memory && each.memory->max_micro_batch; });
  Table table({{"precision"},
               {"parameters", Align::kRight},
               {"gradients", Align::kRight},
               {"optimizer", Align::kRight},
               {"activations", Align::kRight},
               {"training peak", Align::kRight},
               {"evaluation peak", Align::kRight},
               {"saving peak", Align::kRight},
               {processes > 1 ? fmt::format("all {} processes", processes) : "", Align::kRight},
               {is_cut ? "micro-batch" : "", Align::kRight}});
  for (const PrecisionEstimate& estimate : estimates) table.add(row_of(estimate, processes));
  return table.render(width, color);
}

std::string estimate_document(std::span<const PrecisionEstimate> estimates, int64_t processes) {
  return json::text(json::Object{{"num_processes", processes}, {"precisions", json::list_of(estimates, row_json)}});
}

}  // namespace runner::report
