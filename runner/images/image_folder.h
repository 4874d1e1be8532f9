// Finds the images of a folder, which may have one folder per class, as torchvision's ImageFolder. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace runner::images {

struct ClassImage {
  std::string path;  // starts with the folder that was scanned
  int32_t class_index = 0;
};

// Files and folders that are no samples. A folder counts once, without what it contains.
struct LeftOut {
  int64_t hidden = 0;           // named .*, Thumbs.db, desktop.ini or __MACOSX
  int64_t other_ending = 0;     // files in class folders that do not end with .png, .jpg or .jpeg in any case
  int64_t outside_classes = 0;  // files that are in no class folder, if there are classes
};

struct ImageFolder {
  std::vector<std::string> classes;  // names of the class folders, sorted by bytes ("10" before "9")
  std::vector<ClassImage> images;    // sorted by class, then by the bytes of the path
  LeftOut left_out;
};

// Scans FOLDER/CLASS/**/*.png|jpg|jpeg without opening the files. Symbolic links are followed. The result does not
// depend on the file system. Throws Error(kData) if a folder cannot be read, contains itself through a link, has no
// class folders, if the name of one is not UTF-8, or if a class has no images.
ImageFolder scan_image_folder(const std::string& folder);

// The same for FOLDER/**/*.png|jpg|jpeg without classes: all images have the index 0. There may be none.
ImageFolder scan_images(const std::string& folder);

}  // namespace runner::images
