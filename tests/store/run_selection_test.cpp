// What conditions, sort keys and columns of `ls` select from a store with runs of every kind (selections.txt).
#include "store/run_selection.h"

#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "schema/base/diagnostic.h"
#include "store/metric_tables.h"
#include "store/removal.h"
#include "store/sqlite.h"
#include "store/value_text.h"
#include "tests/store/sample_values.h"
#include "tests/store/temp_store.h"
#include "tests/support/expected_text.h"
#include "tests/support/paths.h"

namespace runner::store {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Selections : public StoreTest {
 protected:
  Selections() : store_(open_to_write()) {
    add("a", "digits", {{"vars.x", int64_t{1}}, {"vars.y", "abc"}, {"optimizer.lr", 1e-3}},
        {{"eval/loss", {0.5, 0.25}}});
    add("b", "Digits", {{"vars.x", 1.0}, {"vars.y", "ABC"}, {"optimizer.lr", 1e-5}}, {{"eval/loss", {0.5, kNan}}});
    add("c", "wine", {{"vars.x", true}, {"vars.y", ""}, {"optimizer.lr", 1e20}}, {{"eval/loss", {kNan}}});
    add("d", "10", {{"vars.x", false}, {"vars.y", "10"}, {"optimizer.lr", 0.0}}, {{"eval/loss", {kInfinity, 2.0}}});
    add("e", "a%b", {{"vars.x", "1"}, {"vars.y", "true"}, {"optimizer.lr", -3.0}}, {{"eval/loss", {-kInfinity}}});
    add("f", "a_b*", {{"vars.x", std::monostate()}, {"vars.y", 2.5}, {"optimizer.lr", 3.0}}, {{"train/loss", {1.0}}});
    add("g", "", {{"vars.x", kNan}, {"vars.y", int64_t{-7}}}, {{"eval/loss", {0.25}}, {"train/loss", {0.25, 3.0}}});
    add("h", "Äpfel [1]", {{"vars.x", "Äpfel"}, {"vars.y", kInfinity}}, {});
    add("i", "digits", {{"vars.x", int64_t{0}}, {"vars.z", (int64_t{1} << 53) + 1}},
        {{"eval/accuracy", {0.5, 0.75, 0.5}}});
    add("t", "digits", {{"vars.x", int64_t{1}}}, {{"eval/loss", {0.25}}});
    set_columns();
  }

  void add(const std::string& letter, const std::string& name, std::vector<Param> params,
           const std::vector<std::pair<std::string, std::vector<double>>>& metrics) {
    RunInfo info = sample_run(name);
    info.uid = "000000000" + letter;
    info.seed = static_cast<int64_t>(letter[0] % 3);
    info.attempt.params = std::move(params);
    info.attempt.backend = letter < "d" ? "cpu" : "gpu";
    info.attempt.num_processes = letter < "f" ? 1 : 2;
    if (letter == "h") info.parent = "000000000a";
    const RunHandle run = create_run(store_, info);
    for (const auto& [metric, values] : metrics) {
      MetricSummary summary;
      summary.name = metric;
      int64_t step = 0;
      for (const double value : values) summary.add({++step, 0, value});
      MetricTables(store_.database()).put_summary(run.id, summary);
    }
    if (letter == "b") finish_run(store_, run, {RunStatus::kDone, 0, "", "{}"});
    if (letter == "c") finish_run(store_, run, {RunStatus::kFailed, 1, "out of memory", "{}"});
    if (letter == "d" || letter == "e") finish_run(store_, run, {RunStatus::kInterrupted, 4, "", "{}"});
    if (letter < "c") add_tag(store_, run.id, "baseline");
    if (letter < "c" || letter == "e") add_tag(store_, run.id, "best");
    if (letter == "d") add_tag(store_, run.id, "2");
    if (letter == "t") {
      finish_run(store_, run, {RunStatus::kDone, 0, "", "{}"});
      trash_run(store_, run.id);
    }
  }

  // Times and processes that do not depend on the test's.
  void set_columns() {
    Database& database = store_.database();
    database.exec("UPDATE run SET created_ms = 1772368496000 + 333 * id");
    database.exec("UPDATE attempt SET started_ms = 1772368496100 + 444 * run_id, heartbeat_ms = 1772368500000");
    database.exec("UPDATE attempt SET ended_ms = 1772368600050 + run_id % 3 WHERE ended_ms IS NOT NULL");
    database.exec("UPDATE attempt SET host = CASE run_id % 3 WHEN 0 THEN '' WHEN 1 THEN 'here' ELSE 'there' END");
    database.exec("UPDATE attempt SET pid_start = pid_start - 1 WHERE status = 'running' AND run_id > 6");  // dead
  }

  // "OPTION: TEXT": what the query of this line answers.
  std::string answer(const std::string& line) {
    RunQuery query;
    const size_t colon = line.find(": ");
    const std::string option = line.substr(0, colon), text = line.substr(colon + 2);
    (option == "where" || option == "trash" ? query.where : option == "sort" ? query.sort : query.columns) = text;
    query.trash = option == "trash";
    try {
      return shown(select_runs(store_, query));
    } catch (const schema::RecipeError& error) {
      return error.diagnostics()[0].message;
    }
  }

  // The last characters of the run ids, with the columns in parentheses.
  static std::string shown(const RunSelection& selection) {
    std::string text;
    for (size_t i = 0; i < selection.runs.size(); ++i) {
      text += (text.empty() ? "" : " ") + selection.runs[i].uid.substr(9);
      if (selection.values.empty()) continue;
      text += '(';
      for (const Param::Value& value : selection.values[i])
        text += fmt::format("{}:{}", std::string("-bids")[value.index()], store::text_of(value));
      text += ')';
    }
    return text.empty() ? "none" : text;
  }

  Store store_;
};

TEST_F(Selections, AnswerAsRecorded) {
  const std::filesystem::path file = support::source_path("tests/store/selections.txt");
  std::istringstream lines(read_text(file));
  std::string updated, line;
  while (std::getline(lines, line)) {
    if (line.empty() || line[0] == '#') {
      updated += line + '\n';
      continue;
    }
    const size_t arrow = line.rfind(" -> ");
    const std::string question = line.substr(0, arrow), answered = question + " -> " + answer(question);
    updated += answered + '\n';
    if (!support::should_update()) {
      EXPECT_EQ(line, answered);
    }
  }
  if (support::should_update()) write_file(file, updated);
}

// SQLite limits the stack of its parser and the depth of expressions.
TEST_F(Selections, DeepAndWideConditions) {
  std::string left = "seed = 1", right = "seed = 1", negated = "seed = 1", wide = "name = none";
  for (int i = 0; i < 31; ++i) negated = fmt::format("not (tag = none or {})", negated);
  for (int i = 0; i < 62; ++i) {
    left = fmt::format("({}) {} has(name)", left, i % 2 == 0 ? "and" : "or");
    right = fmt::format("has(name) {} ({})", i % 2 == 0 ? "and" : "or", right);
  }
  for (int i = 0; i < 5000; ++i) wide += fmt::format(" or name = digits and vars.x < {}", i % 2);
  EXPECT_EQ(answer("where: " + left), answer("where: has(name)"));
  EXPECT_EQ(answer("where: " + right), answer("where: has(name)"));
  EXPECT_EQ(answer("where: " + negated), answer("where: not seed = 1"));
  EXPECT_EQ(answer("where: " + wide), answer("where: name = digits and vars.x < 1"));
}

}  // namespace
}  // namespace runner::store
