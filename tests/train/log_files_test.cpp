// Log files of a run: the same points as in the store, line by line; several runs and attempts in one file; files that
// cannot be written, and readers that do not read.
#include "runner/train/run/log_files.h"

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runner/formats/tensorboard.h"
#include "schema/base/error.h"
#include "tests/support/full_disk.h"
#include "tests/support/json.h"
#include "tests/support/lines.h"
#include "tests/support/temp_folder.h"
#include "tests/support/thrown_text.h"
#include "tests/train/run_fixture.h"

namespace runner::train {
namespace {

const std::string kLogged = std::string(kFourEpochs) +
                            R"(log: {every: 1 step, csv: logs/points.csv, jsonl: logs/points.jsonl, tensorboard: events}
checkpoint: {every: 5 steps}
)";

std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == ',') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

std::string message_of(const std::function<void()>& work) {
  return support::thrown_text(work, ErrorKind::kData);
}

class LogFilesTest : public RunFixture {
 protected:
  std::string text(const std::string& file) const { return support::read_text(path(file)); }
  std::vector<std::string> lines(const std::string& file) const { return support::lines_of(text(file)); }
  std::string at(const std::string& file) const { return path(file).string(); }

  // The values of each metric by step, of one attempt of a run, in the order of the lines.
  using Series = std::map<std::string, std::vector<std::pair<int64_t, double>>>;
  Series series(const std::string& file, const std::string& run, const std::string& attempt) const {
    Series found;
    for (const std::string& line : lines(file)) {
      const std::vector<std::string> fields = split(line);
      if (fields.at(0) == run && fields.at(1) == attempt)
        found[fields.at(2)].emplace_back(std::stoll(fields.at(3)), std::stod(fields.at(5)));
    }
    return found;
  }
  void expect_as_in_store(const Series& found) const {
    for (const auto& [metric, values] : found) EXPECT_EQ(values, points(metric)) << metric;
  }
  std::vector<std::filesystem::path> event_files(const std::string& run) const {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(path("events") / run)) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    return files;
  }
};

TEST_F(LogFilesTest, ContainEveryPointOfTheStore) {
  const RunResult result = train(kLogged);
  ASSERT_EQ(result.exit_code, 0);
  EXPECT_TRUE(result.warnings.empty());
  EXPECT_EQ(lines("logs/points.csv").at(0), "run,attempt,metric,step,time,value");
  const Series found = series("logs/points.csv", result.run, "1");
  ASSERT_EQ(found.size(), result.metrics.size());
  expect_as_in_store(found);
  EXPECT_EQ(found.at("train/loss").size(), 20u);

  // The three files agree line by line.
  const std::vector<std::string> csv = lines("logs/points.csv"), json = lines("logs/points.jsonl");
  ASSERT_EQ(json.size() + 1, csv.size());
  std::string events = formats::event_file_start(0);
  for (size_t i = 0; i < json.size(); ++i) {
    const std::vector<std::string> fields = split(csv[i + 1]);
    const support::Json line = support::Json::parse(json[i]);
    EXPECT_EQ(line["run"].text(), fields[0]);
    EXPECT_EQ(line["attempt"].integer(), 1);
    EXPECT_EQ(line["metric"].text(), fields[2]);
    EXPECT_EQ(line["step"].integer(), std::stoll(fields[3]));
    EXPECT_EQ(line["time"].text(), fields[4]);
    EXPECT_EQ(line["value"].number(), std::stod(fields[5]));
    events += formats::scalar_record({fields[2], std::stoll(fields[3]), 0, std::stod(fields[5])});
  }
  const auto files = event_files(result.run);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_NE(files[0].filename().string().find(result.run + ".0001"), std::string::npos);
  EXPECT_EQ(support::read_text(files[0]).size(), events.size());  // times differ
}

