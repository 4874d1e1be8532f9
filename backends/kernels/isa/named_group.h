// Parses the text of an element-wise group (EltwiseGroup::to_string) at compile time.
//
//   (f32, f32., const) r3 = mul r0 r1; r4 = gt:bool r3 r2 -> r3, r4
//
// In parentheses: inputs, with "." for one value per row, then constants. Registers are numbered consecutively. An
// instruction names its dtype if that is not f32. After the arrow: outputs.
#pragma once

#include <cstddef>
#include <string_view>

#include "backends/kernels/isa/loops.h"

namespace runner::backends {

struct NamedGroup {
  static constexpr int kMaxCode = 64, kMaxConstants = 16;
  struct Input {
    DType dtype{};
    bool one_per_row = false;
  };
  struct Instruction {
    Op op{};
    DType dtype = DType::kF32;
    int sources[3] = {-1, -1, -1};
  };
  Input inputs[NamedLoop::kMaxInputs]{};
  Instruction code[kMaxCode]{};
  int outputs[NamedLoop::kMaxOutputs]{};
  int input_count = 0, constant_count = 0, code_count = 0, output_count = 0;

  constexpr int registers() const { return input_count + constant_count + code_count; }
  constexpr int first_result() const { return input_count + constant_count; }
  // Whether an instruction reads a register.
  constexpr bool is_read(int reg) const {
    for (int k = 0; k < code_count; ++k)
      for (const int source : code[k].sources)
        if (source == reg) return true;
    return false;
  }
  constexpr DType dtype_of(int instruction_register) const { return code[instruction_register - first_result()].dtype; }
};

// Recursive descent parser. Invalid text does not compile, because `throw` is not a constant expression.
class NamedGroupParser {
 public:
  constexpr explicit NamedGroupParser(std::string_view text) : rest_(text) {}

  constexpr NamedGroup parse() {
    NamedGroup group;
    expect("(");
    do {
      if (take("const")) {
        ++group.constant_count;
      } else {
        NamedGroup::Input& input = group.inputs[group.input_count++];
        input.dtype = dtype();
        input.one_per_row = take(".");
      }
    } while (take(", "));
    expect(") ");
    do {
      group.code[group.code_count] = instruction(group.registers());
      ++group.code_count;
    } while (take("; "));
    expect(" -> ");
    do group.outputs[group.output_count++] = register_number();
    while (take(", "));
    if (!rest_.empty()) throw "unexpected text after the outputs";
    return group;
  }

 private:
  constexpr bool take(std::string_view token) {
    if (rest_.substr(0, token.size()) != token) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  constexpr void expect(std::string_view token) {
    if (!take(token)) throw "unexpected token";
  }
  constexpr std::string_view word() {
    size_t size = 0;
    while (size < rest_.size() && (rest_[size] == '_' || (rest_[size] >= 'a' && rest_[size] <= 'z') ||
                                   (rest_[size] >= '0' && rest_[size] <= '9')))
      ++size;
    const std::string_view found = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return found;
  }
  constexpr DType dtype() {
    const std::string_view name = word();
    for (int i = 0; i < kDTypeCount; ++i)
      if (name_of(DType(i)) == name) return DType(i);
    throw "unknown dtype";
  }
  constexpr Op op() {
    const std::string_view name = word();
    for (int i = 0; i < kOpCount; ++i)
      if (is_elementwise(Op(i)) && name_of(Op(i)) == name) return Op(i);
    throw "unknown elementwise op";
  }
  constexpr int register_number() {
    expect("r");
    int number = 0;
    for (const char digit : word()) number = number * 10 + (digit - '0');
    return number;
  }
  constexpr NamedGroup::Instruction instruction(int result) {
    if (register_number() != result) throw "expected consecutive register numbers";
    expect(" = ");
    NamedGroup::Instruction instruction;
    instruction.op = op();
    if (take(":")) instruction.dtype = dtype();
    for (int s = 0; rest_.substr(0, 2) == " r"; ++s) {
      rest_.remove_prefix(1);
      instruction.sources[s] = register_number();
    }
    return instruction;
  }

  std::string_view rest_;
};

}  // namespace runner::backends
