#include "store/run_selection.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <unordered_map>
#include <utility>

#include "schema/base/clock.h"
#include "schema/base/suggest.h"
#include "schema/base/text.h"
#include "schema/recipe/field_table.h"
#include "schema/recipe/metric_names.h"
#include "store/metric_tables.h"
#include "store/run_expression.h"
#include "store/sqlite.h"
#include "store/value_text.h"

namespace runner::store {
namespace {

using Source = RunField::Source;
using Column = RunField::Column;
using Function = RunField::Function;
using Kind = RunCondition::Kind;
using Compare = RunCondition::Compare;
using Operand = RunCondition::Operand;
using Value = Param::Value;

// Three-valued logic as in SQL: a comparison with a missing value is unknown, and so is its negation.
enum class Truth { kFalse, kUnknown, kTrue };

Truth truth_of(bool value) {
  return value ? Truth::kTrue : Truth::kFalse;
}

bool is_missing(const Value& value) {
  const auto* number = std::get_if<double>(&value);
  return value.index() == 0 || (number != nullptr && std::isnan(*number));
}

double number_of(const Value& value) {
  const auto* integer = std::get_if<int64_t>(&value);
  return integer != nullptr ? static_cast<double>(*integer) : std::get<double>(value);
}

bool decide(Compare compare, int order) {
  switch (compare) {
    case Compare::kEqual: return order == 0;
    case Compare::kNotEqual: return order != 0;
    case Compare::kLess: return order < 0;
    case Compare::kLessEqual: return order <= 0;
    case Compare::kGreater: return order > 0;
    case Compare::kGreaterEqual: return order >= 0;
  }
  return false;
}

bool is_order(Compare compare) {
  return compare != Compare::kEqual && compare != Compare::kNotEqual;
}

template <class T>
int order_of(const T& a, const T& b) {
  return a < b ? -1 : b < a ? 1 : 0;
}

// Compares integers exactly; a double is exact only up to 2^53.
int order_of_numbers(const Value& a, const Value& b) {
  const auto *x = std::get_if<int64_t>(&a), *y = std::get_if<int64_t>(&b);
  return x != nullptr && y != nullptr ? order_of(*x, *y) : order_of(number_of(a), number_of(b));
}

// Compares numbers as numbers and everything else as text. A number and a text are unequal, and their order is unknown.
Truth compare(Compare how, const Value& a, const Value& b) {
  if (is_missing(a) || is_missing(b)) return Truth::kUnknown;
  if (is_number(a) && is_number(b)) return truth_of(decide(how, order_of_numbers(a, b)));
  if (!is_number(a) && !is_number(b)) return truth_of(decide(how, order_of(text_of(a), text_of(b))));
  if (how == Compare::kEqual) return Truth::kFalse;
  return how == Compare::kNotEqual ? Truth::kTrue : Truth::kUnknown;
}

// ---- values of fields -----------------------------------------------------------------------------------------------

std::string_view sql_of(Function function, bool larger_is_better) {
  switch (function) {
    case Function::kLast: return "last_value";
    case Function::kFirst: return "first_value";
    case Function::kMin: return "min_value";
    case Function::kMax: return "max_value";
    case Function::kMean: return "sum / nullif(n - nan_count - inf_count, 0)";
    case Function::kCount: return "n";
    case Function::kNans: return "nan_count";
    case Function::kBest: return larger_is_better ? "max_value" : "min_value";
  }
  return "";
}

Value column_value(const RunRow& run, Column column) {
  const auto text = [](const std::string& value) { return value.empty() ? Value() : Value(value); };
  switch (column) {
    case Column::kRun: return run.uid;
    case Column::kName: return run.name;
    case Column::kStatus: return std::string(to_string(run.status));
    case Column::kTag: return run.tags.empty() ? Value() : Value(fmt::format("{}", fmt::join(run.tags, " ")));
    case Column::kCreated: return utc_time(run.created_ms);
    case Column::kStarted: return utc_time(run.started_ms);
    case Column::kEnded: return run.ended_ms ? Value(utc_time(*run.ended_ms)) : Value();
    case Column::kSeconds: return static_cast<double>(run.ended_ms.value_or(run.heartbeat_ms) - run.started_ms) / 1000;
    case Column::kBackend: return run.backend;
    case Column::kNumProcesses: return run.num_processes;
    case Column::kSeed: return run.seed;
    case Column::kParent: return text(run.parent);
    case Column::kAttempts: return run.attempts;
    case Column::kExitCode: return run.exit_code ? Value(int64_t{*run.exit_code}) : Value();
    case Column::kReason: return text(run.reason);
    case Column::kHost: return text(run.host);
  }
  return {};
}

Value sql_value(const Statement& row, int column) {
  switch (row.type(column)) {
    case Statement::Type::kInteger: return row.int64(column);
    case Statement::Type::kReal: return row.real(column);
    case Statement::Type::kText: return row.text(column);
    default: return {};
  }
}

std::vector<std::string> listed(Database& database, const char* sql) {
  std::vector<std::string> names;
  for (Statement rows(database, sql); rows.step();) names.push_back(rows.text(0));
  return names;
}

std::vector<std::string> param_names(Database& database) {
  return listed(database, "SELECT DISTINCT key FROM param ORDER BY key");
}

std::vector<std::string> metric_names(Database& database) {
  return listed(database, "SELECT DISTINCT name FROM series ORDER BY name");
}

// Rejects names that no run has and no recipe could have.
class Names {
 public:
  Names(Database& database, std::string_view text, const char* option)
      : database_(database), text_(text), option_(option) {}

