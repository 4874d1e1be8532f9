// Failures of the storage below a run, tested through the program: a disk that is full at any moment, and damaged
// checkpoints and stores.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <regex>
#include <set>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/cli/program.h"
#include "schema/base/error.h"
#include "store/queries.h"
#include "store/sqlite.h"
#include "store/store.h"
#include "tests/cli/command.h"
#include "tests/cli/sample_store.h"
#include "tests/store/fault_vfs.h"
#include "tests/support/bytes.h"

namespace runner::cli::testing {
namespace {

namespace fs = std::filesystem;

// 8 optimizer steps, with a checkpoint after every second one.
constexpr const char* kSmall = R"(schema_version: 1
name: small
model: {type: mlp, hidden: [8], dropout: 0.25}
data: {train: {format: synthetic, samples: 32, features: [4], classes: 2}, batch_size: 4}
optimizer: {type: adam, lr: 0.01}
train: {epochs: 1}
checkpoint: {every: 2 steps, keep_last: 3}
log: {every: 1 step}
)";
constexpr int64_t kSteps = 8;

class Faults : public ::testing::Test {
 protected:
  void SetUp() override { write_text(file("r.yaml"), kSmall); }

  fs::path file(const std::string& name) const { return folder_.path() / name; }
  Result run(const std::string& command) const { return run_command(command, folder_.path()); }

  // Returns the final weights of the newest run.
  std::string model() const {
    const Result result = run("runner export @last --model m.safetensors");
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return read_text(file("m.safetensors"));
  }

  // Returns the final weights of a training without faults. `overrides`: more settings for the command line.
  std::string reference_model(const std::string& overrides = "") const {
    const Folder other;
    write_text(other.path() / "r.yaml", kSmall);
    EXPECT_EQ(run_command("runner exec r.yaml --quiet " + overrides, other.path()).exit_code, 0);
    EXPECT_EQ(run_command("runner export @last --model m.safetensors", other.path()).exit_code, 0);
    return read_text(other.path() / "m.safetensors");
  }

  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> contents;
    for (const auto& entry : fs::directory_iterator(folder_.path()))
      contents[entry.path().filename()] = read_text(entry.path());
    return contents;
  }

 private:
  Folder folder_;
};

// ---- full disks ----------------------------------------------------------------------------------------------------

struct Ended {
  int exit_code = 0;
  bool fired = false;  // the fault occurred
  std::string out, err;
  bool trained() const { return !out.empty(); }
};

