#include "backends/tpu/tensors.h"

#include <algorithm>

#include "backends/ir/views.h"
#include "schema/base/error.h"

namespace runner::backends::tpu {
namespace {

class Tracer {
 public:
  explicit Tracer(const DeviceProgram& device)
      : device_(device),
        program_(device.program),
        group_of_(static_cast<size_t>(program_.size()), -1),
        parts_(static_cast<size_t>(program_.size())),
        given_(static_cast<size_t>(program_.size()), 0) {
    traced_.pieces.resize(static_cast<size_t>(program_.size()));
    traced_.idle.assign(device.groups.size(), 1);
  }

  DeviceTensors run() {
    std::vector<char> result(static_cast<size_t>(program_.size()), 0);
    for (size_t g = 0; g < device_.groups.size(); ++g)
      for (const ValueId id : device_.groups[g].nodes) group_of_[static_cast<size_t>(id)] = static_cast<int>(g);
    for (const Group& group : device_.groups)
      for (const ValueId id : group.results) result[static_cast<size_t>(id)] = 1;
    for (size_t i = 0; i < program_.inputs().size(); ++i) declare_input(i);
    for (ValueId id = 0; id < program_.size(); ++id) trace(id, result[static_cast<size_t>(id)] != 0);
    return std::move(traced_);
  }

 private:
  std::vector<Piece>& pieces(ValueId id) { return traced_.pieces[static_cast<size_t>(id)]; }
  std::vector<Shape>& parts(ValueId id) { return parts_[static_cast<size_t>(id)]; }
  int group_of(ValueId id) const { return group_of_[static_cast<size_t>(id)]; }

  void declare_input(size_t index) {
    const ValueId id = program_.inputs()[index].value;
    std::vector<TensorType> tensors{program_.type(id)};
    if (index < device_.inputs.size() && !device_.inputs[index].empty()) tensors = device_.inputs[index];
    int64_t elements = 0;
    for (const TensorType& type : tensors) {
      elements += type.shape.elements();
      const TensorType stored = device_.types.of(type);
      add(id, stored, argument_layout(stored));
    }
    RUN_ASSERT(elements == program_.type(id).shape.elements());
  }

  void add(ValueId id, const TensorType& type, const Layout& layout) {
    pieces(id).push_back({static_cast<int>(traced_.tensors.size()), type.shape.elements()});
    traced_.tensors.push_back({type, layout, id, group_of(id)});
  }

  void trace(ValueId id, bool result) {
    if (is_view(program_, id)) {
      pieces(id) =
          part_of(pieces(program_.operands(id)[0]), view_start(program_, id), program_.type(id).shape.elements());
    } else if (result && is_join(id)) {
      for (const ValueId part : program_.operands(id))
        pieces(id).insert(pieces(id).end(), pieces(part).begin(), pieces(part).end());
    } else if (is_same_on_device(id)) {
      pieces(id) = pieces(program_.operands(id)[0]);
    }
    find_parts(id);
    if (result && pieces(id).empty()) compute(id);
  }

  static std::vector<Piece> part_of(const std::vector<Piece>& from, int64_t start, int64_t count) {
    std::vector<Piece> pieces;
    int64_t at = 0;
    for (const Piece& piece : from) {
      const int64_t first = std::max(at, start), end = std::min(at + piece.elements, start + count);
      if (first < end) pieces.push_back({piece.tensor, end - first});
      at += piece.elements;
    }
    return pieces;
  }

  // Whether the value concatenates vectors without using a tensor twice.
  bool is_join(ValueId id) {
    if (program_.node(id).op != Op::kConcat || program_.type(id).shape.rank() != 1) return false;
    std::vector<int> seen;
    for (const ValueId part : program_.operands(id))
      for (const Piece& piece : pieces(part)) seen.push_back(piece.tensor);
    std::sort(seen.begin(), seen.end());
    return std::adjacent_find(seen.begin(), seen.end()) == seen.end();
  }

  // Whether the value is a detach or a cast between types that are equal on the device. A cast to the same type is a
  // copy.
  bool is_same_on_device(ValueId id) {
    const Node& node = program_.node(id);
    if (node.op == Op::kDetach) return true;
    if (node.op != Op::kCast) return false;
    const DType from = program_.type(program_.operands(id)[0]).dtype;
    return from != node.type.dtype && device_.types.of(from) == device_.types.of(node.type.dtype);
  }

  // Finds the shapes of the tensors that a value consists of: one, except for flat arrays. Shapes that come from an
  // input take precedence over those of gradients, which may be reshaped, so that new values match their states.
  void find_parts(ValueId id) {
    const Shape& shape = program_.type(id).shape;
    parts(id) = {shape};
    if (shape.rank() != 1) return;
    if (!pieces(id).empty()) {
      parts(id).clear();
      for (const Piece& piece : pieces(id)) parts(id).push_back(part(piece));
    } else if (is_elementwise(program_.node(id).op) || is_collective(program_.node(id).op)) {
      inherit_parts(id);
    }
  }

  Shape part(const Piece& piece) const {
    const Shape& whole = traced_.tensors[static_cast<size_t>(piece.tensor)].type.shape;
    return piece.elements == whole.elements() ? whole : Shape{piece.elements};
  }

  void inherit_parts(ValueId id) {
    const std::vector<Shape> one = parts(id);
    for (const ValueId operand : program_.operands(id)) {
      if (parts(id) == one) parts(id) = parts(operand);
      if (!is_given(operand)) continue;
      parts(id) = parts(operand);
      given_[static_cast<size_t>(id)] = 1;
      return;
    }
  }

  bool is_given(ValueId id) {
    if (pieces(id).empty()) return given_[static_cast<size_t>(id)] != 0;
    const DeviceTensor& first = traced_.tensors[static_cast<size_t>(pieces(id)[0].tensor)];
    return first.group < 0 || given_[static_cast<size_t>(first.value)] != 0;
  }

  void compute(ValueId id) {
    traced_.idle[static_cast<size_t>(group_of(id))] = 0;
    for (const Shape& shape : parts(id)) {
      const TensorType type = device_.types.of(TensorType{program_.type(id).dtype, shape});
      add(id, type, row_major_layout(type));
    }
  }

  const DeviceProgram& device_;
  const Program& program_;
  std::vector<int> group_of_;              // by value; −1: none
  std::vector<std::vector<Shape>> parts_;  // by value
  std::vector<char> given_;                // by computed value: its parts are those of an input
  DeviceTensors traced_;
};

}  // namespace

bool DeviceTensors::whole(ValueId value) const {
  const std::vector<Piece>& list = pieces[static_cast<size_t>(value)];
  return std::all_of(list.begin(), list.end(), [&](const Piece& piece) {
    return piece.elements == tensors[static_cast<size_t>(piece.tensor)].type.shape.elements();
  });
}

DeviceTensors trace_tensors(const DeviceProgram& device) {
  return Tracer(device).run();
}

}  // namespace runner::backends::tpu