  void check(const RunField& field) const {
    if (field.source == Source::kParam ? is_setting(field.name) : is_own_metric(field.name)) return;
    field.source == Source::kParam ? fail_no_param(field) : fail_no_metric(field);
  }

  [[noreturn]] void fail_no_number(const RunField& field, const Operand& value) const {
    store::fail_no_number(text_, option_, field, value);
  }

 private:
  static bool is_setting(const std::string& name) {
    std::string path;
    // model.hidden[0] belongs to the field model.hidden, optimizer.groups[0].lr to optimizer.groups[].lr
    for (size_t i = 0; i < name.size(); ++i) {
      path += name[i];
      if (name[i] != '[') continue;
      i = std::min(name.find(']', i), name.size() - 1);
      if (i + 1 < name.size())
        path += ']';
      else
        path.pop_back();
    }
    return name.starts_with("vars.") || !schema::find_fields(path).empty();
  }

  static bool is_own_metric(const std::string& name) {
    const std::string_view own = std::string_view(name).substr(name.find('/') + 1);
    if (name.starts_with("train/"))
      return std::ranges::find(schema::kTrainingMetrics, own) != schema::kTrainingMetrics.end();
    return name.starts_with("eval/") && (own.starts_with("top_") || schema::is_metric_name(own));
  }

  [[noreturn]] void fail_no_param(const RunField& field) const {
    std::vector<std::string> near;
    for (const std::string& metric : metric_names(database_)) {  // suggest eval/accuracy for accuracy
      if (metric.substr(metric.rfind('/') + 1) == field.name)
        near.push_back(metric == field.name ? fmt::format("last({})", metric) : metric);
    }
    const std::vector<std::string> settings = schema::paths_ending_with(field.name);
    if (!settings.empty()) near.insert(near.begin(), settings.front());  // suggest optimizer.lr for lr
    std::vector<std::string> names = column_names();
    for (const schema::Field& known : schema::fields()) names.push_back(known.path());
    for (std::string& key : param_names(database_)) names.push_back(std::move(key));
    if (near.empty()) near = schema::nearest(field.name, names);
    fail_at(text_, option_, field.at, fmt::format("no run has a field {}", field.name),
            near.empty() ? "`runner show RUN` lists a run's parameters and metrics" : schema::did_you_mean(near));
  }

  void fail_no_metric(const RunField& field) const {
    const std::vector<std::string> names = metric_names(database_);
    if (names.empty()) return;  // no run has metrics yet, so the name may still be valid
    fail_at(text_, option_, field.at, fmt::format("no run has a metric {}", field.name),
            schema::did_you_mean(field.name, names, fmt::format("known: {}", fmt::join(names, ", "))));
  }

