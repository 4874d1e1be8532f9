#include "runner/train/step/shard.h"

#include <utility>

#include "backends/dist/shared_memory.h"
#include "backends/runtime/available_memory.h"
#include "backends/tensor/rounding.h"
#include "runner/train/step/parameter_use.h"
#include "runner/train/step/power_sgd.h"

namespace runner::train {
namespace {

using Pages = backends::ProcessGroup::Pages;

Shard::Range share(int64_t elements, int rank, int size) {
  const auto [first, end] = backends::part_of(elements, rank, size, kFloatsOfLine);
  return {first, end - first};
}

// Gradient rows are reserved only: if all gradients are factored, no rank writes them.
SharedRows allocate(const DeviceArray& array, backends::ProcessGroup& ranks) {
  if (array.is_common()) return {ranks.symmetric_alloc(array.type, Pages::kNow, {array.name}), 0};
  const auto rows_of = array.role == ArrayRole::kGradients ? reserve_rows : share_rows;
  return rows_of(array.type, array.name, ranks);
}

size_t stride_of(const backends::TensorType& row) {
  return backends::round_up(row.bytes(), static_cast<size_t>(kFloatsOfLine) * sizeof(float));
}

backends::TensorType type_of_rows(const backends::TensorType& row, int ranks) {
  const auto elements = static_cast<int64_t>(stride_of(row) / backends::size_of(row.dtype));
  return {row.dtype, backends::Shape{ranks, elements}};
}

}  // namespace

SharedRows share_rows(const backends::TensorType& row, std::string_view name, backends::ProcessGroup& ranks) {
  return {ranks.symmetric_alloc(type_of_rows(row, ranks.size()), Pages::kNow, {name}), stride_of(row)};
}

SharedRows reserve_rows(const backends::TensorType& row, std::string_view name, backends::ProcessGroup& ranks) {
  return {ranks.symmetric_alloc(type_of_rows(row, ranks.size()), Pages::kOnTouch, {name}), stride_of(row)};
}

// Rank 0 checks the available memory before any rank has taken some.
void take_rows(const SharedRows& rows, std::string_view name, backends::ProcessGroup& ranks) {
  if (ranks.rank() == 0) backends::check_available(static_cast<size_t>(ranks.size()) * rows.stride);
  ranks.barrier({name});
  backends::take_pages({rows.of(ranks.rank()).get(), rows.stride});
}

Shard::Shard(const nn::ParameterSet& parameters, const Optimizers& optimizers, const schema::CommSpec& comm, int rank,
             int size)
    : rank_(rank), size_(size) {
  const bool whole = is_power_sgd(comm) || skips_unused(comm);
  for (const nn::FlatBuffer& buffer : parameters.buffers()) {
    const auto number = static_cast<int>(ranges_.size());
    if (buffer.group < 0) {
      ranges_.emplace_back();
    } else if (whole || optimizers.rule(buffer.group).type == schema::OptimizerType::kHook) {
      ranges_.push_back({0, number % size_ == rank_ ? buffer.elements : 0});
    } else {
      ranges_.push_back(share(buffer.elements, rank_, size_));
    }
    if (ranges_.back().count == 0) ranges_.back().first = 0;
  }
}

std::vector<Shard> all_shards(const nn::ParameterSet& parameters, const Optimizers& optimizers,
                              const schema::CommSpec& comm, int size) {
  std::vector<Shard> all;
  for (int rank = 0; rank < size; ++rank) all.emplace_back(parameters, optimizers, comm, rank, size);
  return all;
}

backends::TensorType type_in_reduction(const DeviceArray& array, const Shard& shard, SumSource source) {
  const bool is_whole = !array.is_like_parameters || shard.of(array.buffer).count == 0 ||
                        (source == SumSource::kReducedInPlace && array.role == ArrayRole::kGradients);
  if (is_whole) return array.type;
  return {array.type.dtype, backends::Shape{shard.of(array.buffer).count}};
}

SharedArrays share_arrays(const DeviceLayout& layout, const Shard& shard, backends::ModelledDevice& device,
                          backends::ProcessGroup& ranks, SumSource source) {
  SharedArrays shared;
  std::vector<std::pair<const DeviceArray*, SharedRows>> read_by_all;
  const auto share_of = [&](const DeviceArray& array, const SharedRows& common, int rank) {
    const backends::TensorType type = type_in_reduction(array, shard, source);
    const int64_t first = type == array.type ? 0 : shard.of(array.buffer).first;
    return device.wrap(common.of(rank, static_cast<size_t>(first) * sizeof(float)), type.bytes());
  };
  for (const DeviceArray& array : layout.arrays()) {
    shared.rows.emplace_back();
    if (!array.is_common() && !array.is_read_by_all()) {
      shared.arrays.push_back(device.allocate(array.type.bytes(), array.name));
      shared.reduction.push_back(shared.arrays.back());
      continue;
    }
    const SharedRows common = allocate(array, ranks);
    shared.arrays.push_back(device.wrap(common.of(ranks.rank()), array.type.bytes(), array.name));
    shared.reduction.push_back(share_of(array, common, ranks.rank()));
    if (!array.is_read_by_all()) continue;
    shared.rows.back() = common;
    read_by_all.emplace_back(&array, common);
  }
  for (const auto& [array, common] : read_by_all)
    for (int rank = 0; has_rows(source) && rank < ranks.size(); ++rank)
      if (rank != ranks.rank()) shared.reduction.push_back(share_of(*array, common, rank));
  return shared;
}

}  // namespace runner::train
