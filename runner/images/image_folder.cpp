#include "runner/images/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <string_view>
#include <tuple>
#include <utility>

#include <sys/stat.h>

#include "schema/base/error.h"
#include "schema/base/file.h"
#include "schema/base/system_limits.h"
#include "schema/base/text.h"
#include "schema/base/utf8.h"

namespace runner::images {
namespace {

namespace fs = std::filesystem;

bool is_hidden(std::string_view name) {
  const std::string lower = lower_case(name);
  return name.starts_with('.') || lower == "thumbs.db" || lower == "desktop.ini" || name == "__MACOSX";
}

bool has_image_ending(std::string_view name) {
  const std::string lower = lower_case(name);
  return lower.ends_with(".png") || lower.ends_with(".jpg") || lower.ends_with(".jpeg");
}

[[noreturn]] void fail_to_read(const std::string& path, const std::error_code& error) {
  fail(ErrorKind::kData, "cannot read {}: {}", path, system_reason(error.value()));
}

// Identifies a folder, however it is reached.
using FolderId = std::pair<dev_t, ino_t>;

FolderId id_of(const std::string& path) {
  struct stat found {};
  if (::stat(path.c_str(), &found) != 0) fail_to_read(path, {errno, std::generic_category()});
  return {found.st_dev, found.st_ino};
}

struct Entry {
  std::string path, name;
  bool is_folder;
};

// Whether an entry, or the target of a link, is a folder. Throws if it is neither a folder nor a regular file, because
// a broken link may be a class that is missing.
bool is_folder(const fs::directory_entry& entry) {
  std::error_code ignored;  // the reason follows
  if (entry.is_directory(ignored)) return true;
  if (!entry.is_regular_file(ignored))
    fail(ErrorKind::kData, "cannot read {}: {}", entry.path().string(), RegularFile(entry.path()).problem());
  return false;
}

class FolderScan {
 public:
  // Each folder in `folder` is a class.
  ImageFolder classes(const std::string& folder) {
    for (const Entry& entry : visible_entries(folder)) {
      if (entry.is_folder)
        add_class(entry.name, folder);
      else
        ++result_.left_out.outside_classes;
    }
    RUN_CHECK(!result_.classes.empty(), ErrorKind::kData,
              "{} has no class folders; expected images as FOLDER/CLASS/NAME.png or .jpg", folder);
    std::sort(result_.classes.begin(), result_.classes.end());
    open_.push_back(id_of(folder));
    for (size_t i = 0; i < result_.classes.size(); ++i) scan_class((fs::path(folder) / result_.classes[i]).string(), i);
    return std::move(result_);
  }

  // All images are of the class 0, which has no name.
  ImageFolder images(const std::string& folder) {
    scan_sorted(folder, 0);
    return std::move(result_);
  }

 private:
  // States, exports and JSON documents have the names, and only UTF-8 is the same in all of them.
  void add_class(const std::string& name, const std::string& folder) {
    RUN_CHECK(
        is_utf8(name), ErrorKind::kData,
        "{}: the name of the class folder {} is not UTF-8; rename it, because classes are named after the folders",
        folder, in_quotes(name));
    result_.classes.push_back(name);
  }

  void scan_class(const std::string& folder, size_t index) {
    const size_t before = result_.images.size();
    scan_sorted(folder, static_cast<int32_t>(index));
    RUN_CHECK(result_.images.size() > before, ErrorKind::kData,
              "class {} has no images: no file in {} ends with .png, .jpg or .jpeg; remove the folder or add images",
              in_quotes(result_.classes[index]), folder);
  }

  void scan_sorted(const std::string& folder, int32_t class_index) {
    const auto before = std::ssize(result_.images);
    scan(folder, class_index);
    std::sort(result_.images.begin() + before, result_.images.end(),
              [](const ClassImage& a, const ClassImage& b) { return a.path < b.path; });
  }

  void scan(const std::string& folder, int32_t class_index) {
    const FolderId id = id_of(folder);
    RUN_CHECK(std::find(open_.begin(), open_.end(), id) == open_.end(), ErrorKind::kData,
              "{} is a link to a folder that contains it; remove the link", folder);
    open_.push_back(id);
    for (Entry& entry : visible_entries(folder)) {
      if (entry.is_folder)
        scan(entry.path, class_index);
      else if (has_image_ending(entry.name))
        result_.images.push_back({.path = std::move(entry.path), .class_index = class_index});
      else
        ++result_.left_out.other_ending;
    }
    open_.pop_back();
  }

  // Counts the hidden entries of a folder and returns the others.
  std::vector<Entry> visible_entries(const std::string& folder) {
    std::vector<Entry> entries;
    std::error_code error;
    for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
      std::string name = entry->path().filename().string();
      if (is_hidden(name))
        ++result_.left_out.hidden;
      else
        entries.push_back({.path = entry->path().string(), .name = std::move(name), .is_folder = is_folder(*entry)});
    }
    if (error) fail_to_read(folder, error);
    return entries;
  }

  ImageFolder result_;
  std::vector<FolderId> open_;  // the folders that contain the current one
};

}  // namespace

ImageFolder scan_image_folder(const std::string& folder) {
  return FolderScan().classes(folder);
}

ImageFolder scan_images(const std::string& folder) {
  return FolderScan().images(folder);
}

}  // namespace runner::images
