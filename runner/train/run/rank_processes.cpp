#include "runner/train/run/rank_processes.h"

#include <cstdlib>

#include <fmt/format.h>

#include "schema/base/error.h"

namespace runner::train {

using backends::SharedMemory;
using backends::SharedMemoryGroup;

namespace {

std::chrono::milliseconds timeout_in(const std::vector<std::string>& arguments) {
  RUN_CHECK(arguments.size() == 1, ErrorKind::kUsage, "{} is for runner itself", kRankWord);
  return std::chrono::milliseconds(std::atoll(arguments.front().c_str()));
}

}  // namespace

RankProcesses::RankProcesses(int size, const RankOptions& options)
    : memory_(SharedMemoryGroup::memory_bytes(size)),
      group_(memory_, 0, size, SharedMemoryGroup::options_for(size, options.timeout)),
      launcher_(size, {.program = options.program,
                       .job = options.job,
                       .descriptor = memory_.descriptor(),
                       .arguments = {std::to_string(options.timeout.count())},
                       .stop = options.stop,
                       .on_end = [this](const RankEnd& end) { report(end); },
                       .on_stop_at_start = [this] { group_.fail("interrupted while starting the processes", {}); }}) {}

// Has no effect if the run is done; otherwise the ranks that wait for this one throw.
void RankProcesses::report(const RankEnd& end) {
  group_.fail(fmt::format("rank {} {}; it {}; its peak memory was {} MB", end.rank, end.how,
                          group_.newest_call(end.rank).as_last_call(), end.megabytes),
              {});
}

RankProcess::RankProcess(std::span<const std::string> words)
    : launched_(words),
      memory_(SharedMemory::adopt(launched_.descriptor())),
      group_(memory_, launched_.rank(), launched_.size(),
             SharedMemoryGroup::options_for(launched_.size(), timeout_in(launched_.arguments()))) {}

}  // namespace runner::train
