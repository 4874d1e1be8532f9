// Output for users: numbers, tables, channels, progress and summary.
#include <cmath>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "runner/cli/commands/shared_options.h"
#include "runner/formats/text_rows.h"
#include "runner/report/comparison.h"
#include "runner/report/format.h"
#include "runner/report/output.h"
#include "runner/report/progress.h"
#include "runner/report/run_text.h"
#include "runner/report/summary.h"
#include "runner/report/table.h"
#include "schema/base/error.h"
#include "schema/base/text.h"
#include "store/run_writer.h"
#include "tests/cli/command.h"

namespace runner::report {
namespace {

TEST(Format, Numbers) {
  EXPECT_EQ(rounded_text(0.98148148), "0.981481");
  EXPECT_EQ(rounded_text(1e-8), "1e-08");
  EXPECT_EQ(rounded_text(NAN), "nan");
  EXPECT_EQ(short_text(812), "812");
  EXPECT_EQ(short_text(52345), "52.3k");
  EXPECT_EQ(short_text(999.6), "1.00k");
  EXPECT_EQ(short_text(1.2e6), "1.20M");
  EXPECT_EQ(short_text(9.996), "10.0");
  EXPECT_EQ(short_text(0.5), "0.50");
}

TEST(Format, Bytes) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1024), "1.0 KiB");
  EXPECT_EQ(bytes_text(1048575), "1.0 MiB");
  EXPECT_EQ(bytes_text(int64_t{5} << 40), "5.0 TiB");
  EXPECT_EQ(bytes_text(int64_t{5000} << 40), "5000.0 TiB");
}

TEST(Format, Counts) {
  EXPECT_EQ(count_text(1, "step"), "1 step");
  EXPECT_EQ(count_text(0, "step"), "0 steps");
  EXPECT_EQ(count_text(3, "class"), "3 classes");
  EXPECT_EQ(count_text(2, "batch"), "2 batches");
  EXPECT_EQ(count_text(2, "epoch"), "2 epochs");
}

TEST(Format, Times) {
  ::setenv("TZ", "UTC", 1);
  EXPECT_EQ(local_time(1772368496789), "2026-03-01 12:34:56");
}

TEST(Format, WidthCountsTerminalColumns) {
  EXPECT_EQ(display_width("abc"), 3);
  EXPECT_EQ(display_width("é"), 1);
  EXPECT_EQ(display_width("e\xCC\x81"), 1);  // e and a combining acute accent
  EXPECT_EQ(display_width("数据"), 4);
  EXPECT_EQ(display_width("🙂"), 2);
  EXPECT_EQ(display_width("\xFF"), 1);  // not UTF-8
  EXPECT_EQ(shortened("数据集", 5), "数据…");
  EXPECT_EQ(shortened("数据集", 4), "数…");
  EXPECT_EQ(shortened("abc", 3), "abc");
}

TEST(Format, OneLineTextCannotMoveTheCursor) {
  EXPECT_EQ(on_one_line("a\nb\033[2Jc\x7F"
                        "d"),
            "a b [2Jc d");
  EXPECT_EQ(on_one_line("Größe 数"), "Größe 数");
  EXPECT_EQ(on_one_line("a\xFF\xE6\x95"), "a\uFFFD\uFFFD\uFFFD");
}

TEST(RunText, StepsShowTheProgressOfARun) {
  store::RunRow run;
  run.started_ms = 1000;
  run.heartbeat_ms = 11'000;
  EXPECT_EQ(steps_text(run, 300), "step 300");
  run.planned_steps = 500;
  EXPECT_EQ(steps_text(run, 300), "step 300/500  6.67 s left");
  run.start_step = 200;  // resumed: 100 steps in these ten seconds
  EXPECT_EQ(steps_text(run, 300), "step 300/500  20.0 s left");
  EXPECT_EQ(steps_text(run, 200), "step 200/500");
  EXPECT_EQ(steps_text(run, 0), "step 0/500");  // has not logged since it was resumed
  EXPECT_EQ(steps_text(run, 500), "step 500/500");
  run.status = store::RunStatus::kInterrupted;
  EXPECT_EQ(steps_text(run, 300), "step 300/500");
}

