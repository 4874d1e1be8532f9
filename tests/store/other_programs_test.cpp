// The views of a store in other programs: through SQLite's C interface without our functions, in its shell, and in
// Python, as docs/store.md promises.
#include <array>
#include <cstdio>
#include <memory>
#include <random>
#include <sstream>

#include <gtest/gtest.h>
#include <sqlite3.h>
#include <sys/wait.h>

#include "store/metric_tables.h"
#include "store/run_writer.h"
#include "store/sqlite.h"
#include "tests/store/sample_values.h"
#include "tests/store/temp_store.h"
#include "tests/support/sanitizers.h"

namespace runner::store {
namespace {

// The sums show that every point is returned exactly once.
constexpr const char* kQuestion = "SELECT metric, count(*), sum(step), sum(value) FROM points GROUP BY metric";
constexpr const char* kAnswer = "accuracy|1|3|0.5\nloss|600|180300|45075.0\n";

class OtherPrograms : public StoreTest {
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

// Names of the views, one per line.
constexpr const char* kViewNames = "SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name";

TEST_F(OtherPrograms, ReadEveryViewWithoutOurFunctions) {
  const Handle handle = open_plain(path);
  std::istringstream views(ask(handle, kViewNames));
  int count = 0;
  for (std::string view; std::getline(views, view); ++count)
    EXPECT_EQ(ask(handle, ("SELECT count(*) >= 0 FROM (SELECT * FROM " + view + ")").c_str()), "1\n") << view;
  EXPECT_GT(count, 10);
  EXPECT_EQ(ask(handle, kQuestion), kAnswer);
  EXPECT_EQ(ask(handle, "SELECT step, value FROM points WHERE metric = 'loss' AND step = 513"), "513|128.25\n");
}

TEST_F(OtherPrograms, ReadPointsAsSoonAsTheyAreCommitted) {
  RunWriter writer(open_to_write(), sample_run("second"));
  const Handle handle = open_plain(path);
  std::string expected;
  for (int64_t step = 1; step <= 1100; ++step) {  // over several chunks
    writer.push(writer.series("loss"), step * step, static_cast<double>(step) + 0.5);
    expected += fmt::format("{}|{}.5\n", step * step, step);
    if (step % 97 != 0) continue;
    writer.flush();
    EXPECT_EQ(ask(handle, "SELECT step, value FROM points WHERE name = 'second'"), expected) << step;
  }
}

// Each point has its own time, and times are neither even nor increasing.
TEST_F(OtherPrograms, ReadStepsAndTimesExactly) {
  Store store = open_to_write();
  MetricTables tables(store.database());
  std::mt19937_64 random(1);
  std::vector<Point> points(kChunkPoints);
  int64_t step = -1000, time_ms = 1'700'000'000'000;
  std::string expected;
  for (Point& point : points) {
    point = {step += static_cast<int64_t>(random() % 1000), time_ms += static_cast<int64_t>(random() % 100'000) - 1000,
             -0.5};
    expected += fmt::format("{}|{}\n", point.step, point.time_ms);
  }
  MetricSummary summary;
  summary.name = "uneven";
  for (const Point& point : points) summary.add(point);
  {
    Transaction transaction(store.database(), Transaction::Kind::kWrite);
    tables.put_chunk(tables.put_summary(1, summary), 0, points);
    transaction.commit();
  }
  EXPECT_EQ(ask(open_plain(path), "SELECT step, time_ms FROM points WHERE metric = 'uneven'"), expected);
}

// A point takes about 14 bytes in the file.
TEST_F(OtherPrograms, PointsTakeFewBytes) {
  const auto size = [&] {
    Store store = open_to_write();
    store.checkpoint(1);
    return static_cast<double>(fs::file_size(path));
  };
  const double before = size();
  constexpr int64_t kSteps = 20'000;
  {
    RunWriter writer(open_to_write(), sample_run("long"));
    for (int64_t step = 1; step <= kSteps; ++step)
      for (const char* metric : {"a", "b", "c", "d", "e"}) {
        const SeriesIndex series = writer.series(metric);
        while (!writer.push(series, 10 * step, loss_of(step))) writer.flush();
        if (step % 100 == 0) writer.flush();  // chunks grow in place
      }
    writer.finish({RunStatus::kDone, 0, "", "{}"});
  }
  EXPECT_LE((size() - before) / (5 * kSteps), 24.0);
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

TEST_F(OtherPrograms, TheShellReadsEveryView) {
  if (support::kSanitized || run_program("sqlite3 -version").exit_code != 0) GTEST_SKIP() << "sqlite3 is not installed";
  const auto shell = [&](const std::string& sql) {
    const ProgramOutput output = run_program(fmt::format("sqlite3 -readonly '{}' \"{}\"", path.string(), sql));
    EXPECT_EQ(output.exit_code, 0) << output.text;
    return output.text;
  };
  EXPECT_EQ(shell(kQuestion), kAnswer);
  std::istringstream views(shell(kViewNames));
  for (std::string view; std::getline(views, view);) shell("SELECT * FROM " + view);
}

TEST_F(OtherPrograms, PythonReadsEveryView) {
  if (support::kSanitized || run_program("python3 -c 'import sqlite3'").exit_code != 0)
    GTEST_SKIP() << "no python3 with sqlite3 is installed";
  write_file(folder / "read.py", fmt::format(R"(import sqlite3
db = sqlite3.connect("file:{}?mode=ro", uri=True)
for (view,) in db.execute("{}").fetchall():
    db.execute(f"SELECT * FROM {{view}}").fetchall()
for row in db.execute("{}"):
    print(*row, sep="|")
)",
                                             path.string(), kViewNames, kQuestion));
  const ProgramOutput output = run_program("python3 " + (folder / "read.py").string());
  EXPECT_EQ(output.text, kAnswer);
  EXPECT_EQ(output.exit_code, 0);
}

}  // namespace
}  // namespace runner::store
