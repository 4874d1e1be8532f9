#include "runner/data/image_files.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runner/formats/reading_watch.h"
#include "runner/formats/used_files.h"
#include "schema/base/error.h"
#include "schema/base/signals_blocked.h"

namespace runner::data {
namespace {

// Writes byte / 255, channels first.
void write_unit_channels(const images::Image& image, std::span<float> out) {
  const size_t pixels = out.size() / 3;
  for (size_t i = 0; i < pixels; ++i)
    for (size_t c = 0; c < 3; ++c) out[c * pixels + i] = static_cast<float>(image.rgb[3 * i + c]) / 255;
}

std::array<ChannelSums, 3> sums_of(const images::Image& image) {
  std::array<ChannelSums, 3> sums{};
  for (size_t i = 0; i < image.rgb.size(); ++i) {
    const int64_t byte = image.rgb[i];
    sums[i % 3].bytes += byte;
    sums[i % 3].squares += byte * byte;
  }
  return sums;
}

// Why files cannot be loaded: the error of the first of them. Thread-safe.
class FirstFailure {
 public:
  explicit FirstFailure(size_t files) : file_(files) {}

  // Files from this one on need not be loaded.
  size_t file() const { return file_; }
  // Takes the current exception.
  void take(size_t file) {
    const std::lock_guard lock(mutex_);
    if (file >= file_) return;
    file_ = file;
    error_ = std::current_exception();
  }
  // Call it after all threads.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::atomic<size_t> file_;
  std::exception_ptr error_;
};

}  // namespace

void ImageKinds::count(const images::ImageInfo& info) {
  using images::ColorKind;
  ++(info.format == images::FileFormat::kPng ? png : jpeg);
  grey += info.color == ColorKind::kGrey || info.color == ColorKind::kGreyAlpha ? 1 : 0;
  palette += info.color == ColorKind::kPalette ? 1 : 0;
  alpha += info.color == ColorKind::kGreyAlpha || info.color == ColorKind::kRgba || info.has_trns ? 1 : 0;
  cmyk += info.color == ColorKind::kCmyk ? 1 : 0;
  of_16_bits += info.bits == 16 ? 1 : 0;
  turned += info.orientation != 1 ? 1 : 0;
  corrupt += info.is_corrupt ? 1 : 0;
}

std::string ImageKinds::to_string() const {
  std::vector<std::string> formats, kinds;
  const auto add = [](std::vector<std::string>& to, int64_t count, const char* what) {
    if (count > 0) to.push_back(fmt::format("{} {}", count, what));
  };
  add(formats, png, "PNG");
  add(formats, jpeg, "JPEG");
  add(kinds, grey, "grey");
  add(kinds, palette, "with a palette");
  add(kinds, alpha, "with transparency, which is dropped");
  add(kinds, cmyk, "CMYK");
  add(kinds, of_16_bits, "of 16 bits");
  add(kinds, turned, "turned by EXIF");
  add(kinds, corrupt, "with corrupt data");
  return fmt::format("{}{}{}", fmt::join(formats, ", "), kinds.empty() ? "" : "; ", fmt::join(kinds, ", "));
}

ImageFiles::ImageFiles(const std::string& folder, std::vector<std::string> paths, const Options& options)
    : reading_(options.reading), kept_(options.kept) {
  for (std::string& path : paths) files_.push_back({.path = std::move(path)});
  load_all(folder, options);
  check_sizes();
}

ImageFiles::Decoded ImageFiles::decode(const std::string& path) const {
  const std::string text = images::read_image_file(path);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  images::DecodedImage decoded = images::decode(bytes, path);
  if (auto kept = reading_.advanced(decoded.image, ImageStage::kDecoded, kept_, path)) decoded.image = std::move(*kept);
  return {std::move(decoded.image), decoded.info, sha256(bytes)};
}

// Damage is an error, or remembered.
void ImageFiles::load(File& file, Loading& loading) {
  formats::remember_used_file(file.path, formats::FileRole::kInput);
  try {
    Decoded decoded = decode(file.path);
    const auto advanced = reading_.advanced(decoded.image, kept_, ImageStage::kSample, file.path);
    const images::Image& sample = advanced ? *advanced : decoded.image;
    file.height = sample.height;
    file.width = sample.width;
    file.whole = {.height = decoded.image.height, .width = decoded.image.width};
    file.digest = decoded.digest;
    file.sums = sums_of(sample);
    file.info = decoded.info;
    keep_pixels(file, std::move(decoded.image), loading);
  } catch (const Error& error) {
    if (loading.options.stops_at_damage || error.kind() != ErrorKind::kData) throw;
    file.damage = error.message();
  }
}

// Once the pixels of all files need too much memory, none are kept.
void ImageFiles::keep_pixels(File& file, images::Image pixels, Loading& loading) {
  const std::lock_guard lock(loading.mutex);
  if (!is_cached_) return;
  loading.pixel_bytes += pixels.rgb.size();
  is_cached_ = loading.pixel_bytes <= loading.options.cache_bytes;
  if (is_cached_) {
    file.pixels = std::move(pixels);
  } else {
    for (File& each : files_) each.pixels = {};
  }
}

// Each thread takes the next file, so that all files before one that fails are loaded, too.
void ImageFiles::load_all(const std::string& folder, const Options& options) {
  Loading loading{.options = options};
  FirstFailure failure(files_.size());
  std::atomic<size_t> next = 0;
  const auto work = [&](const auto& after_each) {
    for (size_t i = next++; i < failure.file(); i = next++) {
      try {
        load(files_[i], loading);
        after_each(i);
      } catch (...) {
        failure.take(i);
      }
    }
  };
  std::vector<std::thread> threads;
  try {
    const SignalsBlocked blocked;
    for (int i = 1; i < options.threads; ++i) threads.emplace_back([&] { work([](size_t) {}); });
  } catch (...) {
    failure.take(0);
  }
  work([&](size_t i) {
    formats::ReadingWatch::advance(folder, static_cast<double>(i + 1) / static_cast<double>(files_.size()));
  });
  for (std::thread& thread : threads) thread.join();
  failure.rethrow();

  const auto first = std::ranges::find_if(files_, [](const File& file) { return file.damage.empty(); });
  RUN_CHECK(first != files_.end(), ErrorKind::kData, "{}: no image can be decoded; the first: {}", folder,
            files_.front().damage);
  height_ = first->height;
  width_ = first->width;
}

void ImageFiles::check_sizes() const {
  const auto is_good = [](const File& file) { return file.damage.empty(); };
  const auto first = std::ranges::find_if(files_, is_good);
  for (const File& file : files_) {
    RUN_CHECK(
        !is_good(file) || (file.height == height_ && file.width == width_), ErrorKind::kData,
        "images have different sizes: {} has {} x {} pixels (height x width), {} has {} x {}; set data.resize, and "
        "data.center_crop if it is one number",
        first->path, height_, width_, file.path, file.height, file.width);
    const bool fits = file.whole.height >= height_ && file.whole.width >= width_;
    RUN_CHECK(
        !is_good(file) || fits || kept_ != ImageStage::kResized, ErrorKind::kData,
        "{} has {} x {} pixels (height x width) before data.center_crop, but data.train.augment crops to {} x {}; "
        "set a larger data.resize",
        file.path, file.whole.height, file.whole.width, height_, width_);
  }
}

ImageKinds ImageFiles::kinds() const {
  ImageKinds kinds;
  for (const File& file : files_)
    if (file.damage.empty()) kinds.count(file.info);
  return kinds;
}

const std::string& ImageFiles::first_corrupt() const {
  return std::ranges::find_if(files_, [](const File& file) { return file.info.is_corrupt; })->path;
}

void ImageFiles::remove_damaged() {
  std::erase_if(files_, [](const File& file) { return !file.damage.empty(); });
}

// Throws Error(kRun) if the file has changed.
images::Image ImageFiles::decode_again(const File& file) const {
  Decoded decoded = [&] {
    try {
      return decode(file.path);
    } catch (const Error& error) {
      fail(ErrorKind::kRun, "{} has changed since it was loaded: {}", file.path, error.message());
    }
  }();
  RUN_CHECK(decoded.digest == file.digest, ErrorKind::kRun,
            "{} has changed since it was loaded; do not change images while they are used", file.path);
  return std::move(decoded.image);
}

// Pixels at the stage Options::kept: those that are kept, or those of the file, in `memory`.
const images::Image& ImageFiles::pixels_of(const File& file, images::Image& memory) const {
  if (is_cached_) return file.pixels;
  memory = decode_again(file);
  return memory;
}

void ImageFiles::read(int64_t row, std::span<float> out) const {
  const File& file = this->file(row);
  if (!file.damage.empty()) {
    std::ranges::fill(out, 0.0f);
    return;
  }
  images::Image memory;
  const images::Image& whole = pixels_of(file, memory);
  const auto sample = reading_.advanced(whole, kept_, ImageStage::kSample, file.path);
  write_unit_channels(sample ? *sample : whole, out);
}

void ImageFiles::read_cut(int64_t row, const ImageCut& cut, RandomSequence& random, std::span<float> out) const {
  const File& file = this->file(row);
  RUN_ASSERT(cut.from == kept_ && file.damage.empty());
  images::Image memory;
  const images::Image part = images::cropped(pixels_of(file, memory), cut.draw(file.whole, {height_, width_}, random));
  write_unit_channels(images::resized(part, height_, width_), out);
}

void ImageFiles::hash(std::span<const int32_t> rows, Sha256& hash) const {
  const auto update = [&](const File& file) { hash.update(std::as_bytes(std::span(file.digest))); };
  for (const int32_t row : rows) update(file(row));
  if (rows.empty()) std::ranges::for_each(files_, update);
}

}  // namespace runner::data
