#include "runner/train/engine/rounded_weights.h"

#include <cstring>

#include "backends/exec/cpu_device.h"
#include "backends/tpu/numerics.h"
#include "schema/base/large_array.h"

namespace runner::train {
namespace {

using backends::DType;
using backends::InputKind;
using backends::TensorType;

}  // namespace

RoundedWeights::RoundedWeights(const DeviceLayout& layout, const Shard& shard, backends::Device& device,
                               backends::ProcessGroup& ranks, std::span<backends::Buffer* const> reduction_states)
    : copy_of_array_(layout.arrays().size(), -1), host_(backends::make_cpu_device(1)) {
  backends::Program program;
  for (size_t i = 0; i < layout.arrays().size(); ++i) {
    const DeviceArray& array = layout.arrays()[i];
    if (array.role != ArrayRole::kParameters) continue;
    const TensorType whole{DType::kBf16, array.type.shape};
    const std::shared_ptr<std::byte> memory =
        ranks.symmetric_alloc(whole, backends::ProcessGroup::Pages::kNow, {"rounded weights"});
    copy_of_array_[i] = static_cast<int32_t>(copies_.size());
    copies_.push_back(device.wrap(memory, whole.bytes()));
    const auto [first, count] = shard.of(array.buffer);
    if (count == 0) continue;
    const TensorType part{DType::kBf16, backends::Shape{count}};
    shard_.push_back(device.wrap({memory, memory.get() + static_cast<size_t>(first) * sizeof(uint16_t)}, part.bytes()));
    const backends::Value weights{&program,
                                  program.input(InputKind::kState, array.name, {DType::kF32, backends::Shape{count}})};
    program.input(InputKind::kState, array.name + " rounded", part);
    program.output(array.name + " rounded", backends::tpu::rounded_to_bf16(weights).id,
                   static_cast<int32_t>(rounded_states_.size()) + 1);
    rounded_states_.push_back(reduction_states[i]);
    rounded_states_.push_back(shard_.back().get());
  }
  if (!rounded_states_.empty()) rounding_ = host_->compile(program);
}

void RoundedWeights::declare(const DeviceLayout& layout, backends::Program& step) {
  for (size_t i = 0; i < layout.arrays().size(); ++i) {
    const DeviceArray& array = layout.arrays()[i];
    if (array.role == ArrayRole::kParameters)
      step.input(InputKind::kState, array.name + " rounded", {DType::kBf16, array.type.shape}, static_cast<int32_t>(i));
  }
}

void RoundedWeights::write(int32_t array, size_t offset, std::span<const std::byte> contents) {
  const int32_t copy = copy_of_array_[static_cast<size_t>(array)];
  if (copy < 0) return;
  LargeArray<uint16_t> values;
  values.resize(contents.size() / sizeof(float));
  for (size_t i = 0; i < values.size(); ++i) {
    float weight = 0;
    std::memcpy(&weight, contents.data() + i * sizeof weight, sizeof weight);
    values[i] = backends::tpu::to_bf16(weight);
  }
  host_->write(*copies_[static_cast<size_t>(copy)], offset / 2, std::as_bytes(std::span(values)));
}

void RoundedWeights::round_shard() {
  if (rounding_) host_->wait(host_->submit(*rounding_, {.states = rounded_states_, .batch = {}, .scalars = {}}));
}

}  // namespace runner::train
