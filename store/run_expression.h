// Parser of the expressions in `ls --where`, `--sort` and `--columns`. The resulting trees do not depend on a store.
//
//   best(eval/accuracy) > 0.97 and (optimizer.lr < 1e-3 or not tag = baseline)
//
// Recursive descent over one line of text. Any input is safe: an invalid expression throws RecipeError with the column,
// and the nesting depth is limited. docs/cli.md describes the syntax. Thread-safe: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/base/diagnostic.h"
#include "store/run_store.h"

namespace runner::store {

// Position in the text, in characters from 0.
struct TextSpan {
  int begin = 0, width = 1;
};

// A value of a run that an expression refers to.
struct RunField {
  enum class Source { kColumn, kParam, kMetric };
  enum class Column {
    kRun,
    kName,
    kStatus,
    kTag,
    kCreated,
    kStarted,
    kEnded,
    kSeconds,
    kBackend,
    kNumProcesses,
    kSeed,
    kParent,
    kAttempts,
    kExitCode,
    kReason,
    kHost,
  };
  enum class Function { kLast, kFirst, kBest, kMin, kMax, kMean, kCount, kNans };

  Source source = Source::kColumn;
  Column column = Column::kRun;
  Function function = Function::kLast;  // of a metric
  std::string name;                     // of the parameter or metric
  std::string text;                     // column title, such as "best(eval/accuracy)" or "optimizer.lr"
  TextSpan at;
};

// Returns whether a column contains numbers; all others contain text.
bool is_number(RunField::Column column);

struct RunCondition {
  enum class Kind { kAnd, kOr, kNot, kCompare, kIn, kLike, kGlob, kHas };
  enum class Compare { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };
  // One side of a comparison.
  struct Operand {
    bool is_field = false;
    RunField field;
    Param::Value value;  // a number or a text
    std::string text;    // as written
    TextSpan at;
  };

  Kind kind = Kind::kAnd;
  Compare compare = Compare::kEqual;
  std::vector<RunCondition> parts;  // operands of and, or, not
  std::vector<Operand> operands;    // comparison: two; in: the field, then the list; has: one
};

struct SortKey {
  RunField field;
  std::optional<bool> descending = std::nullopt;  // none: best first for best(), else ascending
};

// `option`: name of the text in messages, such as "--where". Throws RecipeError.
RunCondition parse_condition(std::string_view text, const char* option);
// Parses KEY [asc|desc], separated by commas. The default order is ascending; for best() it is best first.
std::vector<SortKey> parse_sort_keys(std::string_view text, const char* option);
std::vector<RunField> parse_fields(std::string_view text, const char* option);

// Throws a RecipeError that points at `at` in `text`.
[[noreturn]] void fail_at(std::string_view text, const char* option, TextSpan at, std::string message,
                          std::string hint = {});

// Throws that `value`, compared with `field`, must be a number.
[[noreturn]] void fail_no_number(std::string_view text, const char* option, const RunField& field,
                                 const RunCondition::Operand& value);

std::vector<std::string> column_names();

}  // namespace runner::store
