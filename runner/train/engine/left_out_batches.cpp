#include "runner/train/engine/left_out_batches.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runner/model/norms.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::train {
namespace {

int64_t read_count(const DeviceArrays& arrays, const nn::ParameterSet& parameters, const std::string& name) {
  const auto buffers = parameters.model_buffers();
  const auto found = std::ranges::find(buffers, name, &nn::ModelBuffer::name);
  RUN_ASSERT(found != buffers.end());
  int64_t count = 0;
  arrays.read(arrays.layout().find(ArrayRole::kBuffer, 0, static_cast<nn::BufferId>(found - buffers.begin())), 0,
              std::as_writable_bytes(std::span(&count, 1)));
  return count;
}

// The first names of a list, and how many follow.
std::string first_of(const std::vector<std::string>& names) {
  constexpr size_t kNamed = 6;
  const std::span<const std::string> first(names.data(), std::min(names.size(), kNamed));
  const size_t more = names.size() - first.size();
  return fmt::format("{}{}", fmt::join(first, ", "), more > 0 ? fmt::format(" and {} more", more) : "");
}

}  // namespace

std::optional<std::string> warning_of_left_out_batches(const DeviceArrays& arrays, const nn::ParameterSet& parameters) {
  if (!parameters.moves_buffers()) return std::nullopt;
  const backends::ModelPause pause = arrays.pause_model();
  std::vector<std::string> norms, unmoved;
  for (const nn::ModelBuffer& buffer : parameters.model_buffers()) {
    if (!buffer.is_internal || !buffer.name.ends_with(nn::kBatchesNotFinite)) continue;
    const int64_t left_out = read_count(arrays, parameters, buffer.name);
    if (left_out == 0) continue;
    const std::string prefix = buffer.name.substr(0, buffer.name.size() - nn::kBatchesNotFinite.size());
    const std::string norm = prefix.empty() ? "the model" : "batch norm " + prefix.substr(0, prefix.size() - 1);
    norms.push_back(fmt::format("{} of {}", count_text(left_out, "update"), norm));
    if (read_count(arrays, parameters, prefix + std::string(nn::kBatchesTracked)) == 0) unmoved.push_back(norm);
  }
  if (norms.empty()) return std::nullopt;
  return fmt::format(
      "running statistics leave out batches whose own statistics are not finite: {}{}; look for inf and NaN in the "
      "data, or set a smaller optimizer.lr, or mixed_precision: bf16 instead of fp16",
      first_of(norms),
      unmoved.empty() ? ""
                      : fmt::format("; {} {} no other batch, so evaluations use the initial statistics",
                                    first_of(unmoved), unmoved.size() == 1 ? "has had" : "have had"));
}

}  // namespace runner::train
