#include "runner/report/prediction_text.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "runner/formats/npy.h"
#include "runner/formats/text_rows.h"
#include "schema/base/json.h"

namespace runner::report {
namespace {

using train::OutputsAs;
using train::Prediction;

// Returns the file row of the outputs at `place`.
int64_t row_of(const Prediction& prediction, int64_t place) {
  return !prediction.has_tokens() ? place : prediction.tokens[static_cast<size_t>(place)].sample;
}

// Number of the most likely class; −1 in a row that has no prediction.
int64_t class_of(const Prediction& prediction, int64_t place) {
  const std::span<const float> outputs = prediction.at(place);
  return prediction.reason(row_of(prediction, place)).empty() ? std::ranges::max_element(outputs) - outputs.begin()
                                                              : -1;
}

std::string class_name(const Prediction& prediction, int64_t place) {
  const int64_t found = class_of(prediction, place);
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

// Returns value(place) of each row, null without a prediction. With tokens, each row is a list of theirs.
template <class ValueOf>
json::List by_row(const Prediction& prediction, const ValueOf& value) {
  if (!prediction.has_tokens()) {
    json::List rows;
    for (int64_t row = 0; row < prediction.size(); ++row)
      rows.push_back(prediction.reason(row).empty() ? json::Value(value(row)) : json::Value());
    return rows;
  }
  std::vector<json::List> rows(static_cast<size_t>(prediction.samples));
  for (int64_t place = 0; place < prediction.size(); ++place)
    rows[static_cast<size_t>(row_of(prediction, place))].push_back(value(place));
  return {rows.begin(), rows.end()};
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
  const bool has_values = prediction.as != OutputsAs::kClasses, has_errors = !prediction.rejected.empty(),
             has_tokens = prediction.has_tokens();
  std::vector<std::string> fields;
  if (prediction.has_classes) fields.emplace_back("class");
  if (has_values) std::ranges::move(column_names(prediction), std::back_inserter(fields));
  if (!prediction.files.empty()) fields.emplace_back("file");
  fields.emplace_back("row");
  if (has_tokens) fields.emplace_back("token");
  if (has_errors) fields.emplace_back("error");
  std::string text = formats::csv_row(fields);
  for (int64_t place = 0; place < prediction.size(); ++place) {
    const int64_t row = row_of(prediction, place);
    const std::string reason = prediction.reason(row);
    fields.clear();
    if (prediction.has_classes) fields.push_back(class_name(prediction, place));
    if (has_values)
      for (const float output : prediction.at(place)) fields.push_back(reason.empty() ? fmt::format("{}", output) : "");
    if (!prediction.files.empty()) fields.push_back(prediction.files[static_cast<size_t>(row)]);
    fields.push_back(std::to_string(row));
    if (has_tokens) fields.push_back(std::to_string(prediction.tokens[static_cast<size_t>(place)].position));
    if (has_errors) fields.push_back(reason);
    text += formats::csv_row(fields);
  }
  return text;
}

std::string prediction_npy(const Prediction& prediction) {
  std::vector<int64_t> shape{prediction.samples};
  if (prediction.has_tokens()) shape.push_back(prediction.length);
  const int64_t places = prediction.samples * std::max<int64_t>(prediction.length, 1);
  const auto at = [&](int64_t place) {
    if (!prediction.has_tokens()) return place;
    const train::Outputs::Token& token = prediction.tokens[static_cast<size_t>(place)];
    return token.sample * prediction.length + token.position;
  };
  const auto file = [&](const char* dtype, const auto& values) {
    std::string text = formats::npy_header(dtype, shape);
    return text.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(values[0]));
  };
  if (prediction.as == OutputsAs::kClasses) {
    std::vector<int64_t> classes(static_cast<size_t>(places), -1);
    for (int64_t place = 0; place < prediction.size(); ++place)
      classes[static_cast<size_t>(at(place))] = class_of(prediction, place);
    return file("<i8", classes);
  }
  shape.push_back(prediction.outputs);
  if (!prediction.has_tokens()) return file("<f4", prediction.values);
  std::vector<float> values(static_cast<size_t>(places * prediction.outputs), std::numeric_limits<float>::quiet_NaN());
  for (int64_t place = 0; place < prediction.size(); ++place)
    std::ranges::copy(prediction.at(place), values.begin() + at(place) * prediction.outputs);
  return file("<f4", values);
}

std::string prediction_document(const std::string& run, int64_t state, const Prediction& prediction) {
  json::Value classes, predictions, outputs, files;
  if (prediction.has_classes) {
    classes = json::list_of(prediction.names);
    predictions = by_row(prediction, [&](int64_t place) { return json::Value(class_name(prediction, place)); });
  }
  if (prediction.as != OutputsAs::kClasses)
    outputs = by_row(prediction, [&](int64_t place) {
      return json::list_of(prediction.at(place), [](float output) { return json::Value(double{output}); });
    });
  if (!prediction.files.empty()) files = json::list_of(prediction.files);
  const auto error_of = [](const data::RejectedRow& row) {
    return json::Object{{"row", row.row}, {"error", row.reason}};
  };
  return json::line(json::Object{{"run", run},
                                 {"state", state},
                                 {"samples", prediction.samples},
                                 {"files", std::move(files)},
                                 {"content", description(prediction)},
                                 {"classes", std::move(classes)},
                                 {"predictions", std::move(predictions)},
                                 {"outputs", std::move(outputs)},
                                 {"errors", json::list_of(prediction.rejected, error_of)}});
}

}  // namespace runner::report
