// The table of compiled groups: frequent element-wise groups as one loop each, generated from the text of the group.
//
// To add one, print the plan (RUNNER_DEBUG), copy the line of the group to kNamed, and give it a name. The loops use
// the same scalar functions as the interpreter (scalar_ops.h), so both give the same bits.

#include <iterator>
#include <utility>

#include "backends/kernels/isa/loops.h"
#include "backends/kernels/isa/named_group.h"
#include "backends/kernels/isa/scalar_ops.h"

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

// Pointers of one row, and its constant values.
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
    static_assert(compute_of(kType) == Compute::kF32, "named groups compute in f32");
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
  // A result that no instruction reads is rounded by its store.
  constexpr bool kRounds = kCode.dtype == DType::kBool || group.is_read(group.first_result() + k);
  if constexpr (kCode.op == Op::kCast && kRounds)
    return cast<kCode.dtype>(a);
  else if constexpr (kCode.op == Op::kCast)
    return a;
  else if constexpr (kCode.dtype == DType::kF32 || kCode.dtype == DType::kBool || !kRounds)
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

// Every index into Row is a constant, so that Row stays in registers; otherwise stores through byte pointers might
// alias it.
template <const NamedGroup& group, int... in, int... constant, int... out>
RUNNER_INLINE void run_rows(const NamedLoop::Arguments& arguments, std::integer_sequence<int, in...>,
                            std::integer_sequence<int, constant...>, std::integer_sequence<int, out...> outs) {
  Row row;
  ((row.fixed[group.input_count + constant] = static_cast<float>(arguments.constants[constant])), ...);
  const int64_t rows = arguments.rows, cols = arguments.cols;
  for (int64_t index = 0; index < rows; ++index) {
    (enter_row<group, in>(row, arguments, index), ...);
    ((row.outputs[out] =
          arguments.outputs[out] + index * cols * static_cast<int64_t>(size_of(group.dtype_of(group.outputs[out])))),
     ...);
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < cols; ++i)
      run_element<group>(row, i, std::make_integer_sequence<int, group.first_result()>{},
                         std::make_integer_sequence<int, group.code_count>{}, outs);
  }
}

template <Text text>
void run(const NamedLoop::Arguments& arguments) {
  run_rows<Group<text>::kGroup>(arguments, std::make_integer_sequence<int, Group<text>::kGroup.input_count>{},
                                std::make_integer_sequence<int, Group<text>::kGroup.constant_count>{},
                                std::make_integer_sequence<int, Group<text>::kGroup.output_count>{});
}

// An activation and its slope, as bf16, for each value that a bf16 can have: the slope in the upper half. Made by the
// functions that the other loops call, so the bits are the same, in half of the time.
template <Op activation, Op slope>
struct TableOfBf16 {
  uint32_t values[1 << 16];

  TableOfBf16() {
    for (uint32_t bits = 0; bits < std::size(values); ++bits) {
      const float x = load<DType::kBf16>(static_cast<uint16_t>(bits));
      values[bits] = store<DType::kBf16>(apply<activation, float>(x, 0.0f, 0.0f)) |
                     uint32_t{store<DType::kBf16>(apply<slope, float>(x, 0.0f, 0.0f))} << 16;
    }
  }
};

// Of x + bias, all bf16. The slope is the second output.
template <Op activation, Op slope, bool writes_slope>
void run_activation_of_bf16(const NamedLoop::Arguments& arguments) {
  static const TableOfBf16<activation, slope> of_bf16;
  const uint32_t* const table = of_bf16.values;
  for (int64_t row = 0; row < arguments.rows; ++row) {
    const auto input = [&](int k) {
      return reinterpret_cast<const uint16_t*>(arguments.inputs[k] + row * arguments.row_bytes[k]);
    };
    const auto output = [&](int k) { return reinterpret_cast<uint16_t*>(arguments.outputs[k]) + row * arguments.cols; };
    const uint16_t *const x = input(0), *const bias = input(1);
    uint16_t *const values = output(0), *const slopes = writes_slope ? output(1) : nullptr;
    RUNNER_VECTOR_LOOP
    for (int64_t i = 0; i < arguments.cols; ++i) {
      const uint32_t both = table[store<DType::kBf16>(load<DType::kBf16>(x[i]) + load<DType::kBf16>(bias[i]))];
      values[i] = static_cast<uint16_t>(both);
      if constexpr (writes_slope) slopes[i] = static_cast<uint16_t>(both >> 16);
    }
  }
}