TEST_F(LogFilesTest, PointsCanBeReadDuringTheRun) {
  // Each step waits until the points of the previous step are in the file.
  int64_t seen = 0;
  const auto wait_for = [&](const RunProgress& progress) {
    const std::string expected = "train/loss," + std::to_string(progress.step) + ",";
    while (text("logs/points.csv").find(expected) == std::string::npos) std::this_thread::yield();
    while (text("logs/points.jsonl").find("\"step\":" + std::to_string(progress.step)) == std::string::npos)
      std::this_thread::yield();
    seen = progress.step;
  };
  ASSERT_EQ(train(kLogged, {.on_step = wait_for}).exit_code, 0);
  EXPECT_EQ(seen, 20);
}

TEST_F(LogFilesTest, RunsShareFilesAndAttemptsMarkRepeatedPoints) {
  const RunResult first = train(kLogged), second = train(kLogged, {.stop_after = 8});
  ASSERT_EQ(second.exit_code, 4);
  const std::string before = text("logs/points.csv");
  EXPECT_EQ(series("logs/points.csv", second.run, "1").at("train/loss").size(), 8u);
  const RunResult resumed = train(kLogged, {.resume = second.run});
  ASSERT_EQ(resumed.exit_code, 0);
  EXPECT_TRUE(resumed.warnings.empty()) << resumed.warnings.at(0);
  EXPECT_TRUE(text("logs/points.csv").starts_with(before));
  const Series later = series("logs/points.csv", second.run, "2");
  EXPECT_EQ(later.at("train/loss").size(), 12u);
  EXPECT_EQ(later.at("train/loss").front().first, 9);
  EXPECT_EQ(series("logs/points.csv", first.run, "1").at("train/loss").size(), 20u);
  EXPECT_EQ(std::ranges::count(lines("logs/points.csv"), "run,attempt,metric,step,time,value"), 1);
  const auto files = event_files(second.run);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_NE(files[1].filename().string().find(".0002"), std::string::npos);
  const std::string restart = formats::restart_record(0, 9);
  const std::string text_of_second = support::read_text(files[1]);
  // Compare what follows the start of the file, except the time and the checksum that covers it.
  const size_t start = formats::event_file_start(0).size();
  EXPECT_EQ(text_of_second.substr(start, 12), restart.substr(0, 12));
  EXPECT_EQ(text_of_second.substr(start + 21, restart.size() - 25), restart.substr(21, restart.size() - 25));
}

TEST_F(LogFilesTest, AnAttemptAfterACrashWarnsAboutRepeatedPoints) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    train(kLogged, {.on_step = [&](const RunProgress& progress) {
            if (progress.step < 13) return;
            while (text("logs/points.csv").find("train/loss,13,") == std::string::npos) std::this_thread::yield();
            while (points("train/loss").size() < 13) std::this_thread::yield();
            kill(getpid(), SIGKILL);
          }});
    _exit(1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  std::ofstream(path("logs/points.csv"), std::ios::app) << "half a li";  // as a crash of the machine may leave it
  const RunResult resumed = train(kLogged, {.resume = "@last"});
  ASSERT_EQ(resumed.exit_code, 0);
  const Series repeated = series("logs/points.csv", resumed.run, "2");
  const int64_t first = repeated.at("train/loss").front().first;
  EXPECT_TRUE(first == 6 || first == 11) << first;
  ASSERT_EQ(resumed.warnings.size(), 1u);
  EXPECT_EQ(resumed.warnings[0], "log.csv and log.jsonl may contain points of steps " + std::to_string(first) +
                                     " to 13 of an earlier attempt, which this attempt records again; `attempt` in "
                                     "each line distinguishes them");
  // The run consists of the later attempt and of the points of the earlier one before it.
  Series whole = series("logs/points.csv", resumed.run, "1");
  for (auto& [metric, values] : whole) {
    std::erase_if(values, [&](const auto& point) { return point.first >= first; });
    values.insert(values.end(), repeated.at(metric).begin(), repeated.at(metric).end());
  }
  EXPECT_EQ(whole.at("train/loss").size(), 20u);
  expect_as_in_store(whole);
}

