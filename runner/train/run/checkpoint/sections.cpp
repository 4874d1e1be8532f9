#include "runner/train/run/checkpoint/sections.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "runner/data/dataset.h"
#include "runner/formats/model_files.h"
#include "runner/train/run/checkpoint/model_metadata.h"
#include "runner/train/run/checkpoint/optional_sections.h"
#include "runner/train/run/checkpoint/rank_parts.h"
#include "runner/train/run/checkpoint/run_document.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kModel = "model/";
constexpr std::string_view kOptimizer = "optimizer/";
constexpr std::string_view kBuffer = "buffer/", kBufferAverage = "buffer_average/", kInternal = "internal/";

// Visits every array range that belongs to one parameter: (section name, array, parameter).
template <class Visit>
void each_parameter_range(const Trainer& trainer, const Visit& visit) {
  const nn::ParameterSet& parameters = trainer.model().parameters;
  for (const DeviceArray& array : trainer.layout().arrays()) {
    if (!trainer.arrays().is_of_parameters(array)) continue;
    const int32_t group = parameters.buffers()[static_cast<size_t>(array.buffer)].group;
    const int32_t position = trainer.layout().find(array.role, array.buffer, array.index);
    for (const nn::ParameterId id : parameters.in_buffer(array.buffer)) {
      const nn::Parameter& parameter = parameters[id];
      if (array.role == ArrayRole::kParameters) {
        visit(fmt::format("{}{}", kModel, parameter.name), position, parameter);
      } else if (array.role == ArrayRole::kGradients) {
        visit(fmt::format("{}{}", kGradientSections, parameter.name), position, parameter);
      } else {
        RUN_ASSERT(array.role == ArrayRole::kSlot);
        const auto slots = optim::slots(trainer.optimizers().rule(group));
        const std::string_view slot = slots[static_cast<size_t>(array.index)].name;
        visit(fmt::format("{}{}/{}", kOptimizer, parameter.name, slot), position, parameter);
      }
    }
  }
}

std::string_view prefix_of(const DeviceArray& array, const nn::ModelBuffer& buffer) {
  if (array.role == ArrayRole::kBufferAverage) return kBufferAverage;
  return buffer.is_internal ? kInternal : kBuffer;
}

// Visits every array of a buffer: (section name, array, buffer).
template <class Visit>
void each_buffer(const Trainer& trainer, const Visit& visit) {
  for (const DeviceArray& array : trainer.layout().arrays()) {
    if (!array.is_of_model_buffer()) continue;
    const nn::ModelBuffer& buffer = trainer.model().parameters.model_buffer(array.index);
    visit(fmt::format("{}{}", prefix_of(array, buffer), buffer.name), trainer.layout().find(array.role, 0, array.index),
          buffer);
  }
}

bool is_of_model(std::string_view section) {
  return section.starts_with(kModel) || section.starts_with(kBuffer) || section.starts_with(kBufferAverage);
}

bool is_of_training(std::string_view section) {
  return section.starts_with(kOptimizer) || section.starts_with(kGradientSections);
}

bool is_tensor(std::string_view section) {
  return is_of_model(section) || is_of_training(section);
}

void capture_buffers(Trainer& trainer, store::StateSnapshot& snapshot) {
  each_buffer(trainer, [&](const std::string& name, int32_t array, const nn::ModelBuffer& buffer) {
    snapshot.add(name, meta_of(buffer.type), trainer.arrays().read(array));
  });
}

// Throws an exception if `meta` is not what meta_of() writes.
backends::TensorType parse_meta(const std::string& meta) {
  const Json json = Json::parse(meta);
  return {backends::find_dtype(json.at("dtype").get<std::string>()).value(),
          backends::Shape(json.at("shape").get<std::vector<int64_t>>())};
}

// The type of a tensor section. Throws Error(kStore) if it is damaged.
backends::TensorType type_of(const store::LoadedState& loaded, const store::Section& section) {
  backends::TensorType type;
  try {
    type = parse_meta(section.meta);
  } catch (const std::exception&) {
    fail(ErrorKind::kStore, "state {}: the description of {} is damaged", loaded.info.id, section.name);
  }
  RUN_CHECK(section.bytes.size() == type.bytes(), ErrorKind::kStore,
            "state {}: {} is damaged: expected {} bytes, got {}", loaded.info.id, section.name, type.bytes(),
            section.bytes.size());
  return type;
}

