// Limits of this machine, for the lower bounds that steps.py prints: f32 FMA and bf16 rates, bandwidth. The bf16 rate
// is that of AMX tiles or of dot products, whichever is higher.
//
//     peak THREADS   ->   {"fma_gflops": …, "bf16_gflops": …, "copy_gbs": …, "read_gbs": …}
//
// Best of several short rounds, on THREADS threads at once.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kChains = 12;  // independent sums: latency times ports
constexpr int64_t kRounds = 2'000'000;
volatile float sink;

double seconds_of(int threads, const std::function<void()>& work) {
  double best = 1e9;
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    std::vector<std::thread> others;
    for (int i = 1; i < threads; ++i) others.emplace_back(work);
    work();
    for (std::thread& other : others) other.join();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

#if defined(__AVX512F__)
void fma_work() {
  __m512 sums[kChains];
  for (int c = 0; c < kChains; ++c) sums[c] = _mm512_set1_ps(static_cast<float>(c));
  const __m512 a = _mm512_set1_ps(0.999f), b = _mm512_set1_ps(1e-3f);
  for (int64_t i = 0; i < kRounds; ++i)
    for (int c = 0; c < kChains; ++c) sums[c] = _mm512_fmadd_ps(sums[c], a, b);
  float total = 0;
  for (const __m512& sum : sums) total += _mm512_reduce_add_ps(sum);
  sink = total;
}
constexpr double kFmaFlops = 2.0 * 16 * kChains * kRounds;
#else
void fma_work() {
  __m256 sums[kChains];
  for (int c = 0; c < kChains; ++c) sums[c] = _mm256_set1_ps(static_cast<float>(c));
  const __m256 a = _mm256_set1_ps(0.999f), b = _mm256_set1_ps(1e-3f);
  for (int64_t i = 0; i < kRounds; ++i)
    for (int c = 0; c < kChains; ++c) sums[c] = _mm256_fmadd_ps(sums[c], a, b);
  float total = 0;
  for (const __m256& sum : sums) total += sum[0];
  sink = total;
}
constexpr double kFmaFlops = 2.0 * 8 * kChains * kRounds;
#endif

#if defined(__AVX512BF16__)
void bf16_work() {
  __m512 sums[kChains];
  for (int c = 0; c < kChains; ++c) sums[c] = _mm512_set1_ps(static_cast<float>(c));
  const __m512bh a = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5f), _mm512_set1_ps(0.25f));
  for (int64_t i = 0; i < kRounds; ++i)
    for (int c = 0; c < kChains; ++c) sums[c] = _mm512_dpbf16_ps(sums[c], a, a);
  float total = 0;
  for (const __m512& sum : sums) total += _mm512_reduce_add_ps(sum);
  sink = total;
}
constexpr double kBf16Flops = 2.0 * 32 * kChains * kRounds;
#endif

#if defined(__AMX_BF16__)
// A process asks Linux for the registers of tiles before it uses them.
bool may_use_tiles() {
  constexpr long kRequestPermission = 0x1023, kTileData = 18;
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

// Four sums of 16 × 16 from two tiles of A and two of B, as in a product without loads.
void tile_work() {
  static const struct alignas(64) {
    uint8_t palette = 1, first_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
  } layout;  // static: GCC 12 does not see that _tile_loadconfig reads all of it
  _tile_loadconfig(&layout);
  for (int64_t i = 0; i < kRounds / 4; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
}
constexpr double kTileFlops = 2.0 * 16 * 16 * 32 * kRounds;
#endif

double bf16_rate(int threads, double fma) {
  double best = fma;
  const auto compare = [&](double flops, void (*work)()) {
    best = std::max(best, flops * threads / seconds_of(threads, work) * 1e-9);
  };
#if defined(__AVX512BF16__)
  compare(kBf16Flops, bf16_work);
#endif
#if defined(__AMX_BF16__)
  if (may_use_tiles()) compare(kTileFlops, tile_work);
#endif
  return best;
}

constexpr size_t kBytes = size_t{64} << 20;

double read_bandwidth(int threads) {
  struct Line {
    typedef uint64_t Half __attribute__((vector_size(32)));  // GCC keeps wider sums in memory without AVX-512
    Half halves[2];
  };
  constexpr size_t kLines = 4 * kBytes / sizeof(Line);  // more than the last cache of large machines
  const std::vector<std::vector<Line>> sources(static_cast<size_t>(threads), std::vector<Line>(kLines));
  std::atomic<int> next{0};
  std::atomic<uint64_t> total{0};  // so that the sums are not left out
  const double seconds = seconds_of(threads, [&] {
    const auto& mine = sources[static_cast<size_t>(next++ % threads)];
    Line::Half sum{}, other{};
    for (const Line& line : mine) {
      sum += line.halves[0];
      other += line.halves[1];
    }
    total += sum[0] + other[3];
  });
  return static_cast<double>(kLines * sizeof(Line)) * threads / seconds * 1e-9;
}

double copy_bandwidth(int threads) {
  std::vector<std::vector<char>> sources, targets;
  for (int i = 0; i < threads; ++i) {
    sources.emplace_back(kBytes, 1);
    targets.emplace_back(kBytes, 2);
  }
  std::atomic<int> next{0};
  const double seconds = seconds_of(threads, [&] {
    const auto mine = static_cast<size_t>(next++ % threads);
    for (int i = 0; i < 4; ++i) std::memcpy(targets[mine].data(), sources[mine].data(), kBytes);
  });
  return 2.0 * 4 * static_cast<double>(kBytes) * threads / seconds * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  const double fma = kFmaFlops * threads / seconds_of(threads, fma_work) * 1e-9;
  std::printf("{\"fma_gflops\": %.1f, \"bf16_gflops\": %.1f, \"copy_gbs\": %.1f, \"read_gbs\": %.1f}\n", fma,
              bf16_rate(threads, fma), copy_bandwidth(threads), read_bandwidth(threads));
}
