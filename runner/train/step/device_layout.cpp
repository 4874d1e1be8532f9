#include "runner/train/step/device_layout.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "runner/train/step/parameter_use.h"
#include "runner/train/step/power_sgd.h"
#include "schema/base/error.h"

namespace runner::train {
namespace {

struct ArrayName {
  const char *name, *description;
};
constexpr ArrayName kSumNames[kSumCount] = {{"step sum", "loss sum of the optimizer step"},
                                            {"logged sum", "loss sum since the last train/loss point"}};
constexpr ArrayName kScalerNames[kScalerStateCount] = {{"scale", "loss scale"},
                                                       {"good steps", "steps since the loss scale changed"}};

}  // namespace

std::vector<backends::StateTensor> tensors_in(const DeviceArray& array, const nn::ParameterSet& parameters) {
  if (!array.is_like_parameters) return {{array.name, array.type}};
  const std::string_view what = std::string_view(array.name).substr(0, array.name.rfind(' '));
  std::vector<backends::StateTensor> tensors;
  for (const nn::ParameterId id : parameters.in_buffer(array.buffer)) {
    const nn::Parameter& parameter = parameters[id];
    tensors.push_back(
        {array.role == ArrayRole::kParameters ? parameter.name : fmt::format("{} of {}", what, parameter.name),
         {array.type.dtype, parameter.shape}});
  }
  return tensors;
}

DeviceLayout::DeviceLayout(const nn::ParameterSet& parameters, const Optimizers& optimizers, bool keeps_gradients,
                           std::optional<double> first_scale, const schema::CommSpec& comm, bool skips_unlabelled)
    : parameters_(parameters), skips_unused_(skips_unused(comm)), skips_unlabelled_(skips_unlabelled) {
  const auto buffers = parameters.buffers();
  const auto count = static_cast<int32_t>(buffers.size());
  for (int32_t b = 0; b < count; ++b)
    add_like_parameters(ArrayRole::kParameters, Sharing::kCommon, b, 0, "parameters", "weights");
  for (int32_t b = 0; b < count; ++b) {
    const int32_t group = buffers[static_cast<size_t>(b)].group;
    if (group < 0) continue;
    const std::vector<optim::Slot> slots = optim::slots(optimizers.rule(group));
    for (size_t s = 0; s < slots.size(); ++s) {
      add_like_parameters(
          ArrayRole::kSlot, Sharing::kCommon, b, static_cast<int32_t>(s), slots[s].name,
          slots[s].is_average ? "average of the weights" : fmt::format("optimizer state {}", slots[s].name),
          slots[s].initial);
      arrays_.back().from_start = slots[s].from_start || slots[s].initial != 0;
      arrays_.back().is_average = slots[s].is_average;
    }
    if (keeps_gradients) add_gradients(b);
    if (is_power_sgd(comm)) add_compression(comm, b);
    if (skips_unused_)
      add_use(kUpdates, Sharing::kOfRank, b, "updates of parameters", "update count of each parameter");
  }
  for (int32_t sum = 0; sum < kSumCount; ++sum)
    arrays_.push_back({.role = ArrayRole::kSum,
                       .sharing = sum == kStepSum ? Sharing::kReadByAll : Sharing::kOfRank,
                       .on_restore = OnRestore::kZero,
                       .buffer = 0,
                       .index = sum,
                       .name = kSumNames[sum].name,
                       .description = kSumNames[sum].description,
                       .type = {backends::DType::kF64, backends::Shape{2}}});
  if (first_scale) add_scaler(*first_scale);
  if (first_scale || skips_unused_ || skips_unlabelled_) add_clock(optimizers.names.size());
  add_model_buffers(std::ranges::any_of(arrays_, &DeviceArray::is_average));
}

DeviceLayout DeviceLayout::for_evaluation(const nn::ParameterSet& parameters, const Optimizers& optimizers) {
  DeviceLayout layout(parameters, optimizers, /*keeps_gradients=*/false);
  std::erase_if(layout.arrays_,
                [](const DeviceArray& array) { return array.role == ArrayRole::kSlot && !array.is_average; });
  layout.only_evaluates_ = true;
  return layout;
}

void DeviceLayout::keep_gradients() {
  if (has(ArrayRole::kGradients)) return;
  const auto buffers = parameters_.buffers();
  for (size_t b = 0; b < buffers.size(); ++b)
    if (buffers[b].group >= 0) add_gradients(static_cast<int32_t>(b));
}

// The user's tensors are never f64: by that dtype an emulated TPU recognises bookkeeping (backends/tpu/owners.h).
void DeviceLayout::add_like_parameters(ArrayRole role, Sharing sharing, int32_t buffer, int32_t index,
                                       std::string_view name, const std::string& description, double initial) {
  arrays_.push_back(
      {.role = role,
       .sharing = sharing,
       .on_restore = OnRestore::kZero,
       .buffer = buffer,
       .index = index,
       .name = fmt::format("{} {}", name, buffer),
       .description = of_buffer(description, buffer),
       .type = {backends::DType::kF32, backends::Shape{parameters_.buffers()[static_cast<size_t>(buffer)].elements}},
       .initial = initial,
       .is_like_parameters = true});
}

void DeviceLayout::add_use(UseState index, Sharing sharing, int32_t buffer, std::string_view name,
                           const std::string& description) {
  arrays_.push_back({.role = ArrayRole::kUse,
                     .sharing = sharing,
                     .on_restore = OnRestore::kZero,
                     .buffer = buffer,
                     .index = index,
                     .name = fmt::format("{} {}", name, buffer),
                     .description = of_buffer(description, buffer),
                     .type = {backends::DType::kF64, backends::Shape{std::ssize(parameters_.in_buffer(buffer))}}});
}

void DeviceLayout::add_gradients(int32_t buffer) {
  add_like_parameters(ArrayRole::kGradients, Sharing::kReadByAll, buffer, 0, "gradients", "gradients");
  if (skips_unused_) add_use(kReached, Sharing::kReadByAll, buffer, "reached", "marks of used parameters");
}

// A buffer without compressed matrices has these arrays too, with one element each.
void DeviceLayout::add_compression(const schema::CommSpec& comm, int32_t buffer) {
  int64_t errors = 0, qs = 0;
  for (const LowRankMatrix& matrix : low_rank_matrices(comm, parameters_, buffer)) {
    errors += matrix.rows * matrix.columns;
    qs += matrix.columns * matrix.rank;
  }
  const auto add = [&](CompressionState index, std::string_view name, const std::string& description,
                       backends::DType dtype, const backends::Shape& shape) {
    arrays_.push_back({.role = ArrayRole::kCompression,
                       .sharing = Sharing::kCommon,
                       .on_restore = OnRestore::kKeep,
                       .buffer = buffer,
                       .index = index,
                       .name = fmt::format("{} {}", name, buffer),
                       .description = of_buffer(description, buffer),
                       .type = {dtype, shape}});
  };
  add(kError, "error", "PowerSGD error feedback", backends::DType::kF32, backends::Shape{std::max<int64_t>(1, errors)});
  add(kQs, "qs", "PowerSGD Q matrices", backends::DType::kF32, backends::Shape{std::max<int64_t>(1, qs)});
  add(kReductions, "reductions", "PowerSGD reduction count", backends::DType::kF64, {});
}

void DeviceLayout::add_scaler(double first_scale) {
  for (int32_t state = 0; state < kScalerStateCount; ++state)
    arrays_.push_back({.role = ArrayRole::kScaler,
                       .sharing = Sharing::kOfRank,
                       .on_restore = OnRestore::kKeep,
                       .buffer = 0,
                       .index = state,
                       .name = kScalerNames[state].name,
                       .description = kScalerNames[state].description,
                       .type = {backends::DType::kF32, {}},
                       .initial = state == kScale ? first_scale : 0});
}

void DeviceLayout::add_clock(size_t optimizers) {
  const auto add = [&](int32_t index, std::string name, std::string description, const backends::Shape& shape) {
    arrays_.push_back({.role = ArrayRole::kClock,
                       .sharing = Sharing::kOfRank,
                       .on_restore = OnRestore::kZero,
                       .buffer = 0,
                       .index = index,
                       .name = std::move(name),
                       .description = std::move(description),
                       .type = {backends::DType::kF64, shape}});
  };
  add(kMoves, "moves", "schedule step count", {});
  add(kFactors, "factors", "learning rate table", backends::Shape{kClockRows * static_cast<int64_t>(optimizers)});
  add(kMomenta, "momenta", "momentum table", backends::Shape{kClockRows});
  for (size_t i = 0; i < optimizers; ++i)
    add(kFirstUpdates + static_cast<int32_t>(i), fmt::format("updates {}", i),
        optimizers > 1 ? fmt::format("update count of optimizer {}", i) : "update count of the optimizer", {});
}

void DeviceLayout::add_model_buffers(bool are_averaged) {
  const auto add = [&](ArrayRole role, nn::BufferId id, std::string name, std::string description) {
    const nn::ModelBuffer& buffer = parameters_.model_buffer(id);
    arrays_.push_back({.role = role,
                       .sharing = Sharing::kOfRank,
                       .on_restore = OnRestore::kKeep,
                       .buffer = 0,
                       .index = id,
                       .name = std::move(name),
                       .description = std::move(description),
                       .type = buffer.type,
                       .initial = buffer.initial});
  };
  const auto count = static_cast<nn::BufferId>(parameters_.model_buffers().size());
  for (nn::BufferId id = 0; id < count; ++id)
    add(ArrayRole::kBuffer, id, parameters_.model_buffer(id).name,
        fmt::format("running statistics {}", parameters_.model_buffer(id).name));
  for (nn::BufferId id = 0; id < count && are_averaged; ++id)
    if (!parameters_.model_buffer(id).is_count())
      add(ArrayRole::kBufferAverage, id,
          fmt::format("{} of {}", optim::kAverageSlot, parameters_.model_buffer(id).name),
          fmt::format("average of the running statistics {}", parameters_.model_buffer(id).name));
}

std::string DeviceLayout::of_buffer(const std::string& description, int32_t buffer) const {
  const auto buffers = parameters_.buffers();
  const int32_t group = buffers[static_cast<size_t>(buffer)].group;
  if (group < 0) return description + " of frozen parameters";
  const auto trained = std::ranges::count_if(buffers, [](const nn::FlatBuffer& other) { return other.group >= 0; });
  return trained == 1 ? description : fmt::format("{} of parameter group {}", description, group);
}

backends::StateTensors DeviceLayout::tensors() const {
  backends::StateTensors tensors;
  for (const DeviceArray& array : arrays_) tensors.push_back(tensors_in(array, parameters_));
  return tensors;
}

backends::ArrayDescriptions DeviceLayout::descriptions() const {
  DeviceLayout all = *this;
  all.keep_gradients();
  backends::ArrayDescriptions descriptions;
  for (const DeviceArray& array : all.arrays_) descriptions.emplace(array.name, array.description);
  return descriptions;
}

bool DeviceLayout::has(ArrayRole role) const {
  return std::ranges::any_of(arrays_, [&](const DeviceArray& array) { return array.role == role; });
}

int32_t DeviceLayout::find(ArrayRole role, int32_t buffer, int32_t index) const {
  for (size_t i = 0; i < arrays_.size(); ++i)
    if (arrays_[i].role == role && arrays_[i].buffer == buffer && arrays_[i].index == index)
      return static_cast<int32_t>(i);
  RUN_ASSERT(false && "no such array on the device");
  return -1;
}

int32_t DeviceLayout::evaluated_weights(int32_t buffer) const {
  const auto average = std::ranges::find_if(
      arrays_, [&](const DeviceArray& array) { return array.is_average && array.buffer == buffer; });
  return average != arrays_.end() ? static_cast<int32_t>(average - arrays_.begin())
                                  : find(ArrayRole::kParameters, buffer);
}

int32_t DeviceLayout::evaluated_buffer(nn::BufferId id) const {
  const bool is_averaged = has(ArrayRole::kBufferAverage) && !parameters_.model_buffer(id).is_count();
  return find(is_averaged ? ArrayRole::kBufferAverage : ArrayRole::kBuffer, 0, id);
}

}  // namespace runner::train