TEST(Table, AlignsByTerminalColumns) {
  Table table({{"name"}, {"value", Align::kRight}});
  table.add({"数据", "1"});
  table.add({"x", "1000"});
  EXPECT_EQ(table.render(),
            "name  value\n"
            "数据      1\n"
            "x      1000\n");
}

TEST(Table, CutsTheWidestLeftColumnOnANarrowTerminal) {
  Table table({{"run"}, {"name"}, {"value", Align::kRight}});
  table.add({"id", "a-very-long-name-of-a-run", "123456"});
  EXPECT_EQ(table.render(24), "run  name          value\nid   a-very-lon…  123456\n");
  EXPECT_EQ(table.render(20), "run  name      value\nid   a-very…  123456\n");
}

// As many columns as `ls --columns` may select, on the narrowest usual terminals.
TEST(Table, FitsTheTerminalForAnyColumns) {
  Table table({{"run"},
               {"best(eval/accuracy)", Align::kRight},
               {"optimizer.weight_decay", Align::kRight},
               {"reason"},
               {"数据", Align::kLeft}});
  table.add({"0000000aaa", "0.987", "0.01", "the loss of step 3 is not finite", "数据集数据集"});
  const auto widest = [](const std::string& text) {
    int width = 0;
    for (size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
      width = std::max(width, display_width(std::string_view(text).substr(at, text.find('\n', at) - at)));
    return width;
  };
  // Titles of numeric columns are cut before their numbers.
  EXPECT_EQ(table.render(60),
            "run         best(eval…  optimizer…  reason       数据\n"
            "0000000aaa       0.987        0.01  the loss o…  数据集数据…\n");
  for (int width = 24; width <= 120; ++width) {
    const std::string text = table.render(width);
    EXPECT_LE(widest(text), width) << text;
    EXPECT_NE(text.find("0000000aaa  "), std::string::npos) << "the id is not cut\n" << text;
  }
  Table named({{"metric"}, {"points", Align::kRight}});
  named.add({"train/a-metric-with-a-very-long-name", "1000"});
  EXPECT_EQ(named.render(24), "metric              poi…\ntrain/a-metric-wi…  1000\n");
}

TEST(Table, StaysAlignedIfAWideCharacterIsCut) {
  Table table({{"run"}, {"name"}, {"value", Align::kRight}});
  table.add({"id", "数据集数据集", "1"});
  table.add({"id", "abcdefghijkl", "1"});
  EXPECT_EQ(table.render(22), "run  name        value\nid   数据集数…       1\nid   abcdefghi…      1\n");
}

TEST(Format, TextIsCutToTheScreen) {
  EXPECT_EQ(cut_to_screen("abcdef\nab\n", 4, 10), "abcd\nab\n");
  EXPECT_EQ(cut_to_screen("数据集\n", 5, 10), "数据\n");
  EXPECT_EQ(cut_to_screen("a\033[31mbcdef\033[0m\nx\033[1my\033[0m\n", 3, 10),
            "a\033[31mbc\033[0m\nx\033[1my\033[0m\n");
  EXPECT_EQ(cut_to_screen("1\n2\n3\n4\n", 9, 3), "1\n2\n") << "the cursor is on the line below";
  EXPECT_EQ(cut_to_screen("", 9, 3), "");
}

TEST(Table, ColourDoesNotMoveCells) {
  Table table({{"a"}, {"b"}});
  table.add({Cell("x", Color::kGreen), "y"});
  EXPECT_EQ(table.render(0, true), "\033[1ma\033[0m  \033[1mb\033[0m\n\033[32mx\033[0m  y\n");
}

TEST(KeyValueTable, OmitsEmptyValues) {
  KeyValueTable facts;
  facts.add("run", "x");
  facts.add("parent", "");
  EXPECT_EQ(facts.render(), "run  x\n");
}

store::RunDetails details_with(const char* run, double lr, double loss) {
  store::RunDetails details;
  details.run.uid = run;
  details.run.backend = run;
  details.params = {{"optimizer.lr", lr}};
  details.metrics.emplace_back().name = "train/loss";
  details.metrics[0].last = loss;
  return details;
}

TEST(Comparison, OmitsPartsDamagedInOneRun) {
  store::RunDetails a = details_with("a", 0.5, 1);
  a.run.ended_ms = 1500;
  a.run.earlier_ms = 500;  // of another attempt
  a.run.summary_json = R"({"peak_memory": {"training": 40, "evaluation": 30, "saving": 0}})";
  store::RunDetails b = details_with("b", 0.25, 3);
  b.run.heartbeat_ms = 1500;
  const std::string params = "parameter     a    b\noptimizer.lr  0.5  0.25\n";
  const std::string environment = "environment  a  b\nbackend      a  b\n";
  const std::string cost = "cost              a       b\ntime         2.00 s  1.50 s\npeak memory    40 B\n";
  const std::string metrics = "metric      a  b  difference\ntrain/loss  1  3           2\n";
  EXPECT_EQ(comparison_text(compare(a, b), 0, false), params + '\n' + environment + '\n' + cost + '\n' + metrics);
  const auto without = [&](const char* part) {
    store::RunDetails damaged = b;
    damaged.damage = {{part, "lost"}};
    EXPECT_EQ(compare(damaged, a).damage.size(), 1U);
    return comparison_text(compare(a, damaged), 0, false);
  };
  EXPECT_EQ(without("parameters"), environment + '\n' + cost + '\n' + metrics);
  EXPECT_EQ(without("metrics"), params + '\n' + environment + '\n' + cost);
  EXPECT_EQ(without("recipe"), params + '\n' + environment + '\n' + cost + '\n' + metrics);
}

TEST(Csv, QuotesFieldsIfNecessary) {
  const std::vector<std::string> fields{"a", "b,c", "d\"e", "f\ng", ""};
  EXPECT_EQ(formats::csv_row(fields), "a,\"b,c\",\"d\"\"e\",\"f\ng\",\n");
}

// An Output whose channels are files.
class OutputTest : public ::testing::Test {
 protected:
  int open(const char* name) { return ::open((folder_.path() / name).c_str(), O_RDWR | O_CREAT, 0600); }
  std::string text(const char* name) { return cli::testing::read_text(folder_.path() / name); }

  cli::testing::Folder folder_;
  int data_ = open("out"), talk_ = open("err");
  Output out_{ColorMode::kAuto, data_, talk_};
};

TEST_F(OutputTest, FileHasNoColorAndNoWidth) {
  EXPECT_FALSE(out_.data_color());
  EXPECT_FALSE(out_.live());
  EXPECT_EQ(out_.data_width(), 0);
  EXPECT_TRUE(Output(ColorMode::kAlways, data_, talk_).data_color());
}

TEST_F(OutputTest, FailureToWriteDataIsAnError) {
  Output full(ColorMode::kAuto, ::open("/dev/full", O_WRONLY), talk_);
  try {
    full.data("x");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "cannot write to standard output: No space left on device");
    EXPECT_EQ(error.kind(), ErrorKind::kRun);
  }
}

