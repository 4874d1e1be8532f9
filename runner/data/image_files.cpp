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
#include "schema/base/file.h"
#include "schema/base/signals_blocked.h"

namespace runner::data {
namespace {

constexpr size_t kMostFileBytes = size_t{1} << 30;

std::string image_bytes(const std::string& path) {
  RegularFile file(path);
  std::string bytes;
  RUN_CHECK(file.is_open() && file.read_text(bytes, kMostFileBytes), ErrorKind::kData, "cannot read the image {}: {}",
            path, file.problem());
  RUN_CHECK(bytes.size() <= kMostFileBytes, ErrorKind::kData, "{}: an image file may have at most {} bytes", path,
            kMostFileBytes);
  return bytes;
}

// Writes byte / 255, channels first.
void write_unit_channels(const images::Image& image, std::span<float> out) {
  const size_t pixels = out.size() / 3;
  for (size_t i = 0; i < pixels; ++i)
    for (size_t c = 0; c < 3; ++c) out[c * pixels + i] = static_cast<float>(image.rgb[3 * i + c]) / 255;
}

void lower_to(std::atomic<size_t>& value, size_t bound) {
  size_t before = value;
  while (bound < before && !value.compare_exchange_weak(before, bound)) continue;
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
  const std::string text = image_bytes(path);
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  images::DecodedImage decoded = images::decode(bytes, path);
  return {reading_.advance(std::move(decoded.image), ImageStage::kDecoded, kept_, path), decoded.info, sha256(bytes)};
}

// `kept_bytes`: those of all files so far. Pixels are kept as long as they are at most `most`.
void ImageFiles::load(File& file, std::atomic<size_t>& kept_bytes, size_t most) {
  formats::remember_used_file(file.path, formats::FileRole::kInput);
  try {
    Decoded decoded = decode(file.path);
    const images::Image sample = reading_.advance(decoded.image, kept_, ImageStage::kSample, file.path);
    file.height = sample.height;
    file.width = sample.width;
    file.whole = {.height = decoded.image.height, .width = decoded.image.width};
    file.digest = decoded.digest;
    file.sums = sums_of(sample);
    file.info = decoded.info;
    const size_t bytes = decoded.image.rgb.size();
    if (kept_bytes.fetch_add(bytes) + bytes <= most) file.pixels = std::move(decoded.image);
  } catch (const Error& error) {
    file.damage = error.message();
  }
}

void ImageFiles::load_all(const std::string& folder, const Options& options) {
  std::atomic<size_t> kept_bytes = 0;
  const auto first = std::ranges::find_if(files_, [&](File& file) {
    load(file, kept_bytes, options.cache_bytes);
    RUN_CHECK(file.damage.empty() || !options.stops_at_damage, ErrorKind::kData, "{}", file.damage);
    return file.damage.empty();
  });
  RUN_CHECK(first != files_.end(), ErrorKind::kData, "{}: no image can be decoded; the first: {}", folder,
            files_.front().damage);
  height_ = first->height;
  width_ = first->width;

  const auto begin = static_cast<size_t>(first - files_.begin()) + 1;
  std::atomic<size_t> next = begin, end = files_.size();  // files from `end` on are not needed after an error
  const auto work = [&](const auto& after_each) {
    for (size_t i = next++; i < end; i = next++) {
      load(files_[i], kept_bytes, options.cache_bytes);
      if (!files_[i].damage.empty() && options.stops_at_damage) lower_to(end, i);
      after_each(i);
    }
  };
  std::mutex mutex;
  std::exception_ptr failure;
  const auto guarded = [&](const auto& run) {
    try {
      run();
    } catch (...) {
      const std::lock_guard lock(mutex);
      failure = std::current_exception();
      end = 0;
    }
  };
  std::vector<std::thread> threads;
  guarded([&] {
    const SignalsBlocked blocked;
    for (int i = 1; i < options.threads; ++i) threads.emplace_back([&] { guarded([&] { work([](size_t) {}); }); });
  });
  guarded([&] {
    work([&](size_t i) {
      formats::ReadingWatch::advance(folder, static_cast<double>(i + 1) / static_cast<double>(files_.size()));
    });
  });
  for (std::thread& thread : threads) thread.join();
  if (failure) std::rethrow_exception(failure);
  const auto damaged = std::ranges::find_if(files_, [](const File& file) { return !file.damage.empty(); });
  RUN_CHECK(damaged == files_.end() || !options.stops_at_damage, ErrorKind::kData, "{}", damaged->damage);
  is_cached_ = kept_bytes <= options.cache_bytes;
  if (!is_cached_)
    for (File& file : files_) file.pixels = {};
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

void ImageFiles::read(int64_t row, std::span<float> out) const {
  const File& file = this->file(row);
  if (!file.damage.empty()) {
    std::ranges::fill(out, 0.0f);
    return;
  }
  if (is_cached_ && kept_ == ImageStage::kSample) return write_unit_channels(file.pixels, out);
  images::Image whole = is_cached_ ? file.pixels : decode_again(file);
  write_unit_channels(reading_.advance(std::move(whole), kept_, ImageStage::kSample, file.path), out);
}

void ImageFiles::read_cut(int64_t row, const ImageCut& cut, RandomSequence& random, std::span<float> out) const {
  const File& file = this->file(row);
  RUN_ASSERT(cut.from == kept_ && file.damage.empty());
  const images::Image decoded = is_cached_ ? images::Image() : decode_again(file);
  const images::Image& whole = is_cached_ ? file.pixels : decoded;
  const images::Image part = images::cropped(whole, cut.draw(file.whole, {height_, width_}, random));
  write_unit_channels(images::resized(part, height_, width_), out);
}

void ImageFiles::hash(std::span<const int32_t> rows, Sha256& hash) const {
  const auto update = [&](const File& file) { hash.update(std::as_bytes(std::span(file.digest))); };
  for (const int32_t row : rows) update(file(row));
  if (rows.empty()) std::ranges::for_each(files_, update);
}

}  // namespace runner::data
