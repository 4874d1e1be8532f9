// Provenance of runs: the git state of a folder, including all failures, and its path through exec, show, diff and sql.
#include "runner/report/provenance.h"

#include <chrono>
#include <cstdlib>
#include <thread>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/cli/command.h"

namespace runner::cli::testing {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr const char* kUntracked = R"(schema_version: 1
name: small
model: {type: linear}
data: {train: {format: synthetic, samples: 8, features: [2], classes: 2}, batch_size: 4}
optimizer: {type: sgd, lr: 0.1}
train: {epochs: 1}
)";

// Sets a variable of this process and restores it in the destructor.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    ::setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_.empty() ? ::unsetenv(name_) : ::setenv(name_, before_.c_str(), 1); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string before_;
};

class Git : public ::testing::Test {
 protected:
  void SetUp() override {
    if (run_command("git --version", path()).exit_code != 0) GTEST_SKIP() << "git is not installed";
  }

  const fs::path& path() const { return folder_.path(); }

  void git(const std::string& command) const {
    const Result result = run_command(
        "git -c user.name=x -c user.email=x@example.org -c init.defaultBranch=main -c commit.gpgsign=false " + command,
        path());
    EXPECT_EQ(result.exit_code, 0) << command << result.err;
  }

  void make_repository() const {
    git("init -q");
    write_text(path() / "r.yaml", kUntracked);
    git("add r.yaml");
    git("commit -q -m first");
  }

  std::string head() const {
    const std::string text = run_command("git rev-parse HEAD", path()).out;
    return text.substr(0, text.find('\n'));
  }

  report::GitFindings inspect(std::chrono::milliseconds limit = 10s) const {  // long limit for slow machines
    return report::inspect_git(path().string(), limit);
  }

 private:
  Folder folder_;
  // Ignores repositories above the folder for temporary files.
  Variable ceiling_{"GIT_CEILING_DIRECTORIES", fs::temp_directory_path().string()};
};

TEST_F(Git, CleanRepository) {
  make_repository();
  const auto [state, diff] = inspect();
  EXPECT_EQ(state.commit, head());
  EXPECT_EQ(state.branch, "main");
  EXPECT_EQ(state.dirty, false);
  EXPECT_TRUE(state.untracked.empty());
  EXPECT_EQ(state.note, "");
  EXPECT_EQ(diff, "");
}

TEST_F(Git, UncommittedChangesAndUntrackedFiles) {
  make_repository();
  write_text(path() / "r.yaml", std::string(kUntracked) + "seed: 7\n");
  write_text(path() / "a b.txt", "x");
  fs::create_directory(path() / "sub");
  write_text(path() / "sub/c.txt", "x");
  const auto [state, diff] = inspect();
  EXPECT_EQ(state.dirty, true);
  EXPECT_EQ(state.untracked, (std::vector<std::string>{"a b.txt", "sub/"}));
  EXPECT_TRUE(diff.starts_with("diff --git a/r.yaml b/r.yaml\n")) << diff;
  EXPECT_TRUE(diff.ends_with("+seed: 7\n")) << diff;
  // A staged change counts as a change, and a renamed file is one entry with two names.
  git("mv r.yaml s.yaml");
  const auto [staged, more] = inspect();
  EXPECT_EQ(staged.dirty, true);
  EXPECT_EQ(staged.untracked.size(), 2u);
  EXPECT_NE(more.find("rename to s.yaml\n"), std::string::npos) << more;
}

// Nothing is written, not even the index, and no program configured in the repository runs.
TEST_F(Git, DoesNotWriteOrRunPrograms) {
  make_repository();
  for (const char* program : {"diff.external", "core.fsmonitor", "core.pager", "diff.x.textconv"})
    git(fmt::format("config {} 'touch {}/ran'", program, path().string()));
  write_text(path() / ".gitattributes", "*.yaml diff=x\n");
  write_text(path() / "r.yaml", std::string(kUntracked) + "seed: 7\n");
  const std::string index = read_text(path() / ".git/index");
  EXPECT_NE(inspect().diff, "");
  EXPECT_FALSE(fs::exists(path() / "ran"));
  EXPECT_EQ(read_text(path() / ".git/index"), index);
}

