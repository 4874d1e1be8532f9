#include "store/run_expression.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "schema/base/suggest.h"
#include "store/run_token.h"

namespace runner::store {
namespace {

using Column = RunField::Column;
using Function = RunField::Function;
using Kind = RunCondition::Kind;
using Compare = RunCondition::Compare;
using Operand = RunCondition::Operand;

constexpr int kDeepest = 64;

struct ColumnRow {
  std::string_view name;
  Column column;
  bool number;
};
constexpr std::array kColumns{
    ColumnRow{"run", Column::kRun, false},          ColumnRow{"name", Column::kName, false},
    ColumnRow{"status", Column::kStatus, false},    ColumnRow{"tag", Column::kTag, false},
    ColumnRow{"created", Column::kCreated, false},  ColumnRow{"started", Column::kStarted, false},
    ColumnRow{"ended", Column::kEnded, false},      ColumnRow{"seconds", Column::kSeconds, true},
    ColumnRow{"backend", Column::kBackend, false},  ColumnRow{"num_processes", Column::kNumProcesses, true},
    ColumnRow{"seed", Column::kSeed, true},         ColumnRow{"parent", Column::kParent, false},
    ColumnRow{"attempts", Column::kAttempts, true}, ColumnRow{"exit_code", Column::kExitCode, true},
    ColumnRow{"reason", Column::kReason, false},    ColumnRow{"host", Column::kHost, false},
};

constexpr std::array kFunctions{
    std::pair{std::string_view("last"), Function::kLast}, std::pair{std::string_view("first"), Function::kFirst},
    std::pair{std::string_view("best"), Function::kBest}, std::pair{std::string_view("min"), Function::kMin},
    std::pair{std::string_view("max"), Function::kMax},   std::pair{std::string_view("mean"), Function::kMean},
    std::pair{std::string_view("n"), Function::kCount},   std::pair{std::string_view("nans"), Function::kNans},
};

constexpr std::array kComparisons{
    std::pair{std::string_view("="), Compare::kEqual},         std::pair{std::string_view("=="), Compare::kEqual},
    std::pair{std::string_view("!="), Compare::kNotEqual},     std::pair{std::string_view("<>"), Compare::kNotEqual},
    std::pair{std::string_view("<="), Compare::kLessEqual},    std::pair{std::string_view("<"), Compare::kLess},
    std::pair{std::string_view(">="), Compare::kGreaterEqual}, std::pair{std::string_view(">"), Compare::kGreater},
};

constexpr std::array kKeywords{"and", "or", "not", "in", "like"};

template <class Table>
auto find(const Table& table, std::string_view name) {
  return std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.first == name; });
}

class Parser {
 public:
  Parser(std::string_view text, const char* option) : text_(text), option_(option), tokens_(tokens_of(text, option)) {}

  RunCondition whole_condition() {
    RunCondition condition = any(0);
    expect_end("and, or");
    return condition;
  }

  std::vector<SortKey> sort_keys() {
    std::vector<SortKey> keys;
    do {
      SortKey key{field()};
      if (peek().is_keyword("asc") || peek().is_keyword("desc")) key.descending = take().is_keyword("desc");
      keys.push_back(std::move(key));
    } while (take_if(","));
    expect_end("asc, desc, a comma");
    return keys;
  }

  std::vector<RunField> fields() {
    std::vector<RunField> fields;
    do fields.push_back(field());
    while (take_if(","));
    expect_end("a comma");
    return fields;
  }

 private:
  const Token& peek() const { return tokens_[next_]; }
  const Token& take() { return peek().kind == TokenKind::kEnd ? tokens_[next_] : tokens_[next_++]; }
  bool take_if(std::string_view sign) { return peek().is(sign) && (take(), true); }
  bool take_keyword(std::string_view word) { return peek().is_keyword(word) && (take(), true); }

  [[noreturn]] void fail_here(std::string message, std::string hint = {}) const {
    fail_at(text_, option_, peek().at, std::move(message), std::move(hint));
  }
  std::string shown(const Token& token) const { return token.kind == TokenKind::kEnd ? "the end" : token.text; }
  [[noreturn]] void fail_expected(std::string_view wanted) const {
    fail_here(fmt::format("expected {}, got {}", wanted, shown(peek())));
  }
  void expect_end(std::string_view otherwise) const {
    if (peek().kind != TokenKind::kEnd) fail_expected(fmt::format("{} or the end", otherwise));
  }
  void expect(std::string_view sign) {
    if (!take_if(sign)) fail_expected(sign);
  }

  // Parses one or more `part`s separated by `word`.
  RunCondition joined(Kind kind, std::string_view word, int depth, RunCondition (Parser::*part)(int)) {
    RunCondition first = (this->*part)(depth);
    if (!peek().is_keyword(word)) return first;
    RunCondition all;
    all.kind = kind;
    all.parts.push_back(std::move(first));
    while (take_keyword(word)) all.parts.push_back((this->*part)(depth));
    return all;
  }
  RunCondition any(int depth) { return joined(Kind::kOr, "or", depth, &Parser::every); }
  RunCondition every(int depth) { return joined(Kind::kAnd, "and", depth, &Parser::single); }