class FullDisk : public Faults {
 protected:
  // Runs `runner exec` in a child process on a file system with faults, where no file may have more than `largest`
  // bytes.
  Ended exec(const store::FaultVfs::Plan& plan, rlim_t largest = RLIM_INFINITY) {
    std::fflush(nullptr);  // prevents the child from writing data buffered by this process
    const pid_t child = ::fork();
    if (child == 0) {
      const rlimit limit{largest, RLIM_INFINITY};
      ::_exit(::setrlimit(RLIMIT_FSIZE, &limit) == 0 ? exec_here(plan) : 98);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status)) << status;
    return {WEXITSTATUS(status), fs::remove(file("fired")), read_text(file("out")), read_text(file("err"))};
  }

  // If states that were due are missing from the store, a warning must name the first of each sequence.
  void expect_no_state_is_lost_in_silence(const Ended& ended) const {
    if (!ended.trained()) return;
    const std::set<int64_t> saved = saved_steps();
    bool named = false;
    // Saving the last one removed the first one.
    for (int64_t step = saved.contains(kSteps) ? 4 : 2; step <= kSteps; step += 2) {
      const std::string warning = fmt::format("warning: failed to save the state of step {}: ", step);
      named = !saved.contains(step) && (named || ended.err.find(warning) != std::string::npos);
      EXPECT_TRUE(named || saved.contains(step)) << step << "\n" << ended.err;
    }
  }

  // The output must not show an id if the run is not in the store.
  void expect_id_only_of_what_is_recorded(const Ended& ended) const {
    EXPECT_EQ(ended.out.starts_with("run not recorded  small"), ended.trained() && !is_recorded()) << ended.out;
  }

  // With a working disk, resumes the run from what was committed, or starts it again if nothing was.
  void finish() {
    const Result resumed = run("runner resume @last --quiet");
    if (resumed.exit_code != 0) {
      EXPECT_TRUE(resumed.exit_code == 3 || resumed.exit_code == 5) << resumed.err;
      const Result again = run("runner exec r.yaml --quiet");
      EXPECT_EQ(again.exit_code, 0) << again.err;
    }
    EXPECT_EQ(model(), reference_);
    store::Store store = store::Store::open(file("runner.db"), store::Access::kRead);
    EXPECT_EQ(store::metric_points(store, store::find_run(store, "@last"), "train/loss").size(), size_t{kSteps});
    EXPECT_EQ(store.database().query_text("PRAGMA integrity_check"), "ok");
  }

  bool is_recorded() const {
    try {
      store::Store store = store::Store::open(file("runner.db"), store::Access::kRead);
      store::find_run(store, "@last");
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  std::set<int64_t> saved_steps() const {
    std::set<int64_t> steps;
    try {
      store::Store store = store::Store::open(file("runner.db"), store::Access::kRead);
      for (const store::StateInfo& state : store::list_states(store, store::find_run(store, "@last").id))
        steps.insert(state.step);
    } catch (const Error&) {  // no state without a store or run
    }
    return steps;
  }

  void clear() {
    for (const char* suffix : {"", "-wal", "-shm", "-journal"}) fs::remove(file(std::string("runner.db") + suffix));
  }

  const std::string reference_ = reference_model();

 private:
  int exec_here(const store::FaultVfs::Plan& plan) {
    fs::current_path(file("."));
    if (std::freopen("out", "w", stdout) == nullptr || std::freopen("err", "w", stderr) == nullptr) return 99;
    store::FaultVfs vfs;
    vfs.arm(plan);
    const char* words[] = {"runner", "exec", "r.yaml", "--quiet"};
    const int code = run_program(4, words);
    if (vfs.fired()) write_text("fired", "");
    std::fflush(nullptr);
    return code;
  }
};

// A fault at one moment loses at most the checkpoint that was being saved, and saved ones are intact.
TEST_F(FullDisk, AtOneMoment) {
  int64_t went_on = 0, warned = 0;
  for (int64_t n = 1;; n += 13) {
    SCOPED_TRACE(fmt::format("operation {} fails", n));
    clear();
    const Ended ended = exec({.fail_at = n, .code = SQLITE_FULL});
    if (!ended.fired) break;
    EXPECT_TRUE(ended.exit_code == 0 || ended.exit_code == 5) << ended.exit_code;
    if (ended.exit_code == 5) {
      EXPECT_NE(ended.err.find("error: the store runner.db cannot grow: its disk is full; "), std::string::npos)
          << ended.err;
    } else {
      ++went_on;
      warned += ended.err.find("warning: ") != std::string::npos;
    }
    expect_no_state_is_lost_in_silence(ended);
    expect_id_only_of_what_is_recorded(ended);
    finish();
    if (HasFailure()) break;
  }
  EXPECT_GT(went_on, 10);
  EXPECT_GT(warned, 5);
}

TEST_F(FullDisk, FromOneMomentOn) {
  int64_t failed = 0;
  for (int64_t n = 1;; n += 19) {
    SCOPED_TRACE(fmt::format("operations from {} on fail", n));
    clear();
    const Ended ended = exec({.fail_at = n, .code = SQLITE_FULL, .for_good = true});
    if (!ended.fired) break;
    // The last operations only remove the log; the run is complete before them.
    failed += ended.exit_code == 5;
    EXPECT_TRUE(ended.exit_code == 5 || (ended.exit_code == 0 && ended.err.empty())) << ended.err;
    expect_no_state_is_lost_in_silence(ended);
    expect_id_only_of_what_is_recorded(ended);
    finish();
    if (HasFailure()) break;
  }
  EXPECT_GT(failed, 5);
}

// The disk stays full from some file size on, for every size. The run is in the store with its final status, or not at
// all.
TEST_F(FullDisk, EveryRecordedRunHasItsFinalStatus) {
  constexpr rlim_t kStep = 6144;  // one and a half pages, so that some writes are incomplete
  std::map<std::string, int> ended_as;
  for (rlim_t largest = 10 * kStep; ended_as["done"] < 4 && !HasFailure(); largest += kStep) {
    SCOPED_TRACE(fmt::format("files of at most {} bytes", largest));
    clear();
    const Ended ended = exec({}, largest);
    if (!is_recorded()) {
      EXPECT_EQ(ended.exit_code, 5);
      EXPECT_EQ(ended_as.count("failed"), 0u);
      EXPECT_EQ(ended.out, "");  // not trained
      continue;
    }
    store::Store store = store::Store::open(file("runner.db"), store::Access::kRead);
    const std::string status(store::to_string(store::find_run(store, "@last").status));
    EXPECT_EQ(status, ended.exit_code == 0 ? "done" : "failed") << ended.err;
    EXPECT_EQ(ended.exit_code, status == "done" ? 0 : 5) << ended.err;
    EXPECT_EQ(store.database().query_text("PRAGMA integrity_check"), "ok");
    ++ended_as[status];
  }
  EXPECT_GT(ended_as["failed"], 8);
}

// ---- damaged checkpoints -------------------------------------------------------------------------------------------

class DamagedState : public Faults {
 protected:
  // Ids of the states of the newest run, newest first.
  std::vector<int64_t> states() const {
    store::Store store = store::Store::open(file("runner.db"), store::Access::kRead);
    std::vector<int64_t> ids;
    for (const store::StateInfo& state : store::list_states(store, store::find_run(store, "@last").id))
      ids.push_back(state.id);
    return ids;
  }

  // Flips one bit of the first weights of a state in the file.
  void flip_a_bit(int64_t state) const {
    const std::string weights = [&] {
      store::Store store = store::Store::open(file("runner.db"), store::Access::kRead);
      return support::text_of(store::load_state(store, state).at("model/0.weight").bytes);
    }();
    std::string contents = read_text(file("runner.db"));
    int copies = 0;  // free pages may contain old copies
    for (size_t at = 0; (at = contents.find(weights.substr(0, 64), at)) != std::string::npos; ++copies)
      contents[at] = static_cast<char>(contents[at] ^ 1);
    ASSERT_GT(copies, 0);
    write_text(file("runner.db"), contents);
  }

  std::string damage_of(int64_t state) const {
    return fmt::format("state {} in runner.db is damaged: section model/0.weight fails its checksum in chunk 0; ",
                       state);
  }
};

TEST_F(DamagedState, IsReportedAndTheOneBeforeIsUsed) {
  ASSERT_EQ(run("runner exec r.yaml --quiet").exit_code, 0);
  const std::vector<int64_t> ids = states();
  ASSERT_EQ(ids.size(), 3u);
  flip_a_bit(ids[0]);

  const Result exported = run("runner export @last --model m.safetensors");
  EXPECT_EQ(exported.exit_code, 5);
  EXPECT_TRUE(exported.err.starts_with("error: " + damage_of(ids[0]))) << exported.err;
  EXPECT_EQ(run(fmt::format("runner export @last --model m.safetensors --state {}", ids[1])).exit_code, 0);

  const Result resumed = run("runner resume @last train.epochs=2 --quiet");
  EXPECT_EQ(resumed.exit_code, 0);
  EXPECT_TRUE(resumed.err.starts_with("warning: " + damage_of(ids[0]))) << resumed.err;
  EXPECT_EQ(std::ranges::count(resumed.err, '\n'), 1) << resumed.err;
  EXPECT_EQ(model(), reference_model("train.epochs=2"));
  EXPECT_EQ(std::ranges::count(run("runner metrics @last train/loss").out, '\n'), 2 * kSteps);
}

TEST_F(DamagedState, ResumingFailsWithoutAnIntactOne) {
  ASSERT_EQ(run("runner exec r.yaml --quiet").exit_code, 0);
  const std::vector<int64_t> ids = states();
  for (const int64_t id : ids) flip_a_bit(id);
  const auto before = files();
  const Result resumed = run("runner resume @last train.epochs=2 --quiet");
  EXPECT_EQ(resumed.exit_code, 5);
  EXPECT_TRUE(resumed.err.starts_with("error: " + damage_of(ids[0]))) << resumed.err;
  EXPECT_TRUE(files() == before);
}

TEST_F(Faults, DamagedArtifactIsReportedAndNotWritten) {
  make_sample_store(file("runner.db"));
  std::string store = read_text(file("runner.db"));
  int copies = 0;  // free pages may contain old copies
  for (size_t at = 0; (at = store.find("label,errors", at)) != std::string::npos; ++copies) store[at] = 'L';
  ASSERT_GT(copies, 0);
  write_text(file("runner.db"), store);
  const Result exported = run("runner export wine --artifact tables/errors.csv");
  EXPECT_EQ(exported.exit_code, 5);
  EXPECT_EQ(exported.err,
            "error: artifact tables/errors.csv in runner.db is damaged: piece 0 fails its checksum; restore the store "
            "from a backup, or create the artifact again\n");
  EXPECT_FALSE(fs::exists(file("errors.csv")));
}

// Commands that do not need the recipe work without it; those that need it report the damage.
TEST_F(Faults, DamagedRecipeAffectsNothingElse) {
  ASSERT_EQ(run("runner exec r.yaml --quiet").exit_code, 0);
  const std::string whole = run("runner show small").out, weights = model();
  {
    store::Database database(file("runner.db"), store::OpenMode::kReadWrite);
    database.exec("UPDATE recipe SET text = text || ' '");
  }
  const std::string uid = run("runner sql 'SELECT run FROM runs' --format csv | tail -1").out.substr(0, 10);
  const std::string reason = "its recipe: the recipe of run " + uid +
                             " in runner.db is damaged: it fails its checksum; restore the store from a backup, or "
                             "start a new run\n";
  EXPECT_EQ(model(), weights);

  const Result shown = run("runner show small");
  EXPECT_EQ(shown.exit_code, 5);
  EXPECT_EQ(shown.err, "error: shown without " + reason);
  EXPECT_TRUE(shown.out.starts_with(whole.substr(0, 100)));
  for (const char* part :
       {"\nmetric ", "\ntrain/loss ", "\nstate ", "\nparameter ", "\noptimizer.lr ", "\nenvironment"})
    EXPECT_NE(shown.out.find(part), std::string::npos) << part;
  EXPECT_EQ(shown.out.find("recipe hash"), std::string::npos);

  const Result document = run("runner show small --json");
  EXPECT_EQ(document.exit_code, 5);
  EXPECT_NE(document.out.find("\"recipe\": null,"), std::string::npos);
  EXPECT_NE(document.out.find("\"message\": \"the recipe of run "), std::string::npos);
  EXPECT_NE(document.out.find("\"left_out\": [\n    \"recipe\"\n  ]"), std::string::npos) << document.out;

  const Result exported = run("runner export small --folder out");
  EXPECT_EQ(exported.exit_code, 5);
  EXPECT_EQ(exported.err, "wrote out: the run as files, with its environment\nerror: exported without " + reason);
  EXPECT_EQ(run("ls out").out, "events.jsonl\nmetrics.csv\nparams.json\nrun.json\nsummary.json\n");
  EXPECT_NE(run("runner export small --folder out2 --json").out.find("\"error\": {"), std::string::npos);

  for (const char* command : {"resume small", "fork small seed=2", "eval small"}) {
    const Result refused = run(std::string("runner ") + command);
    EXPECT_EQ(refused.exit_code, 5) << command;
    EXPECT_TRUE(refused.err.starts_with("error: the recipe of run ")) << command << refused.err;
  }
  for (const char* command : {"resume small --json", "fork small seed=2 --json"}) {
    const Result refused = run(std::string("runner ") + command);
    EXPECT_TRUE(refused.out.starts_with("{\n  \"run\": \"" + uid + "\",\n  \"name\": \"small\",")) << refused.out;
  }
}

// The environments of the two runs differ in a variable.
TEST_F(Faults, DiffOmitsPartsDamagedInOneRun) {
  ASSERT_EQ(run("runner exec r.yaml --quiet; OMP_NUM_THREADS=3 runner exec r.yaml --quiet name=other seed=9").exit_code,
            0);
  EXPECT_NE(run("runner diff small other").out.find("\nenv.OMP_NUM_THREADS "), std::string::npos);
  {
    store::Database database(file("runner.db"), store::OpenMode::kReadWrite);
    database.exec("UPDATE environment SET json = json || ' ' WHERE json LIKE '%OMP_NUM_THREADS%'");
  }
  const std::string uid =
      run("runner sql \"SELECT run FROM runs WHERE name = 'other'\" --format csv | tail -1").out.substr(0, 10);
  const std::string reason =
      "the environment of attempt 1 in runner.db is damaged: it fails its checksum; restore the store from a backup";
  const Result compared = run("runner diff small other");
  EXPECT_EQ(compared.exit_code, 5);
  EXPECT_EQ(compared.err, "error: compared without the provenance of run " + uid + ": " + reason + "\n");
  EXPECT_NE(compared.out.find("\nseed "), std::string::npos) << compared.out;
  EXPECT_NE(compared.out.find("\n\nthe environments are equal\n\ncost "), std::string::npos) << compared.out;
  EXPECT_NE(compared.out.find("\ntrain/loss "), std::string::npos) << compared.out;

  const Result document = run("runner diff other small --json");
  EXPECT_EQ(document.exit_code, 5);
  EXPECT_NE(document.out.find("\"environment\": {},"), std::string::npos) << document.out;
  EXPECT_NE(document.out.find("\"message\": \"" + reason + "\""), std::string::npos) << document.out;
  EXPECT_NE(document.out.find("\"left_out\": [\n    \"provenance\"\n  ]"), std::string::npos) << document.out;
}

// ---- damaged stores ------------------------------------------------------------------------------------------------

std::string with(std::string bytes, size_t at, const std::string& patch) {
  return bytes.replace(at, patch.size(), patch);
}

// Every command reports the unusable file and the reason, and leaves all files unchanged.
TEST_F(Faults, UnusableStoreIsReportedAndNotChanged) {
  ASSERT_EQ(run("runner exec r.yaml --quiet").exit_code, 0);
  const std::string good = read_text(file("runner.db"));
  constexpr size_t kVersionAt = 60, kProgramAt = 68, kPage = 4096;  // sqlite.org/fileformat2.html
  const std::string damaged = "the store runner.db is damaged: ";
  const std::pair<std::string, std::string> stores[] = {
      {with(good, kVersionAt, {0, 0, 0, 99}),
       "the store runner.db has schema version 99, but this runner supports versions up to "},
      {with(good, kProgramAt, "abcd"), "runner.db is a database of another program "},
      {"not a database, and longer than the header of one: " + std::string(100, '.'),
       "runner.db is not an SQLite database"},
      {good.substr(0, 1000), damaged},
      {good.substr(0, good.size() / 2), damaged},
      {with(good, 100, std::string(kPage - 100, '\xff')), damaged},
      {with(good, kPage, std::string(good.size() - kPage, '\x55')), damaged}};
  for (const auto& [bytes, message] : stores) {
    write_text(file("runner.db"), bytes);
    const auto before = files();
    for (const char* command : {"exec r.yaml", "resume small", "eval small", "predict small r.yaml", "ls", "show small",
                                "metrics small x", "states small", "diff small small", "sql 'SELECT * FROM runs'",
                                "export small --model m", "tag small x", "note small x", "rm small", "gc"}) {
      const Result result = run(std::string("runner ") + command);
      EXPECT_EQ(result.exit_code, 5) << command;
      EXPECT_EQ(result.out, "") << command;
      EXPECT_TRUE(result.err.starts_with("error: " + message)) << command << ": " << result.err;
      EXPECT_TRUE(files() == before) << command;
    }
  }
}

// Another program holds the lock of the store for a noticeable time.
TEST_F(Faults, WaitsForALockedStoreWithANotice) {
  make_sample_store(file("runner.db"));
  store::Database other(file("runner.db"), store::OpenMode::kReadWrite);
  other.configure();
  auto lock = std::make_unique<store::Transaction>(other, store::Transaction::Kind::kWrite);
  std::thread command([&] { EXPECT_EQ(run("runner tag wine patient 2>talk").exit_code, 0); });
  const std::string note = "waiting for another process to release the lock on the store runner.db\n";
  while (!fs::exists(file("talk")) || read_text(file("talk")) != note) std::this_thread::yield();
  lock.reset();
  command.join();
  EXPECT_EQ(read_text(file("talk")), note + "run 0000000aaa has the tag patient\n");
}

// Damages each kind of entry in a persistent cache: the run is the same as without a cache, and the next run finds all
// entries again.
TEST_F(Faults, DamagedPersistentCacheIsReportedAndRepaired) {
  const std::string exec = "runner exec r.yaml --quiet backend=tpu num_processes=1 tpu.persistent_cache=true";
  const auto count = [&](const char* what) {
    return run(fmt::format("runner show @last --json | grep -o '\"{}\": *[0-9]*' | grep -o '[0-9]*$'", what)).out;
  };
  const Result first = run(exec);
  ASSERT_EQ(first.exit_code, 0) << first.err;
  const std::string weights = model(), graphs = count("PersistentCacheMiss");
  ASSERT_NE(graphs, "0\n");
  for (const char* damage : {"substr(entry, 1, length(entry) / 2)", "x'00'", "CAST(entry || x'00' AS BLOB)"}) {
    {
      store::Database database(file("runner.db"), store::OpenMode::kReadWrite);
      database.exec(fmt::format("UPDATE compiled_graph SET entry = {}", damage));
    }
    const Result result = run(exec);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const std::regex damaged(
        "warning: tpu.persistent_cache: entry [0-9a-f]{64} of runner.db is damaged: checksum mismatch; compiling graph "
        "[0-9a-f]{32} again\n");
    EXPECT_TRUE(std::regex_search(result.err, damaged)) << result.err;
    EXPECT_EQ(count("PersistentCacheDeserializeFailure"), graphs);
    EXPECT_EQ(model(), weights);
    const Result repaired = run(exec);
    EXPECT_EQ(repaired.err, first.err);
    EXPECT_EQ(count("PersistentCacheHit"), graphs);
    EXPECT_EQ(model(), weights);
  }
}

// A signal ends the wait for the lock. A run that has not begun has no state; a resumed run keeps the state that it
// had.
TEST_F(Faults, InterruptedWaitPromisesNoState) {
  ASSERT_EQ(run("runner exec r.yaml --quiet train.epochs=2").exit_code, 0);
  store::Database other(file("runner.db"), store::OpenMode::kReadWrite);
  other.configure();
  const store::Transaction lock(other, store::Transaction::Kind::kWrite);
  const std::string interrupted =
      "error: interrupted while another process held the lock on the store runner.db; nothing was recorded\n";
  for (const auto& [command, code] :
       {std::pair("exec r.yaml", 1), std::pair("fork small seed=2", 1), std::pair("resume small train.epochs=3", 4)}) {
    const Result result =
        run(fmt::format(": >talk; runner {} --json 2>talk & pid=$!; until grep -q waiting talk; do :; "
                        "done; kill -TERM $pid; wait $pid",
                        command));
    EXPECT_EQ(result.exit_code, code) << command;
    EXPECT_EQ(read_text(file("talk")),
              "waiting for another process to release the lock on the store runner.db\ninterrupt: stopping before the "
              "first step; press Ctrl-C again to stop now\n" +
                  interrupted)
        << command;
    EXPECT_NE(result.out.find(fmt::format("\"exit_code\": {},", code)), std::string::npos) << result.out;
  }
}

}  // namespace
}  // namespace runner::cli::testing
