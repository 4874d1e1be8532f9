#include "runner/images/write_png.h"

#include <png.h>

#include "runner/formats/write.h"
#include "schema/base/error.h"

namespace runner::images {

std::string png_bytes(const Image& image) {
  png_image header{};
  header.version = PNG_IMAGE_VERSION;
  header.width = static_cast<png_uint_32>(image.width);
  header.height = static_cast<png_uint_32>(image.height);
  header.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(header);
  std::string bytes(size, '\0');
  const int success = png_image_write_to_memory(&header, bytes.data(), &size, /*convert_to_8bit=*/0, image.rgb.data(),
                                                /*row_stride=*/0, /*colormap=*/nullptr);
  RUN_CHECK(success != 0, ErrorKind::kRun, "cannot write a PNG image of {} x {} pixels (height x width): {}",
            image.height, image.width, header.message);
  bytes.resize(size);
  return bytes;
}

void write_png(const std::filesystem::path& path, const Image& image) {
  formats::write_file(path, png_bytes(image), formats::FileKind::kPng);
}

}  // namespace runner::images
