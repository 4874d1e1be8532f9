// Kernels compared with the limits of the machine, measured in the same run.
//
//     kernels_bench [--benchmark_filter=matmul]
//
// Counters: of_peak = share of the FMA rate of the threads in use (bf16: of twice that), of_copy = share of their copy
// bandwidth, counting each operand and result once, ns_elem = time per element of the result. The last argument of
// every benchmark is the number of threads.

#include <chrono>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <benchmark/benchmark.h>

#include "backends/ir/op_def.h"
#include "backends/ir/program.h"
#include "backends/kernels/eltwise.h"
#include "backends/kernels/eltwise_kernels.h"
#include "backends/kernels/isa/loops.h"
#include "backends/kernels/isa/named_group.h"
#include "backends/kernels/kernel.h"

namespace runner::backends {
namespace {

// ---- limits --------------------------------------------------------------------------------------------------------

WorkerPool& pool_of(int threads) {
  static std::map<int, std::unique_ptr<WorkerPool>> pools;
  auto& pool = pools[threads];
  if (pool == nullptr) pool = std::make_unique<WorkerPool>(threads);
  return *pool;
}

// Best time of `rounds` calls of work(chunk) on all threads at once, in seconds.
template <class Work>
double best_seconds(int threads, int rounds, const Work& work) {
  double best = 1e9;
  WorkerPool& pool = pool_of(threads);
  for (int round = 0; round < rounds; ++round) {
    const auto start = std::chrono::steady_clock::now();
    pool.parallel_for(threads, work);
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif
typedef float Vector __attribute__((vector_size(kLanes * 4)));

constexpr int kChains = 24;  // more than latency times ports
constexpr int64_t kRounds = 200'000;

// Only this file is compiled with contraction to FMA. Every index is a constant, so that the sums stay in registers.
template <size_t... chain>
void multiply_add(float factor, std::index_sequence<chain...>) {
  Vector sums[] = {Vector{} + static_cast<float>(chain)...};
  const Vector a = Vector{} + 0.999f, b = Vector{} + factor;
  for (int64_t i = 0; i < kRounds; ++i) ((sums[chain] = sums[chain] * a + b), ...);
  const Vector total = (sums[chain] + ...);
  benchmark::DoNotOptimize(total);
}

// f32 fused multiply-adds, in GFLOP/s.
double fma_peak(int threads) {
  static std::map<int, double> known;
  if (known.contains(threads)) return known[threads];
  const double seconds = best_seconds(
      threads, 50, [](int64_t chunk) { multiply_add(static_cast<float>(chunk), std::make_index_sequence<kChains>{}); });
  return known[threads] = 2.0 * kLanes * kChains * kRounds * threads / seconds * 1e-9;
}

// Bytes read and written by memcpy outside the caches, in GB/s.
double copy_peak(int threads) {
  static std::map<int, double> known;
  if (known.contains(threads)) return known[threads];
  constexpr size_t kBytes = size_t{64} << 20;
  std::vector<std::vector<char>> from(static_cast<size_t>(threads), std::vector<char>(kBytes, 1)), to = from;
  const double seconds = best_seconds(threads, 5, [&](int64_t chunk) {
    const auto at = static_cast<size_t>(chunk);
    std::memcpy(to[at].data(), from[at].data(), kBytes);
  });
  return known[threads] = 2.0 * kBytes * threads / seconds * 1e-9;
}

// ---- running a kernel ----------------------------------------------------------------------------------------------

struct Buffers {
  std::vector<std::unique_ptr<std::byte, void (*)(void*)>> owned;

  std::byte* add(size_t bytes) {
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(4096, (bytes + 8191) / 4096 * 4096));
    std::memset(memory, 0, bytes);
    owned.emplace_back(memory, [](void* p) { std::free(p); });
    return memory;
  }
  // Values in [0, 1), or small integers.
  std::byte* add(const TensorType& type) {
    std::byte* data = add(type.bytes());
    for (int64_t i = 0; i < type.shape.elements(); ++i) {
      if (type.dtype == DType::kF32) reinterpret_cast<float*>(data)[i] = static_cast<float>(i % 97) / 97.0f;
      if (type.dtype == DType::kBf16) reinterpret_cast<uint16_t*>(data)[i] = static_cast<uint16_t>(0x3e00 + i % 97);
      if (type.dtype == DType::kI64) reinterpret_cast<int64_t*>(data)[i] = i % 10;
      if (type.dtype == DType::kBool) reinterpret_cast<uint8_t*>(data)[i] = 1;
    }
    return data;
  }
};

void run(benchmark::State& state, const Kernel& kernel, std::span<const TensorType> operands,
         std::span<const TensorType> results, int threads, double flops) {
  Buffers buffers;
  std::vector<std::byte*> in, out;
  double bytes = 0;
  for (const TensorType& type : operands) in.push_back(buffers.add(type)), bytes += static_cast<double>(type.bytes());
  for (const TensorType& type : results) out.push_back(buffers.add(type)), bytes += static_cast<double>(type.bytes());
  const KernelArguments arguments{in, out, buffers.add(kernel.scratch_bytes + 64), pool_of(threads)};
  double best = 1e9;
  while (state.KeepRunning()) {
    const auto start = std::chrono::steady_clock::now();
    kernel.run(kernel.params.get(), arguments);
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::min(best, seconds);
    state.SetIterationTime(seconds);
  }
  const bool bf16 = operands[0].dtype == DType::kBf16;
  state.SetLabel(kernel.name);
  state.counters["best_us"] = best * 1e6;
  if (flops > 0) {
    state.counters["GFLOP/s"] = flops / best * 1e-9;
    state.counters["of_peak"] = flops / best * 1e-9 / fma_peak(threads) / (bf16 ? 2 : 1);
  } else {
    state.counters["ns_elem"] = best * 1e9 / static_cast<double>(results[0].shape.elements());
    state.counters["GB/s"] = bytes / best * 1e-9;
    state.counters["of_copy"] = bytes / best * 1e-9 / copy_peak(threads);
  }
}

// ---- products ------------------------------------------------------------------------------------------------------

// rows, cols, inner, transpose_a, transpose_b, dtype, threads
void matmul(benchmark::State& state) {
  const int64_t rows = state.range(0), cols = state.range(1), inner = state.range(2);
  const bool ta = state.range(3) != 0, tb = state.range(4) != 0;
  const auto dtype = static_cast<DType>(state.range(5));
  const TensorType operands[] = {{dtype, ta ? Shape{inner, rows} : Shape{rows, inner}},
                                 {dtype, tb ? Shape{cols, inner} : Shape{inner, cols}}};
  const TensorType result{dtype, Shape{rows, cols}};
  const int64_t attrs[] = {ta, tb};
  run(state, prepare_kernel({Op::kMatmul, operands, attrs, result}), operands, std::span(&result, 1),
      static_cast<int>(state.range(6)),
      rows == 1 ? 0 : 2.0 * static_cast<double>(rows * cols) * static_cast<double>(inner));  // memory limits one row
}

void matmul_cases(benchmark::internal::Benchmark* b) {
  constexpr int64_t kShapes[][5] = {
      {32, 128, 64, 0, 1},     {32, 10, 128, 0, 1},     {128, 64, 32, 1, 0},
      {10, 128, 32, 1, 0},  // the small MLP
      {256, 1024, 784, 0, 1},  {256, 1024, 1024, 0, 1}, {256, 10, 1024, 0, 1},
      {256, 1024, 1024, 0, 0},  // the large one
      {1024, 784, 256, 1, 0},  {1024, 1024, 256, 1, 0}, {10, 1024, 256, 1, 0},
      {32, 1024, 784, 0, 1},   {32, 1024, 1024, 0, 1},  {32, 1024, 1024, 0, 0},
      {128, 784, 32, 1, 0},    {128, 1024, 32, 1, 0},  // and its parts for eight ranks
      {2048, 1536, 384, 0, 1}, {2048, 384, 1536, 0, 0}, {384, 1536, 2048, 1, 0},
      {1536, 384, 2048, 1, 0}, {384, 384, 2048, 1, 0},  {1024, 3072, 768, 0, 0},
      {1024, 5120, 768, 0, 0}, {1, 50257, 768, 0, 1},   {1, 38400, 768, 0, 0},
      {1, 3072, 768, 0, 0},  // generation
  };
  for (const DType dtype : {DType::kF32, DType::kBf16})
    for (const auto& s : kShapes)
      for (const int64_t threads : {1, 2})
        b->Args({s[0], s[1], s[2], s[3], s[4], static_cast<int64_t>(dtype), threads});
}
BENCHMARK(matmul)->Apply(matmul_cases)->UseManualTime()->MinTime(0.1);

// ---- element-wise --------------------------------------------------------------------------------------------------

EltwiseGroup group_of(const NamedGroup& text, const Shape& shape) {
  EltwiseGroup group{.shape = shape, .inputs = {}, .constants = {}, .code = {}, .outputs = {}};
  for (int k = 0; k < text.input_count; ++k) {
    group.inputs.push_back({text.inputs[k].dtype, shape.strides()});
    if (text.inputs[k].one_per_row) group.inputs.back().strides = {};
  }
  for (int k = 0; k < text.constant_count; ++k) group.constants.push_back(0.5);
  for (int k = 0; k < text.code_count; ++k) {
    EltwiseInstruction code{text.code[k].op, text.code[k].dtype};
    for (size_t s = 0; s < 3; ++s) code.sources[s] = static_cast<int16_t>(text.code[k].sources[s]);
    group.code.push_back(code);
  }
  for (int k = 0; k < text.output_count; ++k) group.outputs.push_back(static_cast<int16_t>(text.outputs[k]));
  return group;
}

void run_group(benchmark::State& state, const EltwiseGroup& group, const Kernel& kernel, int threads) {
  std::vector<TensorType> operands, results;
  for (const EltwiseInput& input : group.inputs) {
    const bool scalar = group.shape.elements() > 1 && input.strides[0] == 0;
    operands.push_back({input.dtype, scalar ? Shape{} : group.shape});
  }
  for (const int16_t output : group.outputs) {
    const size_t at = static_cast<size_t>(output) - group.inputs.size() - group.constants.size();
    results.push_back({group.code[at].dtype, group.shape});
  }
  run(state, kernel, operands, results, threads, 0);
}

// Seven ops in a row. Arguments: elements, threads.
void chain(benchmark::State& state) {
  const NamedGroup text =
      NamedGroupParser(
          "(f32, f32, const, const) r4 = mul r0 r1; r5 = add r4 r2; r6 = max r5 r3; r7 = mul r6 r0; "
          "r8 = sub r7 r1; r9 = mul r8 r2; r10 = add r9 r1 -> r10")
          .parse();
  const EltwiseGroup group = group_of(text, Shape{state.range(0)});
  run_group(state, group, prepare_eltwise(group), static_cast<int>(state.range(1)));
}
BENCHMARK(chain)->ArgsProduct({{4 << 10, 64 << 10, 16 << 20}, {1, 2}})->UseManualTime()->MinTime(0.05);

// An adagrad update of an accumulated, scaled and clamped gradient: four loops over blocks, or interpreted. Arguments:
// interpreted, elements, threads.
void clamped_update(benchmark::State& state) {
  const NamedGroup text =
      NamedGroupParser(
          "(f32, f32, f32., f32, f32., f32, bool., const, const, const) r10 = add r0 r1; r11 = mul r10 r2; "
          "r12 = lt:bool r11 r7; r13 = where r12 r7 r11; r14 = gt:bool r13 r8; r15 = where r14 r8 r13; "
          "r16 = mul r15 r15; r17 = add r3 r16; r18 = sqrt r17; r19 = add r18 r9; r20 = div r15 r19; r21 = mul r20 r4; "
          "r22 = sub r5 r21; r23 = where r6 r22 r5; r24 = where r6 r17 r3 -> r23, r24")
          .parse();
  const EltwiseGroup group = group_of(text, Shape{state.range(1)});
  const Kernel kernel = state.range(0) ? prepare_eltwise_vm(group) : prepare_eltwise(group);
  run_group(state, group, kernel, static_cast<int>(state.range(2)));
  state.SetLabel(kernel.name);
}
BENCHMARK(clamped_update)->ArgsProduct({{0, 1}, {10'000, 2'000'000}, {1, 2}})->UseManualTime()->MinTime(0.05);

// Every compiled group, by its loop and by the interpreter. Arguments: index, interpreted, elements, threads.
void named(benchmark::State& state) {
  const NamedLoop& loop = loops().named[static_cast<size_t>(state.range(0))];
  const EltwiseGroup group = group_of(NamedGroupParser(loop.text).parse(), Shape{state.range(2)});
  run_group(state, group, state.range(1) ? prepare_eltwise_vm(group) : prepare_eltwise(group),
            static_cast<int>(state.range(3)));
  state.SetLabel(std::string(state.range(1) ? "vm of " : "") + loop.name);
}
void named_cases(benchmark::internal::Benchmark* b) {
  for (int64_t i = 0; i < static_cast<int64_t>(loops().named.size()); ++i)
    for (const int64_t vm : {0, 1}) {
      b->Args({i, vm, 10'000, 1});
      b->Args({i, vm, 2'000'000, 2});
    }
}
BENCHMARK(named)->Apply(named_cases)->UseManualTime()->MinTime(0.03);

// One elementary function. Arguments: op, elements, threads.
void unary(benchmark::State& state) {
  const TensorType type{DType::kF32, Shape{state.range(1)}};
  const auto op = static_cast<Op>(state.range(0));
  EltwiseGroup group{.shape = type.shape,
                     .inputs = {{DType::kF32, type.shape.strides()}},
                     .constants = {},
                     .code = {{op, DType::kF32, {0, -1, -1}}},
                     .outputs = {1}};
  run_group(state, group, prepare_eltwise_vm(group), static_cast<int>(state.range(2)));
  state.SetLabel(std::string(name_of(op)));
}
void unary_cases(benchmark::internal::Benchmark* b) {
  for (const Op op : {Op::kExp, Op::kLog, Op::kTanh, Op::kSigmoid, Op::kErf, Op::kGelu, Op::kSqrt})
    b->Args({static_cast<int64_t>(op), 16 << 10, 1});
}
BENCHMARK(unary)->Apply(unary_cases)->UseManualTime()->MinTime(0.03);

// ---- rows, reductions, the rest ------------------------------------------------------------------------------------

struct OpCase {
  Op op;
  std::vector<TensorType> operands;
  std::vector<int64_t> attrs;
  TensorType requested{};
};

const std::vector<OpCase>& op_cases() {
  static const std::vector<OpCase> cases = [] {
    const auto f32 = [](std::initializer_list<int64_t> dims) { return TensorType{DType::kF32, Shape(dims)}; };
    const auto i64 = [](std::initializer_list<int64_t> dims) { return TensorType{DType::kI64, Shape(dims)}; };
    const int64_t eps = pack_f64(1e-5), p = pack_f64(0.1);
    std::vector<OpCase> all;
    for (const int64_t rows : {32, 256, 2048})
      for (const int64_t cols : {10, 384, 1024}) {
        const TensorType x = f32({rows, cols}), row = f32({cols}), column = f32({rows}), labels = i64({rows});
        all.push_back({Op::kSum, {x}, {0}});
        all.push_back({Op::kSum, {x}, {1}});
        all.push_back({Op::kSum, {x}, {0, 1}});
        all.push_back({Op::kSoftmax, {x}, {}});
        all.push_back({Op::kCrossEntropy, {x, labels}, {-100, 0}});
        all.push_back({Op::kCrossEntropyGrad, {x, labels, column}, {-100, 0}});
        all.push_back({Op::kLabelRank, {x, labels}, {}});
        all.push_back({Op::kLayerNorm, {x, row, row}, {eps}});
        all.push_back({Op::kLayerNormGradX, {x, row, x}, {eps}});
        all.push_back({Op::kLayerNormGradGamma, {x, x}, {eps}});
        all.push_back({Op::kPermute, {x}, {1, 0}});
        all.push_back({Op::kDropoutMask, {i64({2}), labels}, {0, p}, x});
      }
    return all;
  }();
  return cases;
}

// index, threads
void op(benchmark::State& state) {
  const OpCase& c = op_cases()[static_cast<size_t>(state.range(0))];
  const TensorType result = result_type(c.op, c.operands, c.attrs, c.requested);
  run(state, prepare_kernel({c.op, c.operands, c.attrs, result}), c.operands, std::span(&result, 1),
      static_cast<int>(state.range(1)), 0);
  state.SetLabel(std::string(name_of(c.op)) + " " + c.operands[0].to_string());
}
void op_arguments(benchmark::internal::Benchmark* b) {
  for (int64_t i = 0; i < static_cast<int64_t>(op_cases().size()); ++i)
    for (const int64_t threads : {1, 2}) b->Args({i, threads});
}
BENCHMARK(op)->Apply(op_arguments)->UseManualTime()->MinTime(0.02);

// Cost of parallel_for when the workers are awake. Argument: threads.
void hand_off(benchmark::State& state) {
  WorkerPool& pool = pool_of(static_cast<int>(state.range(0)));
  while (state.KeepRunning()) pool.parallel_for(state.range(0), [](int64_t chunk) { benchmark::DoNotOptimize(chunk); });
}
BENCHMARK(hand_off)->Arg(2);

}  // namespace
}  // namespace runner::backends

int main(int argc, char** argv) {
  using namespace runner::backends;
  benchmark::Initialize(&argc, argv);
  for (const int threads : {1, 2})
    std::printf("%d thread(s): FMA %.0f GFLOP/s, copy %.1f GB/s; loops: %s\n", threads, fma_peak(threads),
                copy_peak(threads), std::string(name_of(isa_in_use())).c_str());
  benchmark::RunSpecifiedBenchmarks();
}
