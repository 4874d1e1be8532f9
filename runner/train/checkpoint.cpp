#include "runner/train/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "runner/data/dataset.h"
#include "schema/error.h"

namespace runner::train {
namespace {

using nlohmann::json;

constexpr std::string_view kModel = "model/";
constexpr std::string_view kOptimizer = "optimizer/";
constexpr std::string_view kSums = "sums";
constexpr std::string_view kRun = "run";
constexpr int kRunVersion = 1;  // of the document in that section

std::string meta_of(const backends::TensorType& type) {
  return json{{"dtype", name_of(type.dtype)}, {"shape", type.shape.dims()}}.dump();
}

// Numbers that JSON cannot hold travel as text.
std::string number_text(double value) {
  return fmt::format("{}", value);
}
json optional_text(const std::optional<double>& value) {
  return value ? json(number_text(*value)) : json(nullptr);
}
std::optional<double> optional_number(const json& text) {
  if (text.is_null()) return std::nullopt;
  return std::strtod(text.get<std::string>().c_str(), nullptr);
}

std::string run_document(const RunState& state) {
  return json{
      {"version", kRunVersion},
      {"epoch", state.position.epoch},
      {"batch", state.position.step},
      {"windows", state.counters.windows},
      {"applied", state.counters.applied},
      {"samples", state.counters.samples},
      {"plateau",
       {{"best", optional_text(state.plateau.best)},
        {"bad_evaluations", state.plateau.bad_evaluations},
        {"cooldown", state.plateau.cooldown},
        {"factor", number_text(state.plateau.factor)}}},
      {"early_stopping", {{"best", optional_text(state.patience.best)}, {"evaluations", state.patience.evaluations}}},
      {"encoding", state.encoding.to_json()},
      {"train_data", state.train_data},
      {"eval_data", state.eval_data}}
      .dump();
}

// Visits every array range that belongs to one parameter: (section name, array, parameter).
template <class Visit>
void each_parameter_range(const Trainer& trainer, const Visit& visit) {
  const schema::Recipe& recipe = trainer.recipe();
  const nn::ParameterSet& parameters = trainer.model().parameters;
  for (const DeviceArray& array : trainer.layout().arrays()) {
    if (array.role != Role::kParameters && array.role != Role::kSlot) continue;
    const int32_t group = parameters.buffers()[static_cast<size_t>(array.buffer)].group;
    const int32_t position = trainer.layout().find(array.role, array.buffer, array.index);
    for (const nn::ParameterId id : parameters.in_buffer(array.buffer)) {
      const nn::Parameter& parameter = parameters[id];
      if (array.role == Role::kParameters) {
        visit(fmt::format("{}{}", kModel, parameter.name), position, parameter);
      } else {
        const auto slots = optim::slots(recipe.optimizer.type, hyper_of(recipe, group));
        const std::string_view slot = slots[static_cast<size_t>(array.index)].name;
        visit(fmt::format("{}{}/{}", kOptimizer, parameter.name, slot), position, parameter);
      }
    }
  }
}

bool is_tensor(const store::Section& section) {
  return section.name.starts_with(kModel) || section.name.starts_with(kOptimizer);
}

backends::Shape shape_of(const store::LoadedState& loaded, const store::Section& section) {
  try {
    return backends::Shape(json::parse(section.meta).at("shape").get<std::vector<int64_t>>());
  } catch (const std::exception&) {  // not JSON, or no shape
    fail(ErrorKind::kStore, "state {}: the description of {} is damaged", loaded.info.id, section.name);
  }
}

}  // namespace

void capture(Trainer& trainer, const RunState& state, store::StateSnapshot& snapshot) {
  snapshot.clear();
  const std::string document = run_document(state);
  snapshot.add(kRun, R"({"format":"json"})", std::as_bytes(std::span(document)));
  std::vector<std::byte> sums;
  for (int32_t sum = 0; sum < kSumCount; ++sum) {
    const std::vector<std::byte> value = trainer.read(trainer.layout().find(Role::kSum, 0, sum));
    sums.insert(sums.end(), value.begin(), value.end());
  }
  snapshot.add(kSums, meta_of({backends::DType::kF64, backends::Shape{kSumCount}}), sums);

  int32_t read_array = -1;
  std::vector<std::byte> contents;
  each_parameter_range(trainer, [&](const std::string& name, int32_t array, const nn::Parameter& p) {
    if (array != read_array) contents = trainer.read(read_array = array);
    const std::span<const std::byte> all(contents);
    snapshot.add(
        name, meta_of({backends::DType::kF32, p.shape}),
        all.subspan(static_cast<size_t>(p.offset) * sizeof(float), static_cast<size_t>(p.elements()) * sizeof(float)));
  });
}

std::optional<std::string> not_finite_parameter(const store::StateSnapshot& snapshot) {
  for (const store::SectionView& section : snapshot.sections()) {
    if (!section.name.starts_with(kModel)) continue;
    for (size_t at = 0; at < section.bytes.size(); at += sizeof(float)) {
      float value = 0;  // sections begin anywhere
      std::memcpy(&value, section.bytes.data() + at, sizeof value);
      if (!std::isfinite(value)) return fmt::format("parameter {} is {}", section.name.substr(kModel.size()), value);
    }
  }
  return std::nullopt;
}

RunState run_state_of(const store::LoadedState& loaded) {
  const store::Section& section = loaded.at(kRun);
  try {
    const json document = json::parse(reinterpret_cast<const char*>(section.bytes.data()),
                                      reinterpret_cast<const char*>(section.bytes.data() + section.bytes.size()));
    const int version = document.at("version");
    RUN_CHECK(version == kRunVersion, ErrorKind::kStore, "state {} was written by a newer version of runner",
              loaded.info.id);
    const json& plateau = document.at("plateau");
    const json& early = document.at("early_stopping");
    RunState state;
    state.position = {document.at("epoch"), document.at("batch")};
    state.counters = {document.at("windows"), document.at("applied"), document.at("samples")};
    state.plateau = {optional_number(plateau.at("best")), plateau.at("bad_evaluations"), plateau.at("cooldown"),
                     optional_number(plateau.at("factor")).value_or(1.0)};
    state.patience = {optional_number(early.at("best")), early.at("evaluations")};
    state.encoding = data::Encoding::from_json(document.at("encoding").get<std::string>());
    state.train_data = document.at("train_data");
    state.eval_data = document.at("eval_data");
    return state;
  } catch (const json::exception&) {
    fail(ErrorKind::kStore, "state {}: the section run is not a document that this version wrote", loaded.info.id);
  }
}

void restore(const store::LoadedState& loaded, Trainer& trainer) {
  const int64_t id = loaded.info.id;
  std::vector<std::vector<std::byte>> arrays;
  for (const DeviceArray& array : trainer.layout().arrays()) arrays.emplace_back(array.type.bytes());
  std::set<std::string> known;
  each_parameter_range(trainer, [&](const std::string& name, int32_t array, const nn::Parameter& p) {
    const store::Section* section = loaded.find(name);
    RUN_CHECK(section, ErrorKind::kStore, "state {} is of another model: it has no {}, which the recipe's model has",
              id, name);
    const backends::Shape shape = shape_of(loaded, *section);
    const size_t bytes = static_cast<size_t>(p.elements()) * sizeof(float);
    RUN_CHECK(shape == p.shape && section->bytes.size() == bytes, ErrorKind::kStore,
              "state {} is of another model: {} is {}, the recipe's model has {}", id, name, shape.to_string(),
              p.shape.to_string());
    std::memcpy(arrays[static_cast<size_t>(array)].data() + static_cast<size_t>(p.offset) * sizeof(float),
                section->bytes.data(), bytes);
    known.insert(name);
  });
  for (const store::Section& section : loaded.sections)
    RUN_CHECK(!is_tensor(section) || known.count(section.name) > 0, ErrorKind::kStore,
              "state {} is of another model: it has {}, which the recipe's model lacks", id, section.name);

  const store::Section& sums = loaded.at(kSums);
  RUN_CHECK(sums.bytes.size() == kSumCount * sizeof(double), ErrorKind::kStore, "state {}: the section sums is damaged",
            id);
  for (int32_t sum = 0; sum < kSumCount; ++sum) {
    auto& array = arrays[static_cast<size_t>(trainer.layout().find(Role::kSum, 0, sum))];
    std::memcpy(array.data(), sums.bytes.data() + static_cast<size_t>(sum) * sizeof(double), sizeof(double));
  }
  for (size_t i = 0; i < arrays.size(); ++i) trainer.write(static_cast<int32_t>(i), arrays[i]);
  trainer.counters = run_state_of(loaded).counters;
}

std::vector<StoredParameter> parameters_of(const store::LoadedState& loaded) {
  std::vector<StoredParameter> parameters;
  for (const store::Section& section : loaded.sections)
    if (section.name.starts_with(kModel))
      parameters.push_back({section.name.substr(kModel.size()), shape_of(loaded, section), section.bytes});
  return parameters;
}

void check_data(const char* section, const std::string& before, const std::string& now, const char* remedy) {
  if (before == now) return;
  const std::string what = before.empty() ? "the run had none"
                           : now.empty()
                               ? "it is gone"
                               : data::difference(data::Fingerprint::parse(before), data::Fingerprint::parse(now));
  fail(ErrorKind::kData, "{} is not what the run was trained on: {}; {}", section, what, remedy);
}

}  // namespace runner::train
