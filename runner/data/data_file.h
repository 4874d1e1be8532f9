// The files that a data set was read from, for the record of a run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "schema/base/sha256.h"
#include "schema/recipe/recipe.h"

namespace runner::data {

// What changes when a file is written. Zero if the file cannot be examined.
struct FileStamp {
  int64_t bytes = 0;
  int64_t changed = 0;  // modification time

  static auto parts(auto& self) { return std::tie(self.bytes, self.changed); }
  bool operator==(const FileStamp&) const = default;
};
FileStamp stamp_of(const std::string& path);

// Where a sample starts in an uncompressed file.
struct SamplePlace {
  int64_t byte = 0;
  int64_t line = 1;  // CSV

  static auto parts(auto& self) { return std::tie(self.byte, self.line); }
};

struct DataFile {
  std::string key, path;  // the key of the recipe: "data.train.path"
  FileStamp stamp;        // before it was read
  int64_t rows = 0;       // without a header, with rows that were dropped; for a text, samples

  static auto parts(auto& self) { return std::tie(self.key, self.path, self.stamp, self.rows); }
};

// Whether a file, a folder, or a file that matches the pattern exists.
bool has_files(const std::string& path);

// Returns the files at a path, sorted: those of a folder and its folders without hidden ones, those that match a
// pattern with *, ? or [, or the path itself. Throws Error(kData) if a folder or pattern has no files.
std::vector<std::string> files_at(const std::string& path);

// Returns the files of a section with their stamps. `name`: "data.train".
std::vector<DataFile> files_of(const schema::DatasetSpec& spec, const std::string& name);

// Returns the SHA-256 of the file; none if it cannot be read, if it is not the one that was read, or once `stopped`
// returns true.
std::optional<Sha256Digest> digest_of(const DataFile& file, const std::function<bool()>& stopped);

}  // namespace runner::data
