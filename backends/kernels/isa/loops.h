// The inner loops of kernels, compiled once for each instruction set and chosen when the process starts.
//
// Every file isa/*.cpp is compiled several times (see CMakeLists.txt), each time with other flags and with RUNNER_ISA
// set to the namespace that holds its table: baseline, avx2, avx512.  All sets give the same bits: no FMA, and the
// order of every sum is written out in lanes (docs/numerics.md).
//
// Invariant of isa/*.cpp: they define nothing with external linkage but their table, and use nothing from the standard
// library that is not inlined or plain C: the linker would keep one copy of any other function, perhaps one that this
// CPU cannot run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/graph/op.h"

namespace runner::backends {

enum class Isa : uint8_t { kBaseline, kAvx2, kAvx512 };
inline constexpr int kIsaCount = 3;

// What a register of an element-wise group holds: f32 for f32, bf16, f16 and bool (0 or 1); f64; i64 for integers.
enum class Compute : uint8_t { kF32, kF64, kI64 };
inline constexpr int kComputeCount = 3;

constexpr Compute compute_of(DType dtype) {
  return is_int(dtype) ? Compute::kI64 : dtype == DType::kF64 ? Compute::kF64 : Compute::kF32;
}
constexpr size_t size_of(Compute compute) {
  return compute == Compute::kF32 ? 4 : 8;
}

struct EltwiseLoops {
  // dst[i] = op(a[i], b[i], c[i]); dst may be one of the sources.  Null where the op does not exist.
  using Apply = void (*)(void* dst, const void* a, const void* b, const void* c, int64_t n);
  // dst[i] = src[i · stride]
  using Load = void (*)(void* dst, const void* src, int64_t stride, int64_t n);
  using Convert = void (*)(void* dst, const void* src, int64_t n);

  Apply apply[kOpCount][kComputeCount];
  Load load[kDTypeCount];                    // storage to register
  Convert store[kDTypeCount];                // register to storage
  Convert cast[kComputeCount][kDTypeCount];  // register to register, rounded to the dtype
};

// A group compiled as one loop over rows × cols elements (isa/named_loops.cpp).
struct NamedLoop {
  static constexpr int kMaxInputs = 16, kMaxOutputs = 6;
  struct Arguments {
    const std::byte* inputs[kMaxInputs];
    int64_t row_bytes[kMaxInputs];  // from one row of an input to the next
    const double* constants;
    std::byte* outputs[kMaxOutputs];  // contiguous
    int64_t rows, cols;
  };
  const char* name;
  const char* text;  // EltwiseGroup::to_string() of the groups that it computes
  void (*run)(const Arguments& arguments);
};

struct Loops {
  const EltwiseLoops& eltwise;
  std::span<const NamedLoop> named;
};

// The loops in use: those of the widest set that this CPU has, or what RUNNER_ISA (baseline, avx2, avx512) names.
const Loops& loops();
Isa isa_in_use();
// The loops of one set, null where the CPU or the build lacks it.
const Loops* loops_of(Isa isa);
std::string_view name_of(Isa isa);
// For tests: kernels prepared from now on use this set.
void use_isa(Isa isa);

}  // namespace runner::backends
