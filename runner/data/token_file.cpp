#include "runner/data/token_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <vector>

#include "runner/formats/input_file.h"
#include "runner/formats/npy.h"
#include "runner/formats/reading_watch.h"
#include "schema/base/error.h"
#include "schema/base/system_limits.h"
#include "schema/base/text.h"

namespace runner::data {
namespace {

struct TokenType {
  size_t width;
  bool is_signed;
};

TokenType type_of(const std::string& path, const std::string& descr) {
  const std::map<std::string, TokenType> types = {{"<u2", {2, false}}, {"<i2", {2, true}},  {"<u4", {4, false}},
                                                  {"<i4", {4, true}},  {"<u8", {8, false}}, {"<i8", {8, true}}};
  const auto found = types.find(descr);
  RUN_CHECK(found != types.end(), ErrorKind::kData,
            "{}: token ids have the type {}; expected <u2, <i2, <u4, <i4, <u8 or <i8", path, in_quotes(descr));
  return found->second;
}

constexpr int64_t kTogether = int64_t{1} << 16;  // tokens read at a time

template <class T>
int64_t load_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return static_cast<int64_t>(value);
}

}  // namespace

TokenFile::TokenFile(const std::string& path) : path_(path) {
  {
    formats::InputFile input(path);
    RUN_CHECK(!input.compressed(), ErrorKind::kData,
              "{}: token ids must not be compressed: the file is not read into memory", path);
    const int64_t all = input.most_left();
    if (path.ends_with(".npy")) {
      const formats::NpyHeader npy = formats::read_npy_header(input);
      RUN_CHECK(npy.shape.size() == 1, ErrorKind::kData, "{}: token ids have {} axes; expected one", path,
                npy.shape.size());
      const auto [width, is_signed] = type_of(path, npy.descr);
      width_ = width;
      is_signed_ = is_signed;
      size_ = npy.shape[0];
      header_ = all - input.most_left();
      RUN_CHECK(size_ >= 0 && size_ <= input.most_left() / static_cast<int64_t>(width_), ErrorKind::kData,
                "{}: ends after {} bytes, but {} tokens are expected", path, all, size_);
    } else {
      RUN_CHECK(all % static_cast<int64_t>(width_) == 0, ErrorKind::kData,
                "{} has {} bytes, which is no number of 16-bit token ids", path, all);
      size_ = all / static_cast<int64_t>(width_);
    }
  }
  RUN_CHECK(size_ > 0, ErrorKind::kData, "{} has no tokens", path);
  file_ = std::make_shared<const RegularFile>(path);
  const int64_t bytes = header_ + size_ * static_cast<int64_t>(width_);
  RUN_CHECK(file_->is_open() && file_->size() >= bytes, ErrorKind::kData, "{}: {}", path,
            file_->is_open() ? "the file has changed" : file_->problem());
}

void TokenFile::read_bytes(int64_t at, std::span<std::byte> out) const {
  const int64_t offset = header_ + (first_ + at) * static_cast<int64_t>(width_);
  const ssize_t got = file_->read_at(offset, out);
  RUN_CHECK(got >= 0, ErrorKind::kRun, "{}: {}", path_, system_reason(errno));
  RUN_CHECK(static_cast<size_t>(got) == out.size(), ErrorKind::kRun,
            "{} has changed since it was loaded: it ends at byte {}; do not change data while they are used", path_,
            offset + got);
}

// Reads the bytes into the last part of `out`. Converting from the front then overwrites only bytes already converted.
void TokenFile::read(int64_t at, std::span<int64_t> out) const {
  const std::span<std::byte> bytes = std::as_writable_bytes(out).last(out.size() * width_);
  read_bytes(at, bytes);
  const std::byte* from = bytes.data();
  for (int64_t& token : out) {
    switch (width_) {
      case 2: token = is_signed_ ? load_as<int16_t>(from) : load_as<uint16_t>(from); break;
      case 4: token = is_signed_ ? load_as<int32_t>(from) : load_as<uint32_t>(from); break;
      default: token = load_as<int64_t>(from); break;
    }
    from += width_;
  }
}

void TokenFile::check(int64_t vocabulary) const {
  std::vector<int64_t> tokens;
  for (int64_t at = 0; at < size_; at += kTogether) {
    tokens.resize(static_cast<size_t>(std::min(kTogether, size_ - at)));
    read(at, tokens);
    const auto wrong = std::ranges::find_if(tokens, [&](int64_t token) { return token < 0 || token >= vocabulary; });
    RUN_CHECK(wrong == tokens.end(), ErrorKind::kData, "{}: token {} is {}, but vocabulary is {}: ids are from 0 to {}",
              path_, first_ + at + (wrong - tokens.begin()), *wrong, vocabulary, vocabulary - 1);
    formats::ReadingWatch::advance(path_, static_cast<double>(at) / static_cast<double>(size_));
  }
}

void TokenFile::hash(Sha256& hash) const {
  std::vector<std::byte> bytes;
  for (int64_t at = 0; at < size_; at += kTogether) {
    bytes.resize(static_cast<size_t>(std::min(kTogether, size_ - at)) * width_);
    read_bytes(at, bytes);
    hash.update(bytes);
  }
}

TokenFile TokenFile::part(int64_t first, int64_t count) const {
  TokenFile part = *this;
  part.first_ += first;
  part.size_ = count;
  return part;
}

}  // namespace runner::data
