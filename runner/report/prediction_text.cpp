#include "runner/report/prediction_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "runner/formats/npy.h"
#include "runner/formats/text_rows.h"
#include "schema/base/json.h"

namespace runner::report {
namespace {

using train::OutputsAs;
using train::Prediction;

std::span<const float> outputs_of(const Prediction& prediction, int64_t row) {
  return {prediction.values.data() + row * prediction.outputs, static_cast<size_t>(prediction.outputs)};
}

// Number of the most likely class; −1 for a row that has no prediction.
int64_t class_of(const Prediction& prediction, int64_t row) {
  const std::span<const float> outputs = outputs_of(prediction, row);
  return prediction.reason(row).empty() ? std::ranges::max_element(outputs) - outputs.begin() : -1;
}

std::string class_name(const Prediction& prediction, int64_t row) {
  const int64_t found = class_of(prediction, row);
  return found < 0 ? "" : prediction.names[static_cast<size_t>(found)];
}

// "logit_ham"; targets have their own names.
std::vector<std::string> column_names(const Prediction& prediction) {
  const char* const prefix = prediction.as == OutputsAs::kLogits          ? "logit_"
                             : prediction.as == OutputsAs::kProbabilities ? "probability_"
                                                                          : "";
  std::vector<std::string> names;
  for (const std::string& name : prediction.names) names.push_back(prefix + name);
  return names;
}

}  // namespace

std::string description(const Prediction& prediction) {
  switch (prediction.as) {
    case OutputsAs::kLogits: return "logits";
    case OutputsAs::kProbabilities: return "probabilities";
    case OutputsAs::kClasses: return "classes";
    case OutputsAs::kTargets: return "targets";
  }
  return "";
}

std::string prediction_csv(const Prediction& prediction) {
  const bool has_values = prediction.as != OutputsAs::kClasses, has_errors = !prediction.rejected.empty();
  std::vector<std::string> fields;
  if (prediction.has_classes) fields.emplace_back("class");
  if (has_values) std::ranges::move(column_names(prediction), std::back_inserter(fields));
  fields.emplace_back("row");
  if (has_errors) fields.emplace_back("error");
  std::string text = formats::csv_row(fields);
  for (int64_t row = 0; row < prediction.samples; ++row) {
    const std::string reason = prediction.reason(row);
    fields.clear();
    if (prediction.has_classes) fields.push_back(class_name(prediction, row));
    if (has_values)
      for (const float output : outputs_of(prediction, row))
        fields.push_back(reason.empty() ? fmt::format("{}", output) : "");
    fields.push_back(std::to_string(row));
    if (has_errors) fields.push_back(reason);
    text += formats::csv_row(fields);
  }
  return text;
}

std::string prediction_npy(const Prediction& prediction) {
  const auto append = [](std::string& text, const auto& values) {
    return text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
  };
  if (prediction.as == OutputsAs::kClasses) {
    std::vector<int64_t> classes;
    for (int64_t row = 0; row < prediction.samples; ++row) classes.push_back(class_of(prediction, row));
    std::string text = formats::npy_header("<i8", std::span(&prediction.samples, 1));
    return append(text, classes);
  }
  const int64_t shape[] = {prediction.samples, prediction.outputs};
  std::string text = formats::npy_header("<f4", shape);
  return append(text, prediction.values);
}

std::string prediction_document(const std::string& run, int64_t state, const Prediction& prediction) {
  json::Value classes, predictions, outputs;
  if (prediction.has_classes) {
    classes = json::list_of(prediction.names);
    json::List names;
    for (int64_t row = 0; row < prediction.samples; ++row)
      names.push_back(prediction.reason(row).empty() ? json::Value(class_name(prediction, row)) : json::Value());
    predictions = std::move(names);
  }
  if (prediction.as != OutputsAs::kClasses) {
    json::List rows;
    for (int64_t row = 0; row < prediction.samples; ++row) {
      const auto list =
          json::list_of(outputs_of(prediction, row), [](float output) { return json::Value(double{output}); });
      rows.push_back(prediction.reason(row).empty() ? json::Value(list) : json::Value());
    }
    outputs = std::move(rows);
  }
  const auto error_of = [](const data::RejectedRow& row) {
    return json::Object{{"row", row.row}, {"error", row.reason}};
  };
  return json::line(json::Object{{"run", run},
                                 {"state", state},
                                 {"samples", prediction.samples},
                                 {"content", description(prediction)},
                                 {"classes", std::move(classes)},
                                 {"predictions", std::move(predictions)},
                                 {"outputs", std::move(outputs)},
                                 {"errors", json::list_of(prediction.rejected, error_of)}});
}

}  // namespace runner::report
