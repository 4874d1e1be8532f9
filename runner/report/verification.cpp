#include "runner/report/verification.h"

#include <iterator>

#include <fmt/format.h>

#include "runner/report/format.h"
#include "schema/base/json.h"
#include "schema/base/text.h"

namespace runner::report {

std::string verification_text(const train::VerifyReport& verdict) {
  std::string text = fmt::format(
      "{}, killed after steps {}, resumed from steps {}\ncompared {} ({}), {}, the sample ids of {}\n",
      count_text(verdict.steps, "step"), fmt::join(verdict.killed_at, ", "), fmt::join(verdict.resumed_from, ", "),
      count_text(verdict.tensors, "tensor"), bytes_text(verdict.bytes), count_text(verdict.points, "metric point"),
      count_text(verdict.batches, "step"));
  if (const int64_t fewer = verdict.kills - std::ssize(verdict.killed_at); fewer > 0)
    text += fmt::format("{} fewer than requested: the run is too short\n", count_text(fewer, "kill"));
  for (const std::string& difference : verdict.differences) text += "differs: " + difference + '\n';
  return text +
         (verdict.exact() ? "exact: resumed and uninterrupted training are the same, bit for bit\n" : "not exact\n");
}

std::string verification_document(const train::VerifyReport& verdict) {
  return json::text(json::Object{{"exact", verdict.exact()},
                                 {"optimizer_steps", verdict.steps},
                                 {"killed_at", json::list_of(verdict.killed_at)},
                                 {"resumed_from", json::list_of(verdict.resumed_from)},
                                 {"tensors", verdict.tensors},
                                 {"bytes", verdict.bytes},
                                 {"points", verdict.points},
                                 {"batches", verdict.batches},
                                 {"differences", json::list_of(verdict.differences)}});
}

}  // namespace runner::report