// A file to which the shell appends standard output keeps its contents.
TEST_F(OutputTest, WritesDataInPlaceOfAFile) {
  for (const char* name : {"-", "/dev/stdout"}) out_.file(name, "a\x1b", formats::FileKind::kText);
  EXPECT_EQ(text("out"),
            "a\x1b"
            "a\x1b");
  out_.file(folder_ / "file", "b", formats::FileKind::kText);
  EXPECT_EQ(text("file"), "b");
}

TEST_F(OutputTest, ColorsOfOthersAreEscaped) {
  Output out(ColorMode::kAlways, data_, talk_);
  const std::string forged = "\x1b[1;31merror:\x1b[0m";
  out.data(forged);
  out.talk(forged);
  EXPECT_EQ(text("out"), "\\x1b[1;31merror:\\x1b[0m");
  EXPECT_EQ(text("err"), text("out"));
  out.colored_talk(painted(forged, Color::kRed, true));
  EXPECT_EQ(text("err"), text("out") + "\x1b[31m" + text("out") + "\x1b[0m");
}

class TerminalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::unsetenv("NO_COLOR");
    ::setenv("TERM", "xterm", 1);
    winsize size{};
    size.ws_row = 24;
    size.ws_col = 60;
    ASSERT_EQ(::openpty(&controller_, &terminal_, nullptr, nullptr, &size), 0);
  }
  void TearDown() override {
    ::close(controller_);
    ::close(terminal_);
  }

  // The kernel may deliver the written text in several pieces.
  void expect_shown(std::string_view text) {
    std::string shown;
    pollfd ready{controller_, POLLIN, 0};
    while (shown.size() < text.size() && ::poll(&ready, 1, /*ms=*/10'000) == 1) {
      char piece[4096];
      const ssize_t size = ::read(controller_, piece, sizeof piece);
      if (size <= 0) break;
      shown.append(piece, static_cast<size_t>(size));
    }
    EXPECT_EQ(shown, text);
  }

  int controller_ = -1, terminal_ = -1;
};

