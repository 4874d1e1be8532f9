// Host cost of launches on an emulated GPU: CPU nanoseconds per operation of a Program of small operations while the
// device works in parallel, and the time to compute them on the CPU device. Then the CPU time of a process whose 8
// devices have worked and then idle for a second.
//
//     launch_bench [OPERATIONS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <thread>
#include <vector>

#include <time.h>

#include "backends/exec/cpu_device.h"
#include "backends/gpu/gpu_device.h"
#include "backends/ir/ops.h"

namespace {

using namespace runner::backends;

double cpu_ns(clockid_t clock) {
  timespec now;
  clock_gettime(clock, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

// A chain of operations, each a kernel of its own.
Program chain(int operations) {
  Program program;
  const int64_t first[] = {0};
  Value x{&program, program.input(InputKind::kState, "x", {DType::kF32, Shape{8}})};
  for (int i = 0; i < operations; ++i)
    x = i % 2 == 0 ? ops::sum(x, first) : ops::expand(ops::reshape(x, Shape{1}), Shape{8});
  program.output("x", x.id);
  return program;
}

// Median time of submit(). The device has finished before the next call.
double submit_ns(Device& device, const Program& program) {
  const auto executable = device.compile(program);
  const auto x = device.allocate(8 * sizeof(float));
  Buffer* const states[] = {x.get()};
  std::vector<double> times;
  for (int i = 0; i < 301; ++i) {
    const double start = cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    const Ticket ticket = device.submit(*executable, {.states = states, .batch = {}, .scalars = {}});
    times.push_back(cpu_ns(CLOCK_THREAD_CPUTIME_ID) - start);
    device.wait(ticket);
  }
  std::ranges::nth_element(times, times.begin() + 150);
  return times[150];
}

double idle_ns(int devices, const Program& program) {
  std::vector<std::unique_ptr<Device>> all;
  for (int i = 0; i < devices; ++i) submit_ns(*all.emplace_back(gpu::make_gpu_device({})), program);
  const double start = cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
  std::this_thread::sleep_for(std::chrono::seconds(1));
  return cpu_ns(CLOCK_PROCESS_CPUTIME_ID) - start;
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
  std::printf("8 idle devices: %.3f ms of CPU time in a second (goal 0)\n", idle_ns(8, program) * 1e-6);
}