  Database& database_;
  std::string_view text_;
  const char* option_;
};

// Values of fields for all runs, read on first use. `runs` is sorted newest first.
class RunValues {
 public:
  RunValues(Store& store, const std::vector<RunRow>& runs) : database_(store.database()), runs_(runs) {
    ids_.reserve(runs.size());
    for (const RunRow& run : runs) ids_.push_back(run.id);
  }

  // Returns the values of a field, indexed by run. Valid as long as this object.
  const std::vector<Value>& of(const RunField& field, const Names& names) {
    const auto [found, is_new] = columns_.try_emplace({field.source, field.text});
    if (is_new) found->second = read(field, names);
    return found->second;
  }

  const std::vector<RunRow>& runs() const { return runs_; }

 private:
  std::vector<Value> read(const RunField& field, const Names& names) {
    std::vector<Value> values(runs_.size());
    if (field.source == Source::kColumn) {
      for (size_t i = 0; i < runs_.size(); ++i) values[i] = column_value(runs_[i], field.column);
      return values;
    }
    const bool any = field.source == Source::kParam ? read_param(field, values) : read_metric(field, values);
    if (!any) names.check(field);
    return values;
  }

  Value* slot(int64_t run_id, std::vector<Value>& values) const {
    const auto found = std::lower_bound(ids_.begin(), ids_.end(), run_id, std::greater<>());
    return found == ids_.end() || *found != run_id ? nullptr : &values[static_cast<size_t>(found - ids_.begin())];
  }

  // The index param_by_key covers every column except the type. Only 0 and 1 need it, because they may be booleans.
  bool read_param(const RunField& field, std::vector<Value>& values) const {
    Statement rows(database_,
                   "SELECT run_id, value, CASE WHEN value IN (0, 1) THEN (SELECT type FROM param AS own "
                   "WHERE own.run_id = param.run_id AND own.key = ?1) END FROM param WHERE key = ?1");
    bool any = false;
    for (rows.bind(field.name); rows.step(); any = true) {
      Value* value = slot(rows.int64(0), values);
      if (value == nullptr) continue;
      *value = rows.text(2) == "bool" ? Value(rows.int64(1) != 0) : sql_value(rows, 1);
    }
    return any;
  }

  bool read_metric(const RunField& field, std::vector<Value>& values) const {
    const std::string sql(sql_of(field.function, maximizes(database_, field.name)));
    Statement rows(database_, "SELECT run_id, " + sql + " FROM series WHERE name = ?1");
    bool any = false;
    for (rows.bind(field.name); rows.step(); any = true) {
      if (Value* value = slot(rows.int64(0), values)) *value = sql_value(rows, 1);
    }
    return any;
  }

  Database& database_;
  const std::vector<RunRow>& runs_;
  std::vector<int64_t> ids_;  // in descending order
  std::map<std::pair<Source, std::string>, std::vector<Value>> columns_;
};

// ---- conditions -----------------------------------------------------------------------------------------------------

// A condition bound to the values of its fields.
class BoundCondition {
 public:
  BoundCondition(const RunCondition& tree, RunValues& values, const Names& names) : tree_(tree), runs_(values.runs()) {
    for (const RunCondition& part : tree.parts) parts_.emplace_back(part, values, names);
    for (const Operand& operand : tree.operands) {
      columns_.push_back(operand.is_field ? &values.of(operand.field, names) : nullptr);
    }
    if (tree.kind == Kind::kCompare && is_order(tree.compare)) {
      check_order(0, 1, names);
      check_order(1, 0, names);
    }
  }

  Truth holds(size_t run) const {
    switch (tree_.kind) {
      case Kind::kAnd: return folded(run, Truth::kTrue, [](Truth a, Truth b) { return std::min(a, b); });
      case Kind::kOr: return folded(run, Truth::kFalse, [](Truth a, Truth b) { return std::max(a, b); });
      case Kind::kNot: return static_cast<Truth>(2 - static_cast<int>(parts_[0].holds(run)));
      case Kind::kHas: return truth_of(!is_missing((*columns_[0])[run]));
      default: return has_tags() ? any_tag(run) : leaf(run, value(0, run));
    }
  }