bool fits(const backends::TensorType& type, const nn::Parameter& p) {
  return type == backends::TensorType{backends::DType::kF32, p.shape};
}

// Restores a buffer, or its average. Throws Error(`kind`) if the section does not fit, and Error(kStore) if its numbers
// are impossible (ModelBuffer::fault_in).
void restore_buffer(const store::LoadedState& loaded, const store::Section* section, const std::string& name,
                    int32_t array, const nn::ModelBuffer& buffer, ErrorKind kind, Trainer& trainer) {
  RUN_CHECK(section, kind, "state {} is of another model: missing {}", loaded.info.id, name);
  const backends::TensorType type = type_of(loaded, *section);
  RUN_CHECK(type == buffer.type, kind, "state {} is of another model: expected {} {}, got {}", loaded.info.id, name,
            buffer.type.to_string(), type.to_string());
  const std::string fault = buffer.fault_in(section->bytes);
  RUN_CHECK(fault.empty(), ErrorKind::kStore, "state {}: {}: {}; use another state", loaded.info.id, name, fault);
  trainer.arrays().write(array, section->bytes);
}

// New contents of a trainer's arrays, written together.
class ArrayContents {
 public:
  explicit ArrayContents(Trainer& trainer) : trainer_(trainer) {}

  void set_zero(int32_t array) {
    contents_[array].assign(trainer_.layout().arrays()[static_cast<size_t>(array)].type.bytes(), std::byte{0});
  }
  // Sets the range of a parameter. The rest of the array keeps its values, or is zero after set_zero().
  void put(int32_t array, const nn::Parameter& p, std::span<const std::byte> bytes) {
    auto [found, is_new] = contents_.try_emplace(array);
    if (is_new) found->second = trainer_.arrays().read(array);
    std::memcpy(found->second.data() + static_cast<size_t>(p.offset) * sizeof(float), bytes.data(), bytes.size());
  }
  void write() {
    for (const auto& [array, bytes] : contents_) trainer_.arrays().write(array, bytes);
  }

 private:
  Trainer& trainer_;
  std::map<int32_t, std::vector<std::byte>> contents_;
};

// Whether this rank writes an array.
bool is_own(const Trainer& trainer, int32_t array) {
  return trainer.arrays().writes(trainer.layout().arrays()[static_cast<size_t>(array)]);
}

// Records for which buffers a checkpoint has gradients, and what they are.
void keep_gradients_of(const store::LoadedState& loaded, GradientState restored, Trainer& trainer) {
  std::vector<GradientState> held(trainer.model().parameters.buffers().size());
  for (const nn::Parameter& p : trainer.model().parameters.parameters()) {
    const store::Section* section = loaded.find(fmt::format("{}{}", kGradientSections, p.name));
    const bool kept = p.trainable && section != nullptr && fits(type_of(loaded, *section), p);
    held[static_cast<size_t>(p.buffer)] = kept ? restored : GradientState::kNothing;
  }
  trainer.arrays().set_gradients(std::move(held));
}

}  // namespace

std::string meta_of(const backends::TensorType& type) {
  return Json{{"dtype", name_of(type.dtype)}, {"shape", type.shape.dims()}}.dump();
}

void capture_for_rank(Trainer& trainer, const Checkpoint& state, store::StateSnapshot& snapshot) {
  trainer.on_host_event(backends::HostEvent::kStateUse);
  snapshot.clear();
  const std::string document = run_document(state, trainer.optimizers().names);
  snapshot.add(kRunSection, R"({"format":"json"})", std::as_bytes(std::span(document)));
  std::vector<std::byte> sums;
  for (int32_t sum = 0; sum < kSumCount; ++sum) {
    const std::vector<std::byte> value = trainer.arrays().read(trainer.layout().find(ArrayRole::kSum, 0, sum));
    sums.insert(sums.end(), value.begin(), value.end());
  }
  snapshot.add(kSumsSection, meta_of({backends::DType::kF64, backends::Shape{int64_t{2} * kSumCount}}), sums);
  capture_buffers(trainer, snapshot);
  capture_optional_sections(trainer, snapshot);
}