#define RUNNER_NAMED(name, text) \
  { name, text, run<text> }

// clang-format off
constexpr NamedLoop kNamed[] = {
    RUNNER_NAMED("add", "(f32, f32) r2 = add r0 r1 -> r2"),
    RUNNER_NAMED("bias_relu", "(f32, f32) r2 = add r0 r1; r3 = relu r2 -> r3"),
    RUNNER_NAMED("bias_relu_mask", "(f32, f32, const) r3 = add r0 r1; r4 = relu r3; r5 = gt:bool r4 r2 -> r4, r5"),
    RUNNER_NAMED("bias_relu_mask_bf16",
                 "(bf16, f32, const) r3 = cast r0; r4 = add r3 r1; r5 = relu r4; r6 = cast:bf16 r5; r7 = gt:bool r5 r2 -> r6, r7"),
    RUNNER_NAMED("bias_gelu", "(f32, f32) r2 = add r0 r1; r3 = gelu r2 -> r2, r3"),
    RUNNER_NAMED("relu", "(f32) r1 = relu r0 -> r1"),
    RUNNER_NAMED("masked", "(bool, f32, const) r3 = where r0 r1 r2 -> r3"),
    RUNNER_NAMED("masked_bf16", "(bf16, bool, const) r3 = cast r0; r4 = where r1 r3 r2; r5 = cast:bf16 r4 -> r4, r5"),
    RUNNER_NAMED("mul", "(f32, f32) r2 = mul r0 r1 -> r2"),
    RUNNER_NAMED("square", "(f32) r1 = mul r0 r0 -> r1"),
    RUNNER_NAMED("scale", "(f32, const) r2 = mul r0 r1 -> r2"),
    RUNNER_NAMED("scale_by", "(f32, f32.) r2 = mul r0 r1 -> r2"),
    RUNNER_NAMED("to_bf16", "(f32) r1 = cast:bf16 r0 -> r1"),
    RUNNER_NAMED("flush_to_bf16",
                 "(f32, const, const) r3 = abs r0; r4 = lt:bool r3 r1; r5 = mul r0 r2; r6 = where r4 r5 r0; r7 = cast:bf16 r6 -> r7"),
    RUNNER_NAMED("from_bf16", "(bf16) r1 = cast r0 -> r1"),
    RUNNER_NAMED("gelu_mul", "(f32, f32) r2 = gelu r0; r3 = mul r2 r1 -> r3"),
    RUNNER_NAMED("gelu", "(f32) r1 = gelu r0 -> r1"),
    RUNNER_NAMED("gelu_grad", "(f32, f32) r2 = gelu_slope r0; r3 = mul r1 r2 -> r3"),
    RUNNER_NAMED("gelu_dropout_grad", "(f32, f32, f32) r3 = mul r0 r1; r4 = gelu_slope r2; r5 = mul r3 r4 -> r5"),
    RUNNER_NAMED("add_bf16", "(bf16, bf16) r2 = add:bf16 r0 r1 -> r2"),
    RUNNER_NAMED("mul_bf16", "(bf16, bf16) r2 = mul:bf16 r0 r1 -> r2"),
    RUNNER_NAMED("add_add_bf16", "(bf16, bf16, bf16) r3 = add:bf16 r0 r1; r4 = add:bf16 r3 r2 -> r4"),
    RUNNER_NAMED("bias_residual_bf16", "(bf16, bf16, f32) r3 = add:bf16 r0 r1; r4 = cast r3; r5 = add r4 r2 -> r5"),
    RUNNER_NAMED("residual_bias_bf16", "(bf16, bf16, f32) r3 = add:bf16 r0 r1; r4 = cast r3; r5 = add r2 r4 -> r5"),
    RUNNER_NAMED("add_to_bf16", "(f32, f32) r2 = add r0 r1; r3 = cast:bf16 r2 -> r2, r3"),
    RUNNER_NAMED("bias_relu_bf16", "(bf16, bf16) r2 = add:bf16 r0 r1; r3 = relu:bf16 r2 -> r3"),
    RUNNER_NAMED("relu_grad", "(f32, f32, const) r3 = gt:bool r0 r2; r4 = where r3 r1 r2 -> r4"),
    RUNNER_NAMED("relu_grad_bf16", "(bf16, bf16, const) r3 = gt:bool r0 r2; r4 = where:bf16 r3 r1 r2 -> r4"),
    RUNNER_NAMED("relu_grad_of_sum",
                 "(f32, f32, f32, const) r4 = add r0 r1; r5 = gt:bool r2 r3; r6 = where r5 r4 r3 -> r6"),
    RUNNER_NAMED("relu_grad_of_sum_bf16",
                 "(bf16, bf16, bf16, const) r4 = add:bf16 r0 r1; r5 = gt:bool r2 r3; r6 = where:bf16 r5 r4 r3 -> r6"),
    RUNNER_NAMED("bias_gelu_and_slope", "(f32, f32) r2 = add r0 r1; r3 = gelu r2; r4 = gelu_slope r2 -> r3, r4"),
    {"bias_gelu_and_slope_bf16",
     "(bf16, bf16) r2 = add:bf16 r0 r1; r3 = gelu:bf16 r2; r4 = gelu_slope:bf16 r2 -> r3, r4",
     run_activation_of_bf16<Op::kGelu, Op::kGeluSlope, true>},
    {"bias_gelu_bf16", "(bf16, bf16) r2 = add:bf16 r0 r1; r3 = gelu:bf16 r2 -> r3",
     run_activation_of_bf16<Op::kGelu, Op::kGeluSlope, false>},
    RUNNER_NAMED("bias_gelu_tanh_and_slope",
                 "(f32, f32) r2 = add r0 r1; r3 = gelu_tanh r2; r4 = gelu_tanh_slope r2 -> r3, r4"),
    {"bias_gelu_tanh_and_slope_bf16",
     "(bf16, bf16) r2 = add:bf16 r0 r1; r3 = gelu_tanh:bf16 r2; r4 = gelu_tanh_slope:bf16 r2 -> r3, r4",
     run_activation_of_bf16<Op::kGeluTanh, Op::kGeluTanhSlope, true>},
    {"bias_gelu_tanh_bf16", "(bf16, bf16) r2 = add:bf16 r0 r1; r3 = gelu_tanh:bf16 r2 -> r3",
     run_activation_of_bf16<Op::kGeluTanh, Op::kGeluTanhSlope, false>},
    // Channels: a bias, or batch normalisation, with what follows or precedes it.
    RUNNER_NAMED("channel_bias_relu", "(f32, f32.) r2 = add r0 r1; r3 = relu r2 -> r3"),
    RUNNER_NAMED("channel_bias_relu_bf16", "(bf16, bf16.) r2 = add:bf16 r0 r1; r3 = relu:bf16 r2 -> r3"),
    RUNNER_NAMED("norm_relu", "(f32, f32., f32.) r3 = mul r0 r1; r4 = add r3 r2; r5 = relu r4 -> r5"),
    RUNNER_NAMED("norm_relu_bf16",
                 "(bf16, f32., f32.) r3 = cast r0; r4 = mul r3 r1; r5 = add r4 r2; r6 = cast:bf16 r5; r7 = relu:bf16 "
                 "r6 -> r7"),
    RUNNER_NAMED("norm_add_relu",
                 "(f32, f32., f32., f32) r4 = mul r0 r1; r5 = add r4 r2; r6 = add r5 r3; r7 = relu r6 -> r7"),
    RUNNER_NAMED("norm_add_relu_bf16",
                 "(bf16, f32., f32., bf16) r4 = cast r0; r5 = mul r4 r1; r6 = add r5 r2; r7 = cast:bf16 r6; r8 = "
                 "add:bf16 r7 r3; r9 = relu:bf16 r8 -> r9"),
    RUNNER_NAMED("norms_add_relu",
                 "(f32, f32., f32., f32, f32., f32.) r6 = mul r0 r1; r7 = add r6 r2; r8 = mul r3 r4; r9 = add r8 r5; "
                 "r10 = add r7 r9; r11 = relu r10 -> r11"),
    RUNNER_NAMED("norms_add_relu_bf16",
                 "(bf16, f32., f32., bf16, f32., f32.) r6 = cast r0; r7 = mul r6 r1; r8 = add r7 r2; r9 = cast:bf16 "
                 "r8; r10 = cast r3; r11 = mul r10 r4; r12 = add r11 r5; r13 = cast:bf16 r12; r14 = add:bf16 r9 r13; "
                 "r15 = relu:bf16 r14 -> r15"),
    RUNNER_NAMED("norm_grad",
                 "(f32, f32., f32, f32., f32., f32.) r6 = mul r0 r1; r7 = sub r2 r3; r8 = mul r7 r4; r9 = add r6 r8; "
                 "r10 = add r9 r5 -> r10"),
    RUNNER_NAMED("norm_grad_bf16",
                 "(bf16, f32., bf16, f32., f32., f32.) r6 = cast r0; r7 = mul r6 r1; r8 = cast r2; r9 = sub r8 r3; "
                 "r10 = mul r9 r4; r11 = add r7 r10; r12 = add r11 r5; r13 = cast:bf16 r12 -> r13"),
    // Steps between a gradient and an update, as links of a chain (eltwise_named.h); so is "scale_by".
    RUNNER_NAMED("clamp", "(f32, const, const) r3 = lt:bool r0 r1; r4 = where r3 r1 r0; r5 = gt:bool r4 r2; "
                 "r6 = where r5 r2 r4 -> r6"),
    RUNNER_NAMED("clamp_by", "(f32, f32., f32.) r3 = lt:bool r0 r1; r4 = where r3 r1 r0; r5 = gt:bool r4 r2; "
                 "r6 = where r5 r2 r4 -> r6"),
    RUNNER_NAMED("decay", "(f32, f32, const) r3 = mul r0 r2; r4 = add r1 r3 -> r4"),
    RUNNER_NAMED("add_square", "(f32, f32) r2 = add r0 r1; r3 = mul r2 r2 -> r2, r3"),
    // The updates of runner/optim/update_rules.cpp, which skip a step that is not finite.
    RUNNER_NAMED("sgd",
                 "(f32, f32., f32, bool.) r4 = mul r0 r1; r5 = sub r2 r4; r6 = where r3 r5 r2 -> r6"),
    RUNNER_NAMED("sgd_momentum",
                 "(f32, f32., f32, f32., f32., f32, bool.) r7 = mul r0 r1; r8 = mul r2 r3; r9 = add r8 r7; "
                 "r10 = mul r9 r4; r11 = sub r5 r10; r12 = where r6 r11 r5; r13 = where r6 r9 r2 -> r12, r13"),
    RUNNER_NAMED("sgd_nesterov",
                 "(f32, f32., f32, f32., f32., f32., f32, bool.) r8 = mul r0 r1; r9 = mul r2 r3; r10 = add r9 r8; "
                 "r11 = mul r10 r4; r12 = add r0 r11; r13 = mul r12 r5; r14 = sub r6 r13; r15 = where r7 r14 r6; "
                 "r16 = where r7 r10 r2 -> r15, r16"),
    RUNNER_NAMED("adam",
                 "(f32, f32, f32., f32, f32., f32., f32, bool., const, const, const) r11 = sub r0 r1; "
                 "r12 = mul r11 r2; r13 = add r1 r12; r14 = mul r0 r0; r15 = mul r14 r8; r16 = mul r3 r9; "
                 "r17 = add r16 r15; r18 = sqrt r17; r19 = mul r18 r4; r20 = add r19 r10; r21 = div r13 r20; "
                 "r22 = mul r21 r5; r23 = sub r6 r22; r24 = where r7 r23 r6; r25 = where r7 r13 r1; "
                 "r26 = where r7 r17 r3 -> r24, r25, r26"),
    RUNNER_NAMED("adam_amsgrad",
                 "(f32, f32, f32., f32, f32, f32., f32., f32, bool., const, const, const) r12 = sub r0 r1; "
                 "r13 = mul r12 r2; r14 = add r1 r13; r15 = mul r0 r0; r16 = mul r15 r9; r17 = mul r3 r10; "
                 "r18 = add r17 r16; r19 = max r4 r18; r20 = sqrt r19; r21 = mul r20 r5; r22 = add r21 r11; "
                 "r23 = div r14 r22; r24 = mul r23 r6; r25 = sub r7 r24; r26 = where r8 r25 r7; "
                 "r27 = where r8 r14 r1; r28 = where r8 r18 r3; r29 = where r8 r19 r4 -> r26, r27, r28, r29"),
    RUNNER_NAMED("adamw",
                 "(f32, f32., f32, f32, f32., f32, f32., f32., bool., const, const, const) r12 = mul r0 r1; "
                 "r13 = sub r2 r3; r14 = mul r13 r4; r15 = add r3 r14; r16 = mul r2 r2; r17 = mul r16 r9; "
                 "r18 = mul r5 r10; r19 = add r18 r17; r20 = sqrt r19; r21 = mul r20 r6; r22 = add r21 r11; "
                 "r23 = div r15 r22; r24 = mul r23 r7; r25 = sub r12 r24; r26 = where r8 r25 r0; "
                 "r27 = where r8 r15 r3; r28 = where r8 r19 r5 -> r26, r27, r28"),
    RUNNER_NAMED("adamw_amsgrad",
                 "(f32, f32., f32, f32, f32., f32, f32, f32., f32., bool., const, const, const) r13 = mul r0 r1; "
                 "r14 = sub r2 r3; r15 = mul r14 r4; r16 = add r3 r15; r17 = mul r2 r2; r18 = mul r17 r10; "
                 "r19 = mul r5 r11; r20 = add r19 r18; r21 = max r6 r20; r22 = sqrt r21; r23 = mul r22 r7; "
                 "r24 = add r23 r12; r25 = div r16 r24; r26 = mul r25 r8; r27 = sub r13 r26; r28 = where r9 r27 r0; "
                 "r29 = where r9 r16 r3; r30 = where r9 r20 r5; r31 = where r9 r21 r6 -> r28, r29, r30, r31"),
    RUNNER_NAMED("rmsprop",
                 "(f32, f32, f32., f32, bool., const, const, const) r8 = mul r0 r0; r9 = mul r8 r5; r10 = mul r1 r6; "
                 "r11 = add r10 r9; r12 = sqrt r11; r13 = add r12 r7; r14 = div r0 r13; r15 = mul r14 r2; "
                 "r16 = sub r3 r15; r17 = where r4 r16 r3; r18 = where r4 r11 r1 -> r17, r18"),
    RUNNER_NAMED("rmsprop_momentum",
                 "(f32, f32, f32, f32., f32., f32, bool., const, const, const) r10 = mul r0 r0; r11 = mul r10 r7; "
                 "r12 = mul r1 r8; r13 = add r12 r11; r14 = sqrt r13; r15 = add r14 r9; r16 = div r0 r15; "
                 "r17 = mul r2 r3; r18 = add r17 r16; r19 = mul r18 r4; r20 = sub r5 r19; r21 = where r6 r20 r5; "
                 "r22 = where r6 r13 r1; r23 = where r6 r18 r2 -> r21, r22, r23"),
    RUNNER_NAMED("rmsprop_centered",
                 "(f32, f32, f32, f32., f32, bool., const, const, const) r9 = mul r0 r0; r10 = mul r9 r6; "
                 "r11 = mul r1 r7; r12 = add r11 r10; r13 = sub r0 r2; r14 = mul r13 r6; r15 = add r2 r14; "
                 "r16 = mul r15 r15; r17 = sub r12 r16; r18 = sqrt r17; r19 = add r18 r8; r20 = div r0 r19; "
                 "r21 = mul r20 r3; r22 = sub r4 r21; r23 = where r5 r22 r4; r24 = where r5 r12 r1; "
                 "r25 = where r5 r15 r2 -> r23, r24, r25"),
    RUNNER_NAMED("rmsprop_centered_momentum",
                 "(f32, f32, f32, f32, f32., f32., f32, bool., const, const, const) r11 = mul r0 r0; "
                 "r12 = mul r11 r8; r13 = mul r1 r9; r14 = add r13 r12; r15 = sub r0 r2; r16 = mul r15 r8; "
                 "r17 = add r2 r16; r18 = mul r17 r17; r19 = sub r14 r18; r20 = sqrt r19; r21 = add r20 r10; "
                 "r22 = div r0 r21; r23 = mul r3 r4; r24 = add r23 r22; r25 = mul r24 r5; r26 = sub r6 r25; "
                 "r27 = where r7 r26 r6; r28 = where r7 r14 r1; r29 = where r7 r17 r2; "
                 "r30 = where r7 r24 r3 -> r27, r28, r29, r30"),
    RUNNER_NAMED("adagrad",
                 "(f32, f32, f32., f32, bool., const) r6 = mul r0 r0; r7 = add r1 r6; r8 = sqrt r7; r9 = add r8 r5; "
                 "r10 = div r0 r9; r11 = mul r10 r2; r12 = sub r3 r11; r13 = where r4 r12 r3; "
                 "r14 = where r4 r7 r1 -> r13, r14"),
    RUNNER_NAMED("lion",
                 "(f32, f32., f32, f32., f32., f32, bool., const, const) r9 = mul r0 r1; r10 = mul r2 r3; "
                 "r11 = add r10 r9; r12 = sign r11; r13 = mul r0 r7; r14 = mul r2 r8; r15 = add r14 r13; "
                 "r16 = mul r12 r4; r17 = sub r5 r16; r18 = where r6 r17 r5; r19 = where r6 r15 r2 -> r18, r19"),
    RUNNER_NAMED("lion_decay",
                 "(f32, f32., f32, f32., f32, f32., f32., bool., const, const) r10 = mul r0 r1; r11 = mul r2 r3; "
                 "r12 = mul r4 r5; r13 = add r12 r11; r14 = sign r13; r15 = mul r2 r8; r16 = mul r4 r9; "
                 "r17 = add r16 r15; r18 = mul r14 r6; r19 = sub r10 r18; r20 = where r7 r19 r0; "
                 "r21 = where r7 r17 r4 -> r20, r21"),
    // The most frequent updates together with the scaling of the gradient.
    RUNNER_NAMED("scaled_sgd",
                 "(f32, f32., f32., f32, bool.) r5 = mul r0 r1; r6 = mul r5 r2; r7 = sub r3 r6; "
                 "r8 = where r4 r7 r3 -> r8"),
    RUNNER_NAMED("scaled_sgd_momentum",
                 "(f32, f32., f32., f32, f32., f32., f32, bool.) r8 = mul r0 r1; r9 = mul r8 r2; r10 = mul r3 r4; "
                 "r11 = add r10 r9; r12 = mul r11 r5; r13 = sub r6 r12; r14 = where r7 r13 r6; "
                 "r15 = where r7 r11 r3 -> r14, r15"),
    RUNNER_NAMED("scaled_adam",
                 "(f32, f32., f32, f32., f32, f32., f32., f32, bool., const, const, const) r12 = mul r0 r1; "
                 "r13 = sub r12 r2; r14 = mul r13 r3; r15 = add r2 r14; r16 = mul r12 r12; r17 = mul r16 r9; "
                 "r18 = mul r4 r10; r19 = add r18 r17; r20 = sqrt r19; r21 = mul r20 r5; r22 = add r21 r11; "
                 "r23 = div r15 r22; r24 = mul r23 r6; r25 = sub r7 r24; r26 = where r8 r25 r7; "
                 "r27 = where r8 r15 r2; r28 = where r8 r19 r4 -> r26, r27, r28"),
    RUNNER_NAMED("scaled_adamw",
                 "(f32, f32., f32, f32., f32, f32., f32, f32., f32., bool., const, const, const) r13 = mul r0 r1; "
                 "r14 = mul r2 r3; r15 = sub r13 r4; r16 = mul r15 r5; r17 = add r4 r16; r18 = mul r13 r13; "
                 "r19 = mul r18 r10; r20 = mul r6 r11; r21 = add r20 r19; r22 = sqrt r21; r23 = mul r22 r7; "
                 "r24 = add r23 r12; r25 = div r17 r24; r26 = mul r25 r8; r27 = sub r14 r26; r28 = where r9 r27 r2; "
                 "r29 = where r9 r17 r4; r30 = where r9 r21 r6 -> r28, r29, r30"),
    // Updates on a device that computes in bf16 (tpu/device_types.h); states are f32 in memory.
    RUNNER_NAMED("bf16_sgd",
                 "(f32., bf16, bf16., bf16, bool.) r5 = cast:bf16 r0; r6 = mul:bf16 r1 r5; r7 = mul:bf16 r6 r2; r8 "
                 "= sub:bf16 r3 r7; r9 = where:bf16 r4 r8 r3; r10 = cast r9 -> r10"),
    RUNNER_NAMED("bf16_sgd_momentum",
                 "(f32., bf16, bf16., f32, bf16., bf16., bf16, bool.) r8 = cast:bf16 r0; r9 = mul:bf16 r1 r8; r10 "
                 "= mul:bf16 r9 r2; r11 = cast:bf16 r3; r12 = mul:bf16 r11 r4; r13 = add:bf16 r12 r10; r14 = "
                 "mul:bf16 r13 r5; r15 = sub:bf16 r6 r14; r16 = where:bf16 r7 r15 r6; r17 = where:bf16 r7 r13 r11; "
                 "r18 = cast r16; r19 = cast r17 -> r18, r19"),
    RUNNER_NAMED("bf16_adam",
                 "(f32., bf16, f32, bf16., f32, bf16., bf16., bf16, bool., const, const) r11 = cast:bf16 r0; r12 = "
                 "mul:bf16 r1 r11; r13 = cast:bf16 r2; r14 = sub:bf16 r12 r13; r15 = mul:bf16 r14 r3; r16 = "
                 "add:bf16 r13 r15; r17 = mul:bf16 r12 r12; r18 = mul:bf16 r17 r9; r19 = cast:bf16 r4; r20 = "
                 "add:bf16 r19 r18; r21 = sqrt:bf16 r20; r22 = mul:bf16 r21 r5; r23 = add:bf16 r22 r10; r24 = "
                 "div:bf16 r16 r23; r25 = mul:bf16 r24 r6; r26 = sub:bf16 r7 r25; r27 = where:bf16 r8 r26 r7; r28 "
                 "= where:bf16 r8 r16 r13; r29 = where:bf16 r8 r20 r19; r30 = cast r27; r31 = cast r28; r32 = cast "
                 "r29 -> r30, r31, r32"),
    RUNNER_NAMED("bf16_adamw",
                 "(f32., bf16, bf16, bf16., f32, bf16., f32, bf16., bf16., bool., const, const) r12 = cast:bf16 "
                 "r0; r13 = mul:bf16 r1 r12; r14 = mul:bf16 r2 r3; r15 = cast:bf16 r4; r16 = sub:bf16 r13 r15; r17 "
                 "= mul:bf16 r16 r5; r18 = add:bf16 r15 r17; r19 = mul:bf16 r13 r13; r20 = mul:bf16 r19 r10; r21 = "
                 "cast:bf16 r6; r22 = add:bf16 r21 r20; r23 = sqrt:bf16 r22; r24 = mul:bf16 r23 r7; r25 = add:bf16 "
                 "r24 r11; r26 = div:bf16 r18 r25; r27 = mul:bf16 r26 r8; r28 = sub:bf16 r14 r27; r29 = where:bf16 "
                 "r9 r28 r2; r30 = where:bf16 r9 r18 r15; r31 = where:bf16 r9 r22 r21; r32 = cast r29; r33 = cast "
                 "r30; r34 = cast r31 -> r32, r33, r34"),
};
// clang-format on

}  // namespace

std::span<const NamedLoop> named_loops() {
  return kNamed;
}

}  // namespace runner::backends::RUNNER_ISA
