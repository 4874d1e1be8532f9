// All-reduce of floats between processes that mpirun has started, compared with MPI_Allreduce of the same library in
// the same run: through shared memory, as on one host, and through messages, as between hosts.
//
//     mpirun -n 2 mpi_bench MODULE [ROUNDS]        MODULE: openmpi or mpich
//
// It needs mpi_sum-MODULE.so in its folder.
//
// Prints a JSON document: for each size, the median of the microseconds of a call. Calls of the three alternate.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "backends/dist/hosts_group.h"
#include "backends/dist/mpi/mpi_network.h"
#include "backends/runtime/arena.h"

namespace {

using namespace runner::backends;
using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + std::ssize(values) / 2, values.end());
  return values[values.size() / 2];
}

// Microseconds of one of `calls` calls, all ranks having started together.
template <class Call>
double time_of(ProcessGroup& ranks, int calls, const Call& call) {
  ranks.barrier({"ready"});
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) call();
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / calls;
}

// The memory of rank 0.
std::unique_ptr<SharedMemory> shared(ProcessGroup& ranks) {
  std::unique_ptr<SharedMemory> memory;
  std::string path;
  if (ranks.rank() == 0) {
    memory = std::make_unique<SharedMemory>(SharedMemoryGroup::memory_bytes(ranks.size()));
    path = fmt::format("{} {}", ::getpid(), memory->descriptor());
  }
  path = ranks.gather_objects(path, {"memory"}).front();
  if (memory == nullptr)
    memory.reset(new SharedMemory(SharedMemory::open_of(std::stoll(path), path.substr(path.find(' ') + 1))));
  ranks.barrier({"memory"});
  return memory;
}

// MPI_Allreduce of floats.
void (*library_sum(const std::string& module))(float*, int) {
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe");
  void* const handle = ::dlopen((program.parent_path() / fmt::format("mpi_sum-{}.so", module)).c_str(), RTLD_NOW);
  if (handle == nullptr) std::fprintf(stderr, "%s\n", ::dlerror()), std::exit(1);
  return reinterpret_cast<void (*)(float*, int)>(::dlsym(handle, "mpi_sum"));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return std::fprintf(stderr, "usage: mpirun -n 2 mpi_bench MODULE [ROUNDS]\n"), 2;
  MpiNetwork network(argv[1]);
  const auto sum = library_sum(argv[1]);
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 11, size = network.size();
  const SharedMemoryGroup::Options options = SharedMemoryGroup::options_for(size, std::chrono::seconds(600));
  SharedMemory own(SharedMemoryGroup::memory_bytes(1));
  SharedMemoryGroup alone(own, 0, 1, options);
  std::vector<RankHost> hosts;
  for (int rank = 0; rank < size; ++rank) hosts.push_back({fmt::format("h{}", rank), rank, 1});
  std::vector<std::string> rows;
  {
    HostsGroup messages(network, alone, hosts);
    const std::unique_ptr<SharedMemory> common = shared(messages);
    SharedMemoryGroup memory(*common, network.rank(), size, options);
    for (size_t bytes = 1024; bytes <= size_t{64} << 20; bytes *= 4) {
      const auto arena = std::make_shared<Arena>(bytes);
      const std::span values(reinterpret_cast<float*>(arena->data()), bytes / sizeof(float));
      messages.use_in_place({arena, arena->data()}, bytes);
      const TensorType type{DType::kF32, Shape{std::ssize(values)}};
      const int calls = static_cast<int>(std::clamp<size_t>((size_t{8} << 20) / bytes, 1, 1000));
      std::vector<double> by_memory, by_messages, by_library;
      for (int round = 0; round < rounds; ++round) {
        const auto reduce = [&](ProcessGroup& ranks) {
          ranks.all_reduce(type, std::as_writable_bytes(values), Reduction::kSum, {"values"});
        };
        by_memory.push_back(time_of(messages, calls, [&] { reduce(memory); }));
        by_messages.push_back(time_of(messages, calls, [&] { reduce(messages); }));
        by_library.push_back(time_of(messages, calls, [&] { sum(values.data(), static_cast<int>(values.size())); }));
      }
      rows.push_back(fmt::format(R"({{"bytes": {}, "shared_memory": {:.2f}, "messages": {:.2f}, "library": {:.2f}}})",
                                 bytes, median(by_memory), median(by_messages), median(by_library)));
    }
  }
  if (network.rank() == 0)
    std::printf("{\"library\": \"%s\", \"ranks\": %d, \"rows\": [\n%s\n]}\n", network.version().c_str(), size,
                fmt::format("{}", fmt::join(rows, ",\n")).c_str());
  network.end();
}
