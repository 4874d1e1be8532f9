#include "runner/report/estimate.h"

#include <fmt/format.h>

#include "runner/report/format.h"
#include "runner/report/table.h"
#include "schema/json.h"

namespace runner::report {

std::string estimate_text(std::span<const PrecisionEstimate> estimates, int64_t processes, int width, bool color) {
  Table table({{"PRECISION"},
               {"PARAMETERS", Align::kRight},
               {"GRADIENTS", Align::kRight},
               {"OPTIMIZER", Align::kRight},
               {"ACTIVATIONS", Align::kRight},
               {"TRAINING", Align::kRight},
               {"EVALUATION", Align::kRight},
               {"SAVING", Align::kRight},
               {processes > 1 ? fmt::format("ALL {}", processes) : "", Align::kRight}});
  for (const PrecisionEstimate& estimate : estimates) {
    const train::MemoryUse& use = estimate.memory.training;
    const train::PeakMemory& peak = estimate.memory.peak;
    table.add({{std::string(estimate.precision), estimate.of_recipe ? Color::kBold : Color::kNone},
               bytes_text(use.parameters),
               use.gradients > 0 ? bytes_text(use.gradients) : "",
               bytes_text(use.optimizer),
               bytes_text(use.activations),
               bytes_text(peak.training),
               peak.evaluation > 0 ? bytes_text(peak.evaluation) : "",
               bytes_text(peak.saving),
               processes > 1 ? bytes_text(estimate.memory.all_processes) : ""});
  }
  return table.render(width, color);
}

std::string estimate_document(std::span<const PrecisionEstimate> estimates, int64_t processes) {
  const auto row = [](const PrecisionEstimate& estimate) {
    const train::MemoryUse& use = estimate.memory.training;
    const train::PeakMemory& peak = estimate.memory.peak;
    return json::Object{
        {"mixed_precision", std::string(estimate.precision)},
        {"of_recipe", estimate.of_recipe},
        {"parameters", use.parameters},
        {"gradients", use.gradients},
        {"optimizer", use.optimizer},
        {"other", use.other},
        {"activations", use.activations},
        {"peak", json::Object{{"training", peak.training}, {"evaluation", peak.evaluation}, {"saving", peak.saving}}},
        {"all_processes", estimate.memory.all_processes}};
  };
  return json::text(json::Object{{"num_processes", processes}, {"precisions", json::list_of(estimates, row)}});
}

}  // namespace runner::report
