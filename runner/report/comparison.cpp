#include "runner/report/comparison.h"

#include <cmath>
#include <map>

#include <fmt/format.h>

#include "runner/report/format.h"
#include "runner/report/run_text.h"
#include "schema/json.h"

namespace runner::report {
namespace {

using Texts = std::map<std::string, std::string>;

Texts params_of(const store::RunDetails& run) {
  Texts texts;
  for (const store::Param& param : run.params) texts[param.key] = param_text(param.value);
  return texts;
}

Texts environment_of(const store::RunRow& run) {
  return {{"host", run.host},
          {"backend", run.backend},
          {"num_processes", std::to_string(run.num_processes)},
          {"cpu_features", run.cpu_features},
          {"kernels", run.kernels_json},
          {"binary_version", run.binary_version}};
}

std::vector<Comparison::Difference> differences(const Texts& a, const Texts& b) {
  std::map<std::string, std::pair<std::string, std::string>> both;
  for (const auto& [key, text] : a) both[key].first = text;
  for (const auto& [key, text] : b) both[key].second = text;
  std::vector<Comparison::Difference> found;
  for (const auto& [key, texts] : both) {
    if (texts.first != texts.second) found.push_back({key, texts.first, texts.second});
  }
  return found;
}

std::vector<Comparison::Metric> metrics_of(const store::RunDetails& a, const store::RunDetails& b) {
  std::map<std::string, std::pair<double, double>> both;
  for (const store::MetricSummary& metric : a.metrics) both[metric.name] = {metric.last, NAN};
  for (const store::MetricSummary& metric : b.metrics) {
    both.try_emplace(metric.name, NAN, NAN).first->second.second = metric.last;
  }
  std::vector<Comparison::Metric> metrics;
  for (const auto& [name, values] : both) metrics.push_back({name, values.first, values.second});
  return metrics;
}

std::string value_text(double value) {
  return std::isnan(value) ? "" : rounded_text(value);
}

json::Object differences_json(const std::vector<Comparison::Difference>& differences) {
  json::Object object;
  for (const auto& [key, a, b] : differences) object.emplace_back(key, json::List{json::or_null(a), json::or_null(b)});
  return object;
}

}  // namespace

Comparison compare(const store::RunDetails& a, const store::RunDetails& b) {
  return {a.run.uid, b.run.uid, differences(params_of(a), params_of(b)),
          differences(environment_of(a.run), environment_of(b.run)), metrics_of(a, b)};
}

std::string comparison_text(const Comparison& comparison, int width, bool color) {
  const auto& [a, b, params, environment, metrics] = comparison;
  std::string text;
  for (const auto& [title, found] : {std::pair("parameter", &params), std::pair("environment", &environment)}) {
    Table table({{title}, {a}, {b}});
    for (const Comparison::Difference& d : *found) table.add({d.key, d.a, d.b});
    text += found->empty() ? fmt::format("no {} differs\n\n", title) : table.render(width, color) + '\n';
  }
  Table table({{"metric"}, {a, Align::kRight}, {b, Align::kRight}, {"difference", Align::kRight}});
  for (const Comparison::Metric& m : metrics) {
    table.add({m.name, value_text(m.a), value_text(m.b), value_text(m.b - m.a)});
  }
  return text + (metrics.empty() ? "no metrics\n" : table.render(width, color));
}

std::string comparison_document(const Comparison& comparison) {
  json::Object metrics;
  for (const Comparison::Metric& m : comparison.metrics) metrics.emplace_back(m.name, json::List{m.a, m.b});
  return json::text(json::Object{{"a", comparison.a},
                                 {"b", comparison.b},
                                 {"params", differences_json(comparison.params)},
                                 {"environment", differences_json(comparison.environment)},
                                 {"metrics", std::move(metrics)}});
}

}  // namespace runner::report
