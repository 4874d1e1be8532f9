// Updates of expected outputs in cases/*.test.
#include "tests/cli/case_file.h"

#include <gtest/gtest.h>

namespace runner::cli::testing {
namespace {

std::string updated_in_folder(const std::string& expected, const std::string& text) {
  const std::string result = updated(expected, text, "/tmp/f");
  EXPECT_TRUE(matches(result, text, "/tmp/f")) << result;
  return result;
}

TEST(CaseFile, KeepsLinesThatMatch) {
  EXPECT_EQ(updated_in_folder("run <id>  first\n...\nsteps <n>\n", "run 1qg61g3qst  first\na\nb\nsteps 9\n"),
            "run <id>  first\n...\nsteps <n>\n");
  EXPECT_EQ(updated_in_folder("run <id>\nloss <x>\nsteps 9\n", "run 1qg61g3qst\nloss 0.5\nsteps 10\n"),
            "run <id>\nloss <x>\nsteps 10\n");
}

TEST(CaseFile, KeepsPlaceholdersOfChangedLines) {
  EXPECT_EQ(updated_in_folder("run <id>  first  done after <x> s\n", "run 1qg61g3qst  first  finished in 0.5 s\n"),
            "run <id>  first  finished in <x> s\n");
  EXPECT_EQ(updated_in_folder("cause <*> and is 1 now\n", "cause lr was 2 and is 3 now\n"), "cause <*> and is 3 now\n");
}

TEST(CaseFile, WildcardDoesNotMatchAChangedLine) {
  EXPECT_EQ(updated_in_folder("a\n...\nthe last line\n", "a\nb\nc\nthe final line\n"), "a\n...\nthe final line\n");
  EXPECT_EQ(updated_in_folder("...\nb: old\n...\n", "a\nb: new\nc\n"), "...\nb: new\n...\n");
}

TEST(CaseFile, AddsAndDropsLines) {
  EXPECT_EQ(updated_in_folder("a\nc\n", "a\nb <*\nc\n"), "a\nb <*\nc\n");
  EXPECT_EQ(updated_in_folder("a\nb\nc\n", "a\nc\n"), "a\nc\n");
  EXPECT_EQ(updated_in_folder("a\n", ""), "");
  EXPECT_EQ(updated_in_folder("", "new in /tmp/f/r.yaml at 2026-11-21 19:16:52 by 1qg61g3qst\n"),
            "new in <folder>/r.yaml at <time> by <id>\n");
  EXPECT_EQ(updated_in_folder("a\n", "no end of line"), "no end of line<no newline>\n");
}

TEST(CaseFile, ReplacesTheOutputsOfOneStep) {
  const std::string first = "# cases\n\n== first\n@run a\n", first_out = "@stdout\nx\n";
  const std::string second = "\n== second\n@run b\n", file = "@file r.yaml\nseed: 1\n@run c\n@exit 1\n";
  const std::string second_err = "@stderr\nold\n", third = "\n== third\n@run d\n";
  const std::string text = first + first_out + second + file + second_err + third;
  EXPECT_EQ(with_outputs(text, "first", 0, "", "err\n"), first + "@stderr\nerr\n" + second + file + second_err + third);
  EXPECT_EQ(with_outputs(text, "second", 0, "out\n", ""),
            first + first_out + second + "@stdout\nout\n" + file + second_err + third);
  EXPECT_EQ(with_outputs(text, "second", 1, "out\n", "new\n"),
            first + first_out + second + file + "@stdout\nout\n@stderr\nnew\n" + third);
  EXPECT_THROW(with_outputs(text, "third", 1, "", ""), std::runtime_error);
}

}  // namespace
}  // namespace runner::cli::testing
