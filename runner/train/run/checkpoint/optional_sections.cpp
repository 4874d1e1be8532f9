#include "runner/train/run/checkpoint/optional_sections.h"

#include <array>
#include <cstring>
#include <string>

#include <fmt/format.h>

#include "runner/train/run/checkpoint/sections.h"
#include "runner/train/step/loss_scaler.h"
#include "runner/train/step/parameter_use.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

constexpr std::string_view kScaler = "scaler";  // by ScalerState
constexpr std::string_view kComm = "comm/";     // by the array's name

// ---- the loss scaler -----------------------------------------------------------------------------------------------

void capture_scaler(Trainer& trainer, store::StateSnapshot& snapshot) {
  if (!first_scale(trainer.recipe())) return;
  std::vector<std::byte> bytes;
  for (int32_t index = 0; index < kScalerStateCount; ++index) {
    const std::vector<std::byte> value = trainer.arrays().read(trainer.layout().find(ArrayRole::kScaler, 0, index));
    bytes.insert(bytes.end(), value.begin(), value.end());
  }
  snapshot.add(kScaler, meta_of({backends::DType::kF32, backends::Shape{kScalerStateCount}}), bytes);
}

}  // namespace

void restore_scaler(const store::LoadedState& loaded, Trainer& trainer) {
  const store::Section* const scaler = loaded.find(kScaler);
  if (!first_scale(trainer.recipe()) || scaler == nullptr) return;
  RUN_CHECK(scaler->bytes.size() == kScalerStateCount * sizeof(float), ErrorKind::kStore,
            "state {}: the section scaler is damaged", loaded.info.id);
  for (int32_t state = 0; state < kScalerStateCount; ++state)
    trainer.arrays().write(
        trainer.layout().find(ArrayRole::kScaler, 0, state),
        std::span<const std::byte>(scaler->bytes).subspan(static_cast<size_t>(state) * sizeof(float), sizeof(float)));
}

namespace {

// ---- PowerSGD ------------------------------------------------------------------------------------------------------

// Visits (section name, array, its description).
template <class Visit>
void each_compression_array(const Trainer& trainer, const Visit& visit) {
  for (const DeviceArray& array : trainer.layout().arrays())
    if (array.role == ArrayRole::kCompression)
      visit(fmt::format("{}{}", kComm, array.name), trainer.layout().find(array.role, array.buffer, array.index),
            array);
}

void capture_compression(Trainer& trainer, store::StateSnapshot& snapshot) {
  each_compression_array(trainer, [&](const std::string& name, int32_t array, const DeviceArray& of) {
    snapshot.add(name, meta_of(of.type), trainer.arrays().read(array));
  });
}

void restore_compression(const store::LoadedState& loaded, Trainer& trainer) {
  each_compression_array(trainer, [&](const std::string& name, int32_t array, const DeviceArray& of) {
    const store::Section* const section = loaded.find(name);
    if (section == nullptr) return;
    RUN_CHECK(section->bytes.size() == of.type.bytes(), ErrorKind::kStore, "state {}: the section {} is damaged",
              loaded.info.id, name);
    trainer.arrays().write(array, section->bytes);
  });
}

// ---- per-parameter update counts ------------------------------------------------------------------------------------

using UseOfParameter = std::array<double, 2>;  // by UseState

std::vector<double> numbers_of(Trainer& trainer, int32_t buffer, UseState state) {
  const std::vector<std::byte> bytes = trainer.arrays().read(trainer.layout().find(ArrayRole::kUse, buffer, state));
  std::vector<double> numbers(bytes.size() / sizeof(double));
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

// kReached is valid only while gradients are held.
void capture_use(Trainer& trainer, store::StateSnapshot& snapshot) {
  const nn::ParameterSet& parameters = trainer.model().parameters;
  for (const DeviceArray& array : trainer.layout().arrays()) {
    if (array.role != ArrayRole::kUse || array.index != kUpdates) continue;
    const std::vector<double> updates = numbers_of(trainer, array.buffer, kUpdates);
    std::vector<double> reached(updates.size());
    if (trainer.arrays().holds_gradients(array.buffer)) reached = numbers_of(trainer, array.buffer, kReached);
    size_t at = 0;
    for (const nn::ParameterId id : parameters.in_buffer(array.buffer)) {
      const UseOfParameter use{updates[at], reached[at]};
      ++at;
      snapshot.add(fmt::format("{}{}", kUseSections, parameters[id].name),
                   meta_of({backends::DType::kF64, backends::Shape{std::ssize(use)}}), std::as_bytes(std::span(use)));
    }
  }
}

UseOfParameter use_in(const store::LoadedState& loaded, const std::string& parameter, int64_t updates) {
  UseOfParameter use{static_cast<double>(updates), 1};
  const std::string name = fmt::format("{}{}", kUseSections, parameter);
  const store::Section* const section = loaded.find(name);
  if (section == nullptr) return use;
  RUN_CHECK(section->bytes.size() == sizeof use, ErrorKind::kStore, "state {}: the section {} is damaged",
            loaded.info.id, name);
  std::memcpy(use.data(), section->bytes.data(), sizeof use);
  return use;
}

}  // namespace

void capture_optional_sections(Trainer& trainer, store::StateSnapshot& snapshot) {
  capture_scaler(trainer, snapshot);
  capture_compression(trainer, snapshot);
  capture_use(trainer, snapshot);
}

void restore_optional_sections(const store::LoadedState& loaded, Trainer& trainer) {
  restore_scaler(loaded, trainer);
  restore_compression(loaded, trainer);
  restore_use(loaded, trainer);
}

void restore_use(const store::LoadedState& loaded, Trainer& trainer) {
  const nn::ParameterSet& parameters = trainer.model().parameters;
  const DeviceLayout& layout = trainer.layout();
  for (size_t at = 0; at < layout.arrays().size(); ++at) {
    const DeviceArray& array = layout.arrays()[at];
    if (array.role != ArrayRole::kUse) continue;
    const int32_t optimizer = trainer.builder().group_of(array.buffer).optimizer;
    const int64_t updates = trainer.counters.updates_of(trainer.optimizers().names[static_cast<size_t>(optimizer)]);
    std::vector<double> numbers;
    for (const nn::ParameterId id : parameters.in_buffer(array.buffer))
      numbers.push_back(use_in(loaded, parameters[id].name, updates)[static_cast<size_t>(array.index)]);
    trainer.arrays().write(static_cast<int32_t>(at), std::as_bytes(std::span(numbers)));
  }
}

}  // namespace runner::train
