#include "runner/report/memory_text.h"

#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runner/report/format.h"

namespace runner::report {

json::Object peak_json(const train::PeakMemory& peak) {
  return {{"training", peak.training}, {"evaluation", peak.evaluation}, {"saving", peak.saving}};
}

std::string peak_text(const json::Value& phases) {
  std::vector<std::string> parts;
  for (const auto& [phase, bytes] : json::members_of(phases))
    if (const int64_t peak = json::integer_of(bytes).value_or(0); peak > 0)
      parts.push_back(fmt::format("{} in {}", bytes_text(peak), phase));
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace runner::report
