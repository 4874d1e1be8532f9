// Attention and its gradient, compared with the same as matmul, softmax and matmul, through plans as the CPU device
// runs them.
//
//     attention_bench [THREADS [f32|bf16]]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "backends/exec/plan.h"
#include "backends/ir/autograd.h"
#include "backends/ir/ops.h"
#include "backends/ir/passes/passes.h"
#include "backends/kernels/rows_io.h"
#include "backends/runtime/arena.h"
#include "backends/runtime/worker_pool.h"

namespace runner::backends {
namespace {

struct Sizes {
  int64_t batch, heads, tokens, width;
  bool causal;
};

// Attention with its gradients by q, k and v.
Program attention(const Sizes& s, DType dtype) {
  Program program;
  std::vector<Value> x;
  for (const char* name : {"q", "k", "v", "grad"})
    x.push_back(
        {&program, program.input(InputKind::kBatch, name, {dtype, Shape{s.batch, s.heads, s.tokens, s.width}})});
  const Value y = ops::attention(x[0], x[1], x[2], {.causal = s.causal});
  program.output("y", y.id);
  for (const Value& grad : differentiate(y, x[3], std::span(x).first(3))) program.output("gradient", grad.id);
  return program;
}

class Runner {
 public:
  explicit Runner(const Program& program) : plan_(build_plan(program)), arena_(plan_.arena_bytes) {
    slots_.push_back(arena_.data());
    for (const Input& input : program.inputs()) {
      const int64_t elements = program.type(input.value).shape.elements();
      std::vector<float> values(static_cast<size_t>(elements));
      for (int64_t i = 0; i < elements; ++i)
        values[static_cast<size_t>(i)] = static_cast<float>(i * 31 % 97) / 97 - 0.5f;
      std::vector<std::byte>& stored = inputs_.emplace_back(program.type(input.value).bytes());
      store_elements(stored.data(), program.type(input.value).dtype, 0, values.data(), elements);
    }
    for (std::vector<std::byte>& stored : inputs_) slots_.push_back(stored.data());
  }

  double seconds(WorkerPool& pool) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    run_plan(plan_, slots_, pool);
    return std::chrono::duration<double>(Clock::now() - start).count();
  }
  size_t bytes() const { return plan_.arena_bytes; }

 private:
  Plan plan_;
  Arena arena_;
  std::vector<std::vector<std::byte>> inputs_;
  std::vector<std::byte*> slots_;
};

// Alternates, so that other work on the machine hits both.
void compare(const Sizes& s, DType dtype, WorkerPool& pool) {
  constexpr double kBudget = 1;
  const Program program = attention(s, dtype);
  Runner fused(program), composed(compose_attention(program));
  double best_fused = 1e9, best_composed = 1e9, spent = 0;
  for (int run = 0; run < 5 || spent < kBudget; ++run) {
    const double a = fused.seconds(pool), b = composed.seconds(pool);
    best_fused = std::min(best_fused, a);
    best_composed = std::min(best_composed, b);
    spent += a + b;
  }
  std::printf(
      "%2ld x %2ld heads, T %4ld, D %2ld%s: %8.0f us, composed %8.0f us, ratio %.2f; %6.1f MB, composed %6.1f MB\n",
      s.batch, s.heads, s.tokens, s.width, s.causal ? ", causal" : "        ", best_fused * 1e6, best_composed * 1e6,
      best_fused / best_composed, static_cast<double>(fused.bytes()) * 1e-6,
      static_cast<double>(composed.bytes()) * 1e-6);
}

}  // namespace
}  // namespace runner::backends

int main(int argc, char** argv) {
  using namespace runner::backends;
  WorkerPool pool(argc > 1 ? std::atoi(argv[1]) : 1);
  const DType dtype = argc > 2 && argv[2] == std::string_view("bf16") ? DType::kBf16 : DType::kF32;
  for (const bool causal : {false, true})
    for (const int64_t width : {32, 64})
      for (const int64_t tokens : {64, 128, 256, 512, 1024})
        compare({4096 / tokens, 4, tokens, width, causal}, dtype, pool);
}
