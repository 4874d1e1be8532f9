// Token ids in a file, which stays on disk: unsigned 16-bit integers, as nanoGPT writes them, or an npy array.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace runner::data {

// A part of the tokens of a file. The file is mapped into memory: pages are read when they are used. A copy shares the
// mapping. Constant, thread-safe.
class TokenFile {
 public:
  // Files named *.npy have one axis of integers of 16, 32 or 64 bits; others unsigned 16-bit integers, least
  // significant byte first. Throws Error(kData) naming the file.
  explicit TokenFile(const std::string& path);

  const std::string& path() const { return path_; }
  int64_t first() const { return first_; }  // number of the first token in the file
  int64_t size() const { return size_; }    // tokens
  // Writes the tokens from `at` on.
  void read(int64_t at, std::span<int64_t> out) const;
  // Throws Error(kData) unless all tokens are in [0, vocabulary).
  void check(int64_t vocabulary) const;
  TokenFile part(int64_t first, int64_t count) const;
  // The tokens as in the file.
  std::span<const std::byte> bytes() const { return {tokens_, static_cast<size_t>(size_) * width_}; }

 private:
  std::string path_;
  std::shared_ptr<const std::byte> mapping_;
  const std::byte* tokens_ = nullptr;
  size_t width_ = 2;  // bytes
  bool is_signed_ = false;
  int64_t first_ = 0, size_ = 0;
};

}  // namespace runner::data
