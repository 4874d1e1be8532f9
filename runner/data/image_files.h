// Samples that are files of images: (3, H, W), byte / 255.
//
// All files are decoded once while loading, which finds damaged images, different sizes, the sums of the channels and
// the SHA-256 of each file. If the pixels are a small part of the available memory, they are kept. Otherwise reading a
// sample decodes its file again, on the threads of the loader. The features do not depend on this. Pixels are kept as
// they are before random parts of them become samples (ImageCut).
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "runner/data/image_cut.h"
#include "runner/data/image_reading.h"
#include "runner/data/random.h"
#include "runner/data/sample_source.h"
#include "runner/images/decode.h"
#include "schema/base/parts.h"

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
    ImageStage kept = ImageStage::kSample;  // stage of the pixels to keep, and of the images that read_cut() cuts
    int threads = 1;
    size_t cache_bytes = 0;       // most bytes of pixels to keep
    bool stops_at_damage = true;  // throws Error(kData) for the first damaged file; false: see damaged()
  };

  // `folder`: for messages. Throws Error(kData), naming two files if their sizes differ after Options::reading, one if
  // read_cut() cannot cut it, or if all are damaged. If several files fail, the error is that of the first: it does not
  // depend on the number of threads.
  ImageFiles(const std::string& folder, std::vector<std::string> paths, const Options& options);

  int64_t samples() const { return std::ssize(files_); }
  int64_t height() const { return height_; }
  int64_t width() const { return width_; }
  bool is_cached() const { return is_cached_; }
  ImageKinds kinds() const;
  // Returns the path of the first file with corrupt data that can be decoded nevertheless (ImageKinds::corrupt).
  const std::string& first_corrupt() const;
  // Returns why the file of a row cannot be decoded; empty if it can. read() gives zeros for it.
  const std::string& damage(int64_t row) const { return file(row).damage; }
  const std::string& path(int64_t row) const { return file(row).path; }
  // Removes the rows of damaged files.
  void remove_damaged();

  // Both throw Error(kRun) if the file has changed since it was loaded. With read_cut(), a random part of the image
  // becomes the sample.
  void read(int64_t row, std::span<float> out) const override;
  void read_cut(int64_t row, const ImageCut& cut, RandomSequence& random, std::span<float> out) const;
  void hash(std::span<const int32_t> rows, Sha256& hash) const override;
  std::span<const ChannelSums> channel_sums(int64_t row) const override { return file(row).sums; }

 private:
  friend class runner::PartsAccess;

  struct File {
    std::string path;
    std::string damage = {};
    int64_t height = 0, width = 0;  // after Options::reading
    images::ImageSize whole{};      // at the stage Options::kept
    Sha256Digest digest{};          // of the bytes of the file
    std::array<ChannelSums, 3> sums{};
    images::ImageInfo info{};
    images::Image pixels{};  // at that stage, if they are kept

    static auto parts(auto& self) {
      return std::tie(self.path, self.damage, self.height, self.width, self.whole, self.digest, self.sums, self.info,
                      self.pixels);
    }
  };
  struct Decoded {
    images::Image image;  // at the stage Options::kept
    images::ImageInfo info;
    Sha256Digest digest{};
  };
  // What the threads that load the files share.
  struct Loading {
    const Options& options;
    std::mutex mutex{};
    size_t pixel_bytes = 0;  // of the files so far
  };

  ImageFiles() = default;
  static auto parts(auto& self) {
    return std::tie(self.reading_, self.kept_, self.files_, self.height_, self.width_, self.is_cached_);
  }

  const File& file(int64_t row) const { return files_[static_cast<size_t>(row)]; }
  Decoded decode(const std::string& path) const;
  images::Image decode_again(const File& file) const;
  const images::Image& pixels_of(const File& file, images::Image& memory) const;
  void load(File& file, Loading& loading);
  void keep_pixels(File& file, images::Image pixels, Loading& loading);
  void load_all(const std::string& folder, const Options& options);
  void check_sizes() const;

  ImageReading reading_;
  ImageStage kept_ = ImageStage::kSample;
  std::vector<File> files_;
  int64_t height_ = 0, width_ = 0;
  bool is_cached_ = true;  // the pixels of all files are kept
};

}  // namespace runner::data
