// What it costs a host to launch on an emulated GPU: nanoseconds of its CPU time for each operation of a Program of
// small ones, while the device works beside it, and what computing them takes the cpu device.
//
//     launch_bench [OPERATIONS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <time.h>

#include "backends/cpu/cpu_device.h"
#include "backends/gpu/gpu_device.h"
#include "backends/graph/ops.h"

namespace {

using namespace runner::backends;

double cpu_ns_of_thread() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// A chain, each of which is a kernel of its own.
Program chain(int operations) {
  Program program;
  const int64_t first[] = {0};
  Value x{&program, program.input(InputKind::kState, "x", {DType::kF32, Shape{8}})};
  for (int i = 0; i < operations; ++i)
    x = i % 2 == 0 ? ops::sum(x, first) : ops::expand(ops::reshape(x, Shape{1}), Shape{8});
  program.output("x", x.id);
  return program;
}

// Of submit(), the median of many; the device is done before the next.
double submit_ns(Device& device, const Program& program) {
  const auto executable = device.compile(program);
  const auto x = device.allocate(8 * sizeof(float));
  Buffer* const states[] = {x.get()};
  std::vector<double> times;
  for (int i = 0; i < 301; ++i) {
    const double start = cpu_ns_of_thread();
    const Ticket ticket = device.submit(*executable, {.states = states, .batch = {}, .scalars = {}});
    times.push_back(cpu_ns_of_thread() - start);
    device.wait(ticket);
  }
  std::ranges::nth_element(times, times.begin() + 150);
  return times[150];
}

}  // namespace

int main(int argc, char** argv) {
  const int operations = argc > 1 ? std::atoi(argv[1]) : 1000;
  const Program program = chain(operations);
  const auto gpu = gpu::make_gpu_device({});
  const auto cpu = make_cpu_device(1);
  for (int round = 0; round < 3; ++round) {
    const double launching = submit_ns(*gpu, program) / operations, computing = submit_ns(*cpu, program) / operations;
    std::printf("launch %6.1f ns an operation (goal 500), compute %6.1f ns: %.2f\n", launching, computing,
                launching / computing);
  }
}
