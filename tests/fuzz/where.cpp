// Selection of runs: the lines of the input are --where, --sort and --columns, for a store with three runs.
#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "schema/base/utf8.h"
#include "store/run_expression.h"
#include "store/run_selection.h"
#include "store/store.h"
#include "tests/cli/sample_store.h"
#include "tests/fuzz/target.h"
#include "tests/support/temp_folder.h"

namespace runner::fuzz {
namespace {

using store::RunCondition;
using Kind = RunCondition::Kind;

constexpr int kDeepest = 70;  // slightly above the parser's own limit, for negations that it adds

void check_span(store::TextSpan span, std::string_view text) {
  const int length = count_characters(text);
  require(span.begin >= 0 && span.width >= 1 && span.begin + span.width <= std::max(length, 1),
          fmt::format("{} characters from {} of {}", span.width, span.begin, text));
}

void check_tree(const RunCondition& tree, std::string_view text, int depth) {
  require(depth < kDeepest, "a condition is nested too deep");
  const size_t parts = tree.parts.size(), operands = tree.operands.size();
  switch (tree.kind) {
    case Kind::kAnd:
    case Kind::kOr: require(parts >= 2 && operands == 0, "not two parts"); break;
    case Kind::kNot: require(parts == 1 && operands == 0, "not one part"); break;
    case Kind::kIn: require(parts == 0 && operands >= 2, "not a list"); break;
    case Kind::kHas: require(parts == 0 && operands == 1 && tree.operands[0].is_field, "not a name"); break;
    case Kind::kCompare:
      require(parts == 0 && operands == 2 && (tree.operands[0].is_field || tree.operands[1].is_field), "no comparison");
      break;
    case Kind::kLike:
    case Kind::kGlob:
      require(parts == 0 && operands == 2 && std::holds_alternative<std::string>(tree.operands[1].value), "no pattern");
      break;
  }
  for (const RunCondition& part : tree.parts) check_tree(part, text, depth + 1);
  for (const RunCondition::Operand& operand : tree.operands) {
    check_span(operand.is_field ? operand.field.at : operand.at, text);
  }
}

// The store of the command line tests. Its file is removed once it is open, so that nothing remains.
store::Store open_sample_store() {
  const support::TempFolder folder;
  const std::filesystem::path path = folder / "runner.db";
  cli::testing::make_sample_store(path);
  store::Store store = store::Store::open(path, store::Access::kRead);
  require(store::select_runs(store, {}).runs.size() == 3, "not the runs of the sample store");
  return store;
}

std::vector<std::string> uids(const store::RunSelection& selection) {
  std::vector<std::string> uids;
  for (const store::RunRow& run : selection.runs) uids.push_back(run.uid);
  std::sort(uids.begin(), uids.end());
  return uids;
}

void check_selection(store::Store& store, const store::RunQuery& query) {
  const store::RunSelection chosen = store::select_runs(store, query);
  require(chosen.columns.empty() || chosen.values.size() == chosen.runs.size(), "not values for each run");
  for (const auto& row : chosen.values) require(row.size() == chosen.columns.size(), "not a value for each column");
  const std::vector<std::string> fit = uids(chosen);
  require(std::adjacent_find(fit.begin(), fit.end()) == fit.end(), "a run is chosen twice");
  require(!query.where.empty() || fit.size() == 3, "a run is lost");
  if (query.where.empty()) return;

  // In parentheses it selects the same runs, and its negation none of them. Both nest one level deeper.
  try {
    require(uids(store::select_runs(store, {.where = "(" + query.where + ")"})) == fit, "parentheses change the runs");
    const std::vector<std::string> others = uids(store::select_runs(store, {.where = "not (" + query.where + ")"}));
    for (const std::string& uid : others) {
      require(!std::binary_search(fit.begin(), fit.end(), uid), "a run fits a condition and its contrary");
    }
  } catch (const schema::RecipeError& error) {
    require(error.message().find("nested more than") != std::string::npos, "refused in parentheses");
  }
}

}  // namespace

bool where(Bytes input) {
  static store::Store store = open_sample_store();
  std::istringstream lines(std::string(input.begin(), input.end()));
  store::RunQuery query;
  for (std::string* text : {&query.where, &query.sort, &query.columns}) std::getline(lines, *text);
  try {
    if (!query.where.empty()) check_tree(store::parse_condition(query.where, "--where"), query.where, 0);
    if (!query.sort.empty()) store::parse_sort_keys(query.sort, "--sort");
    if (!query.columns.empty()) {
      for (const store::RunField& field : store::parse_fields(query.columns, "--columns")) {
        check_span(field.at, query.columns);
      }
    }
    check_selection(store, query);
    return true;
  } catch (const schema::RecipeError& error) {
    check_diagnostics(error.diagnostics());
    return false;
  }
}

}  // namespace runner::fuzz
