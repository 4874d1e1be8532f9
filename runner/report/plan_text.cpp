#include "runner/report/plan_text.h"

#include <algorithm>

#include <fmt/format.h>

#include "runner/data/labels.h"
#include "runner/data/storage.h"
#include "runner/report/device_time.h"
#include "runner/report/forecast_text.h"
#include "runner/report/format.h"
#include "runner/report/memory_text.h"
#include "runner/report/plot.h"
#include "runner/report/rate_curve.h"
#include "runner/report/run_text.h"
#include "runner/report/table.h"
#include "runner/train/loop/evaluator.h"
#include "runner/train/run/gpu_use.h"
#include "runner/train/step/device_rules.h"
#include "schema/base/json.h"
#include "schema/base/text.h"

namespace runner::report {
namespace {

constexpr int kRates = 100;  // number of points in the document

// Example: "15 per epoch: 14 of 96 samples, the last of 94 samples".
std::string parts_text(int64_t count, const std::string& part, const std::string& last) {
  if (count == 1 || part == last) return fmt::format("{} per epoch, of {}{}", count, last, count == 1 ? "" : " each");
  return fmt::format("{} per epoch: {} of {}, the last of {}", count, count - 1, part, last);
}

std::string optimizer_step_text(const data::OptimizerStep& optimizer_step) {
  return fmt::format("{} ({})", count_text(optimizer_step.steps, "batch"),
                     count_text(optimizer_step.samples, "sample"));
}

std::string optimizer_steps_text(const data::DataPlan& plan) {
  const data::OptimizerStep first = plan.optimizer_step(0);
  if (!plan.spec().steps_end_with_epoch)
    return fmt::format("{:.6g} per epoch, of {} each, continuing across epochs", plan.optimizer_steps_per_epoch(),
                       count_text(first.steps, "batch"));
  const int64_t count = plan.optimizer_steps(1);
  return parts_text(count, optimizer_step_text(first), optimizer_step_text(plan.optimizer_step(count - 1)));
}

std::string batches_text(const data::DataPlan& plan) {
  const int64_t last = plan.steps_per_epoch() - 1;
  return parts_text(last + 1, count_text(plan.samples_ahead(0, 1), "sample"),
                    count_text(plan.samples_ahead(last, 1), "sample"));
}

// The global batch size, and that of each process. Example: "50 samples, up to 13 for each of 4 processes".
std::string batch_text(const data::DataPlan& plan) {
  const data::PlanSpec& spec = plan.spec();
  std::string all = count_text(plan.global_batch_size(), "sample");
  if (spec.processes == 1) return all;
  const bool even = !spec.split_batches || spec.batch_size % spec.processes == 0;
  const int64_t each = spec.split_batches ? (spec.batch_size + spec.processes - 1) / spec.processes : spec.batch_size;
  return fmt::format("{}, {}{} for each of {} processes", all, even ? "" : "up to ", each, spec.processes);
}

std::string samples_text(const data::DataPlan& plan) {
  const int64_t all = plan.spec().samples, used = plan.samples_per_epoch();
  return used == all ? fmt::format("{} per epoch", used) : fmt::format("{} per epoch, of {}", used, all);
}

// Repeated samples have weight 0.
std::string repeats_text(const data::DataPlan& plan) {
  const int64_t repeats = plan.repeats_per_epoch();
  return repeats == 0 ? "none" : fmt::format("{} per epoch, which do not count", count_text(repeats, "sample"));
}

std::string data_text(const data::Data& data) {
  return fmt::format("{} for training, {} for evaluation, features {}", count_text(data.train.size(), "sample"),
                     data.eval ? data.eval->size() : 0, data.encoding.feature_shape.to_string());
}

// "samples": of each class in the training part; null if they are not counted.
json::Value labels_json(const data::Data& data) {
  const data::Encoding& encoding = data.encoding;
  json::Value samples, ignored;
  if (!data.class_counts.empty()) samples = json::list_of(data.class_counts);
  if (encoding.ignore_index) ignored = *encoding.ignore_index;
  return json::Object{{"task", encoding.label_kind == data::LabelKind::kClass ? "classification" : "regression"},
                      {"classes", encoding.predicts_tokens() ? json::Value() : json::list_of(encoding.classes())},
                      {"samples", std::move(samples)},
                      {"ignored", std::move(ignored)}};
}

// Tokens of the rows of a section, with special tokens, before padding.
struct TokenLengths {
  int64_t shortest = 0, median = 0, percentile_95 = 0, longest = 0, truncated = 0;
};

TokenLengths lengths_of(const data::Dataset& set) {
  std::vector<int64_t> lengths;
  for (int64_t id = 0; id < set.size(); ++id) lengths.push_back(set.length_of(id));
  std::ranges::sort(lengths);
  // the smallest length that `percent` of the rows do not exceed
  const auto at = [&](size_t percent) { return lengths[(lengths.size() * percent + 99) / 100 - 1]; };
  return {lengths.front(), at(50), at(95), lengths.back(), set.storage().rows->truncated};
}

std::string tokens_text(const data::Data& data) {
  const TokenLengths lengths = lengths_of(data.train);
  std::string text = fmt::format("{} to {} per row, median {}, 95 % up to {}; ", lengths.shortest, lengths.longest,
                                 lengths.median, lengths.percentile_95);
  const int64_t most = data.encoding.feature_shape[0];
  text += lengths.truncated == 0 ? fmt::format("none cut to {}", most)
                                 : fmt::format("{} cut to {}", count_text(lengths.truncated, "row"), most);
  return text + fmt::format("; padding: {}", name_of(data.encoding.texts->padding));
}

json::Value tokens_json(const data::Data& data) {
  if (!data.train.storage().rows) return {};
  const TokenLengths lengths = lengths_of(data.train);
  return json::Object{{"tokenizer", data.encoding.texts->tokenizer},
                      {"vocabulary", data.encoding.vocabulary},
                      {"max_length", data.encoding.feature_shape[0]},
                      {"shortest", lengths.shortest},
                      {"median", lengths.median},
                      {"percentile_95", lengths.percentile_95},
                      {"longest", lengths.longest},
                      {"truncated_rows", lengths.truncated}};
}

bool forks(const train::Session& session) {
  return session.recipe.tpu.start_method == schema::StartMethod::kFork;
}

json::Value host_memory_json(const train::Session& session) {
  if (!train::device_rules(session.recipe).has_start_method) return {};
  const train::HostMemory memory = train::host_memory(session);
  return json::Object{
      {"start_method", forks(session) ? "fork" : "spawn"}, {"fork", memory.forked()}, {"spawn", memory.spawned()}};
}

// Memory of the arrays that stay on the device between steps.
int64_t state_bytes(const train::DeviceLayout& layout) {
  size_t bytes = 0;
  for (const train::DeviceArray& array : layout.arrays()) bytes += array.type.bytes();
  return static_cast<int64_t>(bytes);
}

// Peaks of each process, what the peak in training consists of, and the memory of all processes.
std::string predicted_memory_text(const PlanForecast& forecast, const schema::Recipe& recipe) {
  if (!forecast.steps) return forecast.unknown;
  const int64_t processes = recipe.num_processes;
  const bool has_allocator = train::device_rules(recipe).has_allocator;
  const train::MemoryUse& use = forecast.steps->training;
  std::string text = fmt::format("{}{}\ntraining: {} weights, ", peak_text(peak_json(forecast.steps->peak)),
                                 processes > 1 ? " (per process)" : "", bytes_text(use.parameters));
  if (use.gradients > 0) text += fmt::format("{} accumulated gradients, ", bytes_text(use.gradients));
  text += fmt::format("{} optimizer state, {} activations{}", bytes_text(use.optimizer), bytes_text(use.activations),
                      has_allocator ? " and free memory of the allocator" : "");
  if (processes > 1)
    text += fmt::format("\nall {} processes in training: {}", processes, bytes_text(forecast.steps->all_processes));
  return text;
}

// The plan of an evaluation in a run; none without evaluation data.
std::optional<data::DataPlan> evaluation_of(const train::Session& session) {
  return train::evaluation_plan(session.trainer.builder(), session.data, session.recipe.num_processes);
}

// How an evaluation treats its short last batch; empty if it is evaluated as it is. A hook's own loop has short batches
// unless eval.pad_last is set.
std::string evaluation_text(const train::Session& session, const data::DataPlan& plan) {
  const std::string batches = fmt::format("{} of {}", count_text(plan.steps_per_epoch(), "batch"),
                                          count_text(plan.global_batch_size(), "sample"));
  const int64_t dropped = plan.spec().samples - plan.samples_per_epoch(), repeats = plan.repeats_per_epoch();
  if (dropped > 0) return fmt::format("{}; the last {} left out", batches, count_text(dropped, "sample"));
  if (repeats == 0) return "";
  const bool only_of_run = session.has_custom_loop && !session.recipe.eval.pad_last;
  return fmt::format("{}, the last filled up with {} that do not count{}", batches, count_text(repeats, "repeat"),
                     only_of_run ? ", but not in the loop of the hook; eval.pad_last: true fills up both" : "");
}

json::Value evaluation_json(const train::Session& session) {
  const std::optional<data::DataPlan> plan = evaluation_of(session);
  if (!plan) return {};
  return json::Object{{"samples", plan->samples_per_epoch()},
                      {"batches", plan->steps_per_epoch()},
                      {"repeats", plan->repeats_per_epoch()}};
}

json::Value predicted_memory_json(const PlanForecast& forecast) {
  if (!forecast.steps) return {};
  const train::MemoryUse& use = forecast.steps->training;
  json::Object members = peak_json(forecast.steps->peak);
  for (const auto& [name, bytes] : {std::pair{"parameters", use.parameters},
                                    {"gradients", use.gradients},
                                    {"optimizer", use.optimizer},
                                    {"other", use.other},
                                    {"activations", use.activations},
                                    {"all_processes", forecast.steps->all_processes}})
    members.emplace_back(name, bytes);
  return members;
}

// Number of optimizer steps, and samples of all processes in each.
DeviceTime time_of_steps(const train::Session& session) {
  DeviceTime time;
  time.samples = static_cast<double>(session.plan.optimizer_step(0).samples);
  time.steps = session.length.total_steps;
  return time;
}

// None if the graphs of a hook are unknown.
std::optional<DeviceTime> tpu_time(const train::Session& session, const train::RunForecast& forecast) {
  DeviceTime time = time_of_steps(session);
  time.device = backends::tpu::row_of(train::generation_of(session.recipe)).name;
  for (const train::NamedForecast& each : forecast.graphs) {
    const auto times = static_cast<double>(each.per_step);
    time.least += times * each.graph.prediction.least_seconds;
    time.most += times * each.graph.prediction.most_seconds;
  }
  return time.least > 0 ? std::make_optional(time) : std::nullopt;
}

// None on backends that emulate no device, and if the steps are unknown.
std::optional<DeviceTime> predicted_time(const train::Session& session, const PlanForecast& forecast) {
  if (forecast.graphs) return tpu_time(session, *forecast.graphs);
  if (!forecast.steps || !forecast.steps->gpu_time) return std::nullopt;
  auto time =
      gpu_time(train::gpu_use_of_step(*session.device, *forecast.steps->gpu_time), time_of_steps(session).samples);
  if (time) time->steps = session.length.total_steps;
  return time;
}

// Length of the run and how it is computed, for example "30 epochs of 4".
std::string run_text(const train::Session& session) {
  const std::string steps = count_text(session.length.total_steps, "optimizer step");
  const auto& epochs = session.recipe.train.epochs;
  if (epochs && session.recipe.sync_with_dataloader)
    return fmt::format("{}: {} of {}", steps, count_text(*epochs, "epoch"), session.plan.optimizer_steps(1));
  if (epochs) return fmt::format("{} in {}", steps, count_text(*epochs, "epoch"));
  const optim::StepsPerEpoch each = session.length.steps_per_epoch;
  const double in_epochs = static_cast<double>(session.length.total_steps) * static_cast<double>(each.epochs) /
                           static_cast<double>(each.steps);
  if (in_epochs < 0.001) return fmt::format("{}: less than 0.001 epochs", steps);
  return fmt::format("{}: {:.6g} epochs", steps, in_epochs);
}

// Memory of the host of a real TPU.
std::string host_memory_text(const train::Session& session) {
  const train::HostMemory memory = train::host_memory(session);
  const std::string forked = bytes_text(memory.forked()), spawned = bytes_text(memory.spawned());
  return forks(session)
             ? fmt::format("{} in forked processes, which share model and data; {} if all {} were spawned", forked,
                           spawned, memory.processes)
             : fmt::format("{} in {} spawned processes, each with its own model and data; {} if they were forked",
                           spawned, memory.processes, forked);
}

}  // namespace

void add_plan(KeyValueTable& table, const data::DataPlan& plan) {
  table.add("samples", samples_text(plan));
  table.add("processes", std::to_string(plan.spec().processes));
  table.add("global batch", batch_text(plan));
  table.add("batches", batches_text(plan));
  table.add("optimizer steps", optimizer_steps_text(plan));
  table.add("repeats", repeats_text(plan));
}

std::string plan_text(const train::Session& session, const PlanForecast& forecast, int width, bool color) {
  const nn::ParameterSet& parameters = session.trainer.model().parameters;
  std::string weights = count_text(parameters.elements(), "parameter");
  const int64_t frozen = parameters.elements() - parameters.trainable_elements();
  if (frozen > 0) weights += fmt::format(", {} frozen", frozen);
  if (const int64_t buffers = parameters.buffer_elements(); buffers > 0)
    weights += fmt::format("; {} in buffers, such as running statistics", count_text(buffers, "number"));

  KeyValueTable facts;
  add_plan(facts, session.plan);
  if (session.has_training_step && session.plan.repeats_per_epoch() > 0)
    facts.add(
        "", "the hook's training_step gets no repeated samples; a rank without samples gets one sample of weight zero");
  facts.add("data", data_text(session.data));
  if (const std::string& text = session.data.train.storage().contents; !text.empty()) facts.add("images", text);
  if (const auto evaluation = evaluation_of(session))
    if (const std::string text = evaluation_text(session, *evaluation); !text.empty()) facts.add("evaluation", text);
  facts.add("labels", data::labels_text(session.data.encoding));
  if (session.data.encoding.texts && session.data.train.storage().rows) facts.add("tokens", tokens_text(session.data));
  facts.add("model", weights);
  facts.add("memory", fmt::format("{} for weights, optimizer state and accumulated gradients",
                                  bytes_text(state_bytes(session.trainer.layout()))));
  facts.add("peak memory", predicted_memory_text(forecast, session.recipe));
  if (train::device_rules(session.recipe).has_start_method) facts.add("host memory", host_memory_text(session));
  facts.add("run", run_text(session));
  if (const auto time = predicted_time(session, forecast)) facts.add("predicted time", device_time_text(*time));
  facts.add("learning rate", rate_text(rates_of(session)));
  std::string text = facts.render() + rate_plot(session, plot_width(width), color);
  if (!forecast.graphs) return text;
  return text + forecast_text(*forecast.graphs, train::generation_of(session.recipe), width, color);
}

std::string plan_document(const train::Session& session, const PlanForecast& forecast, std::string plan,
                          const json::Object& more) {
  const nn::ParameterSet& parameters = session.trainer.model().parameters;
  const RateSummary rates = rates_of(session);
  const std::optional<DeviceTime> time = predicted_time(session, forecast);
  const auto point = [](const PlotPoint& p) { return json::List{static_cast<int64_t>(p.x), p.y}; };
  json::Object members{{"labels", labels_json(session.data)},
                       {"tokens", tokens_json(session.data)},
                       {"evaluation", evaluation_json(session)},
                       {"parameters", parameters.elements()},
                       {"trainable_parameters", parameters.trainable_elements()},
                       {"buffers", parameters.buffer_elements()},
                       {"memory_bytes", state_bytes(session.trainer.layout())},
                       {"predicted_memory", predicted_memory_json(forecast)},
                       {"predicted_time", time ? device_time_json(*time) : json::Value()},
                       {"host_memory", host_memory_json(session)},
                       {"optimizer_steps", session.length.total_steps},
                       {"learning_rate", json::Object{{"first", rates.first},
                                                      {"highest", rates.highest},
                                                      {"highest_step", rates.highest_step},
                                                      {"last", rates.last}}},
                       {"rates", json::list_of(rate_curve(session, kRates), point)}};
  members.insert(members.end(), more.begin(), more.end());
  if (forecast.graphs)
    members.emplace_back("tpu", forecast_json(*forecast.graphs, train::generation_of(session.recipe)));
  plan.back() = ',';  // replaces the closing brace
  return plan + json::line(members).substr(1);
}

}  // namespace runner::report
