#include "runner/train/engine/rank_weights.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "backends/runtime/spans.h"
#include "runner/train/engine/rank_list.h"
#include "runner/train/step/digest.h"
#include "runner/train/step/gathering.h"
#include "schema/base/error.h"

namespace runner::train {

namespace {

uint64_t digest_of(std::span<const std::byte> bytes) {
  uint64_t digest = bytes.size();
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
    digest = mixed(digest, word);
  }
  return digest;
}

}  // namespace

void average_weights(DeviceArrays& arrays, backends::ProcessGroup& ranks, const backends::Site& site) {
  const backends::ScopedSpan span(backends::SpanKind::kOptimizer, "average weights");
  const backends::ModelPause pause = arrays.pause_model();
  const std::vector<DeviceArray>& layout = arrays.layout().arrays();
  for (size_t i = 0; i < layout.size(); ++i) {
    const bool is_statistic = layout[i].is_of_model_buffer() && layout[i].type.dtype == backends::DType::kF32;
    if (!arrays.is_of_parameters(layout[i]) && !is_statistic) continue;
    RUN_ASSERT(layout[i].type.dtype == backends::DType::kF32);
    std::vector<std::byte> bytes = arrays.read(static_cast<int32_t>(i));
    ranks.all_reduce(layout[i].type, bytes, backends::Reduction::kSum, site);
    const std::span values(reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float));
    for (float& value : values) value /= static_cast<float>(ranks.size());
    arrays.write(static_cast<int32_t>(i), bytes);
  }
  arrays.share_buffers(site);  // counts
}

std::vector<TensorDigest> digests_of(const DeviceArrays& arrays, const nn::ParameterSet& parameters) {
  const backends::ModelPause pause = arrays.pause_model();
  std::vector<TensorDigest> digests;
  const std::vector<DeviceArray>& layout = arrays.layout().arrays();
  for (size_t i = 0; i < layout.size(); ++i) {
    if (layout[i].role != ArrayRole::kParameters && layout[i].role != ArrayRole::kSlot) continue;
    const std::vector<std::byte> bytes = arrays.read(static_cast<int32_t>(i));
    size_t at = 0;
    for (const backends::StateTensor& tensor : tensors_in(layout[i], parameters)) {
      digests.push_back({tensor.name, digest_of(std::span(bytes).subspan(at, tensor.type.bytes()))});
      at += tensor.type.bytes();
    }
  }
  return digests;
}

void check_identical(const std::vector<TensorDigest>& mine, backends::ProcessGroup& ranks, const backends::Site& site) {
  std::vector<uint64_t> own;
  for (const TensorDigest& tensor : mine) own.push_back(tensor.digest);
  const std::vector<std::vector<uint64_t>> all = gather_values(own, ranks, site);
  for (size_t i = 0; i < mine.size(); ++i) {
    const auto has = [&](uint64_t digest) {
      return std::ranges::count_if(all, [&](const auto& digests) { return digests[i] == digest; });
    };
    const uint64_t usual =
        (*std::ranges::max_element(all, {}, [&](const auto& digests) { return has(digests[i]); }))[i];
    std::vector<size_t> odd, others;
    for (size_t rank = 0; rank < all.size(); ++rank) (all[rank][i] == usual ? others : odd).push_back(rank);
    RUN_CHECK(
        odd.empty(), ErrorKind::kRun,
        "weights diverged after step {}: {} on {} differs from {} (comm.check_every); all ranks applied the same "
        "updates, so memory is damaged or cores compute differently: resume from an earlier state on another machine",
        site.step, mine[i].name, rank_list(odd), rank_list(others));
  }
}

}  // namespace runner::train
