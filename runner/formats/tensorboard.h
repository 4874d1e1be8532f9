// TensorBoard event files: a sequence of TFRecords, each with a protobuf Event message.
//
// Layout: tensorflow/core/lib/io/record_writer.h and util/event.proto. Values are stored as f32, which has about seven
// digits. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace runner::formats {

struct Scalar {
  std::string_view tag;
  int64_t step = 0;
  int64_t time_ms = 0;  // Unix time
  double value = 0;
};

// Parts of an event file: its start, with the format version, and records in any order. scalar_record() is one value.
// restart_record() marks that a run was resumed before `step`; TensorBoard then discards earlier events from that step
// on.
std::string event_file_start(int64_t created_ms);
std::string scalar_record(const Scalar& scalar);
std::string restart_record(int64_t time_ms, int64_t step);

// Returns a complete file with one event per scalar, in the given order.
std::string event_file(int64_t created_ms, std::span<const Scalar> scalars);

// CRC-32C (Castagnoli), RFC 3720 appendix B.4.
uint32_t crc32c(std::string_view bytes);

}  // namespace runner::formats
