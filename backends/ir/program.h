// A Program: tensor operations in single static assignment form, in execution order.
//
// Invariants: 1. a node's operands come before it; 2. types are inferred when a node is recorded, so every recorded
// node is well typed; 3. nodes are never changed, passes write new Programs; 4. outputs name values, and an output that
// targets a state input replaces that state's contents when the Program has run.  Shape errors surface in record(), at
// the source line in force.  Not thread-safe while it is built; immutable afterwards.
#pragma once

#include <array>
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

// Where an input's contents come from.
enum class InputKind : uint8_t {
  kState,   // a buffer that lives on the device between executions: weights, moments, sums
  kBatch,   // given at each execution
  kScalar,  // a number given at each execution (learning rate, …): its value never decides what is compiled on cpu and
            // gpu
};

// Number of a recorded node.  A node that is made from another (its derivative, its copy in a pass) keeps that one's.
using Origin = uint32_t;
inline constexpr Origin kNoOrigin = ~Origin{0};

// Where each recorded node comes from.
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
  // A state of bf16 that holds what products of a device may read in place of this input, of f32: its elements, rounded
  // as the device rounds operands of products.
  int32_t rounded_of = -1;
};

struct Output {
  std::string name;
  ValueId value;
  int32_t state = -1;  // index of the kState input that takes the value, −1: the output is returned
};

// 128 bits over structure: ops, types, operands, attributes, input kinds, outputs; never over names or source lines.
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

class Program {
 public:
  Program() = default;
  // A Program to be written with nodes made from those of `from`.
  static Program like(const Program& from);

  // Appends an input.  `name` shows in dumps and errors only.
  ValueId input(InputKind kind, std::string name, TensorType type, int32_t rounded_of = -1);
  // Appends a constant tensor (scalars are shape ()); its value is what an element of the dtype holds.
  ValueId constant(double value, TensorType type);
  // Appends a node.  `requested` matters for ops whose type cannot be inferred.  Throws Error(kRun) at mark().
  ValueId record(Op op, std::span<const ValueId> operands, std::span<const int64_t> attrs = {},
                 const TensorType& requested = {});
  void output(std::string name, ValueId value, int32_t state = -1);

  // The source line given to the nodes recorded from now on.
  void set_mark(const SourceMark& mark);
  // The same for who records many nodes and keeps the numbers of lines.
  MarkId intern(const SourceMark& mark) { return lines_.intern(mark); }
  void set_mark(MarkId mark) { mark_ = mark; }
  // Where the next node comes from.
  const SourceMark& mark() const { return made_from_ ? lines_.at(*made_from_) : lines_.of(mark_); }
  const SourceMark& mark_of(ValueId id) const { return lines_.at(node(id).origin); }
  const SourceLines& lines() const { return lines_; }

  // Nodes recorded from now on are made from one with this origin; nullopt: from the line in force.
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
  std::span<const Output> outputs() const { return outputs_; }

  // The same nodes, from which other outputs can be taken.
  Program without_outputs() const;

  ProgramHash hash() const;
  // Same structure in every detail that hash() covers; what a cache hit is checked with.
  bool same_structure(const Program& other) const;

 private:
  std::vector<Node> nodes_;
  std::vector<ValueId> operand_pool_;
  std::vector<int64_t> attr_pool_;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  SourceLines lines_;
  MarkId mark_ = kNoMark;
  std::optional<Origin> made_from_;
  ProgramHash node_hash_;  // of the nodes so far; outputs are added by hash()
};

// Floating-point attributes travel as their bits.
int64_t pack_f64(double value);
double unpack_f64(int64_t bits);

// A value of a Program under construction: what builders and derivative rules compute with (ir/ops.h).
struct Value {
  Program* program = nullptr;
  ValueId id = kNoValue;

  explicit operator bool() const { return id >= 0; }
  // By value: recording another node moves the Program's own.
  TensorType type() const { return program->type(id); }
  Shape shape() const { return program->type(id).shape; }
  DType dtype() const { return program->type(id).dtype; }
};

}  // namespace runner::backends