TEST_F(Git, DetachedHeadAndNoCommit) {
  git("init -q");
  write_text(path() / "r.yaml", kUntracked);
  EXPECT_EQ(inspect().state.commit, "");
  EXPECT_EQ(inspect().state.note, "no commit yet");
  EXPECT_EQ(inspect().state.branch, "main");
  make_repository();
  git("checkout -q --detach");
  EXPECT_EQ(inspect().state.branch, "");
  EXPECT_EQ(inspect().state.commit, head());
  EXPECT_EQ(inspect().state.note, "");
}

TEST_F(Git, LimitsTheRecordedSize) {
  make_repository();
  for (int i = 0; i < 103; ++i) write_text(path() / fmt::format("u{}", i), "x");
  std::string large = kUntracked;
  while (large.size() < 2 * report::kLargestDiff) large += "# a line of which there are many\n";
  write_text(path() / "r.yaml", large);
  const auto [state, diff] = inspect();
  EXPECT_EQ(state.untracked.size(), report::kMaxUntracked);
  EXPECT_EQ(diff.size(), report::kLargestDiff);
  EXPECT_EQ(state.note, "103 untracked files, 100 of them listed; diff truncated after 256 KiB");
}

TEST_F(Git, NoRepository) {
  EXPECT_EQ(inspect().state.note, "no git repository");
  EXPECT_EQ(inspect().state.commit, "");
  EXPECT_EQ(inspect().state.dirty, std::nullopt);
  EXPECT_EQ(report::inspect_git((path() / "none").string(), 10s).state.note,
            fmt::format("fatal: cannot change to '{}': No such file or directory", (path() / "none").string()));
}

TEST_F(Git, NotInstalled) {
  const Variable nowhere("PATH", path().string());
  EXPECT_EQ(inspect().state.note, "git is not installed");
}

// A git that does not answer is killed with its child processes after the time limit.
TEST_F(Git, KillsAGitThatDoesNotAnswer) {
  const std::string outside = std::getenv("PATH");
  fs::create_directory(path() / "bin");
  write_text(path() / "bin/git",
             fmt::format("#!/bin/sh\nPATH='{}'\nsleep 1000 & echo $! > {}/pid\nwait\n", outside, path().string()));
  fs::permissions(path() / "bin/git", fs::perms::owner_all);
  const Variable fake("PATH", (path() / "bin").string());
  const auto start = std::chrono::steady_clock::now();
  std::string note = inspect(300ms).state.note;
  EXPECT_LT(std::chrono::steady_clock::now() - start, 100s);
  EXPECT_EQ(note, "git did not answer within 300 ms");
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);  // no child is left
  const int started = std::atoi(read_text(path() / "pid").c_str());
  if (started == 0) return;  // the machine was too slow to start it
  // The init process reaps the orphan, so it is soon gone, or a zombie.
  const std::string stat = fmt::format("/proc/{}/stat", started);
  const auto lives = [&] {
    const std::string text = fs::exists(stat) ? read_text(stat) : "";
    return text.find(") ") != std::string::npos && text.find(") Z") == std::string::npos &&
           text.find(") X") == std::string::npos;
  };
  while (lives() && std::chrono::steady_clock::now() - start < 100s) std::this_thread::yield();
  EXPECT_FALSE(lives());
}

// ---- through the program --------------------------------------------------------------------------------------------

class ProvenanceOfRuns : public Git {
 protected:
  Result run(const std::string& command) const { return run_command(command, path()); }
  std::string sql(const std::string& query) const { return run("runner sql \"" + query + "\" --format csv").out; }
};

