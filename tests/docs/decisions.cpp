// Generates docs/decisions/README.md from the decision records.
#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "tests/cli/command.h"
#include "tests/docs/pages.h"
#include "tests/support/paths.h"
#include "tests/support/pattern.h"

namespace runner::docs {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDecisionsBegin = R"(# Decisions

The reasons for design decisions, one record for each. A record has a question, the decision, its reasons and its cost.
Its number never changes. This table has the first sentence of each decision. It is generated from the records
(`cmake --build build --target pages`).

| record | decision |
|---|---|
)";

// Returns the only group of a pattern.
std::string part_of(const fs::path& record, const std::string& text, const support::Pattern& pattern) {
  const auto found = pattern.find(text);
  if (!found) throw std::runtime_error(record.string() + ": a title and a section Decision are expected");
  std::string part = found->at(1);
  std::replace(part.begin(), part.end(), '\n', ' ');
  return part;
}

}  // namespace

std::vector<std::string> decisions() {
  std::vector<std::string> records;
  for (const auto& entry : fs::directory_iterator(support::source_path("docs/decisions"))) {
    const std::string name = entry.path().filename();
    if (name.ends_with(".md") && name != "README.md") records.push_back("docs/decisions/" + name);
  }
  std::sort(records.begin(), records.end());
  return records;
}

std::string decision_page() {
  static const support::Pattern title(R"(^# (\d+: [^\n]+)\n)"), decision(R"(\*\*Decision\.\*\* ([^]*?\.)\s)");
  std::string page(kDecisionsBegin);
  for (const std::string& name : decisions()) {
    const fs::path record = support::source_path(name);
    const std::string text = cli::testing::read_text(record);
    page += fmt::format("| [{}]({}) | {} |\n", part_of(record, text, title), record.filename().string(),
                        part_of(record, text, decision));
  }
  return page;
}

}  // namespace runner::docs
