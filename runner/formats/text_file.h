// Text files: UTF-8, possibly with a byte order mark. Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "schema/base/error.h"

namespace runner::formats {

// What a NUL byte in a text means, for messages.
inline constexpr const char* kNulProblem =
    "NUL (0x00): the file is damaged, or is UTF-16 text that must be saved as UTF-8";

// Returns the size of the byte order mark with which a text begins: 3 or 0. Throws Error(kind) naming the text if it is
// UTF-16.
size_t byte_order_mark(std::string_view text, const std::string& name, ErrorKind kind = ErrorKind::kData);

// Returns the contents of a file, which may be compressed, without a byte order mark. Throws Error(kData) if the file
// cannot be read, is UTF-16, or has a NUL byte.
std::string read_text(const std::string& path);

}  // namespace runner::formats
