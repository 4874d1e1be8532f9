#include "backends/tpu/tensor_graph.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "backends/ir/ops.h"
#include "backends/ir/passes/passes.h"
#include "backends/ir/passes/rewriter.h"
#include "backends/ir/views.h"
#include "backends/tpu/owners.h"

namespace runner::backends::tpu {
namespace {

// A value in the new Program.
struct Form {
  ValueId whole = kNoValue;      // with the old type; kNoValue: created on demand
  std::vector<ValueId> tensors;  // tensors of a flat array; empty: not a flat array
};

class Splitter {
 public:
  Splitter(const GraphIdentity& graph, const StateTensors& state_tensors)
      : graph_(graph),
        from_(*graph.program),
        state_tensors_(state_tensors),
        rewriter_(from_),
        forms_(static_cast<size_t>(from_.size())) {
    for (const std::vector<StateTensor>& tensors : state_tensors) {
      std::vector<Shape>& shapes = shapes_.emplace_back();
      for (const StateTensor& tensor : tensors) shapes.push_back(tensor.type.shape);
    }
    find_shared_numbers();
  }

  Program run() {
    for (ValueId id = 0; id < from_.size(); ++id) {
      rewriter_.make_from(id);
      write(id);
    }
    for (const Output& output : from_.outputs()) write_output(output);
    return rewriter_.finish_without_outputs();
  }

 private:
  Form& form(ValueId id) { return forms_[static_cast<size_t>(id)]; }
  Op op_of(ValueId id) const { return from_.node(id).op; }
  ValueId operand(ValueId id, size_t index = 0) const { return from_.operands(id)[index]; }
  Value value(ValueId now) { return {&rewriter_.to(), now}; }
  const Shape& shape_of(ValueId now) { return rewriter_.to().type(now).shape; }
  static int64_t elements_of(std::span<const Shape> shapes) {
    return std::accumulate(shapes.begin(), shapes.end(), int64_t{0},
                           [](int64_t sum, const Shape& shape) { return sum + shape.elements(); });
  }

  // ---- values in other forms ----

  ValueId whole(ValueId id) {
    Form& now = form(id);
    if (now.whole != kNoValue) return now.whole;
    std::vector<Value> parts;
    for (const ValueId tensor : now.tensors) parts.push_back(value(reshaped(tensor, {shape_of(tensor).elements()})));
    return now.whole = parts.size() == 1 ? parts[0].id : ops::concat(parts, 0).id;
  }

  ValueId reshaped(ValueId now, const Shape& shape) {
    return shape_of(now) == shape ? now : ops::reshape(value(now), shape).id;
  }

  // Returns a value in another shape, without going through a flat array where possible.
  ValueId in_shape(ValueId id, const Shape& shape) {
    const Op op = op_of(id);
    if (op == Op::kConstant) return expanded(scalar_of(id), shape);
    if (op == Op::kReshape && form(id).tensors.empty()) return in_shape(operand(id), shape);
    if (op == Op::kExpand && is_even(id)) return ops::expand(value(reshaped(whole(operand(id)), {})), shape).id;
    if (form(id).tensors.size() == 1) return reshaped(form(id).tensors[0], shape);
    return reshaped(whole(id), shape);
  }

  // Splits a flat array into tensors of these shapes.
  std::vector<ValueId> tensors_of(ValueId id, std::span<const Shape> shapes) {
    std::vector<ValueId> tensors;
    if (shapes.size() == 1) return {in_shape(id, shapes[0])};
    if (const std::vector<ValueId>& held = form(id).tensors; sizes_are(held, shapes)) {
      for (size_t i = 0; i < shapes.size(); ++i) tensors.push_back(reshaped(held[i], shapes[i]));
      return tensors;
    }
    const bool is_join = joins(id, shapes);
    int64_t at = 0;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const int64_t begin = std::exchange(at, at + shapes[i].elements());
      if (is_join || is_even(id))
        tensors.push_back(in_shape(is_join ? operand(id, i) : id, shapes[i]));
      else
        tensors.push_back(reshaped(ops::slice(value(whole(id)), 0, begin, at).id, shapes[i]));
    }
    return tensors;
  }