 private:
  // Throws if all values of the field are numbers but the other operand is a text: no run could match.
  void check_order(size_t field, size_t other, const Names& names) const {
    const Operand& operand = tree_.operands[other];
    if (columns_[field] == nullptr || operand.is_field || is_number(operand.value)) return;
    const auto is_text = [](const Value& value) { return !is_missing(value) && !is_number(value); };
    const auto is_given = [](const Value& value) { return !is_missing(value); };
    if (std::ranges::any_of(*columns_[field], is_given) && std::ranges::none_of(*columns_[field], is_text))
      names.fail_no_number(tree_.operands[field].field, operand);
  }

  template <class Fold>
  Truth folded(size_t run, Truth start, Fold fold) const {
    for (const BoundCondition& part : parts_) start = fold(start, part.holds(run));
    return start;
  }

  const Value& value(size_t operand, size_t run) const {
    return columns_[operand] != nullptr ? (*columns_[operand])[run] : tree_.operands[operand].value;
  }

  // Evaluates a leaf with `first` as the value of its first operand.
  Truth leaf(size_t run, const Value& first) const {
    if (tree_.kind == Kind::kCompare) return compare(tree_.compare, first, value(1, run));
    if (is_missing(first)) return Truth::kUnknown;
    if (tree_.kind == Kind::kIn) {
      bool found = false;
      for (size_t i = 1; i < columns_.size(); ++i)
        found |= compare(Compare::kEqual, first, value(i, run)) == Truth::kTrue;
      return truth_of(found);
    }
    const std::string& pattern = std::get<std::string>(tree_.operands[1].value);
    if (tree_.kind == Kind::kGlob) return truth_of(matches(pattern, text_of(first)));
    return truth_of(matches(lower_case(pattern), lower_case(text_of(first)), '%', '_'));
  }

  bool has_tags() const {
    const Operand& first = tree_.operands[0];
    return first.is_field && first.field.source == Source::kColumn && first.field.column == Column::kTag;
  }

  // A condition on tags holds if any tag satisfies it. `!=` holds if no tag is equal.
  Truth any_tag(size_t run) const {
    const bool unequal = tree_.kind == Kind::kCompare && tree_.compare == Compare::kNotEqual;
    for (const std::string& tag : runs_[run].tags) {
      if ((leaf(run, tag) == Truth::kTrue) != unequal) return truth_of(!unequal);
    }
    return truth_of(unequal);
  }

  const RunCondition& tree_;
  const std::vector<RunRow>& runs_;
  std::vector<BoundCondition> parts_;
  std::vector<const std::vector<Value>*> columns_;  // null if the operand is a literal
};

// ---- order ----------------------------------------------------------------------------------------------------------

int rank(const Value& value) {
  if (is_missing(value)) return 2;
  return is_number(value) ? 0 : 1;
}

// Missing values come last in either direction.
int order_of_values(const Value& a, const Value& b, bool descending) {
  if (rank(a) != rank(b) || is_missing(a)) return order_of(rank(a), rank(b));
  const int order = is_number(a) ? order_of_numbers(a, b) : order_of(text_of(a), text_of(b));
  return descending ? -order : order;
}

void sort_runs(Database& database, std::vector<size_t>& chosen, const std::vector<SortKey>& keys, RunValues& values,
               const Names& names) {
  std::vector<const std::vector<Value>*> columns;
  std::vector<bool> descending;
  for (const SortKey& key : keys) {
    columns.push_back(&values.of(key.field, names));
    const bool best = key.field.source == Source::kMetric && key.field.function == Function::kBest;
    descending.push_back(key.descending ? *key.descending : best && maximizes(database, key.field.name));
  }
  std::stable_sort(chosen.begin(), chosen.end(), [&](size_t a, size_t b) {
    for (size_t k = 0; k < keys.size(); ++k) {
      const int order = order_of_values((*columns[k])[a], (*columns[k])[b], descending[k]);
      if (order != 0) return order < 0;
    }
    return false;
  });
}

constexpr const char *kWhereOption = "--where", *kSortOption = "--sort", *kColumnsOption = "--columns";

// The parsed expressions of a query.
struct ParsedQuery {
  explicit ParsedQuery(const RunQuery& query) {
    if (!query.where.empty()) where = parse_condition(query.where, kWhereOption);
    if (!query.sort.empty()) keys = parse_sort_keys(query.sort, kSortOption);
    if (!query.columns.empty()) fields = parse_fields(query.columns, kColumnsOption);
  }

