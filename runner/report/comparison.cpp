#include "runner/report/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "runner/report/device_time.h"
#include "runner/report/documents.h"
#include "runner/report/format.h"
#include "runner/report/run_text.h"
#include "schema/base/duration.h"
#include "schema/base/json.h"
#include "schema/base/sha256.h"
#include "store/value_text.h"

namespace runner::report {
namespace {

using FactMap = std::map<std::string, store::Param::Value>;

// Parts of a run's record that are compared.
constexpr std::string_view kParams = "parameters", kProvenance = "provenance", kMetrics = "metrics";

bool has(const Comparison& comparison, std::string_view part) {
  return std::ranges::find(comparison.damage, part, &store::Damage::part) == comparison.damage.end();
}

FactMap params_of(const store::RunDetails& run) {
  FactMap facts;
  for (const store::Param& param : run.params) facts[param.key] = param.value;
  return facts;
}

store::Param::Value value_of(const json::Value& value) {
  if (const int64_t* number = value.integer()) return *number;
  return schema::display_text(value);
}

void add_provenance(const store::Provenance& provenance, FactMap& facts) {
  const json::Value environment = json::parse(provenance.environment_json);
  for (const auto& [key, value] : json::members_of(environment)) facts[key] = value_of(value);
  facts["git.commit"] = provenance.git.commit;
  facts["git.branch"] = provenance.git.branch;
  for (const store::AttemptSource& source : provenance.sources) {
    const bool is_diff = source.kind == "diff";  // whose path is the commit
    facts[is_diff ? "git.diff" : source.kind + ' ' + source.path] = hex(sha256(source.text)).substr(0, 12);
  }
}

FactMap environment_of(const store::RunDetails& details, bool with_provenance) {
  const store::RunRow& run = details.run;
  FactMap facts{{"host", run.host},
                {"backend", run.backend},
                {"num_processes", run.num_processes},
                {"cpu_features", run.cpu_features},
                {"kernels", kernels_text(run.kernels_json)},
                {"binary_version", run.binary_version}};
  if (with_provenance && !details.provenance.empty()) add_provenance(details.provenance.back().provenance, facts);
  return facts;
}

FactMap data_of(const store::RunDetails& run) {
  FactMap facts;
  for (const store::RecordedFile& file : recorded_files(run)) facts[file.key] = data_file_text(file);
  return facts;
}

std::string text_of(const std::optional<store::Param::Value>& value) {
  return value ? param_text(*value) : "";
}

std::vector<Comparison::Difference> differences(const FactMap& a, const FactMap& b) {
  std::map<std::string, Comparison::Difference> both;
  for (const auto& [key, value] : a) both[key].a = value;
  for (const auto& [key, value] : b) both[key].b = value;
  std::vector<Comparison::Difference> found;
  for (auto& [key, difference] : both) {
    if (text_of(difference.a) == text_of(difference.b)) continue;  // compares texts, so that NaN equals NaN
    difference.key = key;
    found.push_back(std::move(difference));
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

// Returns the predicted time of the emulated device in a summary, least and most.
std::optional<std::array<double, 2>> device_seconds(const json::Value& summary) {
  const json::Value of_graphs = json::member(json::member(summary, "graphs"), "predicted_seconds"),
                    of_gpu = json::member(json::member(summary, "gpu"), "predicted");
  if (const auto both = json::elements_of(of_graphs); both.size() == 2)
    return std::array{json::number_of(both[0]).value_or(0), json::number_of(both[1]).value_or(0)};
  double total = 0;
  for (const char* const phase : {"seconds", "evaluation_seconds", "saving_seconds"})
    total += json::number_of(json::member(of_gpu, phase)).value_or(0);
  return total > 0 ? std::make_optional(std::array{total, total}) : std::nullopt;
}

Comparison::Cost cost_of(const store::RunRow& run) {
  Comparison::Cost cost;
  cost.seconds = seconds_of_attempts(run);
  const json::Value summary = json::parse(run.summary_json);
  for (const auto& [phase, bytes] : json::members_of(json::member(summary, "peak_memory")))
    if (const auto count = json::integer_of(bytes)) cost.peak_memory = std::max(cost.peak_memory.value_or(0), *count);
  cost.device_seconds = device_seconds(summary);
  return cost;
}

std::string value_text(double value) {
  return std::isnan(value) ? "" : rounded_text(value);
}

Table differences_table(const char* title, const Comparison& comparison,
                        const std::vector<Comparison::Difference>& differences) {
  Table table({{title}, {comparison.a}, {comparison.b}});
  for (const Comparison::Difference& d : differences) table.add({d.key, text_of(d.a), text_of(d.b)});
  return table;
}

Table metrics_table(const Comparison& comparison) {
  Table table(
      {{"metric"}, {comparison.a, Align::kRight}, {comparison.b, Align::kRight}, {"difference", Align::kRight}});
  for (const Comparison::Metric& m : comparison.metrics) {
    table.add({m.name, value_text(m.a), value_text(m.b), value_text(m.b - m.a)});
  }
  return table;
}

Table cost_table(const Comparison& comparison) {
  const Comparison::Cost &a = comparison.cost_a, &b = comparison.cost_b;
  const auto memory = [](const Comparison::Cost& cost) {
    return cost.peak_memory ? bytes_text(*cost.peak_memory) : "";
  };
  const auto device = [](const Comparison::Cost& cost) {
    return cost.device_seconds ? seconds_range_text((*cost.device_seconds)[0], (*cost.device_seconds)[1]) : "";
  };
  Table table({{"cost"}, {comparison.a, Align::kRight}, {comparison.b, Align::kRight}});
  table.add({"time", duration_text(a.seconds), duration_text(b.seconds)});
  if (a.device_seconds || b.device_seconds) table.add({"predicted device time", device(a), device(b)});
  if (a.peak_memory || b.peak_memory) table.add({"peak memory", memory(a), memory(b)});
  return table;
}

json::Value value_or_null(const std::optional<store::Param::Value>& value) {
  return value ? store::json_of(*value) : json::Value();
}

json::Object differences_json(const std::vector<Comparison::Difference>& differences) {
  json::Object object;
  for (const auto& [key, a, b] : differences) object.emplace_back(key, json::List{value_or_null(a), value_or_null(b)});
  return object;
}

json::Value pair_json(const std::optional<std::array<double, 2>>& both) {
  return both ? json::Value(json::List{(*both)[0], (*both)[1]}) : json::Value();
}

}  // namespace

Comparison compare(const store::RunDetails& a, const store::RunDetails& b) {
  Comparison found;
  found.a = a.run.uid;
  found.b = b.run.uid;
  found.cost_a = cost_of(a.run);
  found.cost_b = cost_of(b.run);
  found.damage = a.damage;
  found.damage.insert(found.damage.end(), b.damage.begin(), b.damage.end());
  const bool provenance = has(found, kProvenance);
  found.environment = differences(environment_of(a, provenance), environment_of(b, provenance));
  if (provenance) {
    const FactMap of_a = data_of(a), of_b = data_of(b);
    found.has_data = !of_a.empty() || !of_b.empty();
    found.data = differences(of_a, of_b);
  }
  if (has(found, kParams)) found.params = differences(params_of(a), params_of(b));
  if (has(found, kMetrics)) found.metrics = metrics_of(a, b);
  return found;
}

std::string comparison_text(const Comparison& comparison, int width, bool color) {
  std::string text;
  const auto add = [&](const Table& table, const char* otherwise) {
    text += (text.empty() ? "" : "\n") + (table.empty() ? otherwise : table.render(width, color));
  };
  if (has(comparison, kParams))
    add(differences_table("parameter", comparison, comparison.params), "all parameters are equal\n");
  if (comparison.has_data) add(differences_table("data", comparison, comparison.data), "the data are equal\n");
  add(differences_table("environment", comparison, comparison.environment), "the environments are equal\n");
  add(cost_table(comparison), "");
  if (has(comparison, kMetrics)) add(metrics_table(comparison), "no metrics\n");
  return text;
}

std::string comparison_document(const Comparison& comparison) {
  json::Object metrics;
  for (const Comparison::Metric& m : comparison.metrics) metrics.emplace_back(m.name, json::List{m.a, m.b});
  json::Object document{{"a", comparison.a},
                        {"b", comparison.b},
                        {"params", differences_json(comparison.params)},
                        {"data", differences_json(comparison.data)},
                        {"environment", differences_json(comparison.environment)},
                        {"metrics", std::move(metrics)},
                        {"total_seconds", json::List{comparison.cost_a.seconds, comparison.cost_b.seconds}},
                        {"predicted_seconds", json::List{pair_json(comparison.cost_a.device_seconds),
                                                         pair_json(comparison.cost_b.device_seconds)}},
                        {"peak_memory", json::List{json::or_null(comparison.cost_a.peak_memory),
                                                   json::or_null(comparison.cost_b.peak_memory)}}};
  add_damage(document, comparison.damage);
  return json::text(document);
}

}  // namespace runner::report