  // Whether all elements of a value are the same number.
  bool is_even(ValueId id) const {
    return op_of(id) == Op::kConstant || (op_of(id) == Op::kExpand && from_.type(operand(id)).shape.elements() == 1);
  }

  bool sizes_are(std::span<const ValueId> tensors, std::span<const Shape> shapes) {
    return std::ranges::equal(tensors, shapes, [&](ValueId tensor, const Shape& shape) {
      return shape_of(tensor).elements() == shape.elements();
    });
  }

  // Whether the value concatenates vectors of these sizes.
  bool joins(ValueId id, std::span<const Shape> shapes) const {
    return op_of(id) == Op::kConcat && from_.type(id).shape.rank() == 1 &&
           std::ranges::equal(from_.operands(id), shapes, [&](ValueId part, const Shape& shape) {
             return from_.type(part).shape.elements() == shape.elements();
           });
  }

  // ---- nodes ----

  void write(ValueId id) {
    const Op op = op_of(id);
    if (op == Op::kInput) return write_input(id);
    if (op == Op::kConstant) return set(id, expanded(scalar_of(id), from_.type(id).shape));
    if (marks_host(from_, id) && !is_flat(operand(id))) return set(id, ops::on_host(value(whole(operand(id)))).id);
    if (op == Op::kDetach || marks_host(from_, id)) return static_cast<void>(form(id) = form(operand(id)));
    if (op == Op::kMatmul) return write_product(id);
    if (is_view(from_, id) && is_flat(operand(id)) && write_part(id)) return;
    if (const std::vector<Shape>* const shapes = shapes_joined_by(id))
      return static_cast<void>(form(id).tensors = tensors_of(id, *shapes));
    if ((is_elementwise(op) || is_collective(op)) && write_each(id)) return;
    if (is_whole_reduction(id)) return write_reduction(id);
    copy(id);
  }

  bool is_flat(ValueId id) { return !form(id).tensors.empty(); }
  void set(ValueId id, ValueId now) { form(id).whole = now; }

  void copy(ValueId id) {
    std::vector<ValueId> operands;
    for (const ValueId each : from_.operands(id)) operands.push_back(whole(each));
    set(id, rewriter_.to().record(op_of(id), operands, from_.attrs(id), from_.type(id)));
  }

  ValueId expanded(ValueId scalar, const Shape& shape) {
    return shape.rank() == 0 ? scalar : ops::expand(value(scalar), shape).id;
  }
  // Scalar of a constant; it may be a number of the user's code that shares an input.
  ValueId scalar_of(ValueId id) {
    const TensorType type{from_.type(id).dtype, {}};
    return shared_.contains(from_.node(id).origin) ? number(id, "number", type)
                                                   : rewriter_.to().constant(from_.constant_value(id), type);
  }

  // Returns the input of a scalar; equal scalars share one.
  ValueId number(ValueId id, const std::string& name, const TensorType& type) {
    const auto parameter = shared_.find(from_.node(id).origin);
    if (parameter == shared_.end()) return rewriter_.to().input(InputKind::kScalar, name, type);
    const auto known = numbers_.find(parameter->second);
    if (known != numbers_.end() && rewriter_.to().type(known->second) == type) return known->second;
    const ValueId now = rewriter_.to().input(InputKind::kScalar, name, type);
    numbers_.emplace(parameter->second, now);
    return now;
  }

  void write_input(ValueId id) {
    const Input& input = *from_.input_of(id);
    if (input.kind == InputKind::kState) return write_state(id, static_cast<size_t>(from_.input_index(id)));
    const bool is_number = input.kind == InputKind::kScalar;
    set(id, is_number ? number(id, input.name, from_.type(id))
                      : rewriter_.to().input(input.kind, input.name, from_.type(id)));
  }