  RunCondition single(int depth) {
    if (depth == kDeepest) fail_here(fmt::format("nested more than {} levels deep", kDeepest));
    if (take_keyword("not")) return negated(single(depth + 1));
    if (!take_if("(")) return comparison();
    RunCondition inner = any(depth + 1);
    expect(")");
    return inner;
  }

  static RunCondition negated(RunCondition inner) {
    RunCondition condition;
    condition.kind = Kind::kNot;
    condition.parts.push_back(std::move(inner));
    return condition;
  }

  RunCondition comparison() {
    if (peek().is_keyword("has") && tokens_[next_ + 1].is("(")) return has();
    const Token left = take_operand();
    const bool is_call = peek().is("(");
    RunCondition condition;
    Operand first = is_call ? call(left) : Operand{};
    if (take_keyword("not")) return negated(listed(left, std::move(first), is_call));
    if (peek().is_keyword("in") || peek().is_keyword("like") || peek().is("~")) {
      return listed(left, std::move(first), is_call);
    }
    const auto found = peek().kind == TokenKind::kSign ? find(kComparisons, peek().text) : kComparisons.end();
    if (found == kComparisons.end()) {
      fail_expected(fmt::format("=, !=, <, <=, >, >=, in, like or ~ after {}", shown_operand(left, is_call)));
    }
    take();
    condition.kind = Kind::kCompare;
    condition.compare = found->second;
    const Token right = take_operand();
    const bool right_is_call = peek().is("(");
    // A bare word is a field name on the left. On the right it is a text, unless the left side is a value.
    if (!is_call) first = left.kind == TokenKind::kWord ? named(left) : literal(left);
    Operand second = right_is_call                                       ? call(right)
                     : !first.is_field && right.kind == TokenKind::kWord ? named(right)
                                                                         : literal(right);
    condition.operands = {std::move(first), std::move(second)};
    fit_sides(condition);
    return condition;
  }

  std::string shown_operand(const Token& token, bool is_call) const {
    return is_call ? token.text + "(…)" : token.text;
  }

  // Parses `in`, `like` and `~`, whose left side must be a field.
  RunCondition listed(const Token& left, Operand first, bool is_call) {
    RunCondition condition;
    if (!is_call) {
      if (left.kind != TokenKind::kWord)
        fail_at(text_, option_, left.at, fmt::format("expected a name, got {}", left.text));
      first = named(left);
    }
    condition.operands.push_back(std::move(first));
    if (take_keyword("in")) {
      condition.kind = Kind::kIn;
      expect("(");
      do condition.operands.push_back(literal(take_operand()));
      while (take_if(","));
      expect(")");
      for (size_t i = 1; i < condition.operands.size(); ++i) fit_types(condition.operands[0], condition.operands[i]);
      return condition;
    }
    if (!take_keyword("like")) {
      if (!take_if("~")) fail_expected("in, like or ~");
      condition.kind = Kind::kGlob;
    } else {
      condition.kind = Kind::kLike;
    }
    const Token pattern = take_operand();
    condition.operands.push_back(literal(pattern));
    condition.operands.back().value = pattern.text;
    return condition;
  }

  RunCondition has() {
    take();
    expect("(");
    RunCondition condition;
    condition.kind = Kind::kHas;
    Operand operand;
    operand.is_field = true;
    operand.field = field();
    condition.operands.push_back(std::move(operand));
    expect(")");
    return condition;
  }

  // Takes a number, a quoted text, or a word that is not a keyword.
  Token take_operand() {
    const bool keyword =
        peek().kind == TokenKind::kWord &&
        std::any_of(kKeywords.begin(), kKeywords.end(), [&](const char* word) { return peek().is_keyword(word); });
    if (keyword || peek().kind == TokenKind::kSign || peek().kind == TokenKind::kEnd) {
      fail_expected("a name, a number or a text");
    }
    return take();
  }

  static Operand literal(const Token& token) {
    Operand operand;
    operand.at = token.at;
    operand.text = token.text;
    if (token.kind != TokenKind::kNumber) {
      operand.value = token.text;
    } else if (token.integer) {
      operand.value = *token.integer;
    } else {
      operand.value = token.number;
    }
    return operand;
  }

  static Operand named(const Token& token) {
    Operand operand;
    operand.is_field = true;
    operand.field = field_of(token);
    operand.at = token.at;
    return operand;
  }

  // Parses a function call. `token`: the function name.
  Operand call(const Token& token) {
    Operand operand;
    operand.is_field = true;
    operand.field = metric_of(token);
    operand.at = operand.field.at;
    return operand;
  }

  RunField field() {
    const Token token = take_operand();
    if (peek().is("(")) return metric_of(token);
    if (token.kind != TokenKind::kWord)
      fail_at(text_, option_, token.at, fmt::format("expected a name, got {}", token.text));
    return field_of(token);
  }

