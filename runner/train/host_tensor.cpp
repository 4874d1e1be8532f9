#include "runner/train/host_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "backends/graph/type_text.h"
#include "backends/tensor/float16.h"
#include "runner/train/packing.h"
#include "schema/error.h"

namespace runner::train {
namespace {

using backends::Shape;
using backends::TensorType;

// A row of the first axis; of a scalar, itself.
TensorType row_of(const TensorType& type) {
  return {type.dtype, type.shape.rank() == 0 ? type.shape : type.shape.without(0)};
}

std::string types_of_all(const std::vector<HostTensor>& all) {
  std::string text;
  for (size_t rank = 0; rank < all.size(); ++rank)
    text += fmt::format("{}rank {} has {}", rank == 0 ? "" : ", ", rank, all[rank].type);
  return text;
}

double rounded(backends::DType dtype, double value) {
  std::array<std::byte, 8> element{};
  backends::store_element(dtype, value, element.data());
  return backends::load_element(dtype, element.data());
}

}  // namespace

std::vector<std::byte> HostTensor::bytes() const {
  std::vector<std::byte> bytes(type.bytes());
  const size_t size = backends::size_of(type.dtype);
  for (size_t i = 0; i < values.size(); ++i) backends::store_element(type.dtype, values[i], bytes.data() + i * size);
  return bytes;
}

std::string HostTensor::packed() const {
  std::string text;
  append_number(text, static_cast<double>(type.dtype));
  append_number(text, type.shape.rank());
  for (const int64_t size : type.shape.dims()) append_number(text, static_cast<double>(size));
  for (const double value : values) append_number(text, value);
  return text;
}

HostTensor HostTensor::of_packed(std::string_view text) {
  HostTensor tensor;
  tensor.type.dtype = static_cast<backends::DType>(take_number(text));
  std::vector<int64_t> sizes(static_cast<size_t>(take_number(text)));
  for (int64_t& size : sizes) size = static_cast<int64_t>(take_number(text));
  tensor.type.shape = Shape(sizes);
  while (!text.empty()) tensor.values.push_back(take_number(text));
  return tensor;
}

HostTensor joined(const std::vector<HostTensor>& all, std::string_view what) {
  const TensorType row = row_of(all.front().type);
  const bool fit = std::ranges::all_of(all, [&](const HostTensor& each) { return row_of(each.type) == row; });
  RUN_CHECK(fit, ErrorKind::kRun, "{}: the tensors do not fit: {}; only their first sizes may differ", what,
            types_of_all(all));
  HostTensor result;
  int64_t rows = 0;
  for (const HostTensor& each : all) {
    rows += each.type.shape.rank() == 0 ? 1 : each.type.shape[0];
    result.values.insert(result.values.end(), each.values.begin(), each.values.end());
  }
  std::vector<int64_t> sizes{rows};
  if (all.front().type.shape.rank() > 0) sizes.insert(sizes.end(), row.shape.dims().begin(), row.shape.dims().end());
  result.type = {row.dtype, Shape(sizes)};
  return result;
}

HostTensor folded(const std::vector<HostTensor>& all, Fold fold, std::string_view what) {
  HostTensor result = all.front();
  const backends::DType dtype = result.type.dtype;
  const bool fit = std::ranges::all_of(all, [&](const HostTensor& each) { return each.type == result.type; });
  RUN_CHECK(fit, ErrorKind::kRun, "{}: the tensors do not fit: {}", what, types_of_all(all));
  RUN_CHECK(fold != Fold::kMean || is_float(dtype), ErrorKind::kRun,
            "{}: a mean wants a tensor of floats, got {}; cast it", what, result.type);
  for (size_t rank = 1; rank < all.size(); ++rank)
    for (size_t i = 0; i < result.values.size(); ++i) {
      const double next = all[rank].values[i];
      double& value = result.values[i];
      const bool larger = std::isnan(next) || next > value;
      value = fold != Fold::kMax ? rounded(dtype, value + next) : larger ? next : value;
    }
  if (fold == Fold::kMean)
    for (double& value : result.values) value = rounded(dtype, value / static_cast<double>(all.size()));
  return result;
}

}  // namespace runner::train
