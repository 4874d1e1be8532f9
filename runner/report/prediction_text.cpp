#include "runner/report/prediction_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "runner/formats/npy.h"
#include "runner/formats/text_rows.h"
#include "schema/base/json.h"

namespace runner::report {
namespace {

std::span<const float> outputs_of(const train::Prediction& prediction, int64_t sample) {
  return {prediction.values.data() + sample * prediction.outputs, static_cast<size_t>(prediction.outputs)};
}

bool has_classes(const train::Prediction& prediction) {
  return prediction.kind == data::LabelKind::kClass;
}

std::string class_name(const train::Prediction& prediction, int64_t index) {
  return prediction.class_names.empty() ? std::to_string(index) : prediction.class_names[static_cast<size_t>(index)];
}

std::vector<std::string> output_names(const train::Prediction& prediction) {
  std::vector<std::string> names;
  for (int64_t i = 0; i < prediction.outputs; ++i) {
    names.push_back(has_classes(prediction) ? class_name(prediction, i) : fmt::format("target_{}", i));
  }
  return names;
}

}  // namespace

std::string predicted_class(const train::Prediction& prediction, int64_t sample) {
  if (!has_classes(prediction)) return "";
  const std::span<const float> outputs = outputs_of(prediction, sample);
  return class_name(prediction, std::max_element(outputs.begin(), outputs.end()) - outputs.begin());
}

std::string prediction_csv(const train::Prediction& prediction) {
  std::vector<std::string> fields = output_names(prediction);
  if (has_classes(prediction)) fields.insert(fields.begin(), "class");
  std::string text = formats::csv_row(fields);
  for (int64_t sample = 0; sample < prediction.samples; ++sample) {
    fields.clear();
    if (has_classes(prediction)) fields.push_back(predicted_class(prediction, sample));
    for (const float output : outputs_of(prediction, sample)) fields.push_back(fmt::format("{}", output));
    text += formats::csv_row(fields);
  }
  return text;
}

std::string prediction_npy(const train::Prediction& prediction) {
  const int64_t shape[] = {prediction.samples, prediction.outputs};
  std::string text = formats::npy_header("<f4", shape);
  return text.append(reinterpret_cast<const char*>(prediction.values.data()), prediction.values.size() * sizeof(float));
}

std::string prediction_document(const std::string& run, int64_t state, const train::Prediction& prediction) {
  json::Value classes, predictions;
  if (has_classes(prediction)) {
    classes = json::list_of(output_names(prediction));
    json::List names;
    for (int64_t sample = 0; sample < prediction.samples; ++sample) {
      names.push_back(predicted_class(prediction, sample));
    }
    predictions = std::move(names);
  }
  json::List outputs;
  for (int64_t sample = 0; sample < prediction.samples; ++sample) {
    outputs.push_back(
        json::list_of(outputs_of(prediction, sample), [](float output) { return json::Value(double{output}); }));
  }
  return json::line(json::Object{{"run", run},
                                 {"state", state},
                                 {"samples", prediction.samples},
                                 {"classes", std::move(classes)},
                                 {"predictions", std::move(predictions)},
                                 {"outputs", std::move(outputs)}});
}

}  // namespace runner::report
