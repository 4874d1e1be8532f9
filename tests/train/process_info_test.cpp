// What launched processes know of each other: their order, hosts and cores.
#include "runner/train/run/process_info.h"

#include <gtest/gtest.h>

#include "schema/base/error.h"
#include "schema/base/packing.h"

namespace runner::train {
namespace {

ProcessInfo on(const std::string& host, std::vector<int> cores = {0}, int offered = 1) {
  return {.host = host,
          .machine = "boot of " + host,
          .pid = 0,
          .cores = std::move(cores),
          .offered = offered,
          .program = "runner 1",
          .command = "exec r.yaml",
          .kernels = "avx2"};
}

TEST(ProcessInfo, IsPassedOnWhole) {
  ProcessInfo mine = on("a", {0, 3, 17}, 32);
  mine.pid = 4'000'000;
  const ProcessInfo found = unpack<ProcessInfo>(pack(mine));
  EXPECT_EQ(found.host, "a");
  EXPECT_EQ(found.machine, "boot of a");
  EXPECT_EQ(found.pid, 4'000'000);
  EXPECT_EQ(found.cores, mine.cores);
  EXPECT_EQ(found.offered, 32);
  EXPECT_EQ(found.program, mine.program);
  EXPECT_EQ(found.command, mine.command);
  EXPECT_EQ(found.kernels, mine.kernels);
}

TEST(ProcessInfo, OfThisProcessHasItsCores) {
  const ProcessInfo mine = info_of_this_process("p", "c");
  EXPECT_FALSE(mine.host.empty());
  EXPECT_FALSE(mine.cores.empty());
  EXPECT_GE(mine.offered, 1);
}

TEST(ProcessInfo, NumbersRanksHostByHost) {
  EXPECT_EQ(order_by_machine({on("b"), on("a"), on("b"), on("c"), on("a")}), (std::vector<int>{0, 2, 1, 4, 3}));
  const auto hosts = hosts_of({on("b"), on("b"), on("a"), on("a"), on("c")});
  ASSERT_EQ(hosts.size(), 3U);
  EXPECT_EQ(hosts[1].name, "a");
  EXPECT_EQ(hosts[1].first, 2);
  EXPECT_EQ(hosts[1].count, 2);
}

// Two machines may have the same name, as two containers.
TEST(ProcessInfo, TellsMachinesOfOneNameApart) {
  ProcessInfo other = on("a");
  other.machine = "another boot";
  EXPECT_EQ(hosts_of({on("a"), other}).size(), 2U);
}

TEST(ProcessInfo, DividesSharedCores) {
  const std::vector<int> five{0, 1, 2, 3, 4};
  EXPECT_EQ(cores_of({on("a", five), on("a", five)}), (std::vector<std::vector<int>>{{0, 1}, {2, 3, 4}}));
  EXPECT_EQ(cores_of({on("a", {0, 1}), on("a", {2, 3})}), (std::vector<std::vector<int>>{{0, 1}, {2, 3}}));
  EXPECT_EQ(cores_of({on("a", {0, 1}), on("b", {0, 1})}), (std::vector<std::vector<int>>{{0, 1}, {0, 1}}));
}

TEST(ProcessInfo, WarnsOfRanksThatAreBoundToFewCores) {
  const std::vector<ProcessInfo> bound{on("a", {0}, 80), on("a", {1}, 80)};
  EXPECT_EQ(binding_warnings(bound, hosts_of(bound)),
            (std::vector<std::string>{"host a offers 80 cores, but its 2 ranks can use only 2; start them with `mpirun "
                                      "--bind-to none`, `mpirun --map-by slot:PE=40` or `srun --cpus-per-task=40`"}));
  const std::vector<ProcessInfo> free{on("a", {0, 1}, 2), on("a", {0, 1}, 2)};
  EXPECT_TRUE(binding_warnings(free, hosts_of(free)).empty());
}

void expect_difference(std::string ProcessInfo::*part, const std::string& other, const std::string& message) {
  std::vector<ProcessInfo> all{on("a"), on("b")};
  EXPECT_NO_THROW(check_same(all));
  all[1].*part = other;
  try {
    check_same(all);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUsage);
    EXPECT_EQ(error.message(), message);
  }
}

TEST(ProcessInfo, RefusesProcessesThatDiffer) {
  expect_difference(&ProcessInfo::program, "runner 2",
                    "the processes have different programs: `runner 1` on host a, `runner 2` on host b; install the "
                    "same build on all hosts");
  expect_difference(&ProcessInfo::command, "exec s.yaml",
                    "the processes have different command lines: `exec r.yaml` on host a, `exec s.yaml` on host b; "
                    "start all processes with the same one");
  expect_difference(&ProcessInfo::kernels, "avx512",
                    "the processes have different CPUs: `avx2` on host a, `avx512` on host b; their kernels round "
                    "differently; use hosts of one kind");
}

}  // namespace
}  // namespace runner::train
