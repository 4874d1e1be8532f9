// Appends the texts of a file's rows to a Storage, as tokens. Thread safety: none.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "runner/data/storage.h"

namespace runner::data {

class RowTexts {
 public:
  // All arguments must outlive the object. Throws Error(kRecipe) without options.tokenizer.
  RowTexts(Storage& storage, const ReadOptions& options, const std::string& file);

  // Appends the texts of row storage.samples. With options.predicts, a row with a `rejection`, or with texts that have
  // no tokens because of a fault, joins Storage::rejected. Otherwise throws Error(kData) "FILE:LINE: …".
  void add(std::span<const std::string> texts, int64_t line, const std::string& rejection);
  // Describes the samples in the storage. Call it after the last row.
  void finish();

 private:
  void reject(const std::string& reason);

  Storage& storage_;
  const ReadOptions& options_;
  const std::string& file_;
  int64_t empty_ = 0;  // number of rows without text
};

}  // namespace runner::data
