#include "tests/support/expected_text.h"

#include <algorithm>
#include <cstdint>

#include <stdlib.h>

namespace runner::support {
namespace {

using Texts = std::vector<std::string>;

// A step of the alignment of expected and actual elements (lines, or words of a line).
enum class Step : uint8_t { kEnd, kKeep, kReplace, kAdd, kDrop, kAbsorb, kKeepAny };

// Costs of an alignment. Replacing is cheaper than dropping, so that a wildcard does not swallow a changed line.
constexpr int kReplaceSame = 100, kReplaceOther = 200, kAddOrDrop = 300;

std::string trimmed(const std::string& text) {
  const size_t start = text.find_first_not_of(' ');
  return start == std::string::npos ? "" : text.substr(start);
}

// Between kReplaceSame and kReplaceOther: less for texts with a longer common prefix and suffix.
int replace_cost(const std::string& a, const std::string& b) {
  const size_t shorter = std::min(a.size(), b.size()), longer = std::max(a.size(), b.size());
  size_t prefix = 0, suffix = 0;
  while (prefix < shorter && a[prefix] == b[prefix]) ++prefix;
  while (prefix + suffix < shorter && a[a.size() - 1 - suffix] == b[b.size() - 1 - suffix]) ++suffix;
  const int differing = static_cast<int>(100 * (longer - prefix - suffix) / std::max<size_t>(longer, 1));
  return kReplaceSame + differing * (kReplaceOther - kReplaceSame) / 100;
}

// The cheapest alignment of two lists, by dynamic programming from their ends.
class Alignment {
 public:
  // `any`: the expected element that matches any number of actual ones.
  Alignment(const Texts& expected, const Texts& actual, const std::string& any, const ExpectedStyle& style)
      : columns_(actual.size() + 1), cells_((expected.size() + 1) * columns_) {
    for (size_t e = expected.size() + 1; e-- > 0;) {
      const bool is_any = e < expected.size() && trimmed(expected[e]) == any;
      for (size_t a = columns_; a-- > 0;) {
        const bool more_expected = e < expected.size(), more_actual = a < actual.size();
        Cell& cell = at(e, a);
        if (!more_expected && !more_actual) continue;
        cell.cost = INT32_MAX;
        if (is_any) {
          offer(cell, Step::kKeepAny, at(e + 1, a).cost);
          if (more_actual) offer(cell, Step::kAbsorb, at(e, a + 1).cost);
          continue;
        }
        if (more_expected && more_actual) {
          if (style.matches(expected[e], actual[a])) offer(cell, Step::kKeep, at(e + 1, a + 1).cost);
          offer(cell, Step::kReplace, at(e + 1, a + 1).cost + replace_cost(expected[e], actual[a]));
        }
        if (more_actual) offer(cell, Step::kAdd, at(e, a + 1).cost + kAddOrDrop);
        if (more_expected) offer(cell, Step::kDrop, at(e + 1, a).cost + kAddOrDrop);
      }
    }
  }

  // The cheapest step at expected element `e` and actual element `a`.
  Step step(size_t e, size_t a) const { return cells_[e * columns_ + a].step; }

 private:
  struct Cell {
    int cost = 0;
    Step step = Step::kEnd;
  };
  Cell& at(size_t e, size_t a) { return cells_[e * columns_ + a]; }
  static void offer(Cell& cell, Step step, int cost) {
    if (cost < cell.cost) cell = {cost, step};
  }

  size_t columns_;
  std::vector<Cell> cells_;
};

// Aligns two lists. `replaced(e, a)` is the text for an actual element in place of an expected one, `added(a)` the
// text for an actual element that no expected one resembles.
template <typename Replaced, typename Added>
Texts merged(const Texts& expected, const Texts& actual, const std::string& any, const ExpectedStyle& style,
             Replaced replaced, Added added) {
  const Alignment alignment(expected, actual, any, style);
  Texts result;
  for (size_t e = 0, a = 0;;) {
    switch (alignment.step(e, a)) {
      case Step::kEnd: return result;
      case Step::kKeep: result.push_back(expected[e++]), ++a; break;
      case Step::kKeepAny: result.push_back(expected[e++]); break;
      case Step::kReplace: result.push_back(replaced(expected[e++], actual[a++])); break;
      case Step::kAdd: result.push_back(added(actual[a++])); break;
      case Step::kDrop: ++e; break;
      case Step::kAbsorb: ++a; break;
    }
  }
}

// The words of a line, each with the blanks before it.
Texts words_of(const std::string& line) {
  Texts words;
  for (size_t at = 0; at < line.size();) {
    const size_t start = std::min(line.find_first_not_of(' ', at), line.size());
    const size_t end = std::min(line.find(' ', start), line.size());
    words.push_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

// The actual line with those words of the expected line that still match.
std::string updated_line(const std::string& expected, const std::string& actual, const ExpectedStyle& style) {
  const Texts words = merged(
      words_of(expected), words_of(actual), style.any_words, style,
      [&](const std::string&, const std::string& word) { return style.written(word); }, style.written);
  std::string line;
  for (const std::string& word : words) line += word;
  return style.matches(line, actual) ? line : style.written(actual);
}

}  // namespace

bool should_update() {
  return ::getenv("RUNNER_UPDATE") != nullptr;
}

std::vector<std::string> updated_lines(const std::vector<std::string>& expected, const std::vector<std::string>& actual,
                                       const ExpectedStyle& style) {
  return merged(
      expected, actual, style.any_lines, style,
      [&](const std::string& e, const std::string& a) { return updated_line(e, a, style); }, style.written);
}

}  // namespace runner::support
