// A file as a stream of bytes. Gzip files are decompressed, including those with several members.
//
// Every failure throws Error(kData) naming the file and the byte. A ReadingWatch (reading_watch.h) follows read().
// Thread safety: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "schema/base/file.h"

namespace runner::formats {

class InputFile {
 public:
  // A file named *.gz must be gzip. Other files are decompressed if they start with the gzip magic bytes.
  explicit InputFile(std::string path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  const std::string& path() const { return path_; }
  // Upper bound for the number of bytes left. Exact for uncompressed files; for gzip it follows from deflate's maximum
  // ratio of 1032:1.
  int64_t most_left() const;

  // Continues at byte `offset` of the data, which must not be compressed.
  bool compressed() const { return gzip_ != nullptr; }
  void seek(int64_t offset);
  // Fills `out` and returns the number of bytes read, which is smaller only at the end of the data.
  size_t read(std::span<std::byte> out);
  // Returns the rest of the data, or its beginning if it has more than `most` bytes: some more bytes than that.
  std::string read_rest(int64_t most);
  // Fills `out` or throws, for example "x.idx: ends at byte 20, inside the header of 24 bytes". `part`: what is being
  // read, here "the header of 24 bytes".
  void read_exactly(std::span<std::byte> out, const std::string& part);
  // Throws if more data follows.
  void expect_end();

 private:
  struct Gzip;

  void watch();
  size_t read_file(std::span<std::byte> out);
  size_t inflate(std::span<std::byte> out);

  std::string path_;
  RegularFile file_;
  int64_t file_offset_ = 0;     // bytes read from the file
  int64_t offset_ = 0;          // bytes returned to callers
  int64_t watched_ = 0;         // offset_ of the last watch()
  std::unique_ptr<Gzip> gzip_;  // null if the file is not compressed
};

}  // namespace runner::formats
