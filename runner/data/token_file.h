// Token ids in a file, which stays on disk: unsigned 16-bit integers, as nanoGPT writes them, or an npy array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "schema/base/file.h"
#include "schema/base/sha256.h"

namespace runner::data {

// A part of the tokens of a file, which are read when they are used. A copy shares the open file. Constant,
// thread-safe.
class TokenFile {
 public:
  // Files named *.npy have one axis of integers of 16, 32 or 64 bits; others unsigned 16-bit integers, least
  // significant byte first. Throws Error(kData) naming the file.
  explicit TokenFile(const std::string& path);

  const std::string& path() const { return path_; }
  int64_t first() const { return first_; }  // number of the first token in the file
  int64_t size() const { return size_; }    // tokens
  // Writes the tokens from `at` on. Throws Error(kRun) if the file has become shorter or cannot be read.
  void read(int64_t at, std::span<int64_t> out) const;
  // Throws Error(kData) unless all tokens are in [0, vocabulary).
  void check(int64_t vocabulary) const;
  TokenFile part(int64_t first, int64_t count) const;
  // Updates `hash` with the tokens as in the file.
  void hash(Sha256& hash) const;

 private:
  void read_bytes(int64_t at, std::span<std::byte> out) const;

  std::string path_;
  std::shared_ptr<const RegularFile> file_;
  int64_t header_ = 0;  // bytes
  size_t width_ = 2;    // bytes
  bool is_signed_ = false;
  int64_t first_ = 0, size_ = 0;
};

}  // namespace runner::data