TEST_F(TerminalTest, TerminalHasColorAndWidth) {
  const Output out(ColorMode::kAuto, terminal_, terminal_);
  EXPECT_TRUE(out.data_color());
  EXPECT_TRUE(out.live());
  EXPECT_EQ(out.data_width(), 60);
}

// Lines that wrapped or scrolled away would be drawn again below.
TEST_F(TerminalTest, WatchFitsTheTerminalAndNamesCannotMoveTheCursor) {
  const cli::testing::Folder folder;
  const std::string path = folder.path() / "runner.db";
  {
    store::RunInfo info;
    info.uid = "0000000aaa";
    info.name = "a\033[2Jname\nof two lines that is longer than the terminal is wide";
    store::RunWriter writer(store::Store::open(path, store::Access::kWrite), info);
    for (int i = 0; i < 20; ++i)
      writer.push(writer.series(i == 0 ? "train/loss" : fmt::format("train/a-metric-with-a-long-name-{}", i)), 1, 0.5);
    writer.finish({.status = store::RunStatus::kDone, .exit_code = 0, .reason = "", .summary_json = "{}"});
  }
  winsize size{};
  size.ws_row = 12;
  size.ws_col = 25;
  ASSERT_EQ(::ioctl(terminal_, TIOCSWINSZ, &size), 0);
  Output out(ColorMode::kNever, terminal_, terminal_);
  cli::RunOptions options;
  options.db = path;
  options.run = "0000000aaa";
  EXPECT_EQ(cli::kWatchCommand.action->run(options, out), 0);
  out.talk("END");
  std::string shown;
  while (!shown.ends_with("END")) {
    char piece[4096];
    const ssize_t count = ::read(controller_, piece, sizeof piece);
    ASSERT_GT(count, 0);
    shown.append(piece, static_cast<size_t>(count));
  }
  EXPECT_EQ(shown.find('\033'), std::string::npos) << shown;
  int lines = 0;
  for (size_t at = 0, end = 0; (end = shown.find("\r\n", at)) != std::string::npos; at = end + 2, ++lines)
    EXPECT_LE(display_width(shown.substr(at, end - at)), 25);
  EXPECT_EQ(lines, 11);
  EXPECT_TRUE(shown.starts_with("run 0000000aaa  a [2Jname")) << shown;
}

TEST_F(TerminalTest, ObeysNoColorAndTerm) {
  ::setenv("NO_COLOR", "", 1);  // empty means unset
  EXPECT_TRUE(Output(ColorMode::kAuto, terminal_, terminal_).data_color());
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(Output(ColorMode::kAuto, terminal_, terminal_).data_color());
  EXPECT_TRUE(Output(ColorMode::kAlways, terminal_, terminal_).data_color());
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "dumb", 1);
  const Output dumb(ColorMode::kAuto, terminal_, terminal_);
  EXPECT_FALSE(dumb.data_color());
  EXPECT_FALSE(dumb.live());
  ::setenv("TERM", "xterm", 1);
  EXPECT_FALSE(Output(ColorMode::kNever, terminal_, terminal_).data_color());
}

double now = 0;
double test_clock() {
  return now;
}

train::RunProgress at_step(int64_t step) {
  return {.epoch = step / 100, .epochs = 10, .step = step, .steps = 1000, .samples = 32 * step, .loss = 0.5};
}

TEST_F(OutputTest, ProgressIsALineEveryFiveSecondsAndAtEvaluations) {
  now = 100;
  {
    ProgressReporter progress(out_, false, test_clock);
    progress.on_start("0f3k2m9x7q", "digits");
    for (int64_t step = 1; step <= 200; ++step) {
      now += 0.0625;
      progress.on_step(at_step(step));
    }
    progress.on_evaluation(at_step(200), {{"eval/accuracy", 0.9}, {"eval/loss", 0.25}});
    progress.on_warning("2 points were dropped");
  }
  EXPECT_EQ(text("err"),
            "run 0f3k2m9x7q  digits\n"
            "step 80/1000  epoch 1/10  loss 0.5  57.5 s left  512 samples/s\n"
            "step 160/1000  epoch 2/10  loss 0.5  52.5 s left  512 samples/s\n"
            "step 200/1000  eval/accuracy 0.9  eval/loss 0.25\n"
            "warning: 2 points were dropped\n");
  EXPECT_EQ(text("out"), "");
}

