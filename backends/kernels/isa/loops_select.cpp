#include <atomic>
#include <cstdlib>

#include "backends/kernels/isa/loops.h"
#include "backends/runtime/cpu_features.h"
#include "schema/base/error.h"

namespace runner::backends {

#define RUNNER_DECLARE_ISA(isa)                          \
  namespace isa {                                        \
  const EltwiseLoops& eltwise_loops();                   \
  std::span<const NamedLoop> named_loops();              \
  const ReduceLoops& reduce_loops();                     \
  const RowLoops<float>& row_loops_f32();                \
  const RowLoops<double>& row_loops_f64();               \
  const MatmulLoops<float>& matmul_loops_f32();          \
  const MatmulLoops<double>& matmul_loops_f64();         \
  MatvecLoops matvec_loops();                            \
  const AttentionLoops<float>& attention_loops_f32();    \
  const AttentionLoops<double>& attention_loops_f64();   \
  const WindowLoops<float>& window_loops_f32();          \
  const WindowLoops<double>& window_loops_f64();         \
  const WindowsOfFour<float>& windows_of_four_f32();     \
  const WindowsOfFour<double>& windows_of_four_f64();    \
  const WindowsOfFour<uint16_t>& windows_of_four_bf16(); \
  const ChannelLoops<float>& channel_loops_f32();        \
  const ChannelLoops<double>& channel_loops_f64();       \
  const WinogradLoops& winograd_loops();                 \
  const TransposeLoops& transpose_loops();               \
  RandomLoops random_loops();                            \
  }

RUNNER_DECLARE_ISA(baseline)
#if defined(__x86_64__)
RUNNER_DECLARE_ISA(avx2)
RUNNER_DECLARE_ISA(avx512)
namespace avx512_bf16 {
const PairLoops& pair_loops();
}
#endif

namespace {

// The table of one set, from the tables of its files.
#define RUNNER_LOOPS(isa)                                                                                             \
  Loops {                                                                                                             \
    isa::eltwise_loops(), isa::named_loops(), isa::reduce_loops(), {isa::row_loops_f32(), isa::row_loops_f64()},      \
        {isa::matmul_loops_f32(), isa::matmul_loops_f64()}, isa::matvec_loops(),                                      \
        {isa::attention_loops_f32(), isa::attention_loops_f64()}, {isa::window_loops_f32(), isa::window_loops_f64()}, \
        {isa::windows_of_four_f32(), isa::windows_of_four_f64()}, isa::windows_of_four_bf16(),                        \
        {isa::channel_loops_f32(), isa::channel_loops_f64()}, isa::winograd_loops(), isa::transpose_loops(),          \
        isa::random_loops()                                                                                           \
  }

bool supported(Isa isa) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx2) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (isa == Isa::kAvx512)
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#endif
  return isa == Isa::kBaseline;
}

Isa widest() {
  for (const Isa isa : {Isa::kAvx512, Isa::kAvx2})
    if (supported(isa)) return isa;
  return Isa::kBaseline;
}

Isa initial() {
  const char* wanted = std::getenv("RUNNER_ISA");
  if (wanted == nullptr) return widest();
  for (const Isa isa : {Isa::kBaseline, Isa::kAvx2, Isa::kAvx512})
    if (supported(isa) && name_of(isa) == wanted) return isa;
  fail(ErrorKind::kUsage, "RUNNER_ISA is '{}': this CPU has {}", wanted, name_of(widest()));
}

std::atomic<Isa>& current() {
  static std::atomic<Isa> isa = initial();
  return isa;
}

}  // namespace

const Loops* loops_of(Isa isa) {
  if (!supported(isa)) return nullptr;
#if defined(__x86_64__)
  static const Loops kTables[kIsaCount] = {RUNNER_LOOPS(baseline), RUNNER_LOOPS(avx2), RUNNER_LOOPS(avx512)};
#else
  static const Loops kTables[1] = {RUNNER_LOOPS(baseline)};
#endif
  return &kTables[static_cast<int>(isa)];
}

const Loops& loops() {
  return *loops_of(isa_in_use());
}
Isa isa_in_use() {
  return current().load(std::memory_order_relaxed);
}
void use_isa(Isa isa) {
  RUN_ASSERT(supported(isa));
  current().store(isa, std::memory_order_relaxed);
}

const PairLoops* pair_loops() {
#if defined(__x86_64__)
  static const bool is_fast = has_fast_bf16_dot(cpu_features());
  if (is_fast && isa_in_use() == Isa::kAvx512) return &avx512_bf16::pair_loops();
#endif
  return nullptr;
}

std::string_view name_of(Isa isa) {
  constexpr std::string_view kNames[kIsaCount] = {"baseline", "avx2", "avx512"};
  return kNames[static_cast<int>(isa)];
}

}  // namespace runner::backends
