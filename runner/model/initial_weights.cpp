#include "runner/model/initial_weights.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/tensor/float16.h"
#include "runner/formats/safetensors.h"
#include "schema/base/error.h"

namespace runner::nn {

namespace {

// The advice if the file has the parameter under a prefix: wrappers such as DataParallel and torch.compile add one.
std::string prefix_hint(const formats::SafetensorsFile& file, const std::string& parameter) {
  for (const formats::NamedTensor& tensor : file.tensors())
    if (tensor.name.ends_with("." + parameter))
      return fmt::format("; save the model without the prefix '{}'",
                         tensor.name.substr(0, tensor.name.size() - parameter.size()));
  return "";
}

}  // namespace

InitialWeights::InitialWeights(const std::string& path, const ParameterSet& parameters) {
  if (path.empty()) return;
  file_ = std::make_unique<formats::SafetensorsFile>(path);
  for (const Parameter& parameter : parameters.parameters()) {
    const formats::NamedTensor* tensor = file_->find(parameter.name);
    RUN_CHECK(tensor, ErrorKind::kData, "model.init_from: {} has no tensor {}, expected one of shape {}; {}{}", path,
              parameter.name, parameter.shape.to_string(), file_->names_text(), prefix_hint(*file_, parameter.name));
    RUN_CHECK(tensor->shape == parameter.shape, ErrorKind::kData,
              "model.init_from: expected shape {3} of {0} in {1}, got {2}", parameter.name, path,
              tensor->shape.to_string(), parameter.shape.to_string());
    RUN_CHECK(tensor->dtype && backends::is_float(*tensor->dtype), ErrorKind::kData,
              "model.init_from: expected floats in {0} in {1}, got {2}", parameter.name, path, tensor->type);
  }
  for (const formats::NamedTensor& tensor : file_->tensors())
    RUN_CHECK(std::any_of(parameters.parameters().begin(), parameters.parameters().end(),
                          [&](const Parameter& parameter) { return parameter.name == tensor.name; }),
              ErrorKind::kData, "model.init_from: {} has a tensor {}, which the model does not have", path,
              tensor.name);
}

InitialWeights::~InitialWeights() = default;

bool InitialWeights::read(const Parameter& parameter, std::span<float> values, int64_t begin) const {
  if (!file_) return false;
  const formats::NamedTensor& tensor = *file_->find(parameter.name);
  const size_t size = backends::size_of(*tensor.dtype);
  const std::byte* const first = tensor.bytes.data() + static_cast<size_t>(begin) * size;
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(backends::load_element(*tensor.dtype, first + i * size));
  return true;
}

}  // namespace runner::nn
