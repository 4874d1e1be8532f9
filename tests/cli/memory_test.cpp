// Compares estimated and measured memory with the memory of the process according to the system.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cli/command.h"
#include "tests/support/json.h"
#include "tests/support/paths.h"
#include "tests/support/sanitizers.h"

namespace runner::cli::testing {
namespace {

using support::Json;

// Returns the peak resident memory of a process of the program, which must succeed.
int64_t resident_bytes_of(const std::filesystem::path& folder, std::vector<std::string> words) {
  std::vector<char*> arguments;
  words.insert(words.begin(), "runner");
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::chdir(folder.c_str()) != 0 || std::freopen("/dev/null", "w", stdout) == nullptr) ::_exit(99);
    ::execv(support::build_path("bin/runner").c_str(), arguments.data());
    ::_exit(99);
  }
  int status = 0;
  rusage used{};
  ::wait4(child, &status, 0, &used);
  EXPECT_EQ(status, 0);
  return used.ru_maxrss * 1024;
}

constexpr const char* kSmallRecipe = R"(schema_version: 1
name: small
model: {type: mlp, hidden: [16]}
data: {train: {format: synthetic, samples: 64, features: [8], classes: 3}, batch_size: 16}
optimizer: {type: adam, lr: 0.01}
train: {epochs: 1}
)";

constexpr const char* kMemoryRecipe = R"(schema_version: 1
seed: 1
model: {type: mlp, hidden: [16]}
data: {train: {format: synthetic, samples: 64, features: [512], classes: 10}, batch_size: 32}
optimizer: {type: adamw, lr: 0.001}
train: {epochs: 1}
)";

// Compares two runs, because the program itself takes the same memory in both.
TEST(Memory, EstimateMatchesTheSystem) {
  const Folder folder;
  write_text(folder.path() / "r.yaml", kMemoryRecipe);
  const std::vector<std::string> small{"exec", "r.yaml", "--quiet"},
      large{"exec", "r.yaml", "--quiet", "model.hidden=[4096,512]"};
  const Json estimate =
      Json::parse(run_command("runner estimate r.yaml 'model.hidden=[4096,512]' --json", folder.path()).out);
  const Json peak = estimate["precisions"][0]["peak"];
  const auto grown =
      static_cast<double>(resident_bytes_of(folder.path(), large) - resident_bytes_of(folder.path(), small));
  EXPECT_GT(peak["training"].number(), 50e6);
  if (support::kSanitized) return;  // a sanitizer allocates memory of its own
  EXPECT_GT(grown, 0.95 * peak["training"].number());
  EXPECT_LT(grown, 1.2 * peak["saving"].number());
}

// A plan that is too long to print is rejected before its memory is allocated.
TEST(Memory, RejectedPlanAllocatesNoIndices) {
  const Folder folder;
  write_text(folder.path() / "r.yaml", kMemoryRecipe);
  const std::string limit = support::kSanitized ? "" : "ulimit -v 2000000; ";
  const Result refused =
      run_command(limit + "runner plan r.yaml data.train.samples=2000000000 --json --batches", folder.path());
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_EQ(refused.err,
            "error: --batches: an epoch has 2000000000 indices, but at most 100000000 can be printed; omit --batches "
            "or use fewer samples\n");
}

// Each limit either suffices or is named in an error: nothing hangs, and no signal ends the program.
TEST(Memory, SmallLimitsAreErrors) {
  if (support::kSanitized) GTEST_SKIP() << "a sanitizer needs memory and descriptors of its own";
  const Folder folder;
  write_text(folder.path() / "r.yaml", kSmallRecipe);
  write_text(folder.path() / "try.sh", R"(limit=$1; value=$2; shift 2
(ulimit $limit $value; exec timeout -s KILL 60 runner "$@" --quiet) 2>error >/dev/null
code=$?
case $code in
  0) ;;
  1 | 2 | 5) grep -q error: error || echo "$limit $value $*: no error" ;;
  *) echo "$limit $value $*: exit code $code" ;;
