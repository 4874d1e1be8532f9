// TensorBoard event files: a sequence of TFRecords, each an Event message of protobuf.
//
// Layout: tensorflow/core/lib/io/record_writer.h and util/event.proto, as TensorBoard reads them.  A value is a float
// there: seven digits.  Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace runner::formats {

struct Scalar {
  std::string_view tag;
  int64_t step = 0;
  int64_t time_ms = 0;  // since 1970, UTC
  double value = 0;
};

// A file as it begins, with the version of the format, and what follows, in any order: an event for a scalar, and one
// that says that the run goes on from before `step`, whereupon TensorBoard forgets what it has from there on.
std::string event_file_start(int64_t created_ms);
std::string scalar_record(const Scalar& scalar);
std::string restart_record(int64_t time_ms, int64_t step);

// A whole file: an event for each scalar in the order given.
std::string event_file(int64_t created_ms, std::span<const Scalar> scalars);

// CRC-32C (Castagnoli), RFC 3720 appendix B.4.
uint32_t crc32c(std::string_view bytes);

}  // namespace runner::formats
