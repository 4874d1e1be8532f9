#include "runner/data/token_file.h"

#include <cstring>
#include <map>

#include <sys/mman.h>

#include "runner/formats/input_file.h"
#include "runner/formats/npy.h"
#include "schema/base/error.h"
#include "schema/base/file.h"
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

template <class T>
int64_t load_as(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return static_cast<int64_t>(value);
}

}  // namespace

TokenFile::TokenFile(const std::string& path) : path_(path) {
  size_t header = 0;
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
      header = static_cast<size_t>(all - input.most_left());
      RUN_CHECK(size_ >= 0 && size_ <= input.most_left() / static_cast<int64_t>(width_), ErrorKind::kData,
                "{}: ends after {} bytes, but {} tokens are expected", path, all, size_);
    } else {
      RUN_CHECK(all % static_cast<int64_t>(width_) == 0, ErrorKind::kData,
                "{} has {} bytes, which is no number of 16-bit token ids", path, all);
      size_ = all / static_cast<int64_t>(width_);
    }
  }
  RUN_CHECK(size_ > 0, ErrorKind::kData, "{} has no tokens", path);
  const RegularFile file(path);
  const size_t bytes = header + this->bytes().size();
  RUN_CHECK(file.is_open() && static_cast<size_t>(file.size()) >= bytes, ErrorKind::kData, "{}: {}", path,
            file.is_open() ? "the file has changed" : file.problem());
  void* const memory = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.fd(), 0);
  RUN_CHECK(memory != MAP_FAILED, ErrorKind::kData, "{}: the file cannot be mapped into memory", path);
  mapping_ = {static_cast<const std::byte*>(memory),
              [bytes](const std::byte* from) { ::munmap(const_cast<std::byte*>(from), bytes); }};
  tokens_ = mapping_.get() + header;
}

void TokenFile::read(int64_t at, std::span<int64_t> out) const {
  const std::byte* from = tokens_ + static_cast<size_t>(at) * width_;
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
  int64_t token = 0;
  for (int64_t at = 0; at < size_; ++at) {
    read(at, {&token, 1});
    RUN_CHECK(token >= 0 && token < vocabulary, ErrorKind::kData,
              "{}: token {} is {}, but vocabulary is {}: ids are from 0 to {}", path_, first_ + at, token, vocabulary,
              vocabulary - 1);
  }
}

TokenFile TokenFile::part(int64_t first, int64_t count) const {
  TokenFile part = *this;
  part.first_ += first;
  part.tokens_ += static_cast<size_t>(first) * width_;
  part.size_ = count;
  return part;
}

}  // namespace runner::data