esac
! grep 'please report\|internal error\|Invalid argument' error
)");
  int least = 50'000;  // KiB; with less, the loader or a library fails before main()
  while (run_command(fmt::format("ulimit -v {}; exec runner version", least), folder.path()).exit_code != 0)
    least += 500;
  std::string script;
  for (const char* device : {"backend=cpu", "backend=gpu", "num_processes=2", "'backend=tpu' num_processes=2"}) {
    for (int kib = least; kib < 130'000; kib += 4000)
      script += fmt::format("sh try.sh -v {} exec r.yaml threads=3 {}\n", kib, device);
    for (int files = 4; files < 14; ++files) script += fmt::format("sh try.sh -n {} exec r.yaml {}\n", files, device);
  }
  for (const int kib : {64, 96, 128, 256}) script += fmt::format("sh try.sh -s {} exec r.yaml threads=3\n", kib);
  for (const int mib : {100, 1000, 4000, 8000})
    script += fmt::format("sh try.sh -v {} exec r.yaml threads=1024\n", mib * 1024);
  const Result result = run_command(script, folder.path());
  EXPECT_EQ(result.out, "");
}

// A program whose allocation fails ends with an error, or does without. One failure, then all from one moment on. The
// moments are close to each other at first, where each allocation is in another place of the program.
TEST(Memory, FailedAllocationsAreErrors) {
  if (support::kSanitized) GTEST_SKIP() << "a sanitizer has an allocator of its own";
  const Folder folder;
  write_text(folder.path() / "r.yaml", kSmallRecipe);
  const std::string command = "timeout -s KILL 60 env LD_PRELOAD=" + support::build_path("bin/failing_malloc.so") +
                              " runner exec r.yaml --quiet threads=2 num_processes=2";
  const std::string counted = run_command("FAIL_COUNT=1 " + command, folder.path()).err;
  constexpr std::string_view kLabel = "allocations: ";
  const size_t at = counted.rfind(kLabel);  // of rank 0, which ends last
  ASSERT_NE(at, std::string::npos) << counted;
  const int64_t total = std::stoll(counted.substr(at + kLabel.size()));
  ASSERT_GT(total, 10'000);
  std::string script = R"(try() {
  FAIL_FROM=$1 FAIL_TO=$2 )" +
                       command + R"( 2>error >/dev/null
  code=$?
  case $code in
    0) ;;
    1 | 2 | 5) grep -q error: error || echo "$1 to $2: no error" ;;
    *) echo "$1 to $2: exit code $code" ;;
  esac
  grep 'please report\|internal error' error
}
)";
  double from = 1;
  while (from < static_cast<double>(total)) {
    script += fmt::format("try {0} {0}\ntry {0} 1000000000\n", static_cast<int64_t>(from));
    from = from * 1.12 + 3;
  }
  EXPECT_EQ(run_command(script, folder.path()).out, "");
}

// Other processes are only counted; nothing is allocated for them.
TEST(Memory, EstimatesThousandsOfProcessesInOne) {
  const Folder folder;
  write_text(folder.path() / "r.yaml", kMemoryRecipe);
  const int64_t resident = resident_bytes_of(folder.path(), {"estimate", "r.yaml", "num_processes=4096"});
  if (support::kSanitized) return;  // a sanitizer allocates memory of its own
  EXPECT_LT(resident, int64_t{512} << 20);
}

// Each array would fit alone; weights and optimizer do not fit together.
TEST(Memory, AModelThatDoesNotFitIsRefusedBeforeItIsAllocated) {
  if (support::kSanitized) GTEST_SKIP() << "sanitizers need the address space";
  const Folder folder;
  write_text(folder.path() / "r.yaml", kMemoryRecipe);
  const Result ended = run_command(
      "ulimit -v 2000000; runner exec r.yaml data.train.classes=16000000 model.hidden=[12] threads=1 --quiet",
      folder.path());
  EXPECT_EQ(ended.exit_code, 2);
  EXPECT_NE(ended.err.find("error: out of memory: tensors need 2.3 GiB, but this machine has "), std::string::npos)
      << ended.err;
}

}  // namespace
}  // namespace runner::cli::testing
