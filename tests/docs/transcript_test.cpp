// The test of the documents detects errors in documents.
#include "tests/docs/transcript.h"

#include <gtest/gtest.h>

#include "tests/docs/follower.h"

namespace runner::docs {
namespace {

TEST(Transcript, AllowsIdsTimesAndSmallDifferences) {
  EXPECT_TRUE(shows("run 1qg61g3qst  first  done after 0.13 s", "run 0zz61g3qsx   first  done after 92 ms"));
  EXPECT_TRUE(shows("2026-11-21 19:16:52", "2031-01-01 00:00:00"));
  EXPECT_TRUE(shows("loss   0.5", "loss      0.51"));
  EXPECT_TRUE(shows("loss 2e-05", "loss 2.1e-05"));
  EXPECT_TRUE(shows("a\n...\nd\n", "a\nb\nc\nd\n"));
  EXPECT_TRUE(shows("commit ... here", "commit d053c4c, here"));
  EXPECT_TRUE(shows(" 1.54 │aa ⠉", "1.55 │ bb"));
  EXPECT_TRUE(shows("steps 9\n\n", "steps 9\n"));
}

TEST(Transcript, RejectsOtherDifferences) {
  EXPECT_FALSE(shows("loss 0.5", "loss 0.4"));
  EXPECT_FALSE(shows("loss 0.5", "loss -0.5"));
  EXPECT_FALSE(shows("loss 0.5", "loss nan"));
  EXPECT_FALSE(shows("loss 2e-05", "loss 2e-04"));
  EXPECT_FALSE(shows("steps 9", "steps 10"));
  EXPECT_FALSE(shows("version 0.1.0", "version 0.1.1"));
  EXPECT_FALSE(shows("1.54 │aa", "2.54 │aa"));
  EXPECT_FALSE(shows("first", "second"));
  EXPECT_FALSE(shows("a b", "a  b"));
  EXPECT_FALSE(shows("a  b", "a b"));
  EXPECT_FALSE(shows("a", "a\nb\n"));
  EXPECT_FALSE(shows("a\nb\n", "a\n"));
  EXPECT_FALSE(shows("", "a\n"));
  EXPECT_FALSE(shows("done after 0.13 s", "done after 0.13 steps"));
}

TEST(Transcript, UpdateChangesOnlyDifferingLines) {
  EXPECT_EQ(updated("run 1qg61g3qst  done after 0.13 s\n", "run 0zz61g3qsx  done after 92 ms\n"),
            "run 1qg61g3qst  done after 0.13 s\n");
  EXPECT_EQ(updated("loss 0.5\n...\nsteps 9\n\n", "loss 0.51\na\nb\nsteps 10\n"), "loss 0.5\n...\nsteps 10\n\n");
  EXPECT_EQ(updated("run 1qg61g3qst  first\n", "run 0zz61g3qsx  second\n"), "run 1qg61g3qst  second\n");
  EXPECT_EQ(updated("commit ... here\n", "commit d053c4c, there\n"), "commit ... there\n");
  EXPECT_EQ(updated("", "a\n"), "a\n");
  EXPECT_EQ(updated("a\nb\n", "b\n"), "b\n");
  // Plots are replaced as a whole.
  EXPECT_EQ(updated(" 1.54 │aa\n 1.00 │bb\n", " 1.54 │cc\n 2.00 │dd\n"), " 1.54 │cc\n 2.00 │dd\n");
}

TEST(Transcript, UpdatesTheOutputBelowEachCommand) {
  const cli::testing::Folder folder;
  const std::string page = "# Page\n\n```console\n$ echo a \\\n  b\nb\n\n$ echo c  # exits 0\n```\n\nEnd.\n";
  cli::testing::write_text(folder.path() / "page.md", page);
  const std::vector<TypedCommand> commands = console_commands(read_blocks(folder.path() / "page.md").at(0));
  ASSERT_EQ(commands.size(), 2u);
  EXPECT_EQ(with_changes(page, {{commands[0].shown_line, commands[0].shown, "a b\n\n"},
                                {commands[1].shown_line, commands[1].shown, "c\n"}}),
            "# Page\n\n```console\n$ echo a \\\n  b\na b\n\n$ echo c  # exits 0\nc\n```\n\nEnd.\n");
}

// Returns the first line of the first failure in a document; empty if there is none.
std::string failure_of(const std::string& text) {
  const cli::testing::Folder folder;
  cli::testing::write_text(folder.path() / "page.md", text);
  Follower follower("page.md");
  for (const Block& block : read_blocks(folder.path() / "page.md")) follower.follow(block);
  return follower.failures().empty() ? "" : follower.failures()[0].substr(0, follower.failures()[0].find('\n'));
}

TEST(Follower, ReportsWrongBlocks) {
  EXPECT_EQ(failure_of("```sh\ntrue\ncd recipes && test -e data\ntest -e wine.yaml\nfalse  # exits 1\n```\n"), "");
  EXPECT_EQ(failure_of("\n```sh\ntrue\nfalse\n```\n"), "page.md:4: the command has another exit code");
  EXPECT_EQ(failure_of("```sh\ntrue  # exits 1\n```\n"), "page.md:2: the command has another exit code");
  EXPECT_EQ(failure_of("```console\n$ echo a \\\n  b\na b\n$ false  # exits 1\n```\n"), "");
  EXPECT_EQ(failure_of("```console\n$ echo a\nb\n```\n"), "page.md:2: echo a");
  EXPECT_EQ(failure_of("```console\n$ false\n```\n"), "page.md:2: exit code 1 instead of 0");
  EXPECT_EQ(failure_of("```yaml\noptimizer: {type: adam}\n```\n"), "");
  EXPECT_EQ(failure_of("```yaml\noptimizer: {type: adamm}\n```\n"), "page.md:2: exit code 2 instead of 0");
  EXPECT_EQ(failure_of("```yaml\n# a.yaml\nseed: 1\n```\n"), "page.md:2: exit code 2 instead of 0");
  EXPECT_EQ(failure_of("```yaml\n# a.yaml, wrong\nseed: 1\n```\n```sh\ntest -e a.yaml\n```\n"), "");
  EXPECT_EQ(failure_of("```lua\n-- with train.steps=none\nreturn {}\n```\n"), "page.md:2: exit code 2 instead of 0");
  EXPECT_EQ(failure_of("```lua\nreturn {on_step_end = function(acc) end}\n```\n"), "");
  EXPECT_EQ(failure_of("```lua\nreturn {on_step_end = function(acc) nothing() end}\n```\n"),
            "page.md:2: exit code 1 instead of 0");
  EXPECT_EQ(failure_of("```sh\nrunner exec recipes/wine.yaml train.epochs=1\n```\n```sql\nSELECT run FROM runs\n```\n"),
            "");
  EXPECT_EQ(failure_of("```sh\nrunner exec recipes/wine.yaml train.epochs=1\n```\n```sql\nSELECT it FROM runs\n```\n"),
            "page.md:5: exit code 2 instead of 0");
  EXPECT_EQ(failure_of("```json\n{\"a\": 1}\n```\n"), "");
  EXPECT_EQ(failure_of("```json\n{a: 1}\n```\n"), "page.md:2: invalid JSON");
  EXPECT_EQ(failure_of("```program\n%1 = input state 'exp_avg' : (131) f32\n```\n"), "");
  EXPECT_EQ(failure_of("```program\n%1 = nothing\n```\n"),
            "page.md:2: not in mlp_step.txt, or not in this order: %1 = nothing");
  EXPECT_EQ(failure_of("```\nx\n```\n"), "page.md:2: unknown block language \"\"");
  EXPECT_EQ(failure_of("```c++\nx\n```\n"), "page.md:2: unknown block language \"c++\"");
}

TEST(Follower, RejectsUnsupportedFences) {
  EXPECT_THROW(failure_of("- a list\n  ```sh\n  false\n  ```\n"), std::runtime_error);
  EXPECT_THROW(failure_of("~~~sh\nfalse\n~~~\n"), std::runtime_error);
  EXPECT_THROW(failure_of("```sh\nfalse\n"), std::runtime_error);
}

}  // namespace
}  // namespace runner::docs
