#include "runner/train/run/checkpoint/run_document.h"

#include <array>
#include <cstdlib>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "schema/base/error.h"

namespace runner::train {
namespace {

using Json = nlohmann::json;

// Version 4 is version 3 with sums of several ranks.
constexpr int kVersion = 4;

// Numbers that JSON cannot represent are stored as text.
std::string number_text(double value) {
  return fmt::format("{}", value);
}
Json optional_text(const std::optional<double>& value) {
  return value ? Json(number_text(*value)) : Json(nullptr);
}
std::optional<double> optional_number(const Json& text) {
  if (text.is_null()) return std::nullopt;
  return std::strtod(text.get<std::string>().c_str(), nullptr);
}

Json metrics_document(const MetricSums& metrics) {
  Json document = Json::object();
  for (const auto& [name, sum] : metrics) document[name] = {number_text(sum.sum), number_text(sum.weight)};
  return document;
}

MetricSums metrics_of(const Json& document) {
  MetricSums metrics;
  for (const auto& [name, sum] : document.items())
    metrics[name] = {optional_number(sum.at(0)).value(), optional_number(sum.at(1)).value()};
  return metrics;
}

// Includes optimizers that have not stepped.
Json updates_document(const Counters& counters, const std::vector<std::string>& optimizers) {
  Json document = Json::object();
  for (const std::string& name : optimizers) {
    const auto found = counters.updates.find(name);
    document[name] = found == counters.updates.end() ? 0 : found->second;
  }
  return document;
}

// Version 1 counts the updates of a hook's loop by optimizer index. Those of the declared loop are `applied` plus the
// updates that the slots had before. The schedule is counted only for a hook's loop.
void read_older_counters(const Json& document, const std::vector<std::string>& optimizers, Counters& counters) {
  const auto updates = document.value("updates", std::vector<int64_t>{});
  const int64_t all = counters.applied + document.value("slot_offset", int64_t{0});
  for (size_t i = 0; i < optimizers.size(); ++i)
    counters.updates[optimizers[i]] = updates.size() == optimizers.size() ? updates[i] : all;
  counters.scheduled = updates.empty() ? counters.applied : document.value("scheduled", int64_t{0});
}

Counters counters_of(const Json& document, const std::vector<std::string>& optimizers) {
  Counters counters{.steps = document.at("windows"),
                    .applied = document.at("applied"),
                    .samples = document.at("samples"),
                    .batches = document.value("batches", int64_t{0}),   // older checkpoints have none
                    .repeats = document.value("repeats", int64_t{0})};  // likewise
  if (document.at("version") == 1) {
    read_older_counters(document, optimizers, counters);
    return counters;
  }
  counters.scheduled = document.at("scheduled");
  counters.updates = document.at("updates").get<std::map<std::string, int64_t>>();
  counters.update_was_skipped = document.at("update_was_skipped");
  return counters;
}

// Stores the digest as text, since JSON numbers cannot represent it.
Json step_document(const StepResult& result, const StepMetrics& metrics) {
  if (result.batches == 0) return nullptr;
  return {{"batches", result.batches},
          {"samples", result.samples},
          {"repeats", result.repeats},
          {"ends_epoch", result.ends_epoch},
          {"metrics", metrics_document(metrics.in_step())},
          {"batch_digest", fmt::format("{:x}", result.batch_digest)}};
}

// Older checkpoints are never within an optimizer step.
StepResult step_of(const Json& document) {
  StepResult result;
  if (document.is_null()) return result;
  result.batches = document.at("batches");
  result.samples = document.at("samples");
  result.repeats = document.at("repeats");
  result.ends_epoch = document.at("ends_epoch");
  result.batch_digest = std::strtoull(document.at("batch_digest").get<std::string>().c_str(), nullptr, 16);
  return result;
}

Json pending_document(const std::optional<PendingEvents>& pending) {
  if (!pending) return nullptr;
  return {{"evaluation", pending->evaluation}, {"evaluated", pending->evaluated}, {"ends_epoch", pending->ends_epoch}};
}

std::optional<PendingEvents> pending_of(const Json& document) {
  if (document.is_null()) return std::nullopt;
  return PendingEvents{.evaluation = document.at("evaluation"),
                       .evaluated = document.at("evaluated"),
                       .ends_epoch = document.at("ends_epoch")};
}

}  // namespace

std::string run_document(const Checkpoint& state, const std::vector<std::string>& optimizers) {
  Json document{
      {"version", state.ranks > 1 ? kVersion : kVersion - 1},
      {"ranks", state.ranks},
      {"epoch", state.position.epoch},
      {"batch", state.position.step},
      {"start", state.position.start},
      {"reached_epoch", state.reached_epoch},
      {"window", step_document(state.result, state.metrics)},
      {"end_of_window", pending_document(state.pending)},
      {"accumulation", {state.accumulation, state.next_accumulation}},
      {"used", state.used},
      {"global_batch", state.global_batch},
      {"extra_steps", state.extra_steps},
      {"most_at_once", state.max_micro_batch},
      {"windows", state.counters.steps},
      {"applied", state.counters.applied},
      {"samples", state.counters.samples},
      {"batches", state.counters.batches},
      {"repeats", state.counters.repeats},
      {"scheduled", state.counters.scheduled},
      {"updates", updates_document(state.counters, optimizers)},
      {"update_was_skipped", state.counters.update_was_skipped},
      {"plateau",
       {{"best", optional_text(state.plateau.best)},
        {"bad_evaluations", state.plateau.bad_evaluations},
        {"cooldown", state.plateau.cooldown},
        {"factor", number_text(state.plateau.factor)}}},
      {"early_stopping", {{"best", optional_text(state.patience.best)}, {"evaluations", state.patience.evaluations}}},
      {"metrics", metrics_document(state.metrics.ended)},
      {"hook", state.hook},
      {"encoding", state.encoding.to_json()},
      {"train_data", state.train_data},
      {"eval_data", state.eval_data}};
  if (state.not_finite > 0) document["not_finite"] = state.not_finite;
  return document.dump();
}

Checkpoint checkpoint_of(const store::LoadedState& loaded, const std::vector<std::string>& optimizers) {
  const store::Section& section = loaded.at(kRunSection);
  try {
    const Json document = Json::parse(reinterpret_cast<const char*>(section.bytes.data()),
                                      reinterpret_cast<const char*>(section.bytes.data() + section.bytes.size()));
    const int version = document.at("version");
    RUN_CHECK(version <= kVersion, ErrorKind::kStore, "state {} was written by a newer version of runner",
              loaded.info.id);
    const Json& plateau = document.at("plateau");
    const Json& early = document.at("early_stopping");
    Checkpoint state;
    state.position = {document.at("epoch"), document.at("batch"), document.value("start", int64_t{0})};
    state.result = step_of(document.value("window", Json(nullptr)));
    state.result.next = state.position;
    state.reached_epoch = document.value("reached_epoch", state.position.epoch);
    state.pending = pending_of(document.value("end_of_window", Json(nullptr)));
    const auto accumulation = document.value("accumulation", std::array<int64_t, 2>{});
    state.accumulation = accumulation[0];
    state.next_accumulation = accumulation[1];
    state.used = document.value("used", int64_t{0});
    state.global_batch = document.value("global_batch", int64_t{0});
    state.extra_steps = document.value("extra_steps", int64_t{0});
    state.max_micro_batch = document.value("most_at_once", int64_t{0});
    state.not_finite = document.value("not_finite", int64_t{0});
    state.counters = counters_of(document, optimizers);
    state.plateau = {optional_number(plateau.at("best")), plateau.at("bad_evaluations"), plateau.at("cooldown"),
                     optional_number(plateau.at("factor")).value_or(1.0)};
    state.patience = {optional_number(early.at("best")), early.at("evaluations")};
    state.metrics.ended = metrics_of(document.value("metrics", Json::object()));  // older checkpoints have none
    if (state.result.batches > 0)
      state.metrics.step = metrics_of(document.at("window").value("metrics", Json::object()));
    state.ranks = document.value("ranks", int64_t{1});
    state.hook = document.value("hook", "");
    state.encoding = data::Encoding::from_json(document.at("encoding").get<std::string>());
    state.train_data = document.at("train_data");
    state.eval_data = document.at("eval_data");
    return state;
  } catch (const Json::exception&) {
    fail(ErrorKind::kStore, "state {}: the section run is damaged or was written by another version of runner",
         loaded.info.id);
  }
}

}  // namespace runner::train
