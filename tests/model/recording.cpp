#include "tests/model/recording.h"

#include <algorithm>

#include "backends/exec/cpu_device.h"
#include "backends/ir/autograd.h"
#include "backends/tensor/float16.h"
#include "schema/base/error.h"

namespace runner::nn {

using backends::DType;
using backends::Shape;

Recording::Recording(Module& module, Autocast autocast, const std::optional<schema::Lora>& lora)
    : module_(module), autocast_(autocast) {
  if (lora) parameters_.adapt(*lora);
  module_.declare(parameters_, "");
  for (const ModelBuffer& buffer : parameters_.model_buffers())
    buffer_values_.push_back(
        input(buffer.type, std::vector<double>(static_cast<size_t>(buffer.type.shape.elements()), buffer.initial)));
}

void Recording::set_parameter(const std::vector<double>& values) {
  const Parameter& parameter = parameters_[static_cast<ParameterId>(parameter_values_.size())];
  parameter_values_.push_back(input({DType::kF32, parameter.shape}, values));
}

Value Recording::input(const backends::TensorType& type, const std::vector<double>& values) {
  RUN_ASSERT(type.shape.elements() == static_cast<int64_t>(values.size()));
  const size_t size = size_of(type.dtype);
  std::vector<std::byte> bytes(values.size() * size);
  for (size_t i = 0; i < values.size(); ++i) backends::store_element(type.dtype, values[i], bytes.data() + i * size);
  inputs_.push_back(std::move(bytes));
  return {&program_, program_.input(backends::InputKind::kBatch, "input", type)};
}

Value Recording::forward(Value x, bool training, const std::vector<double>& sample_ids,
                         std::span<const ModelInput> inputs) {
  RUN_ASSERT(parameter_values_.size() == parameters_.parameters().size());
  ForwardContext context{.program = program_,
                         .parameters = parameter_values_,
                         .buffers = buffer_values_,
                         .inputs = inputs,
                         .mixed = autocast_,
                         .autocast = autocast_,
                         .training = training,
                         .dropout_key = {},
                         .sample_ids = {},
                         .counted = training ? counted_ : std::nullopt,
                         .counted_mask = counted_mask_,
                         .remat = remat_};
  if (training) {
    context.dropout_key = input({DType::kI64, Shape{2}}, {7, 0});
    context.sample_ids = input({DType::kI64, Shape{std::ssize(sample_ids)}}, sample_ids);
  }
  return module_.forward(context, x);
}

void Recording::set_padding(const std::vector<double>& mask) {
  const auto count = static_cast<int64_t>(mask.size() - static_cast<size_t>(std::ranges::count(mask, 0.0)));
  counted_ = CountedSamples{count, count};
  counted_mask_ = input({DType::kF32, Shape{std::ssize(mask)}}, mask);
}

std::vector<Value> Recording::gradients(Value root, Value seed, const std::vector<Value>& wrt) {
  return backends::differentiate(root, seed, wrt);
}

std::vector<std::vector<double>> Recording::run(const std::vector<Value>& values) {
  for (const Value& value : values) program_.output("value", value.id);
  const auto device = backends::make_cpu_device(1);
  const auto step = device->compile(program_);
  std::vector<const std::byte*> batch;
  for (const auto& bytes : inputs_) batch.push_back(bytes.data());
  device->wait(device->submit(*step, {.states = {}, .batch = batch, .scalars = {}}));
  std::vector<std::vector<double>> results;
  for (size_t i = 0; i < values.size(); ++i) {
    const backends::TensorType type = values[i].type();
    std::vector<std::byte> bytes(type.bytes());
    device->read_output(*step, static_cast<int>(i), bytes);
    std::vector<double>& result = results.emplace_back();
    for (size_t at = 0; at < bytes.size(); at += size_of(type.dtype))
      result.push_back(backends::load_element(type.dtype, bytes.data() + at));
  }
  return results;
}

std::vector<double> counting(int64_t elements, double divisor) {
  std::vector<double> values;
  for (int64_t i = 0; i < elements; ++i) values.push_back(static_cast<double>(i) / divisor);
  return values;
}

}  // namespace runner::nn
