// Points of layouts before 13, in which a chunk of a series is one encoded blob, and their conversion.
//
// The decoder accepts any bytes: it returns the points, or reports that the bytes are damaged. Thread safety: that of
// the given Database.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "store/point.h"

namespace runner::store {

class Database;
struct Chunk;

// Decodes a chunk of 1 to kEncodedPoints points. All numbers are little-endian varints with 7 bits per byte; signed
// ones are zigzag-encoded. In order: kPackedValues or kRawValues (a byte); the number of points; the first step, then
// runs (count, difference); the first time, then differences; the values; a CRC-32 of all before. A packed value is the
// XOR with the value before (the first with 0): a byte with the number of significant bytes (low half) and of zero
// bytes below them (high half), then these bytes. Returns nullopt if the bytes are damaged.
std::optional<std::vector<Point>> decode_points(std::span<const std::byte> bytes);

inline constexpr size_t kEncodedPoints = 512;
inline constexpr std::byte kPackedValues{1}, kRawValues{2};
inline constexpr size_t kCrcBytes = 4;

// First schema version whose points are columns of `chunk`.
inline constexpr int64_t kFirstVersionWithPointColumns = 13;

// Whether a store of this schema version has encoded points.
constexpr bool has_encoded_points(int64_t version) {
  return version < kFirstVersionWithPointColumns;
}

// As read_chunks() (metric_tables.h), for a store with encoded points.
std::vector<Chunk> read_encoded_chunks(Database& database, int64_t run_id, const std::string& metric);

// Converts the rows of encoded_chunk and drops the table. Chunks that are damaged stay damaged. Call it inside a
// transaction.
void convert_encoded_points(Database& database);

}  // namespace runner::store
