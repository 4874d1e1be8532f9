// Reads JPEG files with libjpeg-turbo. Its errors leave by longjmp, so the functions that run below setjmp have no
// objects with destructors. Method and upsampling are the defaults of the library, as in Pillow.
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>
#include <string_view>

#include <jerror.h>
#include <jpeglib.h>

#include "runner/images/decoders.h"
#include "runner/images/orientation.h"
#include "schema/base/error.h"

#ifndef LIBJPEG_TURBO_VERSION
#error "libjpeg-turbo is needed; other libraries with the interface of libjpeg give other pixels"
#endif

namespace runner::images {
namespace {

// Files with more scans than anyone writes can take hours, at a few bytes per scan.
constexpr int kMaxScans = 500;

// The libjpeg reader of one file.
class JpegReader {
 public:
  explicit JpegReader(std::span<const std::byte> bytes) {
    jpeg_.err = jpeg_std_error(&errors_);
    errors_.error_exit = on_error;
    errors_.emit_message = on_message;
    errors_.output_message = [](j_common_ptr) {};
    jpeg_.client_data = this;
    source_.next_input_byte = reinterpret_cast<const JOCTET*>(bytes.data());
    source_.bytes_in_buffer = bytes.size();
    source_.init_source = [](j_decompress_ptr) {};
    source_.term_source = [](j_decompress_ptr) {};
    source_.fill_input_buffer = on_end_of_bytes;
    source_.skip_input_data = skip_bytes;
    source_.resync_to_restart = jpeg_resync_to_restart;
    progress_.progress_monitor = on_progress;
  }
  ~JpegReader() { jpeg_destroy_decompress(&jpeg_); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  // Each returns false after an error of libjpeg, whose message is error().
  bool read_header() {
    return run([this] { begin(); });
  }
  // `cmyk_row`: 4 bytes per pixel of a row, used if components() is 4.
  bool read_pixels(Image& image, uint8_t* cmyk_row) {
    return run([&] { finish(image, cmyk_row); });
  }

  const char* error() const { return message_; }
  int64_t height() const { return jpeg_.image_height; }
  int64_t width() const { return jpeg_.image_width; }
  int components() const { return jpeg_.num_components; }
  bool is_corrupt() const { return is_corrupt_; }
  bool is_out_of_memory() const { return is_out_of_memory_; }

  // Several segments with EXIF are one, and the last segment with XMP counts, as in Pillow.
  Metadata metadata() const {
    constexpr std::string_view kExif("Exif\0\0", 6), kXmp("http://ns.adobe.com/xap/1.0/\0", 29);
    Metadata found;
    for (jpeg_saved_marker_ptr marker = jpeg_.marker_list; marker != nullptr; marker = marker->next) {
      const std::string_view data = data_of(*marker);
      if (data.starts_with(kExif)) found.exif += data.substr(found.exif.empty() ? 0 : kExif.size());
      if (data.starts_with(kXmp)) found.xmp = data.substr(kXmp.size());
    }
    return found;
  }

 private:
  static std::string_view data_of(const jpeg_marker_struct& marker) {
    return {reinterpret_cast<const char*>(marker.data), marker.data_length};
  }
  static JpegReader& reader_of(void* jpeg) {
    return *static_cast<JpegReader*>(static_cast<j_common_ptr>(jpeg)->client_data);
  }

  static void on_error(j_common_ptr jpeg) {
    jpeg->err->format_message(jpeg, reader_of(jpeg).message_);
    reader_of(jpeg).is_out_of_memory_ = jpeg->err->msg_code == JERR_OUT_OF_MEMORY;
    std::longjmp(reader_of(jpeg).on_failure_, 1);
  }
  static void on_message(j_common_ptr jpeg, int level) {
    constexpr int kWarning = -1;
    const int code = jpeg->err->msg_code;
    const bool invents_pixels = code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE || code == JWRN_MUST_RESYNC;
    if (level == kWarning && invents_pixels) reader_of(jpeg).is_corrupt_ = true;
  }
  void fail_with(const char* message) {
    std::snprintf(message_, sizeof message_, "%s", message);
    std::longjmp(on_failure_, 1);
  }
  static boolean on_end_of_bytes(j_decompress_ptr jpeg) {
    reader_of(jpeg).fail_with("the file ends early");
    return FALSE;
  }
  static void skip_bytes(j_decompress_ptr jpeg, long count) {
    if (count <= 0) return;
    if (static_cast<size_t>(count) > jpeg->src->bytes_in_buffer) on_end_of_bytes(jpeg);
    jpeg->src->next_input_byte += count;
    jpeg->src->bytes_in_buffer -= static_cast<size_t>(count);
  }
  static void on_progress(j_common_ptr jpeg) {
    if (reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number > kMaxScans)
      reader_of(jpeg).fail_with("it has more than 500 scans");
  }

  template <class Step>
  bool run(Step step) {
    if (setjmp(on_failure_) != 0) return false;
    step();
    return true;
  }

  void begin() {
    constexpr int kExifMarker = JPEG_APP0 + 1;
    jpeg_create_decompress(&jpeg_);
    jpeg_.src = &source_;
    jpeg_.progress = &progress_;
    jpeg_save_markers(&jpeg_, kExifMarker, 0xffff);
    jpeg_read_header(&jpeg_, TRUE);
  }

  void finish(Image& image, uint8_t* cmyk_row) {
    const bool is_cmyk = components() == 4;
    jpeg_.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&jpeg_);
    while (jpeg_.output_scanline < jpeg_.output_height) {
      uint8_t* const out = image.row(jpeg_.output_scanline);
      uint8_t* row = is_cmyk ? cmyk_row : out;
      jpeg_read_scanlines(&jpeg_, &row, 1);
      if (is_cmyk) convert_inverted_cmyk(cmyk_row, out, image.width);
    }
    jpeg_finish_decompress(&jpeg_);
  }

