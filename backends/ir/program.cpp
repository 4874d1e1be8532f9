#include "backends/ir/program.h"

#include <algorithm>
#include <array>
#include <bit>

#include <fmt/format.h>

#include "backends/ir/op_def.h"
#include "backends/tensor/float16.h"
#include "schema/base/error.h"

namespace runner::backends {

int64_t pack_f64(double value) {
  return std::bit_cast<int64_t>(value);
}
double unpack_f64(int64_t bits) {
  return std::bit_cast<double>(bits);
}

namespace {

void mix_type(ProgramHash& hash, const TensorType& type) {
  hash.mix(static_cast<uint64_t>(type.dtype) | static_cast<uint64_t>(type.shape.rank()) << 8);
  for (const int64_t dim : type.shape.dims()) hash.mix(static_cast<uint64_t>(dim));
}

}  // namespace

std::string ProgramHash::to_string() const {
  return fmt::format("{:016x}{:016x}", hi, lo);
}

Program Program::like(const Program& from) {
  Program program;
  program.lines_ = from.lines_;
  return program;
}

void Program::set_mark(const SourceMark& mark) {
  if (lines_.of(mark_) != mark) mark_ = lines_.intern(mark);
}

ValueId Program::input(InputKind kind, std::string name, TensorType type, int32_t rounded_of) {
  const int64_t attrs[] = {static_cast<int64_t>(kind), static_cast<int64_t>(inputs_.size())};
  const ValueId id = record(Op::kInput, {}, attrs, type);
  inputs_.push_back({kind, std::move(name), id, rounded_of});
  return id;
}

ValueId Program::constant(double value, TensorType type) {
  std::array<std::byte, sizeof(int64_t)> element;
  store_element(type.dtype, value, element.data());
  const int64_t attrs[] = {pack_f64(load_element(type.dtype, element.data()))};
  return record(Op::kConstant, {}, attrs, type);
}

ValueId Program::record(Op op, std::span<const ValueId> operands, std::span<const int64_t> attrs,
                        const TensorType& requested) {
  RUN_ASSERT(takes_operands(op, operands.size()));

  constexpr size_t kInlineOperands = 4;
  std::array<TensorType, kInlineOperands> inline_types;
  std::vector<TensorType> many_types;
  std::span<TensorType> types(inline_types.data(), std::min(operands.size(), kInlineOperands));
  if (operands.size() > kInlineOperands) {
    many_types.resize(operands.size());
    types = many_types;
  }
  for (size_t i = 0; i < operands.size(); ++i) {
    RUN_ASSERT(operands[i] >= 0 && operands[i] < size());
    types[i] = type(operands[i]);
  }

  Node node{.op = op,
            .type = {},
            .origin = {},
            .first_operand = static_cast<uint32_t>(operand_pool_.size()),
            .operand_count = static_cast<uint32_t>(operands.size()),
            .first_attr = static_cast<uint32_t>(attr_pool_.size()),
            .attr_count = static_cast<uint32_t>(attrs.size())};
  try {
    node.type = def_of(op).infer({op, types, attrs, requested});
  } catch (Error& error) {
    error.locate(mark());
    throw;
  }
  node.origin = made_from_ ? *made_from_ : lines_.add(mark_);
  operand_pool_.insert(operand_pool_.end(), operands.begin(), operands.end());
  attr_pool_.insert(attr_pool_.end(), attrs.begin(), attrs.end());
  nodes_.push_back(node);

  node_hash_.mix(static_cast<uint64_t>(op) | static_cast<uint64_t>(operands.size()) << 8 | attrs.size() << 32);
  mix_type(node_hash_, node.type);
  for (const ValueId operand : operands) node_hash_.mix(static_cast<uint64_t>(operand));
  for (const int64_t attr : attrs) node_hash_.mix(static_cast<uint64_t>(attr));
  return size() - 1;
}

void Program::recompute_from(ValueId first) {
  recomputed_.push_back({first, size()});
  node_hash_.mix(static_cast<uint64_t>(first));
  node_hash_.mix(static_cast<uint64_t>(size()));
}

void Program::output(Output output) {
  RUN_ASSERT(output.value >= 0 && output.value < size());
  if (output.state >= 0) {
    const Input& target = inputs_.at(static_cast<size_t>(output.state));
    RUN_ASSERT(target.kind == InputKind::kState && type(target.value) == type(output.value));
  }
  outputs_.push_back(std::move(output));
}

std::span<const ValueId> Program::operands(ValueId id) const {
  const Node& n = node(id);
  return {operand_pool_.data() + n.first_operand, n.operand_count};
}

std::span<const int64_t> Program::attrs(ValueId id) const {
  const Node& n = node(id);
  return {attr_pool_.data() + n.first_attr, n.attr_count};
}

double Program::attr_f64(ValueId id, int index) const {
  return unpack_f64(attrs(id)[static_cast<size_t>(index)]);
}

Program Program::without_outputs() const {
  Program nodes = *this;
  nodes.outputs_.clear();
  return nodes;
}

ProgramHash Program::hash() const {
  ProgramHash hash = node_hash_;
  for (const Output& output : outputs_) {
    hash.mix(static_cast<uint64_t>(output.value));
    hash.mix(static_cast<uint64_t>(static_cast<int64_t>(output.state)));
  }
  return hash;
}

bool same_node(const Program& a, ValueId x, const Program& b, ValueId y) {
  const Node &one = a.node(x), &other = b.node(y);
  return one.op == other.op && one.type == other.type && std::ranges::equal(a.operands(x), b.operands(y)) &&
         std::ranges::equal(a.attrs(x), b.attrs(y));
}

bool same_ops(const Program& a, const Program& b) {
  if (a.size() != b.size()) return false;
  for (ValueId id = 0; id < a.size(); ++id)
    if (a.node(id).op != b.node(id).op || !std::ranges::equal(a.operands(id), b.operands(id))) return false;
  return true;
}

bool Program::same_structure(const Program& other) const {
  const auto same_shape = [](const Node& a, const Node& b) {
    return a.op == b.op && a.type == b.type && a.operand_count == b.operand_count && a.attr_count == b.attr_count;
  };
  const auto same_output = [](const Output& a, const Output& b) { return a.value == b.value && a.state == b.state; };
  return std::equal(nodes_.begin(), nodes_.end(), other.nodes_.begin(), other.nodes_.end(), same_shape) &&
         operand_pool_ == other.operand_pool_ && attr_pool_ == other.attr_pool_ && recomputed_ == other.recomputed_ &&
         std::equal(outputs_.begin(), outputs_.end(), other.outputs_.begin(), other.outputs_.end(), same_output);
}

}  // namespace runner::backends
