#include "runner/cli/standard_input.h"

#include <array>
#include <cerrno>
#include <cstring>

#include <unistd.h>

#include "schema/base/error.h"

namespace runner::cli {

std::string read_standard_input() {
  std::string text;
  std::array<char, size_t{1} << 16> chunk;
  for (;;) {
    const ssize_t got = read(STDIN_FILENO, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    RUN_CHECK(got >= 0, ErrorKind::kData, "cannot read standard input: {}", std::strerror(errno));
    if (got == 0) return text;
    text.append(chunk.data(), static_cast<size_t>(got));
  }
}

}  // namespace runner::cli