TEST_F(LogFilesTest, AreNotCreatedUnlessNamed) {
  std::string recipe = kLogged;
  recipe.erase(recipe.find(", csv:"), recipe.find("}\ncheckpoint") - recipe.find(", csv:"));
  ASSERT_EQ(train(recipe).exit_code, 0);
  EXPECT_FALSE(std::filesystem::exists(path("logs")));
  EXPECT_FALSE(std::filesystem::exists(path("events")));
}

TEST_F(LogFilesTest, UnwritableFilesAreReportedBeforeTheRun) {
  write("file", "x");
  std::filesystem::create_directory(path("folder"));
  const auto refused = [&](const std::string& override, const std::string& text) {
    EXPECT_EQ(message_of([&] { train(kLogged, {.overrides = {override}}); }), text);
  };
  refused("log.csv=folder", "log.csv: cannot write " + at("folder") + ": Is a directory");
  refused("log.jsonl=file/a/b", "log.jsonl: cannot write " + at("file/a/b") + ": Not a directory");
  refused("log.tensorboard=file", "log.tensorboard: cannot write " + at("file") + ": Not a directory");
  refused("log.csv=file", "log.csv: " + at("file") +
                              " already exists and is not a log of points: it does not begin with "
                              "run,attempt,metric,step,time,value; choose another file");
  refused("log.jsonl=file",
          "log.jsonl: " + at("file") +
              " already exists and is not a log of points: it does not begin with {; choose another file");
  refused("log.jsonl=logs/../logs/points.csv",
          "log.csv and log.jsonl are both " + at("logs/points.csv") + "; use different files");
  std::filesystem::create_symlink("loop", path("loop"));  // a path that cannot be resolved equals no other
  EXPECT_EQ(message_of([&] {
              train(kLogged, {.overrides = {"log.csv=loop/x", "log.jsonl=null"}});
            }),
            "log.csv: cannot write " + at("loop/x") + ": Too many levels of symbolic links");
  EXPECT_EQ(text("file"), "x");
  EXPECT_FALSE(std::filesystem::exists(path("runner.db")));
}

TEST_F(LogFilesTest, AFullDiskLosesPointsButDoesNotEndTheRun) {
  const RunResult result = train(kLogged, {.overrides = {"log.csv=/dev/full"}});
  ASSERT_EQ(result.exit_code, 0);
  const size_t count = lines("logs/points.jsonl").size();
  EXPECT_GT(count, 80u);
  ASSERT_EQ(result.warnings.size(), 2u);
  EXPECT_EQ(result.warnings[0],
            "log.csv: cannot write /dev/full: No space left on device; points are kept in memory until the file is "
            "writable again");
  EXPECT_EQ(result.warnings[1], "log.csv /dev/full misses " + std::to_string(count) +
                                    " points of this run; `runner export " + result.run +
                                    " --metrics FILE` writes all");
  EXPECT_EQ(events("warning").size(), 2u);
}

// Every log warns once, continues, and has all points after there is space again.
TEST_F(LogFilesTest, ADiskThatIsFullAtTheStartDoesNotEndTheRun) {
  schema::LogSpec spec;
  spec.csv = at("points.csv");
  spec.jsonl = at("points.jsonl");
  spec.tensorboard = at("events");
  std::optional<support::FullDisk> full(0);
  LogFiles logs(spec);
  logs.begin("0000000aaa", 1, 0);
  logs.add("train/loss", 1, 0.5);
  logs.hand_over();
  std::vector<std::string> warnings;
  while (warnings.size() < 3)
    for (std::string& text : logs.take_warnings()) warnings.push_back(std::move(text));
  full.reset();
  logs.finish();
  const std::string reason = ": File too large; points are kept in memory until the file is writable again";
  EXPECT_EQ(warnings[0], "log.csv: cannot write " + at("points.csv") + reason);
  EXPECT_EQ(warnings[1], "log.jsonl: cannot write " + at("points.jsonl") + reason);
  EXPECT_EQ(warnings[2].rfind("log.tensorboard: cannot write ", 0), 0u) << warnings[2];
  const std::vector<std::string> later = logs.take_warnings();
  ASSERT_EQ(later.size(), 3u);
  for (const std::string& text : later) EXPECT_TRUE(text.ends_with(" is writable again")) << text;
  ASSERT_EQ(lines("points.csv").size(), 2u);
  EXPECT_EQ(lines("points.csv")[0], "run,attempt,metric,step,time,value");
  EXPECT_EQ(lines("points.jsonl").size(), 1u);
}

