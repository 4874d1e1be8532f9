// Gradients of a model's parameters as values under construction, one per trained flat buffer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backends/ir/autograd.h"
#include "backends/ir/program.h"
#include "runner/model/parameter_set.h"
#include "runner/train/step/shard.h"
#include "schema/recipe/recipe.h"

namespace runner::train {

using backends::Value;

// By flat buffer, (elements) f32 each; unset: no gradient.
using Gradients = std::vector<Value>;

// Contents of the gradient array of a flat buffer between two traced regions: nothing, a sum of this rank that is
// still to be reduced, or the sum over all ranks.
enum class GradientState : uint8_t { kNothing, kLocalSum, kGlobalSum };

// An addition that only rank 0 records, to a sum over all ranks: its result on rank 0, and the value that the other
// ranks have instead.
struct RankZeroAddition {
  backends::ValueId value, of_others;
};

struct Derivative {
  Gradients gradients;
  std::vector<Value> of_parameters;  // by ParameterId, in the parameter's shape; unset: not trained
  std::vector<bool> reached;         // by ParameterId: trained, and root depends on it
};

// Returns d Σ root · seed / d parameters. `parameters`: by ParameterId, the values that root was computed from. The
// gradient of a trained parameter that root does not depend on is zero; untrained buffers have none. `finish`: maps the
// gradient of a trained parameter, given its ParameterId, to its replacement as soon as the gradient is complete.
// Throws Error(kRun) if root depends on no trained parameter.
Derivative derivative_of(Value root, Value seed, std::span<const Value> parameters, const nn::ParameterSet& set,
                         const backends::Finish& finish = nullptr);

// ((v0 + v1) + v2) + …: the order in which values of ranks are summed.
Value left_fold(std::span<const Value> values);
// `rounds`: the device rounds to bf16. Like an all-reduce, the fold is then computed in f32 and rounded once.
Value left_fold(std::span<const Value> values, bool rounds);

// By ValueId: whether `root` is computed from the value and its derivative reaches it.
std::vector<bool> needed_for(const backends::Program& program, backends::ValueId root);

// Rounds a gradient to the type in which it is communicated (fp16 or bf16) and back to f32.
Value rounded_for_communication(Value gradient, const schema::CommSpec& comm);
// Whether gradients are communicated as fp16, which may overflow.
bool communicates_in_fp16(const schema::Recipe& recipe);

// Whether a step checks its gradients and is skipped if they are not finite. They may be infinite although the loss is
// finite.
bool checks_gradients(const schema::Recipe& recipe);

// Whether a step reports the norm of its gradients.
inline bool reports_grad_norm(const schema::Recipe& recipe) {
  return recipe.train.clip_grad_norm.has_value() || recipe.log.grad_norm;
}

// Sum of the squares of all elements of all flat buffers; unset if there are no gradients.
Value sum_of_squares(std::span<const Value> gradients);
// Like sum_of_squares(), in the order in which ranks with shards compute it: the left fold over ranks of the sum over
// the rank's shard. `ranks`: empty for the plain sum. `rounds`: see left_fold().
Value sum_of_squares(std::span<const Value> gradients, std::span<const Shard> ranks, bool rounds);

// min(1, limit / (norm + 1e-6)), the factor of torch.nn.utils.clip_grad_norm_. limit: () f32.
Value clip_factor(Value norm, Value limit);

}  // namespace runner::train
