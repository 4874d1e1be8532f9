// Samples that are files of images: (3, H, W), byte / 255.
//
// All files are decoded once while loading, which finds damaged images, different sizes, the sums of the channels and
// the SHA-256 of each file. If the pixels are a small part of the available memory, they are kept. Otherwise reading a
// sample decodes its file again, on the threads of the loader. The features do not depend on this.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "runner/data/image_reading.h"
#include "runner/data/sample_source.h"
#include "runner/images/decode.h"
#include "schema/base/large_array.h"

namespace runner::data {

// Counts what the files of a data set store.
struct ImageKinds {
  int64_t png = 0, jpeg = 0;
  int64_t grey = 0, palette = 0, alpha = 0, cmyk = 0, of_16_bits = 0, turned = 0, corrupt = 0;

  void count(const images::ImageInfo& info);
  // "300 PNG, 20 JPEG; 12 grey, 1 turned by EXIF".
  std::string to_string() const;
};

class ImageFiles : public SampleSource {
 public:
  struct Options {
    ImageReading reading = {};
    int threads = 1;
    size_t cache_bytes = 0;       // most bytes of pixels to keep
    bool stops_at_damage = true;  // throws Error(kData) for the first damaged file; false: see damaged()
  };

  // `folder`: for messages. Throws Error(kData), naming two files if their sizes differ after Options::reading, or if
  // all are damaged. The error does not depend on the number of threads.
  ImageFiles(const std::string& folder, std::vector<std::string> paths, const Options& options);

  int64_t samples() const { return std::ssize(files_); }
  int64_t height() const { return height_; }
  int64_t width() const { return width_; }
  bool is_cached() const { return !pixels_.empty(); }
  ImageKinds kinds() const;
  // Returns why the file of a row cannot be decoded; empty if it can. read() gives zeros for it.
  const std::string& damage(int64_t row) const { return file(row).damage; }
  // Removes the rows of damaged files.
  void remove_damaged();

  // Throws Error(kRun) if the file has changed since it was loaded.
  void read(int64_t row, std::span<float> out) const override;
  void hash(std::span<const int32_t> rows, Sha256& hash) const override;
  std::span<const ChannelSums> channel_sums(int64_t row) const override { return file(row).sums; }

 private:
  struct File {
    std::string path;
    std::string damage = {};
    int64_t height = 0, width = 0;  // after Options::reading
    Sha256Digest digest{};          // of the bytes of the file
    std::array<ChannelSums, 3> sums{};
    images::ImageInfo info{};
    size_t slot = 0;  // in pixels_
  };
  struct Decoded {
    images::Image image;
    images::ImageInfo info;
    Sha256Digest digest{};
  };

  const File& file(int64_t row) const { return files_[static_cast<size_t>(row)]; }
  size_t sample_bytes() const { return static_cast<size_t>(3 * height_ * width_); }
  Decoded decode(const std::string& path) const;
  void load(File& file);
  void load_all(const std::string& folder, const Options& options);
  void check_sizes() const;

  const ImageReading reading_;
  std::vector<File> files_;
  int64_t height_ = 0, width_ = 0;
  LargeArray<uint8_t> pixels_;  // (files, 3, H, W); empty if they are not kept
};

}  // namespace runner::data