TEST_F(ProvenanceOfRuns, IsRecordedShownAndCompared) {
  make_repository();
  write_text(path() / ".git/info/exclude", "runner.db*\n");  // the SQLite log is created and removed
  fs::create_directory(path() / "recipes");
  write_text(path() / "recipes/base.yaml", kUntracked);
  write_text(path() / "recipes/child.yaml", "include: base.yaml\nseed: 3\n");
  ASSERT_EQ(run("OMP_NUM_THREADS=1 runner exec recipes/child.yaml --quiet").exit_code, 0);
  write_text(path() / "recipes/base.yaml", std::string(kUntracked) + "# changed\n");
  write_text(path() / "r.yaml", std::string(kUntracked) + "# changed\n");
  ASSERT_EQ(run("OMP_NUM_THREADS=2 runner exec recipes/child.yaml --quiet").exit_code, 0);

  EXPECT_EQ(sql("SELECT git_commit, git_branch, git_dirty, git_untracked, git_note FROM attempts ORDER BY started"),
            fmt::format("git_commit,git_branch,git_dirty,git_untracked,git_note\n"
                        "{0},main,0,\"[\"\"recipes/\"\"]\",\n"
                        "{0},main,1,\"[\"\"recipes/\"\"]\",\n",
                        head()));
  EXPECT_EQ(
      sql("SELECT kind, text LIKE '%# changed%' AS changed FROM sources JOIN runs USING (run) ORDER BY created, kind"),
      "kind,changed\ninclude,0\ndiff,1\ninclude,1\n");
  EXPECT_EQ(sql("SELECT value FROM environments WHERE key = 'env.OMP_NUM_THREADS' ORDER BY value"), "value\n1\n2\n");

  const std::string shown = run("runner show @last").out;
  EXPECT_NE(shown.find(fmt::format("\ngit           {}, branch main, uncommitted changes, 1 untracked file\n",
                                   head().substr(0, 12))),
            std::string::npos)
      << shown;
  EXPECT_NE(shown.find("\ninclude  recipes/base.yaml "), std::string::npos) << shown;
  EXPECT_NE(shown.find("\nenv.OMP_NUM_THREADS  2\n"), std::string::npos) << shown;

  std::string first = sql("SELECT run FROM runs ORDER BY created LIMIT 1");
  first = first.substr(4, 10);
  const std::string compared = run("runner diff " + first + " @last").out;
  for (const char* key : {"\nenv.OMP_NUM_THREADS ", "\ngit.diff ", "\ninclude recipes/base.yaml "})
    EXPECT_NE(compared.find(key), std::string::npos) << key << compared;
  for (const char* key : {"git.commit", "compiler", "cpu"})
    EXPECT_EQ(compared.find(key), std::string::npos) << compared;
}

TEST_F(ProvenanceOfRuns, IsRecordedIfTheRunFailsBeforeItsFirstStep) {
  make_repository();
  write_text(path() / "huge.csv", "x,y,label\n3e38,1,0\n3e38,-1,1\n-3e38,1,0\n3e38,2,1\n");
  std::string recipe = kUntracked;
  const std::string synthetic = "{format: synthetic, samples: 8, features: [2], classes: 2}";
  recipe.replace(recipe.find(synthetic), synthetic.size(), "{format: csv, path: huge.csv, label: label}");
  write_text(path() / "r.yaml", recipe);
  const Result result = run("runner exec r.yaml --quiet");
  EXPECT_EQ(result.exit_code, 1) << result.err;
  EXPECT_NE(result.err.find("the loss of step 1 is not finite"), std::string::npos) << result.err;
  EXPECT_EQ(sql("SELECT status, git_branch FROM attempts"), "status,git_branch\nfailed,main\n");
}

TEST_F(ProvenanceOfRuns, ResumedRunUsesTheFolderOfItsRecipe) {
  make_repository();
  ASSERT_EQ(run("runner exec r.yaml --quiet").exit_code, 0);
  fs::create_directory(path() / "elsewhere");
  ASSERT_EQ(run("GIT_CEILING_DIRECTORIES= runner resume @last train.epochs=2 --quiet").exit_code, 0);
  EXPECT_EQ(sql("SELECT attempt, git_commit FROM attempts"), fmt::format("attempt,git_commit\n1,{0}\n2,{0}\n", head()));
}

}  // namespace
}  // namespace runner::cli::testing
