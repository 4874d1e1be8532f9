// A planted fault, for the test of the driver. The dictionary contains the word that triggers it.
#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (std::string_view(reinterpret_cast<const char*>(data), size).find("needle") != std::string_view::npos)
    std::abort();
  return 0;
}
