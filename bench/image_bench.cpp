// Speed of decoding and resizing images on one core: the CPU time of each file, best of several rounds.
//
//     image_bench FILE…
#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <time.h>

#include "runner/images/decode.h"
#include "runner/images/resize.h"
#include "schema/base/file.h"

namespace {

using runner::images::Image;

constexpr int kRounds = 10;
constexpr double kSecondsPerRound = 0.1;
constexpr int64_t kSide = 256;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Returns the milliseconds of one call in the best round.
template <class Work>
double milliseconds(Work work) {
  double best = 1e9;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = cpu_seconds();
    int calls = 0;
    double elapsed = 0;
    while (elapsed < kSecondsPerRound) {
      work();
      ++calls;
      elapsed = cpu_seconds() - begin;
    }
    best = std::min(best, elapsed / calls);
  }
  return best * 1e3;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: image_bench FILE…\n");
    return 2;
  }
  for (int i = 1; i < argc; ++i) {
    const std::string path = argv[i], bytes = runner::read_file(path).value_or("");
    const auto decode = [&] { return runner::images::decode(std::as_bytes(std::span(bytes)), path).image; };
    const Image image = decode();
    fmt::print("{} decode {:.4f} ms\n", path, milliseconds(decode));
    const auto [height, width] = runner::images::size_with_shorter_side(image, kSide);
    const auto resize = [&, h = height, w = width] { return runner::images::resized(image, h, w); };
    fmt::print("{} resize {:.4f} ms\n", path, milliseconds(resize));
  }
}
