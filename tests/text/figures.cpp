#include "tests/text/figures.h"

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include <gtest/gtest.h>

#include "schema/base/text.h"
#include "tests/support/json.h"
#include "tests/support/paths.h"
#include "tests/support/temp_folder.h"

namespace runner::text {
namespace {

namespace fs = std::filesystem;
using support::Json;

constexpr int kMostShown = 10;

fs::path figures_folder() {
  const char* const other = std::getenv("RUNNER_TOKENIZER_FIGURES");
  return other != nullptr ? fs::path(other) : fs::path(support::source_path("tests/text/figures"));
}

std::vector<int32_t> integers(const Json& list) {
  std::vector<int32_t> values;
  for (const Json& item : list.items()) values.push_back(static_cast<int32_t>(item.integer()));
  return values;
}

// Counts the figures that differ, and shows the first of them.
class Comparison {
 public:
  explicit Comparison(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}

  void compare(const Json& row) {
    ++rows_;
    if (row[0].text() == "pair")
      compare_pair(row);
    else
      compare_text(row);
  }
  int rows() const { return rows_; }
  int different() const { return different_; }

 private:
  void compare_text(const Json& row) {
    const std::string text = row[1].text();
    const std::vector<int32_t> ids = integers(row[2]);
    expect(tokenizer_.with_specials(tokenizer_.encode(text)).ids == ids, "ids of", text);
    const std::vector<int32_t> as_text = row[3].type() == "null" ? ids : integers(row[3]);
    expect(tokenizer_.with_specials(tokenizer_.encode(text, SpecialTokens::kAsText)).ids == as_text, "ids as text of",
           text);
    std::vector<int32_t> plain = ids;
    std::erase_if(plain, [&](int32_t id) { return tokenizer_.is_special(id); });
    expect(tokenizer_.decode(plain) == row[4].text(), "decoded ids of", text);
  }
  void compare_pair(const Json& row) {
    const std::string text = row[1].text();
    const Encoding pair = tokenizer_.with_specials(tokenizer_.encode(text), tokenizer_.encode(row[4].text()));
    expect(pair.ids == integers(row[2]), "ids of the pair", text);
    expect(pair.types == integers(row[3]), "types of the pair", text);
  }
  void expect(bool is_same, const char* what, const std::string& text) {
    if (is_same) return;
    if (++different_ <= kMostShown) ADD_FAILURE() << what << " " << in_quotes(text) << " differ";
  }

  const Tokenizer& tokenizer_;
  int rows_ = 0, different_ = 0;
};

}  // namespace

void compare_figures(const Tokenizer& tokenizer, const std::string& name, int least) {
  const std::string figures = support::read_text(figures_folder() / (name + ".figures.jsonl"));
  Comparison comparison(tokenizer);
  std::istringstream lines(figures);
  for (std::string line; std::getline(lines, line);) comparison.compare(Json::parse(line));
  EXPECT_GE(comparison.rows(), least);
  EXPECT_EQ(comparison.different(), 0) << "of " << comparison.rows();
}

}  // namespace runner::text