void capture(Trainer& trainer, const Checkpoint& state, store::StateSnapshot& snapshot, Arrays arrays) {
  capture_for_rank(trainer, state, snapshot);
  const bool lends = arrays == Arrays::kLent && trainer.arrays().has_views();
  size_t copied = snapshot.bytes();
  for (const RankPart& part : state.rank_parts) copied += part.bytes.size();
  if (!lends) copied += static_cast<size_t>(trainer.arrays().memory().resident());
  snapshot.reserve(copied);
  for (const RankPart& part : state.rank_parts) snapshot.add(part.name, part.meta, part.bytes);
  each_parameter_range(trainer, [&](const std::string& name, int32_t array, const nn::Parameter& p) {
    const size_t first = static_cast<size_t>(p.offset) * sizeof(float);
    const size_t bytes = static_cast<size_t>(p.elements()) * sizeof(float);
    const std::string meta = meta_of({backends::DType::kF32, p.shape});
    if (lends) return snapshot.lend(name, meta, trainer.arrays().view(array).subspan(first, bytes));
    trainer.arrays().read(array, first, snapshot.add(name, meta, bytes));
  });
}

std::vector<FileBytes> model_files(Trainer& trainer, const std::string& name, int64_t max_shard_size) {
  trainer.on_host_event(backends::HostEvent::kStateUse);
  std::map<int32_t, std::vector<std::byte>> arrays;
  std::vector<formats::NamedTensor> tensors;
  each_parameter_range(trainer, [&](const std::string&, int32_t array, const nn::Parameter& p) {
    if (array != trainer.layout().evaluated_weights(p.buffer)) return;
    const auto [found, is_new] = arrays.try_emplace(array);
    if (is_new) found->second = trainer.arrays().read(array);
    tensors.push_back({p.name, backends::DType::kF32, p.shape,
                       std::span<const std::byte>(found->second)
                           .subspan(static_cast<size_t>(p.offset) * sizeof(float),
                                    static_cast<size_t>(p.elements()) * sizeof(float))});
  });
  std::vector<std::vector<std::byte>> buffers;
  for (nn::BufferId id = 0; id < std::ssize(trainer.model().parameters.model_buffers()); ++id) {
    const nn::ModelBuffer& buffer = trainer.model().parameters.model_buffer(id);
    if (buffer.is_internal) continue;
    buffers.push_back(trainer.arrays().read(trainer.layout().evaluated_buffer(id)));
    tensors.push_back({buffer.name, buffer.type.dtype, buffer.type.shape, buffers.back()});
  }
  const formats::Metadata metadata = model_metadata(trainer.encoding(), trainer.recipe().data.train.scale.value_or(1));
  std::vector<FileBytes> files;
  for (formats::ModelFile& file : formats::model_files(std::move(tensors), name, max_shard_size)) {
    const auto index = std::as_bytes(std::span(file.index));
    files.push_back({std::move(file.name), file.tensors.empty()
                                               ? std::vector<std::byte>(index.begin(), index.end())
                                               : formats::safetensors_bytes(std::move(file.tensors), metadata)});
  }
  return files;
}

std::optional<std::string> not_finite_parameter(const store::StateSnapshot& snapshot) {
  for (const store::SectionView& section : snapshot.sections()) {
    if (!section.name.starts_with(kModel)) continue;
    for (size_t at = 0; at < section.bytes.size(); at += sizeof(float)) {
      float value = 0;  // sections may be unaligned
      std::memcpy(&value, section.bytes.data() + at, sizeof value);
      if (!std::isfinite(value)) return fmt::format("parameter {} is {}", section.name.substr(kModel.size()), value);
    }
  }
  return std::nullopt;
}

namespace {

// Restores every array that a checkpoint has a section for, except for those that another rank writes. Throws like
// restore() if one is missing, differs, or is in excess.
void restore_tensors(const store::LoadedState& loaded, Trainer& trainer, ArrayContents& contents) {
  const int64_t id = loaded.info.id;
  std::set<std::string> known;
  each_parameter_range(trainer, [&](const std::string& name, int32_t array, const nn::Parameter& p) {
    known.insert(name);
    if (!is_own(trainer, array)) return;
    const store::Section* section = loaded.find(name);
    RUN_CHECK(section, ErrorKind::kStore, "state {} is of another model: missing {}", id, name);
    const backends::TensorType type = type_of(loaded, *section);
    RUN_CHECK(fits(type, p), ErrorKind::kStore, "state {0} is of another model: expected shape {3} of {1}, got {2}", id,
              name, type.shape.to_string(), p.shape.to_string());
    contents.put(array, p, section->bytes);
  });
  each_buffer(trainer, [&](const std::string& name, int32_t array, const nn::ModelBuffer& buffer) {
    const store::Section* const section = loaded.find(name);
    if (section == nullptr && buffer.is_internal)  // a state of an older program
      return trainer.arrays().write(array, std::vector<std::byte>(buffer.type.bytes()));
    restore_buffer(loaded, section, name, array, buffer, ErrorKind::kStore, trainer);
    known.insert(name);
  });
  const bool only_evaluates = trainer.layout().only_evaluates();
  for (const store::Section& section : loaded.sections)
    RUN_CHECK(
        !is_tensor(section.name) || known.contains(section.name) || (only_evaluates && is_of_training(section.name)),
        ErrorKind::kStore, "state {} is of another model: unexpected {}", id, section.name);
}

}  // namespace

