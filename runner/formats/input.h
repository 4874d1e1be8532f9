// A file as a stream of bytes, inflated on the way when it is gzip (several members too).
//
// Every failure is an Error(kData) that names the file and the byte.  One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace runner::formats {

class Input {
 public:
  // A name that ends in .gz must be gzip; other files are inflated when they start as gzip does.
  explicit Input(std::string path);
  ~Input();
  Input(const Input&) = delete;
  Input& operator=(const Input&) = delete;

  const std::string& path() const { return path_; }
  // No more than this many bytes can follow: what is left of the file; for gzip, by deflate's limit of 1032 : 1.
  int64_t most_left() const;

  // Goes on with this byte of the data, which must not be compressed.
  bool compressed() const { return gzip_ != nullptr; }
  void seek(int64_t offset);
  // Fills `out`; fewer bytes only at the end of the data.  Returns their number.
  size_t read(std::span<std::byte> out);
  // Fills `out`, or fails: "x.idx: ends at byte 20, inside the header of 24 bytes"; `part` = "the header of 24 bytes".
  void read_exactly(std::span<std::byte> out, const std::string& part);
  // Fails when anything follows.
  void expect_end();

 private:
  struct Gzip;

  size_t read_file(std::span<std::byte> out);
  size_t inflate(std::span<std::byte> out);

  std::string path_;
  int file_ = -1;
  int64_t file_size_ = 0;
  int64_t file_offset_ = 0;     // bytes read from the file
  int64_t offset_ = 0;          // bytes delivered
  std::unique_ptr<Gzip> gzip_;  // null: not compressed
};

// `text` for a message: in quotes, cut after 40 bytes, other than printable ASCII as \xNN.
std::string in_quotes(std::string_view text);

}  // namespace runner::formats
