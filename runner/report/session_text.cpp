#include "runner/report/session_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "runner/report/format.h"
#include "runner/report/table.h"
#include "schema/json.h"

namespace runner::report {
namespace {

std::string data_text(const data::Data& data) {
  const char* outputs = data.encoding.label_kind == data::LabelKind::kClass ? "class" : "target";
  std::string text = fmt::format("{} to train on, {} held out, features {}", count_text(data.train.size(), "sample"),
                                 data.eval ? data.eval->size() : 0, data.encoding.feature_shape.to_string());
  return text + ", " + count_text(data.encoding.outputs, outputs);
}

// What stays on the device between steps.
int64_t state_bytes(const train::DeviceLayout& layout) {
  size_t bytes = 0;
  for (const train::DeviceArray& array : layout.arrays()) bytes += array.type.bytes();
  return static_cast<int64_t>(bytes);
}

// The first step of [low, high] with the highest rate: of a thousand steps evenly spread, then between the neighbours
// of the best one, and so on, so that a run may be as long as it likes.  Misses a peak narrower than a thousandth of
// the run.
template <class Rate>
int64_t highest(Rate rate, int64_t low, int64_t high) {
  constexpr int64_t kLooks = 1000;
  const int64_t stride = (high - low) / kLooks + 1;
  int64_t top = low;
  for (int64_t step = low; step <= high; step += std::min(stride, std::max<int64_t>(1, high - step))) {
    if (rate(step) > rate(top)) top = step;
  }
  return stride == 1 ? top : highest(rate, std::max(low, top - stride), std::min(high, top + stride));
}

// The rate at the start, at its highest (where a warm-up ends) and at the end of the run.
struct Rates {
  double first = 0, highest = 0, last = 0;
  int64_t highest_step = 1;
};

Rates rates_of(const train::Session& session) {
  const auto rate = [&](int64_t step) {
    return session.trainer.optimizers().lr * session.schedule.factor(step * session.schedule.steps_per_update());
  };
  const int64_t last = session.scale.total_steps - 1;
  const int64_t top = highest(rate, 0, last);
  return {.first = rate(0), .highest = rate(top), .last = rate(last), .highest_step = top + 1};
}

std::string rate_text(const Rates& rates) {
  return fmt::format("{} at first, {} at step {}, {} at the last", rounded_text(rates.first),
                     rounded_text(rates.highest), rates.highest_step, rounded_text(rates.last));
}

// "name  value" lines as rows, so that all values stand below each other.
void add_lines(Facts& facts, std::string_view lines) {
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    const size_t gap = line.find("  ");
    facts.add(line.substr(0, gap), std::string(line.substr(line.find_first_not_of(' ', gap))));
    lines.remove_prefix(line.size() + 1);
  }
}

}  // namespace

std::string session_text(const train::Session& session) {
  const nn::ParameterSet& parameters = session.trainer.model().parameters;
  std::string weights = count_text(parameters.elements(), "parameter");
  const int64_t frozen = parameters.elements() - parameters.trainable_elements();
  if (frozen > 0) weights += fmt::format(", {} of them frozen", frozen);

  Facts facts;
  add_lines(facts, data::plan_text(session.plan));
  facts.add("data", data_text(session.data));
  facts.add("model", weights);
  facts.add("memory", fmt::format("{} for weights, optimizer and gradients kept between steps",
                                  bytes_text(state_bytes(session.trainer.layout()))));
  facts.add("run", count_text(session.scale.total_steps, "optimizer step"));
  facts.add("learning rate", rate_text(rates_of(session)));
  return facts.render();
}

std::string session_document(const train::Session& session, std::string plan,
                             const std::vector<std::string>& warnings) {
  const nn::ParameterSet& parameters = session.trainer.model().parameters;
  const Rates rates = rates_of(session);
  const std::string more = json::line(json::Object{{"parameters", parameters.elements()},
                                                   {"trainable_parameters", parameters.trainable_elements()},
                                                   {"memory_bytes", state_bytes(session.trainer.layout())},
                                                   {"optimizer_steps", session.scale.total_steps},
                                                   {"learning_rate", json::Object{{"first", rates.first},
                                                                                  {"highest", rates.highest},
                                                                                  {"highest_step", rates.highest_step},
                                                                                  {"last", rates.last}}},
                                                   {"warnings", json::list_of(warnings)}});
  plan.back() = ',';  // the brace that closes it
  return plan + more.substr(1);
}

}  // namespace runner::report
