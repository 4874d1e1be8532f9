#include "runner/train/step/not_finite.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "backends/tensor/float16.h"
#include "runner/train/step/step_builder.h"

namespace runner::train {
namespace {

using backends::DType;
using backends::Program;
using backends::ValueId;

struct Found {
  int64_t element;
  double value;
};

std::optional<Found> find(DType dtype, const std::vector<std::byte>& contents, bool is_weight) {
  const size_t size = backends::size_of(dtype);
  for (size_t i = 0; i * size < contents.size(); ++i) {
    const double value = backends::load_element(dtype, contents.data() + i * size);
    if (!std::isfinite(value) || (is_weight && value < 0)) return Found{static_cast<int64_t>(i), value};
  }
  return std::nullopt;
}

// Describes an element: "a feature of sample 17" for a batch input, "parameter 0.weight", "the weight of sample 17", or
// "the result of exp (32, 10) f32".
NotFinite describe(const ForwardPass& pass, const nn::ParameterSet& parameters, ValueId id, int64_t element,
                   const backends::Submission& submission) {
  const Program& program = pass.program;
  const auto sample = [&](int64_t row) {
    return reinterpret_cast<const int64_t*>(submission.batch[pass.sample_ids])[row];
  };
  if (id == pass.weights) {
    const bool by_sample = program.type(id).shape.rank() > 0;
    return {by_sample ? fmt::format("the weight of sample {}", sample(element)) : "the weight of the batch",
            NotFinite::Source::kWeight};
  }
  if (id + 1 == pass.end) return {"the sum of the losses"};
  for (size_t p = 0; p < pass.parameters.size(); ++p)
    if (pass.parameters[p] == id)
      return {fmt::format("parameter {}", parameters[static_cast<nn::ParameterId>(p)].name),
              NotFinite::Source::kParameter};
  if (id == pass.features || id == pass.labels) {
    const int64_t per_sample = program.type(id).shape.elements() / program.type(id).shape[0];
    const bool is_feature = id == pass.features;
    return {fmt::format("{} of sample {}", is_feature ? "a feature" : "a target", sample(element / per_sample)),
            is_feature ? NotFinite::Source::kFeature : NotFinite::Source::kTarget};
  }
  return {fmt::format("the result of {} {} in the forward pass", name_of(program.node(id).op),
                      program.type(id).to_string())};
}

// Values to check, in order of their ids.
std::vector<ValueId> values_to_watch(const ForwardPass& pass) {
  std::vector<ValueId> watched;
  for (ValueId id = 0; id < pass.end; ++id) {
    const backends::Op op = pass.program.node(id).op;
    const bool computed = op != backends::Op::kInput && op != backends::Op::kConstant && op != backends::Op::kSlice;
    const bool is_parameter = std::find(pass.parameters.begin(), pass.parameters.end(), id) != pass.parameters.end();
    const bool looked_at = computed || is_parameter || id == pass.features || id == pass.labels || id == pass.weights;
    if (is_float(pass.program.type(id).dtype) && looked_at) watched.push_back(id);
  }
  return watched;
}

// Implements first_not_finite().
class Search {
 public:
  Search(backends::Device& device, const ForwardPass& pass, const nn::ParameterSet& parameters,
         const backends::Submission& submission, std::optional<int64_t> memory)
      : device_(device), pass_(pass), parameters_(parameters), submission_(submission), memory_(memory) {}

  // If the values do not fit into memory together, tries each half in turn.
  std::optional<NotFinite> first_of(std::span<const ValueId> watched) {
    Program program = pass_.program.without_outputs();
    for (const ValueId id : watched) program.output("watched", id);
    const auto executable = device_.compile(program);
    if (memory_ && static_cast<int64_t>(executable->arena_bytes()) > *memory_ && watched.size() > 1) {
      const size_t half = watched.size() / 2;
      std::optional<NotFinite> found = first_of(watched.first(half));
      return found ? found : first_of(watched.subspan(half));
    }
    device_.wait(device_.submit(*executable, submission_));
    for (size_t i = 0; i < watched.size(); ++i)
      if (auto found = look_at(*executable, static_cast<int>(i), watched[i])) return found;
    return std::nullopt;
  }

 private:
  std::optional<NotFinite> look_at(backends::Executable& executable, int output, ValueId id) {
    std::vector<std::byte> contents(pass_.program.type(id).bytes());
    device_.read_output(executable, output, contents);
    const auto found = find(pass_.program.type(id).dtype, contents, id == pass_.weights);
    if (!found) return std::nullopt;
    NotFinite result = describe(pass_, parameters_, id, found->element, submission_);
    result.what += fmt::format(" is {}", std::isnan(found->value) ? "nan" : fmt::to_string(found->value));
    result.where = pass_.program.mark_of(id);
    return result;
  }

  backends::Device& device_;
  const ForwardPass& pass_;
  const nn::ParameterSet& parameters_;
  const backends::Submission& submission_;
  const std::optional<int64_t> memory_;
};

}  // namespace

std::optional<NotFinite> first_not_finite(backends::ModelledDevice& device, const ForwardPass& pass,
                                          const nn::ParameterSet& parameters, const backends::Submission& submission,
                                          std::optional<int64_t> memory) {
  const backends::ModelPause pause(device);
  return Search(device, pass, parameters, submission, memory).first_of(values_to_watch(pass));
}

namespace {

// Blames the optimizer only if it has updated something.
std::string remedy_of(const NotFinite& found, bool stepped) {
  if (found.source == NotFinite::Source::kParameter && !stepped)
    return "check the file of model.init_from or model.pretrained";
  std::string skip = "set train.on_nan: skip to skip such steps";
  const bool is_data = found.source == NotFinite::Source::kFeature || found.source == NotFinite::Source::kTarget;
  if (is_data || !stepped) return skip;
  return "use a smaller optimizer.lr or train.clip_grad_norm, or " + skip;
}

}  // namespace

std::string what_failed(const NotFinite& found, int64_t step, bool stepped, bool transformed) {
  if (found.source == NotFinite::Source::kWeight)
    return fmt::format("step {}: {}; the weights that training_step returns must be at least 0", step, found.what);
  const bool by_transform = transformed && found.source == NotFinite::Source::kFeature;
  return fmt::format("the loss of step {} is not finite: {}{}; {}", step, found.what,
                     by_transform ? ", after the hook's transform" : "", remedy_of(found, stepped));
}

}  // namespace runner::train
