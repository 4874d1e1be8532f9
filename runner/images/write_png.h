// Writes PNG files. Thread-safe.
#pragma once

#include <filesystem>
#include <string>

#include "runner/images/image.h"

namespace runner::images {

// Returns a PNG file of RGB bytes. The same image always gives the same bytes with one version of zlib.
std::string png_bytes(const Image& image);

// Replaces `path` by a PNG file (formats::write_file(), which gives the errors).
void write_png(const std::filesystem::path& path, const Image& image);

}  // namespace runner::images
