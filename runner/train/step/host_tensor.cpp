#include "runner/train/step/host_tensor.h"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "backends/dist/fold.h"
#include "backends/ir/type_text.h"
#include "backends/tensor/float16.h"
#include "schema/base/error.h"
#include "schema/base/packing.h"

namespace runner::train {
namespace {

using backends::Shape;
using backends::TensorType;

// Type of a row along the first axis; of a scalar, the scalar's type.
TensorType row_of(const TensorType& type) {
  return {type.dtype, type.shape.rank() == 0 ? type.shape : type.shape.without(0)};
}

std::string types_of_all(const std::vector<SentTensor>& all) {
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

// For dtypes that collectives can reduce.
void fold_numbers(const std::vector<SentTensor>& all, Fold fold, HostTensor& result) {
  std::vector<std::vector<std::byte>> copies;  // received bytes may be unaligned
  std::vector<const std::byte*> sources;
  for (const SentTensor& each : all)
    sources.push_back(copies.emplace_back(each.bytes.begin(), each.bytes.end()).data());
  const auto reduction = fold == Fold::kMax ? backends::Reduction::kMax : backends::Reduction::kSum;
  backends::fold(result.type.dtype, reduction, sources, result.bytes.size(), result.bytes.data());
}

void fold_others(const std::vector<SentTensor>& all, Fold fold, HostTensor& result) {
  const backends::DType dtype = result.type.dtype;
  for (size_t at = 0; at < result.bytes.size(); at += backends::size_of(dtype)) {
    double value = backends::load_element(dtype, result.bytes.data() + at);
    for (size_t rank = 1; rank < all.size(); ++rank) {
      const double next = backends::load_element(dtype, all[rank].bytes.data() + at);
      const bool larger = std::isnan(next) || next > value;
      value = fold != Fold::kMax ? rounded(dtype, value + next) : larger ? next : value;
    }
    backends::store_element(dtype, value, result.bytes.data() + at);
  }
}

}  // namespace

void HostTensor::pack_into(std::string& text) const {
  text += pack(type);
  text.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

SentTensor SentTensor::of_packed(std::string_view text) {
  Unpacker unpacker(text);
  SentTensor tensor{.type = unpacker.read<TensorType>(), .bytes = std::as_bytes(std::span(unpacker.rest()))};
  packing::check(tensor.bytes.size() == tensor.type.bytes());
  return tensor;
}

HostTensor joined(const std::vector<SentTensor>& all, std::string_view what) {
  const TensorType row = row_of(all.front().type);
  const bool fit = std::ranges::all_of(all, [&](const SentTensor& each) { return row_of(each.type) == row; });
  RUN_CHECK(fit, ErrorKind::kRun, "{}: expected tensors that differ only in the size of the first axis, got {}", what,
            types_of_all(all));
  HostTensor result;
  int64_t rows = 0;
  size_t bytes = 0;
  for (const SentTensor& each : all) bytes += each.bytes.size();
  result.bytes.reserve(bytes);
  for (const SentTensor& each : all) {
    rows += each.type.shape.rank() == 0 ? 1 : each.type.shape[0];
    result.bytes.insert(result.bytes.end(), each.bytes.begin(), each.bytes.end());
  }
  std::vector<int64_t> sizes{rows};
  if (all.front().type.shape.rank() > 0) sizes.insert(sizes.end(), row.shape.dims().begin(), row.shape.dims().end());
  result.type = {row.dtype, Shape(sizes)};
  return result;
}

HostTensor folded(const std::vector<SentTensor>& all, Fold fold, std::string_view what) {
  HostTensor result = all.front().copy();
  const backends::DType dtype = result.type.dtype;
  const bool fit = std::ranges::all_of(all, [&](const SentTensor& each) { return each.type == result.type; });
  RUN_CHECK(fit, ErrorKind::kRun, "{}: expected tensors of equal type, got {}", what, types_of_all(all));
  RUN_CHECK(fold != Fold::kMean || is_float(dtype), ErrorKind::kRun,
            "{}: mean: expected a tensor of floats, got {}; cast it", what, result.type);
  backends::is_reduced(dtype) ? fold_numbers(all, fold, result) : fold_others(all, fold, result);
  if (fold != Fold::kMean) return result;
  for (size_t at = 0; at < result.bytes.size(); at += backends::size_of(dtype)) {
    std::byte* const element = result.bytes.data() + at;
    backends::store_element(dtype, backends::load_element(dtype, element) / static_cast<double>(all.size()), element);
  }
  return result;
}

}  // namespace runner::train