  RunCondition where;
  std::vector<SortKey> keys;
  std::vector<RunField> fields;
};

// Returns the indices of the selected runs, in order.
std::vector<size_t> chosen_runs(Database& database, const RunQuery& query, const ParsedQuery& parsed,
                                const std::vector<RunRow>& runs, RunValues& values) {
  const BoundCondition condition(parsed.where, values, Names(database, query.where, kWhereOption));
  std::vector<size_t> chosen;
  for (size_t i = 0; i < runs.size(); ++i) {
    if (condition.holds(i) == Truth::kTrue) chosen.push_back(i);
  }
  sort_runs(database, chosen, parsed.keys, values, Names(database, query.sort, kSortOption));
  if (query.limit > 0) chosen.resize(std::min(chosen.size(), static_cast<size_t>(query.limit)));
  return chosen;
}

void take_columns(RunSelection& selection, const std::vector<RunField>& fields, const std::vector<size_t>& chosen,
                  RunValues& values, const Names& names) {
  if (fields.empty()) return;
  std::vector<const std::vector<Value>*> columns;
  for (const RunField& field : fields) {
    columns.push_back(&values.of(field, names));
    selection.columns.push_back(field.text);
  }
  selection.values.reserve(chosen.size());
  for (const size_t i : chosen) {
    std::vector<Value>& row = selection.values.emplace_back();
    for (const std::vector<Value>* column : columns) row.push_back((*column)[i]);
  }
}

// Few attempts have dropped points, and an index covers exactly those.
void count_dropped_points(Database& database, std::vector<RunRow>& runs) {
  std::unordered_map<int64_t, int64_t> dropped;
  Statement rows(database, "SELECT run_id, sum(dropped_points) FROM attempt WHERE dropped_points > 0 GROUP BY run_id");
  while (rows.step()) dropped[rows.int64(0)] = rows.int64(1);
  for (RunRow& run : runs) {
    const auto found = dropped.find(run.id);
    if (found != dropped.end()) run.dropped_points = found->second;
  }
}

}  // namespace

std::vector<std::string> run_field_names(Store& store) {
  std::vector<std::string> names = column_names();
  for (std::string& key : param_names(store.database())) names.push_back(std::move(key));
  for (std::string& metric : metric_names(store.database())) names.push_back(std::move(metric));
  return names;
}

RunSelection select_runs(Store& store, const RunQuery& query) {
  const ParsedQuery parsed(query);  // parsed before the store is read, because syntax errors do not depend on it
  Database& database = store.database();
  const Transaction snapshot(database, Transaction::Kind::kRead);
  const bool all_needed = !query.where.empty() || !query.sort.empty();
  std::vector<RunRow> runs =
      list_runs(store, all_needed ? 0 : query.limit, query.trash ? Trash::kOnly : Trash::kHidden);
  RunValues values(store, runs);
  const std::vector<size_t> chosen = chosen_runs(database, query, parsed, runs, values);

  RunSelection selection;
  take_columns(selection, parsed.fields, chosen, values, Names(database, query.columns, kColumnsOption));
  if (chosen.size() == runs.size() && parsed.keys.empty()) {
    selection.runs = std::move(runs);
  } else {
    selection.runs.reserve(chosen.size());
    for (const size_t i : chosen) selection.runs.push_back(std::move(runs[i]));
  }
  if (query.dropped_points) count_dropped_points(database, selection.runs);
  return selection;
}

}  // namespace runner::store
