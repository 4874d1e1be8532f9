#include "runner/formats/tensorboard.h"

#include <array>

#include "runner/formats/protobuf.h"

namespace runner::formats {
namespace {

// Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7.
ProtobufMessage event(int64_t time_ms) {
  return ProtobufMessage().add(1, static_cast<double>(time_ms) / 1000);
}

// Summary: value = 1; Summary.Value: tag = 1, simple_value = 2.
ProtobufMessage scalar_event(const Scalar& scalar) {
  const ProtobufMessage value = ProtobufMessage().add(1, scalar.tag).add(2, static_cast<float>(scalar.value));
  return event(scalar.time_ms).add(2, scalar.step).add(5, ProtobufMessage().add(1, value));
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

std::string as_record(const ProtobufMessage& message) {
  std::string record;
  append_bytes_of(record, static_cast<uint64_t>(message.bytes().size()));
  append_bytes_of(record, masked_crc(record));
  record += message.bytes();
  append_bytes_of(record, masked_crc(message.bytes()));
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
  return as_record(event(created_ms).add(3, "brain.Event:2"));
}

std::string scalar_record(const Scalar& scalar) {
  return as_record(scalar_event(scalar));
}

// SessionLog: status = 1; START = 1.
std::string restart_record(int64_t time_ms, int64_t step) {
  return as_record(event(time_ms).add(2, step).add(7, ProtobufMessage().add(1, 1)));
}

std::string event_file(int64_t created_ms, std::span<const Scalar> scalars) {
  std::string out = event_file_start(created_ms);
  for (const Scalar& scalar : scalars) out += scalar_record(scalar);
  return out;
}

}  // namespace runner::formats
