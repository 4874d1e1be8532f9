// Reads event files back with an independent decoder, written from the descriptions of the formats: records with
// bitwise checksums, and messages as maps of fields.
#include "runner/formats/tensorboard.h"

#include <cmath>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace runner::formats {
namespace {

// Bitwise CRC-32C in reflected form.
uint32_t slow_crc32c(const std::string& bytes) {
  uint32_t remainder = ~0U;
  for (const char c : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const uint32_t carry = (remainder ^ (static_cast<uint32_t>(static_cast<uint8_t>(c)) >> bit)) & 1U;
      remainder = (remainder >> 1) ^ carry * 0x82F63B78U;
    }
  }
  return ~remainder;
}

uint32_t unmasked(uint32_t masked) {
  const uint32_t rotated = masked - 0xA282EAD8U;
  return rotated >> 17 | rotated << 15;
}

class Reader {
 public:
  explicit Reader(std::string bytes) : bytes_(std::move(bytes)) {}
  bool done() const { return at_ == bytes_.size(); }
  std::string take(size_t count) {
    if (count > bytes_.size() - at_) throw std::runtime_error("too short");
    at_ += count;
    return bytes_.substr(at_ - count, count);
  }
  template <class T>
  T number() {
    T value{};
    std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
    return value;
  }
  uint64_t varint() {
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = number<uint8_t>();
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
  }

 private:
  std::string bytes_;
  size_t at_ = 0;
};

// Returns the bytes of each field by number (a varint as eight bytes). A repeated field is an error in these messages.
std::map<uint64_t, std::string> message(const std::string& bytes) {
  std::map<uint64_t, std::string> fields;
  Reader reader(bytes);
  while (!reader.done()) {
    const uint64_t key = reader.varint();
    std::string value;
    switch (key & 7) {
      case 0: {
        const uint64_t number = reader.varint();
        value.assign(reinterpret_cast<const char*>(&number), sizeof number);
        break;
      }
      case 1: value = reader.take(8); break;
      case 2: value = reader.take(reader.varint()); break;
      case 5: value = reader.take(4); break;
      default: throw std::runtime_error("wire type");
    }
    if (!fields.emplace(key >> 3, value).second) throw std::runtime_error("twice");
  }
  return fields;
}

template <class T>
T as(const std::string& bytes) {
  T value{};
  if (bytes.size() != sizeof(T)) throw std::runtime_error("size");
  std::memcpy(&value, bytes.data(), sizeof(T));
  return value;
}

std::vector<std::map<uint64_t, std::string>> events(const std::string& file) {
  std::vector<std::map<uint64_t, std::string>> events;
  Reader reader(file);
  while (!reader.done()) {
    const std::string length = reader.take(8);
    EXPECT_EQ(unmasked(reader.number<uint32_t>()), slow_crc32c(length));
    const std::string record = reader.take(as<uint64_t>(length));
    EXPECT_EQ(unmasked(reader.number<uint32_t>()), slow_crc32c(record));
    events.push_back(message(record));
  }
  return events;
}

TEST(TensorBoard, ChecksumMatchesTheStandard) {
  EXPECT_EQ(crc32c("123456789"), 0xE3069283U);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAU);  // RFC 3720, B.4
  EXPECT_EQ(crc32c(std::string(32, '\xFF')), 0x62A8AB43U);
  EXPECT_EQ(crc32c(""), 0U);
}

TEST(TensorBoard, ScalarsRoundTrip) {
  const std::vector<Scalar> scalars{{"train/loss", 1, 1'700'000'000'250, 0.1},
                                    {"eval/accuracy", 3'000'000'000, 1'700'000'000'500, NAN},
                                    {std::string_view("naïve \"tag\""), 0, 0, -1e300}};
  const auto read = events(event_file(1'600'000'000'000, scalars));
  ASSERT_EQ(read.size(), 4U);
  EXPECT_EQ(as<double>(read[0].at(1)), 1.6e9);
  EXPECT_EQ(read[0].at(3), "brain.Event:2");
  EXPECT_EQ(read[0].size(), 2U);
  for (size_t i = 0; i < scalars.size(); ++i) {
    const auto& event = read[i + 1];
    EXPECT_EQ(event.size(), 3U);
    EXPECT_DOUBLE_EQ(as<double>(event.at(1)), static_cast<double>(scalars[i].time_ms) / 1000);
    EXPECT_EQ(as<int64_t>(event.at(2)), scalars[i].step);
    const auto value = message(message(event.at(5)).at(1));
    EXPECT_EQ(value.at(1), scalars[i].tag);
    const auto wanted = static_cast<float>(scalars[i].value);
    const auto got = as<float>(value.at(2));
    EXPECT_TRUE(got == wanted || (std::isnan(got) && std::isnan(wanted))) << got;
  }
}

TEST(TensorBoard, RestartRecordHasTheStep) {
  const auto read = events(restart_record(1'700'000'000'250, 51));
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].size(), 3U);
  EXPECT_EQ(as<double>(read[0].at(1)), 1'700'000'000.25);
  EXPECT_EQ(as<int64_t>(read[0].at(2)), 51);
  EXPECT_EQ(as<int64_t>(message(read[0].at(7)).at(1)), 1);  // SessionLog.status is START
}

}  // namespace
}  // namespace runner::formats
