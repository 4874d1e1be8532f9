// Folders of images: FOLDER/CLASS/**/*.png, *.jpg or *.jpeg. The classes are the names of the folders.
#include <filesystem>
#include <memory>

#include <fmt/format.h>

#include "backends/runtime/affinity.h"
#include "backends/runtime/available_memory.h"
#include "runner/data/data_format.h"
#include "runner/data/image_files.h"
#include "runner/images/image_folder.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::data {
namespace {

// Part of the available memory that decoded pixels of a section may use; other processes of the run keep theirs.
constexpr size_t kMemoryPart = 8;

// Images to predict need no classes: those of a folder and its folders, or the files that the path names.
images::ImageFolder images_to_predict(const std::string& path) {
  std::error_code ignored;  // reading the file gives the reason
  images::ImageFolder found;
  if (std::filesystem::is_directory(path, ignored)) {
    found = images::scan_images(path);
    RUN_CHECK(!found.images.empty(), ErrorKind::kData, "{}: no file ends with .png, .jpg or .jpeg", path);
  } else {
    for (std::string& file : files_at(path)) found.images.push_back({std::move(file), 0});
  }
  return found;
}

// "; left out: 2 hidden, 1 with another ending".
std::string left_out_text(const images::LeftOut& left_out, int64_t damaged) {
  std::vector<std::string> parts;
  const auto add = [&](int64_t count, const char* what) {
    if (count > 0) parts.push_back(fmt::format("{} {}", count, what));
  };
  add(left_out.hidden, "hidden");
  add(left_out.other_ending, "with another ending");
  add(left_out.outside_classes, "outside of the class folders");
  add(damaged, "damaged");
  return parts.empty() ? "" : fmt::format("; left out: {}", fmt::join(parts, ", "));
}

// Takes the class of each image that is left.
void take_folders(Storage& storage, const images::ImageFolder& folder, const std::vector<int32_t>& classes) {
  storage.label_kind = LabelKind::kClass;
  storage.class_names = folder.classes;
  for (const int32_t label : classes) {
    storage.classes.push_back(label);
    ++storage.label_counts[label];
  }
  storage.outputs = std::ssize(folder.classes);
}

// What was damaged: its rows are rejected in a prediction, and left out otherwise.
int64_t take_damaged(Storage& storage, ImageFiles& files, std::vector<int32_t>& classes, bool predicts) {
  std::string example;
  std::vector<int32_t> left;
  int64_t count = 0;
  for (int64_t row = 0; row < files.samples(); ++row) {
    const std::string& damage = files.damage(row);
    if (damage.empty()) {
      left.push_back(classes[static_cast<size_t>(row)]);
      continue;
    }
    if (count++ == 0) example = damage;
    if (predicts) storage.rejected.push_back({row, damage});
  }
  if (count == 0 || predicts) return 0;
  classes = std::move(left);
  files.remove_damaged();
  storage.warnings.push_back(
      fmt::format("{} {} left out: {}", count_text(count, "damaged image"), count == 1 ? "is" : "are", example));
  return count;
}

Storage read_images(const schema::DatasetSpec& spec, const ReadOptions& options) {
  RUN_CHECK(options.labels != LabelsAs::kTargets || options.predicts, ErrorKind::kData,
            "{}: the labels are classes, but the loss needs numbers{}", spec.path,
            options.remedy("; use train.loss: cross_entropy", ""));
  const images::ImageFolder folder =
      options.predicts ? images_to_predict(spec.path) : images::scan_image_folder(spec.path);
  std::vector<std::string> paths;
  std::vector<int32_t> classes;
  for (const images::ClassImage& image : folder.images) {
    paths.push_back(image.path);
    classes.push_back(image.class_index);
  }
  const std::optional<ImageCut> cut = cut_of(spec.augment);
  const auto files = std::make_shared<ImageFiles>(
      spec.path, std::move(paths),
      ImageFiles::Options{.reading = options.images,
                          .kept = cut ? cut->from : ImageStage::kSample,
                          .threads = backends::usable_cores(),
                          .cache_bytes = backends::available_memory() / kMemoryPart,
                          .stops_at_damage = !options.images.skips_damaged && !options.predicts});
  Storage storage;
  const int64_t damaged = take_damaged(storage, *files, classes, options.predicts);
  storage.samples = files->samples();
  storage.feature_shape = {3, files->height(), files->width()};
  if (options.reads_labels()) take_folders(storage, folder, classes);
  const ImageKinds kinds = files->kinds();
  if (kinds.corrupt > 0)
    storage.warnings.push_back(fmt::format(
        "{} {} corrupt data: the decoder has invented some of {} pixels, as it does in Pillow; the first is {}",
        count_text(kinds.corrupt, "JPEG file"), kinds.corrupt == 1 ? "has" : "have",
        kinds.corrupt == 1 ? "its" : "their", files->first_corrupt()));
  storage.contents = kinds.to_string() + left_out_text(folder.left_out, damaged) +
                     (files->is_cached() ? "; decoded once" : "; decoded in every epoch");
  storage.source = files;
  storage.image_files = files;
  return storage;
}

}  // namespace

const DataFormatDef kImagesFormat{.format = schema::DataFormat::kImages,
                                  .sources = kOnePath,
                                  .read = read_images,
                                  .stream = kNotStreamed,
                                  .sample_count = kNoSampleCount};

}  // namespace runner::data