void restore(const store::LoadedState& loaded, Trainer& trainer) {
  trainer.on_host_event(backends::HostEvent::kStateUse);
  const Checkpoint state = checkpoint_of(loaded, trainer.optimizers().names);
  keep_gradients_of(loaded, restored_gradients(state, trainer), trainer);
  const auto& arrays = trainer.layout().arrays();
  ArrayContents contents(trainer);
  for (int32_t array = 0; array < static_cast<int32_t>(arrays.size()); ++array)
    if (arrays[static_cast<size_t>(array)].on_restore == OnRestore::kZero && is_own(trainer, array))
      contents.set_zero(array);
  restore_tensors(loaded, trainer, contents);
  contents.write();
  restore_sums(loaded, trainer);
  trainer.counters = state.counters;
  restore_optional_sections(loaded, trainer);
}

bool is_of_evaluation(std::string_view section) {
  const bool is_average = section.starts_with(kOptimizer) && section.ends_with(fmt::format("/{}", optim::kAverageSlot));
  return is_of_model(section) || is_average || section.starts_with(kInternal) || section == kRunSection;
}

void restore_evaluated(const store::LoadedState& loaded, Trainer& trainer) {
  ArrayContents contents(trainer);
  restore_tensors(loaded, trainer, contents);
  contents.write();
  trainer.counters = checkpoint_of(loaded, trainer.optimizers().names).counters;
}

void restore_gradients(const store::LoadedState& loaded, const Checkpoint& state, Trainer& trainer) {
  keep_gradients_of(loaded, restored_gradients(state, trainer), trainer);
  ArrayContents contents(trainer);
  each_parameter_range(trainer, [&](const std::string& name, int32_t array, const nn::Parameter& p) {
    if (name.starts_with(kGradientSections)) contents.put(array, p, loaded.at(name).bytes);
  });
  contents.write();
}

void restore_sums(const store::LoadedState& loaded, Trainer& trainer) {
  const store::Section& sums = loaded.at(kSumsSection);
  constexpr size_t kBytes = 2 * sizeof(double);
  RUN_CHECK(sums.bytes.size() == kSumCount * kBytes, ErrorKind::kStore, "state {}: the section sums is damaged",
            loaded.info.id);
  const std::span<const std::byte> bytes(sums.bytes);
  for (int32_t sum = 0; sum < kSumCount; ++sum)
    trainer.arrays().write(trainer.layout().find(ArrayRole::kSum, 0, sum),
                           bytes.subspan(static_cast<size_t>(sum) * kBytes, kBytes));
}

void restore_model(const store::LoadedState& loaded, Trainer& trainer) {
  trainer.on_host_event(backends::HostEvent::kStateUse);
  const int64_t id = loaded.info.id;
  ArrayContents contents(trainer);
  std::set<std::string> known;
  each_parameter_range(trainer, [&](const std::string& name, int32_t array, const nn::Parameter& p) {
    const bool is_average = trainer.layout().arrays()[static_cast<size_t>(array)].is_average;
    if (!name.starts_with(kModel) && !is_average) return;
    const store::Section* section = loaded.find(fmt::format("{}{}", kModel, p.name));
    RUN_CHECK(section, ErrorKind::kRecipe, "state {} is of another model: missing parameter {} of shape {}", id, p.name,
              p.shape.to_string());
    const backends::TensorType type = type_of(loaded, *section);
    RUN_CHECK(fits(type, p), ErrorKind::kRecipe,
              "state {0} is of another model: expected shape {3} of parameter {1}, got {2}", id, p.name,
              type.shape.to_string(), p.shape.to_string());
    contents.put(array, p, section->bytes);
    known.insert(section->name);
  });
  for (const StoredParameter& stored : parameters_of(loaded, /*averaged=*/false))
    RUN_CHECK(known.contains(std::string(kModel) + stored.name), ErrorKind::kRecipe,
              "state {} is of another model: unexpected parameter {} of shape {}", id, stored.name,
              stored.shape.to_string());
  each_buffer(trainer, [&](const std::string& /*name*/, int32_t array, const nn::ModelBuffer& buffer) {
    if (buffer.is_internal) return;  // a fork counts for itself
    const std::string name = fmt::format("{}{}", kBuffer, buffer.name);
    restore_buffer(loaded, loaded.find(name), name, array, buffer, ErrorKind::kRecipe, trainer);
  });
  for (const StoredBuffer& stored : stored_buffers(loaded, /*averaged=*/false))
    RUN_CHECK(trainer.model().parameters.find_buffer(stored.name) != nullptr, ErrorKind::kRecipe,
              "state {} is of another model: unexpected buffer {} of shape {}", id, stored.name,
              stored.type.shape.to_string());
  contents.write();
}

