#include "runner/train/step/packing.h"

#include <cstdint>
#include <cstring>

#include "schema/base/error.h"

namespace runner::train {
namespace {

void check_left(std::string_view packed, uint64_t bytes) {
  RUN_CHECK(bytes <= packed.size(), ErrorKind::kRun, "received unexpected data from another rank");
}

}  // namespace

void append(std::string& packed, std::string_view text) {
  const uint64_t size = text.size();
  packed.append(reinterpret_cast<const char*>(&size), sizeof size).append(text);
}

void append_number(std::string& packed, double number) {
  packed.append(reinterpret_cast<const char*>(&number), sizeof number);
}

std::string_view take(std::string_view& packed) {
  uint64_t size = 0;
  check_left(packed, sizeof size);
  std::memcpy(&size, packed.data(), sizeof size);
  check_left(packed.substr(sizeof size), size);
  const std::string_view text = packed.substr(sizeof size, size);
  packed.remove_prefix(sizeof size + size);
  return text;
}

double take_number(std::string_view& packed) {
  double number = 0;
  check_left(packed, sizeof number);
  std::memcpy(&number, packed.data(), sizeof number);
  packed.remove_prefix(sizeof number);
  return number;
}

}  // namespace runner::train
