// A Program: tensor operations in static single assignment form, in execution order.
//
// Invariants: 1. the operands of a node come before it; 2. types are inferred when a node is recorded, so every node is
// well typed; 3. nodes never change, passes write new Programs; 4. outputs name values; an output with a state replaces
// the contents of that state after the Program has run. record() reports shape errors at the current source line.
// Not thread-safe while it is built; immutable afterwards.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/ir/op.h"
#include "backends/tensor/shape.h"
#include "schema/base/source_mark.h"

namespace runner::backends {

using ValueId = int32_t;  // index of the node that makes the value
inline constexpr ValueId kNoValue = -1;

// Where the contents of an input come from.
enum class InputKind : uint8_t {
  kState,   // a device buffer that persists between executions: weights, moments, sums
  kBatch,   // a tensor passed at each execution
  kScalar,  // a number passed at each execution (learning rate, …); its value does not affect what cpu and gpu compile
};

// Number of a recorded node. A node made from another (its gradient, its copy in a pass) keeps the origin of that node.
using Origin = uint32_t;
inline constexpr Origin kNoOrigin = ~Origin{0};

// The source line of each recorded node.
class SourceLines {
 public:
  Origin add(MarkId mark) {
    marks_of_.push_back(mark);
    return static_cast<Origin>(marks_of_.size() - 1);
  }
  MarkId intern(const SourceMark& mark) { return table_.intern(mark); }
  bool has(Origin origin) const { return origin < marks_of_.size(); }
  const SourceMark& at(Origin origin) const { return table_.at(marks_of_[origin]); }
  const SourceMark& of(MarkId mark) const { return table_.at(mark); }

 private:
  MarkTable table_;
  std::vector<MarkId> marks_of_;
};

struct Node {
  Op op;
  TensorType type;
  Origin origin;
  uint32_t first_operand, operand_count;
  uint32_t first_attr, attr_count;
};

struct Input {
  InputKind kind;
  std::string name;
  ValueId value;
  // For a bf16 state: index of the f32 input whose elements it holds, rounded as the device rounds operands of
  // products. Products may read it instead. −1: none.
  int32_t rounded_of = -1;
};

struct Output {
  std::string name;
  ValueId value;
  int32_t state = -1;    // index of the kState input that it replaces; −1: returned to the caller
  bool is_read = false;  // the user's code reads it before the Program continues, as tensor.item() does
};

// 128-bit hash of the structure: ops, types, operands, attributes, input kinds, outputs, recomputed nodes. Names and
// source lines do not count.
struct ProgramHash {
  uint64_t lo = 0, hi = 0;

  bool operator==(const ProgramHash&) const = default;
  // Two lanes of multiply-and-rotate (the mixing step of MurmurHash3's 128-bit form, public domain).
  void mix(uint64_t word) {
    lo = std::rotl(lo ^ (word * 0x87c37b91114253d5ull), 27) * 5 + 0x52dce729u;
    hi = std::rotl(hi ^ (word * 0x4cf5ad432745937full), 31) * 5 + 0x38495ab5u;
    hi += lo;
  }
  std::string to_string() const;  // 32 hexadecimal digits
};

// Nodes [first, end) of a Program.
struct NodeRange {
  ValueId first, end;
  bool operator==(const NodeRange&) const = default;
};

class Program {
 public:
  Program() = default;
  // Returns an empty Program for nodes that are made from those of `from`; it shares the source lines.
  static Program like(const Program& from);

  // Appends an input. `name` appears only in printed Programs and errors.
  ValueId input(InputKind kind, std::string name, TensorType type, int32_t rounded_of = -1);
  // Appends a constant tensor (shape () for a scalar). The value is rounded to the dtype.
  ValueId constant(double value, TensorType type);
  // Appends a node. `requested`: result type, for ops that cannot infer it. Throws Error(kRun) at mark().
  ValueId record(Op op, std::span<const ValueId> operands, std::span<const int64_t> attrs = {},
                 const TensorType& requested = {});
  // Lets differentiate() compute the nodes from `first` on again for the backward pass, instead of keeping their
  // results. Passes do not keep this.
  void recompute_from(ValueId first);
  std::span<const NodeRange> recomputed() const { return recomputed_; }
  void output(std::string name, ValueId value, int32_t state = -1) { output({std::move(name), value, state}); }
  void output(Output output);

  // Sets the source line of the nodes recorded from now on.
  void set_mark(const SourceMark& mark);
  // The same with a line that was interned before, for callers that record many nodes.
  MarkId intern(const SourceMark& mark) { return lines_.intern(mark); }
  void set_mark(MarkId mark) { mark_ = mark; }
  // The source line of the next node.
  const SourceMark& mark() const { return made_from_ ? lines_.at(*made_from_) : lines_.of(mark_); }
  const SourceMark& mark_of(ValueId id) const { return lines_.at(node(id).origin); }
  const SourceLines& lines() const { return lines_; }

  // Nodes recorded from now on get this origin; nullopt: a new origin at the current source line.
  void set_origin(std::optional<Origin> origin) { made_from_ = origin; }

  int size() const { return static_cast<int>(nodes_.size()); }
  const Node& node(ValueId id) const { return nodes_[static_cast<size_t>(id)]; }
  const TensorType& type(ValueId id) const { return node(id).type; }
  std::span<const ValueId> operands(ValueId id) const;
  std::span<const int64_t> attrs(ValueId id) const;
  double attr_f64(ValueId id, int index) const;  // an attribute that was recorded with pack_f64
  // The value of a kConstant node, exact in its dtype.
  double constant_value(ValueId id) const { return attr_f64(id, 0); }

  std::span<const Input> inputs() const { return inputs_; }
  // The input that a node is; null for other nodes.
  const Input* input_of(ValueId id) const {
    return node(id).op == Op::kInput ? &inputs_[static_cast<size_t>(input_index(id))] : nullptr;
  }
  // The index of a kInput node among the inputs.
  int32_t input_index(ValueId id) const { return static_cast<int32_t>(attrs(id)[1]); }
  std::span<const Output> outputs() const { return outputs_; }

  // Returns a copy without outputs.
  Program without_outputs() const;

  ProgramHash hash() const;
  // Whether both have the same structure in every detail that hash() covers. Cache hits are verified with it.
  bool same_structure(const Program& other) const;

 private:
  std::vector<Node> nodes_;
  std::vector<ValueId> operand_pool_;
  std::vector<int64_t> attr_pool_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<NodeRange> recomputed_;
  SourceLines lines_;
  MarkId mark_ = kNoMark;
  std::optional<Origin> made_from_;
  ProgramHash node_hash_;  // of the nodes so far, and which of them are recomputed; hash() adds the outputs
};

// Whether two nodes have the same op, type, operands and attributes.
bool same_node(const Program& a, ValueId x, const Program& b, ValueId y);
// Whether both have the same ops on the same values, whatever their types, attributes and outputs.
bool same_ops(const Program& a, const Program& b);

// Floating-point attributes are stored as their bits.
int64_t pack_f64(double value);
double unpack_f64(int64_t bits);

// A value of a Program under construction: operand and result of the functions of ir/ops.h.
struct Value {
  Program* program = nullptr;
  ValueId id = kNoValue;

  explicit operator bool() const { return id >= 0; }
  // Returned by value, because recording a node may move the nodes of the Program.
  TensorType type() const { return program->type(id); }
  Shape shape() const { return program->type(id).shape; }
  DType dtype() const { return program->type(id).dtype; }
};

}  // namespace runner::backends
