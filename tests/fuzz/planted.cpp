// A fault that a fuzzer must find, for the test of the driver: the dictionary has the word.
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (std::string_view(reinterpret_cast<const char*>(data), size).find("needle") != std::string_view::npos)
    std::abort();
  return 0;
}
