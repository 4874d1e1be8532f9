// Gradients of a model's parameters as values under construction, one for each flat buffer that is trained.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "backends/ir/autograd.h"
#include "backends/ir/program.h"
#include "runner/nn/parameter_set.h"
#include "runner/train/step/shares.h"
#include "schema/recipe.h"

namespace runner::train {

using backends::Value;

// By flat buffer, (elements) f32 each; unset: none.
using Gradients = std::vector<Value>;

// What the gradient array of a flat buffer holds between two segments of a hook's loop: nothing, what this replica has
// added up and is still to be reduced, or the sum over all replicas.
enum class Held : uint8_t { kNothing, kShare, kSum };

// Where rank 0 alone goes on from a sum over all replicas: the value that it has there, and the one that others have.
struct OfRank0 {
  backends::ValueId value, of_others;
};

struct Derivative {
  Gradients gradients;
  std::vector<Value> of_parameters;  // by ParameterId, in the parameter's shape; unset: it is not trained
  std::vector<bool> reached;         // by ParameterId: it is trained, and root depends on it
};

// d Σ root · seed / d parameters.  `parameters`: by ParameterId, the values that root was computed from.  A parameter
// that root does not depend on has zeros; a buffer that is not trained has none.  `finish`: makes of the gradient of a
// parameter that is trained, by ParameterId, what stands in its place, as soon as it is complete.  Throws Error(kRun)
// where root depends on no parameter that is trained.
Derivative derivative_of(Value root, Value seed, std::span<const Value> parameters, const nn::ParameterSet& set,
                         const backends::Finish& finish = nullptr);

// ((v0 + v1) + v2) + …: how what ranks have is added up, in their order.
Value left_fold(std::span<const Value> values);

// By ValueId: what a value is computed from, as far as derivatives go.
std::vector<bool> needed_for(const backends::Program& program, backends::ValueId root);

// What other replicas see of a gradient, f32: it may travel as fp16 or bf16.
Value on_its_way(Value gradient, const schema::CommSpec& comm);
// Whether gradients travel as fp16, where they may overflow.
bool travels_in_fp16(const schema::Recipe& recipe);

// Whether a step looks at its gradients: they may be infinite where the loss is not, and then it is left out.
bool checks_gradients(const schema::Recipe& recipe);

// Σ of the squares of all elements, by flat buffer; unset: there are none.
Value sum_of_squares(std::span<const Value> gradients);
// The same as replicas with shares of them add it up: the left fold over ranks of Σ over a rank's share.  Without ranks
// as above.
Value sum_of_squares(std::span<const Value> gradients, std::span<const Shares> ranks);

// min(1, limit / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_ multiplies by.  limit: () f32.
Value clip_factor(Value norm, Value limit);

}  // namespace runner::train
