// Readers of single formats, which decode.cpp calls. Thread-safe. Both throw as decode() does and leave the orientation
// to it: `info.orientation` says what remains to be done.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "runner/images/decode.h"

namespace runner::images {

// The first bytes of a file.
constexpr unsigned char kPngSignature[] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1a, '\n'};
constexpr unsigned char kJpegSignature[] = {0xff, 0xd8, 0xff};

DecodedImage decode_png(std::span<const std::byte> bytes, const std::string& name);
DecodedImage decode_jpeg(std::span<const std::byte> bytes, const std::string& name);

// Throws unless an image of this size is allowed and can be contained in `file_bytes` bytes. Call it before anything of
// that size is allocated. `format`: "PNG" or "JPEG".
void check_size(int64_t height, int64_t width, size_t file_bytes, const char* format, const std::string& name);

}  // namespace runner::images