  // Multiplies the inverted inks: red is C * K / 255, rounded as Pillow does.
  static void convert_inverted_cmyk(const uint8_t* cmyk, uint8_t* rgb, int64_t width) {
    for (int64_t x = 0; x < width; ++x, cmyk += 4, rgb += 3) {
      const int black = cmyk[3];
      for (int i = 0; i < 3; ++i) {
        const int absorbed = (255 - cmyk[i]) * black + 128;
        rgb[i] = static_cast<uint8_t>(black - (((absorbed >> 8) + absorbed) >> 8));
      }
    }
  }

  jpeg_decompress_struct jpeg_{};
  jpeg_error_mgr errors_{};
  jpeg_source_mgr source_{};
  jpeg_progress_mgr progress_{};
  std::jmp_buf on_failure_{};
  char message_[JMSG_LENGTH_MAX] = "";
  bool is_corrupt_ = false, is_out_of_memory_ = false;
};

ColorKind color_of(int components, const std::string& name) {
  switch (components) {
    case 1: return ColorKind::kGrey;
    case 3: return ColorKind::kRgb;
    case 4: return ColorKind::kCmyk;
    default:
      fail(ErrorKind::kData, "{}: JPEG images of {} channels are not supported; expected 1, 3 or 4", name, components);
  }
}

void check_jpeg(bool success, const JpegReader& reader, const std::string& name) {
  if (reader.is_out_of_memory()) throw std::bad_alloc();
  RUN_CHECK(success, ErrorKind::kData, "{}: cannot decode the JPEG image: {}", name, reader.error());
}

}  // namespace

DecodedImage decode_jpeg(std::span<const std::byte> bytes, const std::string& name) {
  JpegReader reader(bytes);
  check_jpeg(reader.read_header(), reader, name);
  check_size(reader.height(), reader.width(), bytes.size(), "JPEG", name);
  const ColorKind color = color_of(reader.components(), name);
  DecodedImage decoded{
      .image = black_image(reader.height(), reader.width()),
      .info = {.format = FileFormat::kJpeg, .color = color, .orientation = orientation_of(reader.metadata())}};
  std::vector<uint8_t> cmyk_row(color == ColorKind::kCmyk ? static_cast<size_t>(4 * reader.width()) : 0);
  check_jpeg(reader.read_pixels(decoded.image, cmyk_row.data()), reader, name);
  decoded.info.is_corrupt = reader.is_corrupt();
  return decoded;
}

#define RUNNER_AS_TEXT(words) RUNNER_AS_TEXT_OF(words)
#define RUNNER_AS_TEXT_OF(words) #words

std::string libjpeg_turbo_version() {
  return RUNNER_AS_TEXT(LIBJPEG_TURBO_VERSION);
}

}  // namespace runner::images
