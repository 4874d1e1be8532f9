// Reads the files of tokenizers. Errors name the file. Thread-safe.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "schema/base/error.h"
#include "schema/base/json.h"

namespace runner::text {

// Returns the contents of the file, which may be compressed.
std::string read_bytes(const std::string& path);

// Throws Error(kData) with the first byte that is not UTF-8.
void expect_utf8(const std::string& path, std::string_view contents);

// Returns the object of a JSON file.
json::Value read_object(const std::string& path);
json::Value object_of(const std::string& path, std::string_view contents);

// Returns the flag `key` of the object, or nullopt if it is missing or null.
std::optional<bool> read_flag(const json::Value& object, std::string_view key, const std::string& path);

// Calls `read` and puts the path before the message of an error.
template <class Read>
auto naming(const std::string& path, Read read) {
  try {
    return read();
  } catch (const Error& error) {
    fail(error.kind(), "{}: {}", path, error.message());
  }
}

}  // namespace runner::text
