// Cost of a batch in a loader: wall-clock time, and CPU time including the consumer's. Then the time of a row of a
// streamed table for one of several ranks, which reads only its own rows.
//
//     loader_bench [THREADS…]      1 2, and without a thread
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <vector>

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include "runner/data/load.h"
#include "runner/data/loader.h"
#include "runner/data/storage.h"

namespace {

using namespace runner;

constexpr struct {
  const char* name;
  int64_t samples, width, batch, rounds;
} kCases[] = {
    {"4 samples of 2", 1000, 2, 4, 2'000'000},
    {"32 samples of 64", 1797, 64, 32, 400'000},
    {"64 samples of 784", 60'000, 784, 64, 20'000},
};

double seconds(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

data::Dataset numbers(int64_t samples, int64_t width) {
  const auto storage = std::make_shared<data::Storage>();
  storage->samples = samples;
  storage->feature_shape = {width};
  storage->label_kind = data::LabelKind::kClass;
  for (int64_t i = 0; i < samples * width; ++i) storage->values.push_back(static_cast<float>(i));
  for (int64_t i = 0; i < samples; ++i) storage->classes.push_back(i % 10);
  data::Encoding encoding;
  encoding.feature_shape = {width};
  encoding.outputs = 10;
  return {"data.train", storage, {}, encoding};
}

// Nanoseconds of an epoch of the first rank, for each row of the file.
double streamed_row(const data::Dataset& dataset, int64_t ranks) {
  const data::DataPlan plan({.samples = dataset.size(), .batch_size = 64, .processes = ranks});
  data::Loader loader(dataset, plan, {.seed = 1, .prefetch = 0});
  const double start = seconds(CLOCK_MONOTONIC);
  for (int64_t step = 0; step < plan.steps_per_epoch(); ++step) loader.next();
  return 1e9 * (seconds(CLOCK_MONOTONIC) - start) / static_cast<double>(dataset.size());
}

void print_streams() {
  const std::string path =
      fmt::format("{}/runner-loader-bench-{}.csv", std::filesystem::temp_directory_path().string(), ::getpid());
  {
    std::ofstream file(path);
    for (int64_t row = 0; row < 200'000; ++row) {
      for (int64_t column = 0; column < 20; ++column) file << static_cast<double>(row * 37 + column) * 0.001 << ',';
      file << row % 10 << '\n';
    }
  }
  schema::DataSpec spec;
  spec.train.format = schema::DataFormat::kCsv;
  spec.train.path = path;
  spec.stream = true;
  spec.shuffle_buffer = 10'000;
  const data::Data streamed = data::load(spec, 1);
  for (const int64_t ranks : {1, 2, 8})
    fmt::print("a streamed row of 20, 1 of {} ranks {:6.0f} ns\n", ranks, streamed_row(streamed.train, ranks));
  std::filesystem::remove(path);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<int64_t> threads{0, 1, 2};
  if (argc > 1) threads.clear();
  for (int i = 1; i < argc; ++i) threads.push_back(std::atoll(argv[i]));
  for (const auto& [name, samples, width, batch, rounds] : kCases) {
    const data::Dataset dataset = numbers(samples, width);
    const data::DataPlan plan({.samples = samples, .batch_size = batch});
    for (const int64_t count : threads) {
      data::LoaderSpec spec{.seed = 1, .prefetch = count > 0 ? 24 : 0};
      spec.threads = std::max<int64_t>(count, 1);
      data::Loader loader(dataset, plan, spec);
      for (int i = 0; i < 1000; ++i) loader.next();
      const double wall = seconds(CLOCK_MONOTONIC), processor = seconds(CLOCK_PROCESS_CPUTIME_ID);
      for (int64_t i = 0; i < rounds; ++i) loader.next();
      const double ns = 1e9 / static_cast<double>(rounds);
      fmt::print("{:18} {} threads {:9.0f} ns {:9.0f} ns of processors\n", name, count,
                 ns * (seconds(CLOCK_MONOTONIC) - wall), ns * (seconds(CLOCK_PROCESS_CPUTIME_ID) - processor));
    }
  }
  print_streams();
  return 0;
}
