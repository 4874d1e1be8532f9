// The view `points` in other programs: loads the extension through SQLite's C interface, in its shell and in Python, as
// described in docs/store.md.
#include <array>
#include <cstdio>
#include <memory>

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include "store/run_writer.h"
#include "store/sqlite.h"
#include "tests/store/temp_store.h"
#include "tests/support/paths.h"
#include "tests/support/sanitizers.h"

namespace runner::store {
namespace {

const std::string kExtension = support::build_path("lib/runner_points.so");
// The sums show that every point is returned exactly once.
constexpr const char* kQuestion = "SELECT metric, count(*), sum(step), sum(value) FROM points GROUP BY metric";
constexpr const char* kAnswer = "accuracy|1|3|0.5\nloss|600|180300|45075.0\n";

class PointsExtension : public StoreTest {
 protected:
  void SetUp() override {
    RunWriter writer(open_to_write(), sample_run());
    for (int64_t step = 1; step <= 600; ++step)
      writer.push(writer.series("loss"), step, 0.25 * static_cast<double>(step));
    writer.push(writer.series("accuracy"), 3, 0.5);
    writer.finish({RunStatus::kDone, 0, "", "{}"});
  }
};

struct Close {
  void operator()(sqlite3* handle) const { sqlite3_close(handle); }
};
using Handle = std::unique_ptr<sqlite3, Close>;

// Opens a store as any other program would.
Handle open_plain(const fs::path& path) {
  sqlite3* handle = nullptr;
  EXPECT_EQ(sqlite3_open_v2(path.c_str(), &handle, SQLITE_OPEN_READONLY, nullptr), SQLITE_OK);
  return Handle(handle);
}

void load(const Handle& handle) {
  char* message = nullptr;
  sqlite3_enable_load_extension(handle.get(), 1);
  EXPECT_EQ(sqlite3_load_extension(handle.get(), kExtension.c_str(), nullptr, &message), SQLITE_OK) << message;
  sqlite3_free(message);
}

// Returns rows with columns separated by |, or the error message.
std::string ask(const Handle& handle, const char* sql) {
  std::string text;
  const auto add_row = [](void* out, int columns, char** values, char**) {
    std::string& result = *static_cast<std::string*>(out);
    for (int i = 0; i < columns; ++i) result += (i == 0 ? "" : "|") + std::string(values[i] ? values[i] : "null");
    result += '\n';
    return 0;
  };
  char* message = nullptr;
  if (sqlite3_exec(handle.get(), sql, add_row, &text, &message) != SQLITE_OK) text = message;
  sqlite3_free(message);
  return text;
}

TEST_F(PointsExtension, LoadsIntoAConnection) {
  const Handle handle = open_plain(path);
  EXPECT_EQ(ask(handle, kQuestion), "no such table: main.chunk_points");
  load(handle);
  EXPECT_EQ(ask(handle, kQuestion), kAnswer);
  EXPECT_EQ(ask(handle, "SELECT step, value FROM points WHERE metric = 'loss' AND step = 513"), "513|128.25\n");
}

// The function is marked innocuous, so views may use it even if the schema is untrusted.
TEST_F(PointsExtension, WorksWithAnUntrustedSchema) {
  const Handle handle = open_plain(path);
  load(handle);
  EXPECT_EQ(ask(handle, "PRAGMA trusted_schema = OFF"), "");
  EXPECT_EQ(ask(handle, kQuestion), kAnswer);
}

TEST_F(PointsExtension, ReportsADamagedChunk) {
  {
    Database database(path, OpenMode::kReadWrite);
    // Changes the last byte, which belongs to the checksum.
    database.exec(
        "UPDATE chunk SET data = CAST(substr(data, 1, length(data) - 1) || "
        "CASE WHEN substr(data, -1) = X'00' THEN X'01' ELSE X'00' END AS BLOB) WHERE no = 1");
  }
  const Handle handle = open_plain(path);
  load(handle);
  EXPECT_EQ(ask(handle, kQuestion), "a chunk of metric points is damaged");
  EXPECT_EQ(ask(handle, "SELECT count(*) FROM points WHERE metric = 'accuracy'"), "1\n");
}

TEST_F(PointsExtension, ReadsWhileARunIsBeingRecorded) {
  RunWriter writer(open_to_write(), sample_run("second"));
  writer.push(writer.series("loss"), 1, 1.5);
  writer.flush();
  const Handle handle = open_plain(path);
  load(handle);
  EXPECT_EQ(ask(handle, "SELECT value FROM points WHERE name = 'second'"), "1.5\n");
  writer.push(writer.series("loss"), 2, 2.5);
  writer.flush();
  EXPECT_EQ(ask(handle, "SELECT value FROM points WHERE name = 'second'"), "1.5\n2.5\n");
}

// ---- other programs ------------------------------------------------------------------------------------------------

struct ProgramOutput {
  int exit_code = 0;
  std::string text;
};

ProgramOutput run_program(const std::string& command) {
  ProgramOutput output;
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> buffer{};
  for (size_t n = 0; (n = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) output.text.append(buffer.data(), n);
  const int status = ::pclose(pipe);
  output.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return output;
}

TEST_F(PointsExtension, LoadsIntoTheShell) {
  if (support::kSanitized || run_program("sqlite3 -version").exit_code != 0) GTEST_SKIP() << "sqlite3 is not installed";
  const ProgramOutput output =
      run_program(fmt::format("sqlite3 -readonly '{}' '.load {}' \"{}\"", path.string(), kExtension, kQuestion));
  EXPECT_EQ(output.text, kAnswer);
  EXPECT_EQ(output.exit_code, 0);
}

// Some builds of Python do not support SQLite extensions.
TEST_F(PointsExtension, LoadsIntoPython) {
  std::string python;
  for (const char* name : {"python3", "/usr/bin/python3"}) {
    const std::string probe = std::string(name) + " -c 'import sqlite3; sqlite3.Connection.enable_load_extension'";
    if (python.empty() && run_program(probe).exit_code == 0) python = name;
  }
  if (support::kSanitized || python.empty())
    GTEST_SKIP() << "no python3 whose sqlite3 supports extensions is installed";
  write_file(folder / "read.py",
             fmt::format(R"(import sqlite3
db = sqlite3.connect("file:{}?mode=ro", uri=True)
db.enable_load_extension(True)
db.load_extension("{}")
for row in db.execute("{}"):
    print(*row, sep="|")
)",
                         path.string(), fs::path(kExtension).replace_extension().string(), kQuestion));
  const ProgramOutput output = run_program(python + " " + (folder / "read.py").string());
  EXPECT_EQ(output.text, kAnswer);
  EXPECT_EQ(output.exit_code, 0);
}

}  // namespace
}  // namespace runner::store