TEST_F(OutputTest, QuietProgressShowsOnlyWarnings) {
  now = 0;
  ProgressReporter progress(out_, true, test_clock);
  progress.on_start("0f3k2m9x7q", "digits");
  now = 100;
  progress.on_step(at_step(1));
  progress.on_evaluation(at_step(1), {{"eval/loss", 0.25}});
  progress.on_warning("attention");
  EXPECT_EQ(text("err"), "warning: attention\n");
}

TEST_F(TerminalTest, ProgressIsOneRedrawnLineThatIsErased) {
  Output out(ColorMode::kNever, terminal_, terminal_);
  now = 0;
  {
    ProgressReporter progress(out, false, test_clock);
    progress.on_start("0f3k2m9x7q", "digits");
    expect_shown("run 0f3k2m9x7q  digits\r\n");
    now = 1;
    progress.on_step(at_step(500));
    // As wide as the terminal, minus one column for the cursor.
    expect_shown("\r\033[K█████░░░░░  step 500/1000  epoch 6/10  loss 0.5");
    now = 1.05;  // before the next update
    progress.on_step(at_step(501));
    progress.on_warning("attention");
    expect_shown("\r\033[Kwarning: attention\r\n");
    now = 1.2;
    progress.on_step(at_step(600));
    expect_shown("\r\033[K██████░░░░  step 600/1000  epoch 7/10  loss 0.5  0.80 s le…");
  }
  expect_shown("\r\033[K");
}

train::RunResult sample_result() {
  train::RunResult result;
  result.run = "0f3k2m9x7q";
  result.name = "digits";
  result.backend = "cpu";
  result.epochs = 2;
  result.optimizer_steps = 100;
  result.samples = 3200;
  result.seconds = 1.5;
  result.first_step_seconds = 0.04;
  result.metrics = {{"train/loss", {0.5, 0.25, NAN}}};
  result.states = {3, 4};
  return result;
}

TEST(Summary, ShowsTheResultAndTheNextCommand) {
  EXPECT_EQ(summary_text(sample_result(), 0, false),
            "run 0f3k2m9x7q  digits  done after 1.50 s, first step after 40.0 ms\n"
            "cpu, 1 process, 2 epochs, 100 steps, 3200 samples\n"
            "\n"
            "metric      last   min  max\n"
            "train/loss   0.5  0.25  nan\n"
            "\n"
            "states 3, 4\n"
            "\n"
            "next: runner show 0f3k2m9x7q\n");
}

TEST(ErrorText, ColoursTheFirstWordAndEscapesControlCharacters) {
  EXPECT_EQ(error_text("no file \x1b[31mx\r", false), "error: no file \\x1b[31mx\\x0d\n");
  EXPECT_EQ(error_text("no file", true), "\033[31merror:\033[0m no file\n");
  EXPECT_EQ(warning_text("old \x1b[31mx\r", false), "warning: old \\x1b[31mx\\x0d\n");
  EXPECT_EQ(warning_text("old", true), "\033[33mwarning:\033[0m old\n");
}

TEST(Summary, ShowsSkippedStepsAndLeavesOutWarnings) {  // which have been printed
  train::RunResult result = sample_result();
  result.status = store::RunStatus::kInterrupted;
  result.skipped_steps = 2;
  result.warnings = {"2 of 100 steps were skipped: not finite"};
  result.metrics.clear();
  EXPECT_EQ(summary_text(result, 0, false),
            "run 0f3k2m9x7q  digits  interrupted after 1.50 s, first step after 40.0 ms\n"
            "cpu, 1 process, 2 epochs, 100 steps (2 skipped), 3200 samples\n"
            "\n"
            "states 3, 4\n"
            "\n"
            "next: runner resume 0f3k2m9x7q\n");
}

}  // namespace
}  // namespace runner::report