  void write_state(ValueId id, size_t index) {
    const auto state = static_cast<int32_t>(state_of_input_.size());
    const bool known = static_cast<size_t>(state) < state_tensors_.size();
    std::vector<StateTensor> tensors = known ? state_tensors_[static_cast<size_t>(state)] : std::vector<StateTensor>();
    if (tensors.empty()) tensors.push_back({from_.inputs()[index].name, from_.type(id)});
    state_of_input_.emplace(index, tensors);
    const bool absent = std::ranges::binary_search(graph_.absent, state);
    std::vector<ValueId>& inputs = inputs_of_[index];
    for (const auto& [name, type] : tensors) {
      inputs.push_back(rewriter_.to().input(InputKind::kState, name, type));
      form(id).tensors.push_back(absent ? expanded(rewriter_.to().constant(0, {type.dtype, {}}), type.shape)
                                        : inputs.back());
    }
    if (tensors.size() == 1 && tensors[0].type == from_.type(id)) set(id, std::exchange(form(id).tensors, {})[0]);
  }

  // If the view selects exactly one tensor of a flat array, writes that tensor and returns true.
  bool write_part(ValueId id) {
    const int64_t start = view_start(from_, id), elements = from_.type(id).shape.elements();
    int64_t at = 0;
    for (const ValueId tensor : form(operand(id)).tensors) {
      const int64_t begin = std::exchange(at, at + shape_of(tensor).elements());
      if (begin != start || at != start + elements) continue;
      const bool is_it = shape_of(tensor) == from_.type(id).shape;
      if (is_it || from_.type(id).shape.rank() != 1) set(id, reshaped(tensor, from_.type(id).shape));
      if (!is_it && from_.type(id).shape.rank() == 1) form(id).tensors = {tensor};
      return true;
    }
    return false;
  }

  // Returns the shapes of a state's tensors if the value concatenates tensors of these sizes, else null.
  const std::vector<Shape>* shapes_joined_by(ValueId id) const {
    const bool is_flattened = op_of(id) == Op::kReshape && from_.type(id).shape.rank() == 1;
    for (const std::vector<Shape>& shapes : shapes_) {
      if (shapes.size() > 1 && joins(id, shapes)) return &shapes;
      const bool one = shapes.size() == 1 && shapes[0].rank() > 1;
      if (one && is_flattened && from_.type(operand(id)).shape == shapes[0]) return &shapes;
    }
    return nullptr;
  }

  // Writes an element-wise node by tensor if an operand is a flat array. Returns whether one is.
  bool write_each(ValueId id) {
    const auto operands = from_.operands(id);
    const auto flat = std::ranges::find_if(operands, [&](ValueId each) { return is_flat(each); });
    if (flat == operands.end()) return false;
    std::vector<Shape> shapes;
    for (const ValueId tensor : form(*flat).tensors) shapes.push_back(shape_of(tensor));
    std::vector<std::vector<ValueId>> parts;
    for (const ValueId each : operands) parts.push_back(tensors_of(each, shapes));
    for (size_t i = 0; i < shapes.size(); ++i) {
      std::vector<ValueId> each;
      for (const std::vector<ValueId>& part : parts) each.push_back(part[i]);
      const TensorType type{from_.type(id).dtype, shapes[i]};
      form(id).tensors.push_back(rewriter_.to().record(op_of(id), each, from_.attrs(id), type));
    }
    return true;
  }

  // Of a reduction: the op that joins the reductions of parts.
  std::optional<Op> joining_op(ValueId id) const { return def_of(op_of(id)).combines_by; }

  bool is_whole_reduction(ValueId id) {
    return joining_op(id).has_value() && is_flat(operand(id)) && from_.attrs(id).size() == 1;
  }

  void write_reduction(ValueId id) {
    std::optional<Value> all;
    for (const ValueId tensor : form(operand(id)).tensors) {
      const Value reduced = ops::reduce(op_of(id), value(tensor));
      all = all ? ops::binary(*joining_op(id), *all, reduced) : reduced;
    }
    set(id, all->id);
  }

