#include "runner/formats/input_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <new>
#include <string_view>

#include <unistd.h>
#include <zlib.h>

#include "runner/formats/reading_watch.h"
#include "runner/formats/used_files.h"
#include "schema/base/error.h"

namespace runner::formats {

struct InputFile::Gzip {
  Gzip() {
    constexpr int kGzipOnly = 15 + 16;  // argument windowBits of inflateInit2(), see zlib.h
    if (inflateInit2(&stream, kGzipOnly) != Z_OK) throw std::bad_alloc();
  }
  ~Gzip() { inflateEnd(&stream); }

  z_stream stream{};
  bool in_member = true;
  std::array<Bytef, size_t{128} << 10> buffer;
};

namespace {

// Whether the file is the text that Git LFS keeps in place of a large file.
bool is_lfs_pointer(int file) {
  constexpr std::string_view kBegin = "version https://git-lfs.github.com/spec/";
  std::array<char, kBegin.size()> begin;
  return pread(file, begin.data(), begin.size(), 0) == std::ssize(begin) &&
         std::string_view(begin.data(), begin.size()) == kBegin;
}

}  // namespace

InputFile::InputFile(std::string path) : path_(std::move(path)), file_(path_) {
  if (file_.other_kind() != nullptr) fail(ErrorKind::kData, "{} is {}, not a regular file", path_, file_.other_kind());
  if (!file_.is_open())
    fail(ErrorKind::kData, "cannot open {}: {}{}", path_, file_.problem(),
         path_.starts_with("~/") || path_.find("/~/") != path_.npos ? "; write the whole path instead of ~" : "");
  remember_used_file(path_, FileRole::kInput);
  unsigned char magic[2] = {};
  const ssize_t got = pread(file_.fd(), magic, 2, 0);
  if (got == 2 && magic[0] == 0x1f && magic[1] == 0x8b) {
    gzip_ = std::make_unique<Gzip>();
  } else if (is_lfs_pointer(file_.fd())) {
    fail(ErrorKind::kData, "{} is a Git LFS pointer, not the file itself; run `git lfs pull` to fetch it", path_);
  } else if (path_.ends_with(".gz")) {
    RUN_CHECK(got == 2, ErrorKind::kData, "{} is not a gzip file: it has {} bytes", path_, file_.size());
    fail(ErrorKind::kData, "{} is not a gzip file: its first bytes are {:02x} {:02x}, expected 1f 8b", path_, magic[0],
         magic[1]);
  }
}

InputFile::~InputFile() = default;

int64_t InputFile::most_left() const {
  constexpr int64_t kMaxExpansion = 1032;
  const int64_t left = std::max<int64_t>(file_.size() - file_offset_, 0);
  return gzip_ ? (left + gzip_->stream.avail_in) * kMaxExpansion : left;
}

void InputFile::seek(int64_t offset) {
  RUN_ASSERT(!compressed());
  RUN_CHECK(lseek(file_.fd(), offset, SEEK_SET) == offset, ErrorKind::kData, "cannot read {} at byte {}: {}", path_,
            offset, std::strerror(errno));
  file_offset_ = offset_ = watched_ = offset;
}

size_t InputFile::read(std::span<std::byte> out) {
  size_t filled = 0;
  while (filled < out.size()) {
    const size_t got = gzip_ ? inflate(out.subspan(filled)) : read_file(out.subspan(filled));
    if (got == 0) break;
    filled += got;
  }
  offset_ += static_cast<int64_t>(filled);
  watch();
  return filled;
}

std::string InputFile::read_rest(int64_t most) {
  constexpr size_t kChunk = size_t{1} << 16;
  std::string text;
  for (size_t got = kChunk; got == kChunk && std::ssize(text) <= most;) {
    const size_t before = text.size();
    text.resize(before + kChunk);
    got = read(std::as_writable_bytes(std::span(text).subspan(before)));
    text.resize(before + got);
  }
  return text;
}

void InputFile::watch() {
  constexpr int64_t kEvery = 1 << 20;  // bytes
  if (offset_ - watched_ < kEvery || file_.size() == 0) return;
  watched_ = offset_;
  const int64_t taken = file_offset_ - (gzip_ ? gzip_->stream.avail_in : 0);
  ReadingWatch::advance(path_, static_cast<double>(taken) / static_cast<double>(file_.size()));
}

size_t InputFile::read_file(std::span<std::byte> out) {
  const ssize_t got = file_.read(out);
  if (got < 0) fail(ErrorKind::kData, "cannot read {} at byte {}: {}", path_, file_offset_, file_.problem());
  file_offset_ += got;
  return static_cast<size_t>(got);
}

// Inflates until there is output or the data ends. Returns the number of bytes.
size_t InputFile::inflate(std::span<std::byte> out) {
  z_stream& stream = gzip_->stream;
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(std::min(out.size(), size_t{1} << 30));
  const uInt room = stream.avail_out;
  while (stream.avail_out == room) {
    if (stream.avail_in == 0) {
      stream.next_in = gzip_->buffer.data();
      stream.avail_in = static_cast<uInt>(read_file(std::as_writable_bytes(std::span(gzip_->buffer))));
      if (stream.avail_in == 0) {
        if (!gzip_->in_member) return 0;
        fail(ErrorKind::kData, "{}: unexpected end of the gzip data at byte {} of the file; is the file truncated?",
             path_, file_offset_);
      }
    }
    if (!gzip_->in_member) {
      inflateReset(&stream);
      gzip_->in_member = true;
    }
    const int status = ::inflate(&stream, Z_NO_FLUSH);
    if (status == Z_STREAM_END) {
      gzip_->in_member = false;
    } else if (status == Z_MEM_ERROR) {
      throw std::bad_alloc();
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      fail(ErrorKind::kData, "{}: damaged gzip data before byte {} of the file: {}", path_,
           file_offset_ - stream.avail_in, stream.msg != nullptr ? stream.msg : zError(status));
    }
  }
  return room - stream.avail_out;
}

void InputFile::read_exactly(std::span<std::byte> out, const std::string& part) {
  const size_t got = read(out);
  if (got < out.size()) fail(ErrorKind::kData, "{}: unexpected end of file at byte {}, in {}", path_, offset_, part);
}

void InputFile::expect_end() {
  const int64_t end = offset_;
  std::array<std::byte, 4096> rest;
  if (read(rest) > 0)
    fail(ErrorKind::kData, "{}: expected the end of the file at byte {}, but more bytes follow", path_, end);
}

}  // namespace runner::formats
