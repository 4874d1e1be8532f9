#include "runner/text/reading.h"

#include "runner/formats/input_file.h"
#include "schema/base/utf8.h"

namespace runner::text {

std::string read_bytes(const std::string& path) {
  constexpr int64_t kLongestFile = int64_t{1} << 28;
  formats::InputFile input(path);
  RUN_CHECK(input.most_left() <= kLongestFile || input.compressed(), ErrorKind::kData, "{} has {} bytes, limit {}",
            path, input.most_left(), kLongestFile);
  std::string contents = input.read_rest(kLongestFile);
  RUN_CHECK(std::ssize(contents) <= kLongestFile, ErrorKind::kData, "{} has more than {} bytes", path, kLongestFile);
  return contents;
}

void expect_utf8(const std::string& path, std::string_view contents) {
  for (size_t at = 0; at < contents.size();) {
    const size_t length = utf8_length(contents, at);
    RUN_CHECK(length > 0, ErrorKind::kData, "{}: byte {} is {:#04x}, which is not valid UTF-8", path, at,
              static_cast<uint8_t>(contents[at]));
    at += length;
  }
}

json::Value read_object(const std::string& path) {
  return object_of(path, read_bytes(path));
}

json::Value object_of(const std::string& path, std::string_view contents) {
  expect_utf8(path, contents);
  json::Value document = json::parse(contents);
  RUN_CHECK(document.map() != nullptr, ErrorKind::kData,
            "{}: expected a JSON object; the file of {} bytes is damaged or incomplete", path, contents.size());
  return document;
}

std::optional<bool> read_flag(const json::Value& object, std::string_view key, const std::string& path) {
  const json::Value& value = json::member(object, key);
  if (value.is_null()) return std::nullopt;
  RUN_CHECK(value.boolean() != nullptr, ErrorKind::kData, "{}: {}: expected true or false", path, key);
  return *value.boolean();
}

}  // namespace runner::text
