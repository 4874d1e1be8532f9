#include "runner/formats/protobuf_reader.h"

#include <cstring>

#include "schema/base/error.h"

namespace runner::formats {

void ProtobufField::expect(ProtobufType wanted) const {
  RUN_CHECK(type == static_cast<unsigned>(wanted), ErrorKind::kData,
            "byte {}: field {} has wire type {}, expected {}; the file is damaged", at, number, type,
            static_cast<unsigned>(wanted));
}

bool ProtobufReader::next(ProtobufField& field) {
  if (done_ == bytes_.size()) return false;
  field = {};
  field.at = at_ + done_;
  const uint64_t tag = varint(field);
  field.number = tag >> 3;
  field.type = static_cast<unsigned>(tag & 7);
  RUN_CHECK(field.number > 0, ErrorKind::kData, "byte {}: expected a field; the file is damaged or of another kind",
            field.at);
  read_value(field);
  return true;
}

void ProtobufReader::read_value(ProtobufField& field) {
  switch (static_cast<ProtobufType>(field.type)) {
    case ProtobufType::kVarint: field.integer = varint(field); return;
    case ProtobufType::kFixed64: take(field, 8); return;
    case ProtobufType::kFixed32: std::memcpy(&field.integer, take(field, 4).data(), 4); return;
    case ProtobufType::kBytes: field.bytes = take(field, varint(field)); return;
  }
  fail(ErrorKind::kData, "byte {}: field {} has the unknown wire type {}; the file is damaged or of another kind",
       field.at, field.number, field.type);
}

std::string_view ProtobufReader::take(const ProtobufField& field, uint64_t size) {
  RUN_CHECK(size <= bytes_.size() - done_, ErrorKind::kData,
            "byte {}: a field of {} bytes, but {} are left; the file is damaged or incomplete", field.at, size,
            bytes_.size() - done_);
  done_ += size;
  return bytes_.substr(done_ - size, size);
}

uint64_t ProtobufReader::varint(const ProtobufField& field) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    const auto byte = static_cast<uint8_t>(take(field, 1)[0]);
    value |= uint64_t{byte & 0x7FU} << shift;
    if (byte < 0x80) return value;
  }
  fail(ErrorKind::kData, "byte {}: a number has more than 64 bits; the file is damaged", field.at);
}

}  // namespace runner::formats
