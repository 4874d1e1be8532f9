// The binary files of CIFAR-10 and CIFAR-100. A record has its labels, one byte each, and 3 x 32 x 32 bytes: red, green
// and blue, rows first. CIFAR-10 has one label, CIFAR-100 the coarse and the fine one.
// Source: Krizhevsky, "The CIFAR-10 and CIFAR-100 datasets", section "Binary version".
#include <algorithm>
#include <memory>
#include <string_view>
#include <vector>

#include "runner/data/byte_images.h"
#include "runner/data/data_format.h"
#include "runner/formats/input_file.h"
#include "schema/base/error.h"

namespace runner::data {
namespace {

constexpr size_t kImageBytes = size_t{3} * 32 * 32;
constexpr int64_t kMostBytes = int64_t{1} << 40;

struct Cifar {
  const char* name;
  int64_t classes;
  int64_t coarse_classes;
  size_t labels;  // per record

  size_t record_bytes() const { return labels + kImageBytes; }
  bool fits(size_t bytes) const { return bytes > 0 && bytes % record_bytes() == 0; }
};
constexpr Cifar kCifar10{"CIFAR-10", 10, 0, 1}, kCifar100{"CIFAR-100", 100, 20, 2};

// CIFAR-10 or CIFAR-100, by the key `classes`.
const Cifar& kind_of(int64_t classes) {
  RUN_CHECK(classes == kCifar10.classes || classes == kCifar100.classes, ErrorKind::kRecipe,
            "classes of format cifar is {}, expected 10 or 100", classes);
  return classes == kCifar10.classes ? kCifar10 : kCifar100;
}

// Returns whether the labels are coarse ones.
bool is_coarse(const schema::DatasetSpec& spec, const Cifar& kind) {
  const bool coarse = spec.cifar_label == schema::CifarLabel::kCoarse;
  RUN_CHECK(!coarse || kind.labels == 2, ErrorKind::kRecipe,
            "{} has no coarse labels; remove label: coarse, or read CIFAR-100", kind.name);
  return coarse;
}

// Returns which of the two all files are, by their sizes or by `classes`.
const Cifar& kind_of(const std::vector<std::string>& files, const std::vector<std::string>& contents,
                     std::optional<int64_t> classes) {
  const auto fits_all = [&](const Cifar& kind) {
    return std::ranges::all_of(contents, [&](const std::string& bytes) { return kind.fits(bytes.size()); });
  };
  if (classes) {
    const Cifar& kind = kind_of(*classes);
    for (size_t i = 0; i < files.size(); ++i)
      RUN_CHECK(kind.fits(contents[i].size()), ErrorKind::kData,
                "{}: {} bytes, expected records of {} bytes, as {} has", files[i], contents[i].size(),
                kind.record_bytes(), kind.name);
    return kind;
  }
  const bool is_10 = fits_all(kCifar10), is_100 = fits_all(kCifar100);
  RUN_CHECK(!is_10 || !is_100, ErrorKind::kData,
            "{}: {} bytes can be records of CIFAR-10 or of CIFAR-100; write classes: 10 or classes: 100", files.front(),
            contents.front().size());
  for (size_t i = 0; i < files.size() && !is_10 && !is_100; ++i) {
    const bool fits_one = kCifar10.fits(contents[i].size()) || kCifar100.fits(contents[i].size());
    RUN_CHECK(fits_one, ErrorKind::kData,
              "{}: {} bytes, expected records of 3073 bytes as CIFAR-10 has, or of 3074 as CIFAR-100 has", files[i],
              contents[i].size());
  }
  RUN_CHECK(is_10 || is_100, ErrorKind::kData, "{} and {}: one has records of CIFAR-10, the other of CIFAR-100",
            files.front(), files.back());
  return is_10 ? kCifar10 : kCifar100;
}

// Appends the images and the label number `label` of each record.
void take_records(const std::string& file, std::string_view bytes, const Cifar& kind, size_t label,
                  LargeArray<uint8_t>& images, LargeArray<int64_t>& classes) {
  const int64_t bound = kind.labels == 2 && label == 0 ? kind.coarse_classes : kind.classes;
  for (size_t at = 0; at < bytes.size(); at += kind.record_bytes()) {
    const auto value = static_cast<uint8_t>(bytes[at + label]);
    RUN_CHECK(value < bound, ErrorKind::kData, "{}: record {}: label {}, expected 0 to {}; is it {}?", file,
              at / kind.record_bytes(), value, bound - 1, kind.name);
    classes.push_back(value);
    const std::string_view image = bytes.substr(at + kind.labels, kImageBytes);
    images.insert(images.end(), image.begin(), image.end());
  }
}

// Black images that stand for files that do not exist yet.
class PlannedImages : public SampleSource {
 public:
  void read(int64_t /*row*/, std::span<float> out) const override { std::ranges::fill(out, 0.0F); }
  void hash(std::span<const int32_t> /*rows*/, Sha256& /*hash*/) const override {}
};

// The labels of `storage.classes`, unless they are not read.
void finish_labels(Storage& storage, const schema::DatasetSpec& spec, const ReadOptions& options) {
  if (!options.reads_labels()) {
    storage.classes = {};
    return;
  }
  RUN_CHECK(options.labels != LabelsAs::kTargets, ErrorKind::kData,
            "{}: the labels are classes, but the loss needs numbers{}", spec.path,
            options.remedy("; use train.loss: cross_entropy", ""));
  storage.label_kind = LabelKind::kClass;
  for (const int64_t label : storage.classes) ++storage.label_counts[label];
  storage.outputs = std::ssize(storage.label_counts);
}

Storage planned_cifar(const schema::DatasetSpec& spec, const ReadOptions& options) {
  const Cifar& kind = kind_of(*spec.classes);
  Storage storage;
  storage.feature_shape = backends::Shape{3, 32, 32};
  storage.samples = *spec.planned_samples;
  storage.source = std::make_shared<const PlannedImages>();
  const int64_t classes = is_coarse(spec, kind) ? kind.coarse_classes : kind.classes;
  for (int64_t i = 0; i < storage.samples; ++i) storage.classes.push_back(i % classes);
  storage.warnings.push_back(
      fmt::format("{} does not exist; planned for {} samples by planned_samples", spec.path, storage.samples));
  finish_labels(storage, spec, options);
  return storage;
}

Storage read_cifar(const schema::DatasetSpec& spec, const ReadOptions& options) {
  if (spec.planned_samples) return planned_cifar(spec, options);
  const std::vector<std::string> files = files_at(spec.path);
  std::vector<std::string> contents;
  for (const std::string& file : files) contents.push_back(formats::InputFile(file).read_rest(kMostBytes));
  const Cifar& kind = kind_of(files, contents, spec.classes);
  const size_t label = is_coarse(spec, kind) ? 0 : kind.labels - 1;

  Storage storage;
  storage.feature_shape = backends::Shape{3, 32, 32};
  LargeArray<uint8_t> images;
  for (size_t i = 0; i < files.size(); ++i) {
    take_records(files[i], contents[i], kind, label, images, storage.classes);
    contents[i] = {};
  }
  storage.samples = std::ssize(storage.classes);
  RUN_CHECK(storage.samples <= INT32_MAX, ErrorKind::kData, "{}: {} samples, expected at most {}", spec.path,
            storage.samples, INT32_MAX);
  storage.source = std::make_shared<const ByteImages>(storage.feature_shape, std::move(images));
  finish_labels(storage, spec, options);
  return storage;
}

}  // namespace

const DataFormatDef kCifarFormat{.format = schema::DataFormat::kCifar,
                                 .sources = kOnePath,
                                 .read = read_cifar,
                                 .stream = kNotStreamed,
                                 .sample_count = kNoSampleCount};

}  // namespace runner::data
