#include "runner/formats/input_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "schema/base/error.h"
#include "schema/base/used_files.h"

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

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  return S_ISFIFO(mode) ? "a pipe" : "a device";
}

}  // namespace

InputFile::InputFile(std::string path) : path_(std::move(path)) {
  // O_NONBLOCK: opening a pipe without a writer would block.
  file_ = open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file_ < 0)
    fail(ErrorKind::kData, "cannot open {}: {}{}", path_, std::strerror(errno),
         path_.starts_with("~/") || path_.find("/~/") != path_.npos ? "; write the whole path instead of ~" : "");
  remember_used_file(path_, "a file that this command uses");
  try {
    struct stat status {};
    if (fstat(file_, &status) != 0 || !S_ISREG(status.st_mode)) {
      fail(ErrorKind::kData, "{} is {}, not a regular file", path_, kind_of(status.st_mode));
    }
    file_size_ = status.st_size;
    unsigned char magic[2] = {};
    const ssize_t got = pread(file_, magic, 2, 0);
    if (got == 2 && magic[0] == 0x1f && magic[1] == 0x8b) {
      gzip_ = std::make_unique<Gzip>();
    } else if (is_lfs_pointer(file_)) {
      fail(ErrorKind::kData, "{} is a Git LFS pointer, not the file itself; run `git lfs pull` to fetch it", path_);
    } else if (path_.ends_with(".gz")) {
      RUN_CHECK(got == 2, ErrorKind::kData, "{} is not a gzip file: it has {} bytes", path_, file_size_);
      fail(ErrorKind::kData, "{} is not a gzip file: its first bytes are {:02x} {:02x}, expected 1f 8b", path_,
           magic[0], magic[1]);
    }
  } catch (...) {
    close(file_);
    throw;
  }
}

InputFile::~InputFile() {
  close(file_);
}

int64_t InputFile::most_left() const {
  constexpr int64_t kMaxExpansion = 1032;
  const int64_t left = std::max<int64_t>(file_size_ - file_offset_, 0);
  return gzip_ ? (left + gzip_->stream.avail_in) * kMaxExpansion : left;
}

void InputFile::seek(int64_t offset) {
  RUN_ASSERT(!compressed());
  RUN_CHECK(lseek(file_, offset, SEEK_SET) == offset, ErrorKind::kData, "cannot read {} at byte {}: {}", path_, offset,
            std::strerror(errno));
  file_offset_ = offset_ = offset;
}

size_t InputFile::read(std::span<std::byte> out) {
  size_t filled = 0;
  while (filled < out.size()) {
    const size_t got = gzip_ ? inflate(out.subspan(filled)) : read_file(out.subspan(filled));
    if (got == 0) break;
    filled += got;
  }
  offset_ += static_cast<int64_t>(filled);
  return filled;
}

size_t InputFile::read_file(std::span<std::byte> out) {
  for (;;) {
    const ssize_t got = ::read(file_, out.data(), std::min(out.size(), size_t{1} << 30));
    if (got >= 0) {
      file_offset_ += got;
      return static_cast<size_t>(got);
    }
    if (errno != EINTR) {
      fail(ErrorKind::kData, "cannot read {} at byte {}: {}", path_, file_offset_, std::strerror(errno));
    }
  }
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
