#include "runner/formats/tensorboard.h"

#include <array>
#include <bit>
#include <cstring>

namespace runner::formats {
namespace {

static_assert(std::endian::native == std::endian::little);

template <class T>
void append(std::string& out, T value) {
  std::array<char, sizeof(T)> bytes{};
  std::memcpy(bytes.data(), &value, sizeof(T));
  out.append(bytes.data(), bytes.size());
}

// ---- protobuf -------------------------------------------------------------------------------------------------------

enum WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void append_varint(std::string& out, uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

void append_key(std::string& out, uint32_t field, WireType type) {
  append_varint(out, field << 3 | type);
}

void append_bytes(std::string& out, uint32_t field, std::string_view bytes) {
  append_key(out, field, kBytes);
  append_varint(out, bytes.size());
  out += bytes;
}

void append_number(std::string& out, uint32_t field, int64_t number) {
  append_key(out, field, kVarint);
  append_varint(out, static_cast<uint64_t>(number));
}

// Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7.
std::string event(int64_t time_ms) {
  std::string out;
  append_key(out, 1, kFixed64);
  append(out, static_cast<double>(time_ms) / 1000);
  return out;
}

// Summary: value = 1; Summary.Value: tag = 1, simple_value = 2.
std::string scalar_event(const Scalar& scalar) {
  std::string value, summary;
  append_bytes(value, 1, scalar.tag);
  append_key(value, 2, kFixed32);
  append(value, static_cast<float>(scalar.value));
  append_bytes(summary, 1, value);
  std::string out = event(scalar.time_ms);
  append_number(out, 2, scalar.step);
  append_bytes(out, 5, summary);
  return out;
}

// ---- TFRecord -------------------------------------------------------------------------------------------------------

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < table.size(); ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82F63B78U : 0U);
    table[i] = crc;
  }
  return table;
}

// Masked CRC of the TFRecord format. The rotation and offset avoid problems when a CRC is computed over data that
// contains CRCs.
uint32_t masked_crc(std::string_view bytes) {
  const uint32_t crc = crc32c(bytes);
  return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
}

std::string as_record(std::string_view message) {
  std::string record;
  append(record, static_cast<uint64_t>(message.size()));
  append(record, masked_crc(record));
  record += message;
  append(record, masked_crc(message));
  return record;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = crc_table();
  uint32_t crc = 0xFFFFFFFFU;
  for (const char c : bytes) crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xFF];
  return ~crc;
}

std::string event_file_start(int64_t created_ms) {
  std::string version = event(created_ms);
  append_bytes(version, 3, "brain.Event:2");
  return as_record(version);
}

std::string scalar_record(const Scalar& scalar) {
  return as_record(scalar_event(scalar));
}

// SessionLog: status = 1; START = 1.
std::string restart_record(int64_t time_ms, int64_t step) {
  std::string message = event(time_ms), session;
  append_number(message, 2, step);
  append_number(session, 1, 1);
  append_bytes(message, 7, session);
  return as_record(message);
}

std::string event_file(int64_t created_ms, std::span<const Scalar> scalars) {
  std::string out = event_file_start(created_ms);
  for (const Scalar& scalar : scalars) out += scalar_record(scalar);
  return out;
}

}  // namespace runner::formats