  // A name with a slash is a metric; its field is the last value.
  static RunField field_of(const Token& token) {
    RunField field;
    field.name = field.text = token.text;
    field.at = token.at;
    const auto known =
        std::find_if(kColumns.begin(), kColumns.end(), [&](const ColumnRow& row) { return row.name == token.text; });
    if (known != kColumns.end()) {
      field.column = known->column;
    } else {
      field.source = token.text.find('/') != std::string::npos ? RunField::Source::kMetric : RunField::Source::kParam;
    }
    return field;
  }

  RunField metric_of(const Token& token) {
    const auto known = find(kFunctions, token.text);
    if (known == kFunctions.end()) {
      std::vector<std::string> names{"has"};
      for (const auto& [name, function] : kFunctions) names.emplace_back(name);
      fail_at(text_, option_, token.at, fmt::format("unknown function {}", token.text),
              schema::did_you_mean(token.text, names, fmt::format("known: {}", fmt::join(names, ", "))));
    }
    expect("(");
    const Token metric = take_operand();
    RunField field;
    field.source = RunField::Source::kMetric;
    field.function = known->second;
    field.name = metric.text;
    field.text = fmt::format("{}({})", token.text, metric.text);
    field.at = {token.at.begin, peek().at.begin + 1 - token.at.begin};
    if (!take_if(")"))
      fail_here(fmt::format("expected ), got {}", shown(peek())),
                fmt::format("a name with blanks or signs needs double quotes: {}(\"a = b\")", token.text));
    return field;
  }

  void fit_sides(RunCondition& condition) const {
    Operand& left = condition.operands[0];
    Operand& right = condition.operands[1];
    if (!left.is_field && !right.is_field) {
      fail_at(text_, option_, left.at, "a comparison needs a name, but both sides are values",
              "put a parameter, a metric or a column on the left side");
    }
    left.is_field ? fit_types(left, right) : fit_types(right, left);
  }

  // Checks that `value` has the type of `field`. The types of columns and metrics are known; parameters are compared
  // run by run.
  void fit_types(const Operand& field, Operand& value) const {
    if (value.is_field || field.field.source == RunField::Source::kParam) return;
    const bool needs_number = field.field.source == RunField::Source::kMetric || is_number(field.field.column);
    if (!needs_number) {
      value.value = value.text;
      if (field.field.column == Column::kStatus) check_status(value);
    } else if (std::holds_alternative<std::string>(value.value)) {
      fail_no_number(text_, option_, field.field, value);
    }
  }

  // Throws if `value` is not a status, since it could never match.
  void check_status(const Operand& value) const {
    std::vector<std::string> names;
    for (const auto status :
         {RunStatus::kRunning, RunStatus::kDone, RunStatus::kFailed, RunStatus::kInterrupted, RunStatus::kCrashed}) {
      names.emplace_back(to_string(status));
    }
    if (std::find(names.begin(), names.end(), value.text) != names.end()) return;
    fail_at(text_, option_, value.at, fmt::format("unknown status {}", value.text),
            schema::did_you_mean(value.text, names, fmt::format("known: {}", fmt::join(names, ", "))));
  }

  std::string_view text_;
  const char* option_;
  std::vector<Token> tokens_;
  size_t next_ = 0;
};

}  // namespace

bool is_number(RunField::Column column) {
  return std::find_if(kColumns.begin(), kColumns.end(), [&](const ColumnRow& row) { return row.column == column; })
      ->number;
}

RunCondition parse_condition(std::string_view text, const char* option) {
  return Parser(text, option).whole_condition();
}

std::vector<SortKey> parse_sort_keys(std::string_view text, const char* option) {
  return Parser(text, option).sort_keys();
}

std::vector<RunField> parse_fields(std::string_view text, const char* option) {
  return Parser(text, option).fields();
}

void fail_at(std::string_view text, const char* option, TextSpan at, std::string message, std::string hint) {
  schema::Diagnostic d;
  d.id = schema::ErrorId::kBadExpression;
  d.where = {option, 1, at.begin + 1};
  d.width = at.width;
  d.message = std::move(message);
  d.hint = std::move(hint);
  d.source_line = std::string(text);
  throw schema::RecipeError({std::move(d)});
}

void fail_no_number(std::string_view text, const char* option, const RunField& field,
                    const RunCondition::Operand& value) {
  if (value.text.find('/') != std::string::npos) {
    fail_at(text, option, value.at,
            fmt::format("{} needs a number on the other side, got the metric {}", field.text, value.text),
            fmt::format("use last({}) for its newest value", value.text));
  }
  double number = 0;
  const char* const end = value.text.data() + value.text.size();
  const auto [stop, status] = std::from_chars(value.text.data(), end, number);
  const bool is_quoted_number = status == std::errc() && stop == end;
  fail_at(
      text, option, value.at, fmt::format("{} is a number, but {} is a text", field.text, value.text),
      is_quoted_number ? fmt::format("write {} without quotes", value.text) : "compare it with a number, such as 1e-3");
}

std::vector<std::string> column_names() {
  std::vector<std::string> names;
  for (const ColumnRow& row : kColumns) names.emplace_back(row.name);
  return names;
}

}  // namespace runner::store