std::optional<std::string> restore_slots(const store::LoadedState& loaded, Trainer& trainer) {
  ArrayContents contents(trainer);
  std::optional<std::string> missing;
  each_parameter_range(trainer, [&](const std::string& name, int32_t array, const nn::Parameter& p) {
    if (!name.starts_with(kOptimizer) || missing) return;
    const store::Section* section = loaded.find(name);
    // Without an average in the checkpoint, that of restore_model() stays.
    if (section == nullptr && trainer.layout().arrays()[static_cast<size_t>(array)].is_average) return;
    if (section == nullptr || !fits(type_of(loaded, *section), p)) {
      const std::string_view slot = std::string_view(name).substr(name.rfind('/') + 1);
      missing = fmt::format("state {} has no {} of {}", loaded.info.id, slot, p.name);
    } else {
      contents.put(array, p, section->bytes);
    }
  });
  if (missing) return missing;
  contents.write();
  each_buffer(trainer, [&](const std::string& name, int32_t array, const nn::ModelBuffer& buffer) {
    const store::Section* const section = name.starts_with(kBufferAverage) ? loaded.find(name) : nullptr;
    if (section != nullptr) restore_buffer(loaded, section, name, array, buffer, ErrorKind::kRecipe, trainer);
  });
  return missing;
}

const store::Section* average_of(const store::LoadedState& loaded, std::string_view parameter) {
  return loaded.find(fmt::format("{}{}/{}", kOptimizer, parameter, optim::kAverageSlot));
}

std::vector<float> StoredParameter::floats() const {
  std::vector<float> copy(values.size() / sizeof(float));
  std::memcpy(copy.data(), values.data(), values.size());
  return copy;
}

std::vector<StoredParameter> parameters_of(const store::LoadedState& loaded, bool averaged) {
  std::vector<StoredParameter> parameters;
  for (const store::Section& section : loaded.sections) {
    if (!section.name.starts_with(kModel)) continue;
    const std::string name = section.name.substr(kModel.size());
    const store::Section* const average = averaged ? average_of(loaded, name) : nullptr;
    const store::Section& values = average != nullptr ? *average : section;
    parameters.push_back({name, type_of(loaded, values).shape, values.bytes});
  }
  return parameters;
}

std::vector<StoredBuffer> stored_buffers(const store::LoadedState& loaded, bool averaged) {
  std::vector<StoredBuffer> buffers;
  for (const store::Section& section : loaded.sections) {
    if (!section.name.starts_with(kBuffer)) continue;
    const std::string name = section.name.substr(kBuffer.size());
    const store::Section* const average = averaged ? loaded.find(fmt::format("{}{}", kBufferAverage, name)) : nullptr;
    const store::Section& values = average != nullptr ? *average : section;
    const nn::ModelBuffer buffer{.name = name, .type = type_of(loaded, values)};
    const std::string fault = buffer.fault_in(values.bytes);
    RUN_CHECK(fault.empty(), ErrorKind::kStore, "state {}: {}: {}; use another state", loaded.info.id, values.name,
              fault);
    buffers.push_back({name, buffer.type, values.bytes});
  }
  return buffers;
}

void check_data(const char* section, const std::string& before, const std::string& now, const char* remedy) {
  if (before == now) return;
  const std::string what = before.empty() ? "the run did not have it"
                           : now.empty()
                               ? "it no longer exists"
                               : data::difference(data::Fingerprint::parse(before), data::Fingerprint::parse(now));
  fail(ErrorKind::kData, "{} differs from the data that the run was trained on: {}; {}", section, what, remedy);
}

}  // namespace runner::train
