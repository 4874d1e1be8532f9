#include "runner/cli/scenarios/document.h"

#include <limits>

#include <fmt/format.h>

namespace runner::cli::scenarios {
namespace {

std::string batch_text(const json::List& batch) {
  std::string text;
  for (size_t i = 0; i < batch.size();) {
    size_t end = i + 1;
    while (end < batch.size() && whole(batch[end]) == whole(batch[end - 1]) + 1) ++end;
    text += text.empty() ? "" : ",";
    text += fmt::format("{}", whole(batch[i]));
    if (end > i + 1) text += fmt::format("-{}", whole(batch[end - 1]));
    i = end;
  }
  return text;
}

}  // namespace

const json::Value& at(const json::Value& document, std::initializer_list<std::string_view> path) {
  const json::Value* value = &document;
  for (const std::string_view name : path) value = &json::member(*value, name);
  return *value;
}

double number(const json::Value& value) {
  return json::number_of(value).value_or(std::numeric_limits<double>::quiet_NaN());
}

int64_t whole(const json::Value& value) {
  return json::integer_of(value).value_or(-1);
}

const json::List& list(const json::Value& value) {
  return json::elements_of(value);
}

std::string batches_text(const json::Value& ranks) {
  std::string text;
  for (const json::Value& rank : list(ranks)) {
    text += text.empty() ? "" : " | ";
    if (list(rank).empty()) text += "none";
    for (size_t i = 0; i < list(rank).size(); ++i) text += (i > 0 ? " " : "") + batch_text(list(list(rank)[i]));
  }
  return text;
}

}  // namespace runner::cli::scenarios
