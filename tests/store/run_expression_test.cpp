// Fuzzes the expressions of `ls --where`.
#include "store/run_expression.h"

#include <random>

#include <gtest/gtest.h>

#include "store/run_selection.h"
#include "tests/store/temp_store.h"

namespace runner::store {
namespace {

// Any text either parses or throws an error that points into the text.
void expect_tree_or_error(const std::string& text) {
  try {
    parse_condition(text, "--where");
  } catch (const schema::RecipeError& error) {
    ASSERT_EQ(error.diagnostics().size(), 1u);
    EXPECT_GE(error.diagnostics()[0].where.column, 1) << text;
    EXPECT_LE(error.diagnostics()[0].where.column, static_cast<int>(text.size()) + 1) << text;
    EXPECT_FALSE(error.diagnostics()[0].message.empty());
  }
}

TEST(RunExpression, AnyBytesParseOrThrow) {
  const std::vector<std::string> pieces{"best(",
                                        "eval/loss",
                                        ")",
                                        "(",
                                        "and",
                                        " or ",
                                        "not ",
                                        "<",
                                        "=",
                                        "in",
                                        "\"",
                                        "'",
                                        "1e9",
                                        "-",
                                        ",",
                                        " ",
                                        "\xff",
                                        "\xc3",
                                        "\n",
                                        "~",
                                        "like",
                                        "has(",
                                        "é",
                                        "!",
                                        "&&",
                                        "x",
                                        "..",
                                        "9",
                                        std::string(1, '\0')};
  std::mt19937 random(7);
  for (int i = 0; i < 20'000; ++i) {
    std::string text;
    for (size_t n = random() % 12; n > 0; --n) text += pieces[random() % pieces.size()];
    if (random() % 4 == 0) text += static_cast<char>(random());
    expect_tree_or_error(text);
  }
}

TEST(RunExpression, NestingDepthIsLimited) {
  const std::string deep = "nested more than 64 levels deep";
  for (const char* opening : {"(", "not ", "not("}) {
    std::string text;
    for (int i = 0; i < 100'000; ++i) text += opening;
    try {
      parse_condition(text + "seed = 1", "--where");
      FAIL() << opening;
    } catch (const schema::RecipeError& error) {
      EXPECT_EQ(error.diagnostics()[0].message, deep);
    }
  }
  std::string wide = "seed = 1";  // width is not limited
  for (int i = 0; i < 10'000; ++i) wide += " or seed = 1";
  EXPECT_EQ(parse_condition(wide, "--where").parts.size(), 10'001u);
}

using RunSelectionTest = StoreTest;

TEST_F(RunSelectionTest, BestFollowsTheDirectionOfTheMetric) {
  Store store = open_to_write();
  for (const auto& [uid, value] : {std::pair{"0000000aaa", 0.5}, {"0000000bbb", 0.75}}) {
    RunInfo info = sample_run();
    info.uid = uid;
    const RunHandle run = create_run(store, info);
    for (const char* name : {"eval/accuracy", "eval/loss", "eval/top_3", "train/my_reward", "train/gap"}) {
      MetricSummary summary;
      summary.name = name;
      summary.add({1, 0, value});
      summary.add({2, 0, value + 1});
      MetricTables(store.database()).put_summary(run.id, summary);
    }
  }
  const auto first = [&](const std::string& sort) { return select_runs(store, {.sort = sort}).runs[0].uid.substr(7); };
  EXPECT_EQ(first("best(eval/accuracy)"), "bbb");
  EXPECT_EQ(first("best(eval/top_3)"), "bbb");
  EXPECT_EQ(first("best(train/my_reward)"), "bbb");
  EXPECT_EQ(first("best(eval/loss)"), "aaa");
  EXPECT_EQ(first("best(train/gap)"), "aaa");
  EXPECT_EQ(first("best(eval/accuracy) asc"), "aaa");
  EXPECT_EQ(first("best(eval/loss) desc"), "bbb");
  const auto values = select_runs(store, {.columns = "best(eval/accuracy),best(eval/loss)", .limit = 1}).values;
  EXPECT_EQ(values[0], (std::vector<Param::Value>{1.75, 0.75}));
  EXPECT_EQ(find_run(store, "@best(eval/loss)").uid, "0000000aaa");
  EXPECT_EQ(find_run(store, "@best(eval/accuracy)").uid, "0000000bbb");
}

}  // namespace
}  // namespace runner::store
