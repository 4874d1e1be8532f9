// The language of `ls --where`, `--sort` and `--columns`: from its text to a tree that says nothing about any store.
//
//   best(eval/accuracy) > 0.97 and (optimizer.lr < 1e-3 or not tag = baseline)
//
// Recursive descent over one line of text.  Any bytes are safe: what is no expression is a RecipeError whose diagnostic
// has the column; nesting is limited, so that no input can exhaust the stack.  docs/cli.md explains the language.
// Thread-safe: pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "schema/diagnostic.h"
#include "store/run_store.h"

namespace runner::store {

// Where something stands in the text, in characters from 0.
struct Span {
  int begin = 0, width = 1;
};

// What an expression asks of a run.
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
  std::string text;                     // as a title: "best(eval/accuracy)", "optimizer.lr"
  Span at;
};

// Whether a column holds a number; all others are texts.
bool is_number(RunField::Column column);

struct RunCondition {
  enum class Kind { kAnd, kOr, kNot, kCompare, kIn, kLike, kGlob, kHas };
  enum class Compare { kEqual, kNotEqual, kLess, kLessEqual, kGreater, kGreaterEqual };
  // One side of a comparison.
  struct Operand {
    bool is_field = false;
    RunField field;
    Param::Value value;  // a number or a text
    std::string text;    // as it is written
    Span at;
  };

  Kind kind = Kind::kAnd;
  Compare compare = Compare::kEqual;
  std::vector<RunCondition> parts;  // of and, or, not
  std::vector<Operand> operands;    // a comparison: two; in: what is looked for, then the list; has: one
};

struct SortKey {
  RunField field;
  bool descending = false;
};

// `option` names the text in messages: "--where".  Throws RecipeError.
RunCondition parse_condition(std::string_view text, const char* option);
// KEY [asc|desc], separated by commas.  Without a word, best() has the best first, everything else the smallest.
std::vector<SortKey> parse_sort_keys(std::string_view text, const char* option);
std::vector<RunField> parse_fields(std::string_view text, const char* option);

// Throws the RecipeError that points at `at` in `text`.
[[noreturn]] void fail_at(std::string_view text, const char* option, Span at, std::string message,
                          std::string hint = {});

// The names of all columns.
std::vector<std::string> column_names();

}  // namespace runner::store
