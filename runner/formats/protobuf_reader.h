// Reads messages in the wire format of Protocol Buffers, those that ProtobufMessage writes. Throws Error(kData) with
// the byte in the file. Thread safety: none.
#pragma once

#include <bit>
#include <cstdint>
#include <string_view>

#include "runner/formats/protobuf.h"

namespace runner::formats {

struct ProtobufField {
  uint64_t number = 0;
  unsigned type = 0;       // ProtobufType
  uint64_t integer = 0;    // of kVarint and kFixed32
  std::string_view bytes;  // of kBytes
  size_t at = 0;           // its first byte in the file

  // Return the value. Throw Error(kData) if the field has another type.
  std::string_view text() const { return expect(ProtobufType::kBytes), bytes; }
  uint64_t whole() const { return expect(ProtobufType::kVarint), integer; }
  bool flag() const { return whole() != 0; }
  float number32() const {
    return expect(ProtobufType::kFixed32), std::bit_cast<float>(static_cast<uint32_t>(integer));
  }

 private:
  void expect(ProtobufType wanted) const;
};

// The fields of a message.
class ProtobufReader {
 public:
  // `at`: first byte of the message in the file.
  explicit ProtobufReader(std::string_view message, size_t at = 0) : bytes_(message), at_(at) {}

  // Returns false at the end.
  bool next(ProtobufField& field);

 private:
  void read_value(ProtobufField& field);
  std::string_view take(const ProtobufField& field, uint64_t size);
  uint64_t varint(const ProtobufField& field);

  std::string_view bytes_;
  size_t at_, done_ = 0;
};

}  // namespace runner::formats
