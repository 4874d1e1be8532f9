#include "backends/ir/program_bytes.h"

#include <set>

#include "backends/ir/op_def.h"

namespace runner::backends {
namespace {

constexpr uint64_t kMaxDim = uint64_t{1} << 40;  // so that sizes can be added up

void write_node(ByteWriter& to, const Program& program, ValueId id) {
  const Node& node = program.node(id);
  to.number(static_cast<uint64_t>(node.op));
  to.number(node.origin);
  write_type(to, node.type);
  to.number(node.operand_count);
  for (const ValueId operand : program.operands(id)) to.number(static_cast<uint64_t>(id - operand));
  to.number(node.attr_count);
  for (const int64_t attr : program.attrs(id)) to.integer(attr);
}

class ProgramReader {
 public:
  ProgramReader(ByteReader& from, const Program& lines_of) : from_(from), program_(Program::like(lines_of)) {}

  Program run() {
    std::vector<std::string> names(from_.count());
    for (std::string& name : names) name = from_.text();
    const size_t nodes = from_.count();
    for (size_t i = 0; i < nodes; ++i) read_node(names);
    from_.require(program_.inputs().size() == names.size(), "the numbers of inputs and names differ");
    program_.set_origin(std::nullopt);
    const size_t outputs = from_.count();
    for (size_t i = 0; i < outputs; ++i) read_output();
    return std::move(program_);
  }

 private:
  void read_node(std::vector<std::string>& names) {
    const Op op = static_cast<Op>(from_.choice(kOpCount - 1));
    read_origin();
    const TensorType type = read_type(from_);
    read_operands(op);
    attrs_.resize(from_.count());
    for (int64_t& attr : attrs_) attr = from_.integer();
    from_.require(takes_attributes(op, types_, attrs_), "an op has invalid attributes");
    record(op, type, names);
    from_.require(program_.type(program_.size() - 1) == type, "a node does not have the type that its op infers");
  }

  void read_origin() {
    const uint64_t origin = from_.number();
    from_.require(origin <= UINT32_MAX && program_.lines().has(static_cast<Origin>(origin)),
                  "a node has no recorded origin");
    program_.set_origin(static_cast<Origin>(origin));
  }

  void read_operands(Op op) {
    const size_t count = from_.count();
    from_.require(takes_operands(op, count), "an op has the wrong number of operands");
    operands_.clear();
    types_.clear();
    for (size_t i = 0; i < count; ++i) {
      const uint64_t back = from_.number();
      from_.require(back >= 1 && back <= static_cast<uint64_t>(program_.size()), "an operand is not computed before");
      operands_.push_back(program_.size() - static_cast<ValueId>(back));
      types_.push_back(program_.type(operands_.back()));
    }
  }

  void record(Op op, const TensorType& type, std::vector<std::string>& names) {
    try {
      if (op == Op::kInput) return record_input(type, names);
      if (op == Op::kConstant) {
        program_.constant(unpack_f64(attrs_[0]), type);
        return from_.require(program_.attrs(program_.size() - 1)[0] == attrs_[0],
                             "a constant is not a value of its type");
      }
      program_.record(op, operands_, attrs_, type);
    } catch (const Error& error) {
      from_.fail(error.message());
    }
  }

  void record_input(const TensorType& type, std::vector<std::string>& names) {
    const size_t index = program_.inputs().size();
    from_.require(static_cast<uint64_t>(attrs_[1]) == index && index < names.size(), "the inputs are not in order");
    program_.input(static_cast<InputKind>(attrs_[0]), std::move(names[index]), type);
  }

  void read_output() {
    std::string name = from_.text();
    from_.require(program_.size() > 0, "an output has no value");
    const auto value = static_cast<ValueId>(from_.choice(static_cast<uint64_t>(program_.size()) - 1));
    const auto state = static_cast<int32_t>(from_.choice(program_.inputs().size())) - 1;
    if (state >= 0) {
      const Input& input = program_.inputs()[static_cast<size_t>(state)];
      from_.require(input.kind == InputKind::kState && program_.type(input.value) == program_.type(value),
                    "an output does not have the type of its state");
      from_.require(updated_.insert(state).second, "a state is updated twice");
    }
    program_.output(std::move(name), value, state);
  }

  ByteReader& from_;
  Program program_;
  std::vector<ValueId> operands_;
  std::vector<TensorType> types_;
  std::vector<int64_t> attrs_;
  std::set<int32_t> updated_;
};

}  // namespace

void write_type(ByteWriter& to, const TensorType& type) {
  to.number(static_cast<uint64_t>(type.dtype));
  to.number(static_cast<uint64_t>(type.shape.rank()));
  for (const int64_t dim : type.shape.dims()) to.number(static_cast<uint64_t>(dim));
}

TensorType read_type(ByteReader& from) {
  const auto dtype = static_cast<DType>(from.choice(kDTypeCount - 1));
  std::array<int64_t, Shape::kMaxRank> dims{};
  const auto rank = static_cast<size_t>(from.choice(Shape::kMaxRank));
  for (size_t i = 0; i < rank; ++i) dims[i] = static_cast<int64_t>(from.choice(kMaxDim));
  try {
    return {dtype, Shape(std::span<const int64_t>(dims.data(), rank))};
  } catch (const Error& error) {
    from.fail(error.message());
  }
}

void write_program(ByteWriter& to, const Program& program) {
  to.number(program.inputs().size());
  for (const Input& input : program.inputs()) to.text(input.name);
  to.number(static_cast<uint64_t>(program.size()));
  for (ValueId id = 0; id < program.size(); ++id) write_node(to, program, id);
  to.number(program.outputs().size());
  for (const Output& output : program.outputs()) {
    to.text(output.name);
    to.number(static_cast<uint64_t>(output.value));
    to.number(static_cast<uint64_t>(output.state + 1));
  }
}

Program read_program(ByteReader& from, const Program& lines_of) {
  return ProgramReader(from, lines_of).run();
}

}  // namespace runner::backends