TEST_F(LogFilesTest, AHeaderThatAFullDiskCutIsCompleted) {
  schema::LogSpec spec;
  spec.csv = at("points.csv");
  {
    const support::FullDisk full(10);
    const LogFiles logs(spec);
  }
  EXPECT_EQ(text("points.csv"), "run,attemp");
  const LogFiles logs(spec);
  EXPECT_EQ(text("points.csv"), "run,attempt,metric,step,time,value\n");
}

// A pipe without an active reader: points are accepted at once, and memory is bounded.
TEST_F(LogFilesTest, AStalledReaderDoesNotBlockTheRun) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  schema::LogSpec spec;
  spec.jsonl = at("pipe");
  spec.csv = at("points.csv");
  LogLimits limits;
  limits.waiting_bytes = 100'000;
  limits.last_patience = std::chrono::milliseconds(0);
  LogFiles logs(spec, limits);
  logs.begin("0000000aaa", 1, 0);
  constexpr int64_t kPoints = 5000;
  for (int64_t step = 1; step <= kPoints; ++step) {
    logs.add("train/loss", step, 0.5);
    logs.hand_over();
  }
  logs.finish();
  EXPECT_EQ(lines("points.csv").size(), static_cast<size_t>(kPoints) + 1);
  const std::vector<std::string> warnings = logs.take_warnings();
  ASSERT_EQ(warnings.size(), 1u);
  // What the pipe accepted completely can be read; the rest is counted.
  const int fd = ::open(at("pipe").c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(fd, 0);
  std::string read(size_t{1} << 20, '\0');
  read.resize(static_cast<size_t>(std::max<ssize_t>(0, ::read(fd, read.data(), read.size()))));
  ::close(fd);
  const int64_t whole = std::ranges::count(read, '\n');
  EXPECT_GT(whole, 0);
  EXPECT_EQ(warnings[0], "log.jsonl " + at("pipe") + " misses " + std::to_string(kPoints - whole) +
                             " points of this run; `runner export 0000000aaa --metrics FILE` writes all");
}

TEST_F(LogFilesTest, ASlowReaderGetsEverything) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  schema::LogSpec spec;
  spec.csv = at("pipe");
  constexpr int64_t kPoints = 20'000;  // more than a pipe holds
  std::string read;
  const int fd = ::open(at("pipe").c_str(), O_RDWR);
  ASSERT_GE(fd, 0);
  std::thread reader([&] {
    std::vector<char> buffer(1000);
    while (read.find(",20000,") == std::string::npos || !read.ends_with('\n')) {
      const ssize_t got = ::read(fd, buffer.data(), buffer.size());
      if (got > 0) read.append(buffer.data(), static_cast<size_t>(got));
    }
  });
  LogFiles logs(spec);
  logs.begin("0000000aaa", 1, 0);
  for (int64_t step = 1; step <= kPoints; ++step) logs.add("train/loss", step, 0.5);
  logs.hand_over();
  logs.finish();
  reader.join();
  ::close(fd);
  EXPECT_TRUE(logs.take_warnings().empty());
  EXPECT_EQ(support::lines_of(read).size(), static_cast<size_t>(kPoints) + 1);
}

}  // namespace
}  // namespace runner::train
