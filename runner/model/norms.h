// Norms with statistics over a batch or over groups of channels: torch.nn.BatchNorm1d, BatchNorm2d and GroupNorm.
//
// They are compositions of differentiable ops. Statistics and normalisation are computed in f32, whatever the precision
// of autocast; the result has the dtype of x. docs/running-statistics.md states the rules.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "runner/model/module.h"

namespace runner::nn {

struct BatchNormOptions {
  // Those of a recipe.
  static BatchNormOptions of(const schema::BatchNormSpec& spec);

  double eps = kNormEpsilon;
  // Weight of the batch in the running statistics. None: they are the plain mean over all batches so far.
  std::optional<double> momentum = 0.1;
  bool affine = true;  // has weight and bias
  bool sync = false;   // statistics of the batches of all ranks
  // kStatistics: training normalises by the running statistics, which stay. kAll: also weight and bias stay.
  schema::FrozenNorm frozen = schema::FrozenNorm::kNone;
};

// Buffers of a batch norm: the batches that its running statistics count, and those that they leave out because their
// statistics were not finite. The second is internal (ModelBuffer::is_internal), and missing if the statistics stay.
inline constexpr std::string_view kBatchesTracked = "num_batches_tracked";
inline constexpr std::string_view kBatchesNotFinite = "num_batches_not_finite";

// x: (B, C) or (B, C, L) for one dimension, (B, C, H, W) for two. In training, normalises each channel by the mean and
// the biased variance of the batch, and moves the buffers running_mean, running_var (unbiased) and num_batches_tracked,
// unless the statistics of the batch are not finite, which num_batches_not_finite counts. Otherwise normalises by the
// running statistics. Padding samples do not count. Recording a training step throws Error(kRun) if a channel has a
// single value.
ModulePtr batch_norm(int64_t channels, int dimensions, const BatchNormOptions& options = {});

// x: (B, C, …). Normalises the channels of each group of a sample together. weight and bias: (C). Throws Error(kRun) if
// `groups` does not divide `channels`.
ModulePtr group_norm(int64_t groups, int64_t channels, double eps = kNormEpsilon, bool affine = true);

// ---- functions ---- weight and bias: (C) f32, or unset for 1 and 0. x: (B, C, …).

// Normalises each channel by its statistics over the batch. Throws Error(kRun) if a channel has a single value.
Value normalised_by_batch(const ForwardContext& context, Value x, Value weight, Value bias, double eps);
// Normalises each channel by these statistics, (C).
Value normalised_by(Value x, Value mean, Value variance, Value weight, Value bias, double eps);
// Normalises each group of channels of each sample. Throws Error(kRun) if `groups` does not divide the channels.
Value group_normalised(Value x, int64_t groups, Value weight, Value bias, double eps);

}  // namespace runner::nn
