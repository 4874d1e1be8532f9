// Reads PNG files with libpng. Its errors leave by longjmp, so the functions that run below setjmp have no objects with
// destructors.
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>

#include <png.h>

#include "runner/images/decoders.h"
#include "runner/images/orientation.h"
#include "runner/images/png_chunks.h"
#include "schema/base/error.h"

namespace runner::images {
namespace {

constexpr size_t kMessageBytes = 200;

// The libpng reader of one file.
class PngReader {
 public:
  explicit PngReader(std::span<const std::byte> bytes)
      : rest_(bytes), png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, this, on_error, on_warning)) {
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
    if (info_ != nullptr) return;
    png_destroy_read_struct(&png_, nullptr, nullptr);
    throw std::bad_alloc();
  }
  ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngReader(const PngReader&) = delete;
  PngReader& operator=(const PngReader&) = delete;

  // Each returns false after an error of libpng, whose message is error().
  bool read_header() {
    return run([this] { begin(); });
  }
  bool read_pixels(Image& image) {
    return run([&] { finish(image); });
  }

  const char* error() const { return message_; }
  int64_t height() const { return png_get_image_height(png_, info_); }
  int64_t width() const { return png_get_image_width(png_, info_); }
  int bits() const { return png_get_bit_depth(png_, info_); }
  bool has_trns() const { return png_get_valid(png_, info_, PNG_INFO_tRNS) != 0; }
  ColorKind color() const {
    switch (png_get_color_type(png_, info_)) {
      case PNG_COLOR_TYPE_GRAY: return ColorKind::kGrey;
      case PNG_COLOR_TYPE_GRAY_ALPHA: return ColorKind::kGreyAlpha;
      case PNG_COLOR_TYPE_PALETTE: return ColorKind::kPalette;
      case PNG_COLOR_TYPE_RGB_ALPHA: return ColorKind::kRgba;
      default: return ColorKind::kRgb;
    }
  }

 private:
  static void on_error(png_structp png, png_const_charp message) {
    std::snprintf(static_cast<PngReader*>(png_get_error_ptr(png))->message_, kMessageBytes, "%s", message);
    png_longjmp(png, 1);
  }
  static void on_warning(png_structp, png_const_charp) {}
  static void read_bytes(png_structp png, png_bytep out, size_t count) {
    auto& reader = *static_cast<PngReader*>(png_get_io_ptr(png));
    if (count > reader.rest_.size()) png_error(png, "the file ends early");
    std::memcpy(out, reader.rest_.data(), count);
    reader.rest_ = reader.rest_.subspan(count);
  }

  template <class Step>
  bool run(Step step) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    step();
    return true;
  }

  void begin() {
    png_set_read_fn(png_, this, read_bytes);
    png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_set_user_limits(png_, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);  // also known ones but tRNS
    png_read_info(png_, info_);
  }

  void finish(Image& image) {
    png_set_expand(png_);
    png_set_strip_16(png_);
    png_set_strip_alpha(png_);
    png_set_gray_to_rgb(png_);
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    if (static_cast<int64_t>(png_get_rowbytes(png_, info_)) != image.row_bytes()) png_error(png_, "not RGB rows");
    for (int pass = 0; pass < passes; ++pass)
      for (int64_t y = 0; y < image.height; ++y) png_read_row(png_, image.row(y), nullptr);
    png_read_end(png_, nullptr);
  }

  std::span<const std::byte> rest_;  // not yet read
  char message_[kMessageBytes] = "";
  png_structp png_;
  png_infop info_ = nullptr;
};

void check_png(bool success, const PngReader& reader, const std::string& name) {
  RUN_CHECK(success, ErrorKind::kData, "{}: cannot decode the PNG image: {}", name, reader.error());
}

// Checks the size before libpng does, whose message does not name it.
void check_header(std::string_view file, const std::string& name) {
  PngChunks chunks(file);
  if (!chunks.next() || chunks.type() != "IHDR" || chunks.data().size() < 8) return;
  const auto* const data = reinterpret_cast<png_const_bytep>(chunks.data().data());
  check_size(png_get_uint_32(data + 4), png_get_uint_32(data), file.size(), "PNG", name);
}

}  // namespace

DecodedImage decode_png(std::span<const std::byte> bytes, const std::string& name) {
  const std::string_view file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  check_header(file, name);
  PngReader reader(bytes);
  check_png(reader.read_header(), reader, name);
  DecodedImage decoded{.image = black_image(reader.height(), reader.width()),
                       .info = {.format = FileFormat::kPng,
                                .color = reader.color(),
                                .bits = reader.bits(),
                                .has_trns = reader.has_trns(),
                                .orientation = orientation_of(metadata_of_png(file))}};
  check_png(reader.read_pixels(decoded.image), reader, name);
  return decoded;
}

std::string libpng_version() {
  return png_get_libpng_ver(nullptr);
}

}  // namespace runner::images
