#include "runner/report/plan_text.h"

#include <fmt/format.h>

#include "runner/report/format.h"
#include "runner/report/table.h"

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

// The rate at the start, at its highest and at the end of the run.
std::string rate_text(const train::Session& session) {
  const auto rate = [&](int64_t step) { return session.recipe.optimizer.hyper.lr * session.schedule.factor(step); };
  const int64_t last = session.scale.total_steps - 1;
  int64_t top = 0;
  for (int64_t step = 1; step <= last; ++step) {
    if (rate(step) > rate(top)) top = step;
  }
  return fmt::format("{} at first, {} at step {}, {} at the last", number_text(rate(0)), number_text(rate(top)),
                     top + 1, number_text(rate(last)));
}

}  // namespace

std::string plan_text(const train::Session& session) {
  const nn::ParameterSet& parameters = session.trainer.model().parameters;
  std::string weights = count_text(parameters.elements(), "parameter");
  const int64_t frozen = parameters.elements() - parameters.trainable_elements();
  if (frozen > 0) weights += fmt::format(", {} of them frozen", frozen);

  Facts facts;
  facts.add("data", data_text(session.data));
  facts.add("model", weights);
  facts.add("memory", fmt::format("{} for weights, optimizer and gradients kept between steps",
                                  bytes_text(state_bytes(session.trainer.layout()))));
  facts.add("run", count_text(session.scale.total_steps, "optimizer step"));
  facts.add("learning rate", rate_text(session));
  std::string text = data::plan_text(session.plan) + facts.render();
  for (const std::string& warning : session.plan.warnings()) text += "warning: " + warning + '\n';
  return text;
}

}  // namespace runner::report
