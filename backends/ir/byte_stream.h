// Numbers and texts as bytes: variable-length integers (LEB128, zigzag for signed ones), and a reader that validates.
//
// The reader throws Error(kData) at the first invalid byte. It never reads past the end, and count() never returns more
// than the number of bytes left. Not thread-safe; each is a value.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schema/base/error.h"

namespace runner::backends {

class ByteWriter {
 public:
  // Seven bits per byte, least significant first.
  void number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<std::byte>(value | 0x80));
    bytes_.push_back(static_cast<std::byte>(value));
  }
  // Zigzag encoding: numbers near 0 of either sign are short.
  void integer(int64_t value) { number(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63)); }
  void real(double value) { integer(std::bit_cast<int64_t>(value)); }
  void text(std::string_view text) {
    number(text.size());
    bytes(std::as_bytes(std::span(text)));
  }
  void bytes(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }

  const std::vector<std::byte>& written() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  uint64_t number() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<uint64_t>(next());
      value |= (byte & 0x7f) << shift;
      if (byte >= 0x80) continue;
      require(shift == 0 || (byte != 0 && (shift < 63 || byte == 1)), "a number is not in its shortest encoding");
      return value;
    }
    fail("a number is longer than 64 bits");
  }
  int64_t integer() {
    const uint64_t value = number();
    return static_cast<int64_t>(value >> 1 ^ (~(value & 1) + 1));
  }
  double real() { return std::bit_cast<double>(integer()); }
  // Returns the number of items that follow, each of at least one byte.
  size_t count() {
    const uint64_t value = number();
    require(value <= left(), "a count is larger than the remaining data");
    return static_cast<size_t>(value);
  }
  // Returns a number of at most `most`.
  uint64_t choice(uint64_t most) {
    const uint64_t value = number();
    require(value <= most, "a number is out of range");
    return value;
  }
  std::span<const std::byte> bytes(size_t count) {
    require(count <= left(), "unexpected end of data");
    at_ += count;
    return bytes_.subspan(at_ - count, count);
  }
  std::string text() {
    const std::span<const std::byte> read = bytes(count());
    return {reinterpret_cast<const char*>(read.data()), read.size()};
  }

  size_t left() const { return bytes_.size() - at_; }
  void end() const { require(left() == 0, "unexpected data after the end"); }
  void require(bool holds, std::string_view what) const {
    if (!holds) fail(what);
  }
  [[noreturn]] void fail(std::string_view what) const {
    throw Error(ErrorKind::kData, fmt::format("byte {}: {}", at_, what));
  }

 private:
  std::byte next() { return bytes(1)[0]; }

  const std::span<const std::byte> bytes_;
  size_t at_ = 0;
};

}  // namespace runner::backends
