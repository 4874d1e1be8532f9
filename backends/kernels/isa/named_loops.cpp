// The table of compiled groups: hot element-wise groups as one loop each, made from the group's own text.
//
// Adding one: print the plan (RUNNER_DEBUG), copy the group's line into kNamed, give it a name.  The loops are made of
// the same scalar functions as the VM's blocks (scalar_ops.h), so that both give the same bits.

#include <utility>

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/isa/named_group.h"
#include "backends/kernels/isa/scalar_ops.h"
#include "backends/kernels/isa/vector_loop.h"

namespace runner::backends::RUNNER_ISA {

namespace {

using namespace scalar_ops;

template <size_t size>
struct Text {
  char characters[size];
  constexpr Text(const char (&text)[size]) {
    for (size_t i = 0; i < size; ++i) characters[i] = text[i];
  }
};

template <Text text>
struct Group {
  static constexpr NamedGroup kGroup = NamedGroupParser({text.characters, sizeof text.characters - 1}).parse();
};

// The pointers of one row, and what is constant in it.
struct Row {
  const std::byte* inputs[NamedLoop::kMaxInputs];
  std::byte* outputs[NamedLoop::kMaxOutputs];
  float fixed[NamedLoop::kMaxInputs + NamedGroup::kMaxConstants];
};

template <const NamedGroup& group, int k>
RUNNER_INLINE float load_input(const Row& row, int64_t i) {
  if constexpr (k >= group.input_count || group.inputs[k].one_per_row)
    return row.fixed[k];
  else {
    constexpr DType kType = group.inputs[k].dtype;
    return load<kType>(reinterpret_cast<const Storage<kType>*>(row.inputs[k])[i]);
  }
}

template <const NamedGroup& group, int k>
RUNNER_INLINE float run_instruction(const float* r) {
  constexpr NamedGroup::Instruction kCode = group.code[k];
  static_assert(compute_of(kCode.dtype) == Compute::kF32, "named groups compute in f32");
  const float a = r[kCode.sources[0]];
  const float b = kCode.sources[1] < 0 ? 0.0f : r[kCode.sources[1] < 0 ? 0 : kCode.sources[1]];
  const float c = kCode.sources[2] < 0 ? 0.0f : r[kCode.sources[2] < 0 ? 0 : kCode.sources[2]];
  if constexpr (kCode.op == Op::kCast)
    return cast<kCode.dtype>(a);
  else if constexpr (kCode.dtype == DType::kF32 || kCode.dtype == DType::kBool)
    return apply<kCode.op, float>(a, b, c);
  else
    return cast<kCode.dtype>(apply<kCode.op, float>(a, b, c));
}

template <const NamedGroup& group, int k>
RUNNER_INLINE void store_output(const Row& row, int64_t i, const float* r) {
  constexpr DType kType = group.dtype_of(group.outputs[k]);
  reinterpret_cast<Storage<kType>*>(row.outputs[k])[i] = store<kType>(r[group.outputs[k]]);
}

template <const NamedGroup& group, int... in, int... code, int... out>
RUNNER_INLINE void run_element(const Row& row, int64_t i, std::integer_sequence<int, in...>,
                               std::integer_sequence<int, code...>, std::integer_sequence<int, out...>) {
  float r[group.registers()];
  ((r[in] = load_input<group, in>(row, i)), ...);
  ((r[group.first_result() + code] = run_instruction<group, code>(r)), ...);
  (store_output<group, out>(row, i, r), ...);
}

template <const NamedGroup& group, int k>
RUNNER_INLINE void enter_row(Row& row, const NamedLoop::Arguments& arguments, int64_t index) {
  constexpr DType kType = group.inputs[k].dtype;
  row.inputs[k] = arguments.inputs[k] + index * arguments.row_bytes[k];
  if constexpr (group.inputs[k].one_per_row)
    row.fixed[k] = load<kType>(*reinterpret_cast<const Storage<kType>*>(row.inputs[k]));
}

template <const NamedGroup& group, int... in, int... out>
RUNNER_INLINE void run_rows(const NamedLoop::Arguments& arguments, std::integer_sequence<int, in...>,
                            std::integer_sequence<int, out...> outs) {
  Row row;
  for (int k = 0; k < group.constant_count; ++k)
    row.fixed[group.input_count + k] = static_cast<float>(arguments.constants[k]);
  for (int64_t index = 0; index < arguments.rows; ++index) {
    (enter_row<group, in>(row, arguments, index), ...);
    ((row.outputs[out] = arguments.outputs[out] +
                         index * arguments.cols * static_cast<int64_t>(size_of(group.dtype_of(group.outputs[out])))),
     ...);
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < arguments.cols; ++i)
      run_element<group>(row, i, std::make_integer_sequence<int, group.first_result()>{},
                         std::make_integer_sequence<int, group.code_count>{}, outs);
  }
}

template <Text text>
void run(const NamedLoop::Arguments& arguments) {
  run_rows<Group<text>::kGroup>(arguments, std::make_integer_sequence<int, Group<text>::kGroup.input_count>{},
                                std::make_integer_sequence<int, Group<text>::kGroup.output_count>{});
}

#define RUNNER_NAMED(name, text) \
  { name, text, run<text> }

constexpr NamedLoop kNamed[] = {
    RUNNER_NAMED("relu", "(f32) r1 = relu r0 -> r1"),
    RUNNER_NAMED("bias", "(f32, f32) r2 = add r0 r1 -> r2"),
    RUNNER_NAMED("bias_relu", "(f32, f32) r2 = add r0 r1; r3 = relu r2 -> r3"),
    RUNNER_NAMED("bias_gelu", "(f32, f32) r2 = add r0 r1; r3 = gelu r2 -> r2, r3"),
    RUNNER_NAMED("mul", "(f32, f32) r2 = mul r0 r1 -> r2"),
    RUNNER_NAMED("scale", "(f32, const) r2 = mul r0 r1 -> r2"),
    RUNNER_NAMED("scale_by", "(f32, f32.) r2 = mul r0 r1 -> r2"),
};

}  // namespace

std::span<const NamedLoop> named_loops() {
  return kNamed;
}

}  // namespace runner::backends::RUNNER_ISA