  // Transposed operands become nodes, as in the user's code.
  void write_product(ValueId id) {
    std::vector<int64_t> attrs(from_.attrs(id).begin(), from_.attrs(id).end());
    std::vector<ValueId> operands;
    for (const size_t side : {0, 1}) {
      Value factor = value(whole(operand(id, side)));
      if (std::exchange(attrs[side], 0) != 0) factor = ops::transpose(factor, -2, -1);
      operands.push_back(factor.id);
    }
    set(id, rewriter_.to().record(Op::kMatmul, operands, attrs, from_.type(id)));
  }

  void write_output(const Output& output) {
    if (output.state < 0) return rewriter_.to().output(output.name, whole(output.value));
    const std::vector<StateTensor>& tensors = state_of_input_.at(static_cast<size_t>(output.state));
    std::vector<Shape> shapes;
    for (const StateTensor& tensor : tensors) shapes.push_back(tensor.type.shape);
    const std::vector<ValueId> values = tensors_of(output.value, shapes);
    for (size_t i = 0; i < values.size(); ++i) {
      const ValueId input = inputs_of_.at(static_cast<size_t>(output.state))[i];
      rewriter_.to().output(tensors[i].name, values[i], rewriter_.to().input_index(input));
    }
  }

  // Maps the origin of each shared scalar to the first scalar that is equal to it.
  void find_shared_numbers() {
    for (size_t i = 0; i < graph_.scalars.size(); ++i) {
      const std::optional<size_t> first = parameter_of(graph_.signature, i);
      if (first && graph_.scalars[i].origin != kNoOrigin) shared_.emplace(graph_.scalars[i].origin, *first);
    }
  }

  const GraphIdentity& graph_;
  const Program& from_;
  const StateTensors& state_tensors_;
  Rewriter rewriter_;
  std::vector<Form> forms_;                                    // by old value
  std::vector<std::vector<Shape>> shapes_;                     // of the tensors of each state
  std::map<size_t, std::vector<StateTensor>> state_of_input_;  // by old input
  std::map<size_t, std::vector<ValueId>> inputs_of_;           // new inputs, by old input
  std::map<Origin, size_t> shared_;                            // parameter by origin of the scalar
  std::map<size_t, ValueId> numbers_;                          // input by parameter
};

// Removes on_host() marks: they only mark bookkeeping and are not nodes of the user's code.
ShownGraph without_marks(const Program& marked) {
  const std::vector<bool> bookkeeping = bookkeeping_nodes(marked);
  ShownGraph shown;
  Rewriter rewriter(marked);
  for (ValueId id = 0; id < marked.size(); ++id) {
    if (marks_host(marked, id)) {
      rewriter.map(id, rewriter.mapped(marked.operands(id)[0]));
      continue;
    }
    rewriter.copy(id);
    shown.bookkeeping.push_back(bookkeeping[static_cast<size_t>(id)]);
  }
  shown.program = rewriter.finish();
  return shown;
}

}  // namespace

ShownGraph shown_graph(const GraphIdentity& graph, const StateTensors& state_tensors) {
  return without_marks(in_post_order(Splitter(graph, state_tensors).run()));
}

Program tensor_graph(const GraphIdentity& graph, const StateTensors& state_tensors) {
  return shown_graph(graph, state_tensors).program;
}

ShownGraph shown_graph_as_traced(const GraphIdentity& graph, const StateTensors& state_tensors) {
  return without_marks(dce(Splitter(graph, state_tensors).run()));
}

GraphSize size_of(const Program& tensor_graph) {
  const auto outputs = tensor_graph.outputs();
  return {.nodes = tensor_graph.size(),
          .inputs = std::ssize(tensor_graph.inputs()),
          .outputs = std::ssize(outputs),
          .donated = std::ranges::count_if(outputs, [](const Output& output) { return output.state >= 0; })};
}

}  // namespace runner::backends::tpu
