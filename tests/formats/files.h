// Fixture with a temporary folder for files, and the messages of errors when reading them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <zlib.h>

#include "schema/base/error.h"
#include "tests/support/temp_folder.h"

namespace runner::formats {

class FileTest : public ::testing::Test {
 protected:
  std::string path(const std::string& name) const { return folder_ + "/" + name; }

  // Writes a file and returns its path.
  std::string write(const std::string& name, std::string_view bytes) const {
    support::write_text(path(name), bytes);
    return path(name);
  }

  // Returns the message of the Error that `read` throws, without the folder; "" if it throws none.
  template <class Read>
  std::string message_of(Read read) const {
    try {
      read();
    } catch (const Error& error) {
      EXPECT_EQ(exit_code(error.kind()), error.kind() == ErrorKind::kRun     ? 1
                                         : error.kind() == ErrorKind::kStore ? 5
                                                                             : 2);
      std::string message = error.message();
      for (size_t at; (at = message.find(folder_ + "/")) != std::string::npos;) message.erase(at, folder_.size() + 1);
      return message;
    }
    return "";
  }

  const support::TempFolder temporary_;
  const std::string folder_ = temporary_.path();
};

// Compresses to one gzip member.
inline std::string gzip(std::string_view bytes) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, static_cast<uLong>(bytes.size())), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

// Returns the bytes of `values` in native order. `swap`: in reversed order.
template <class T, class Allocator = std::allocator<T>>
std::string bytes_of(const std::vector<T, Allocator>& values, bool swap = false) {
  std::string bytes(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  for (size_t i = 0; swap && i < bytes.size(); i += sizeof(T)) {
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(i), bytes.begin() + static_cast<ptrdiff_t>(i + sizeof(T)));
  }
  return bytes;
}

// Assemble files of the two formats from their parts.
inline std::string npy(const std::string& dict, const std::string& elements, int version = 1) {
  std::string file = "\x93NUMPY" + std::string{static_cast<char>(version), 0};
  const auto length = static_cast<uint32_t>(dict.size());
  file += bytes_of(std::vector<uint32_t>{length}).substr(0, version == 1 ? 2 : 4);
  return file + dict + elements;
}

inline std::string safetensors(const std::string& header, const std::string& data) {
  return bytes_of(std::vector<uint64_t>{header.size()}) + header + data;
}

inline std::string tensor_entry(const std::string& name, const std::string& type, const std::string& shape,
                                const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + type + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

}  // namespace runner::formats
