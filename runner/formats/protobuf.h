// Writes messages in the wire format of Protocol Buffers (protobuf.dev/programming-guides/encoding).
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace runner::formats {

static_assert(std::endian::native == std::endian::little);

// Appends the bytes of a number, little-endian.
template <class T>
void append_bytes_of(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

enum class ProtobufType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// Fields are written in the order of the calls. Each function returns the message.
class ProtobufMessage {
 public:
  ProtobufMessage& add(uint32_t field, std::string_view bytes) {
    key(field, ProtobufType::kBytes);
    varint(bytes.size());
    bytes_ += bytes;
    return *this;
  }
  ProtobufMessage& add(uint32_t field, const ProtobufMessage& message) { return add(field, message.bytes()); }
  ProtobufMessage& add(uint32_t field, std::integral auto number) {
    key(field, ProtobufType::kVarint);
    varint(static_cast<uint64_t>(number));
    return *this;
  }
  ProtobufMessage& add(uint32_t field, float number) {
    key(field, ProtobufType::kFixed32);
    append_bytes_of(bytes_, number);
    return *this;
  }
  ProtobufMessage& add(uint32_t field, double number) {
    key(field, ProtobufType::kFixed64);
    append_bytes_of(bytes_, number);
    return *this;
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  void key(uint32_t field, ProtobufType type) { varint(field << 3 | static_cast<uint32_t>(type)); }

  std::string bytes_;
};

}  // namespace runner::formats
