#include "runner/images/image_folder.h"

#include <filesystem>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/temp_folder.h"
#include "tests/support/thrown_text.h"

namespace runner::images {
namespace {

namespace fs = std::filesystem;

class ImageFolders : public ::testing::Test {
 protected:
  void add(const std::string& name) { support::write_text(root_ / name, "x"); }
  ImageFolder scan() const { return scan_image_folder(root_.string()); }
  std::string message() const {
    std::string text = support::thrown_text([&] { scan(); }, ErrorKind::kData);
    for (size_t at; (at = text.find(root_.string())) != text.npos;) text.replace(at, root_.string().size(), "DIR");
    return text;
  }
  // "0:cat/a.png 1:…"
  std::string listing() const {
    std::string text;
    for (const ClassImage& image : scan().images)
      text += (text.empty() ? "" : " ") + std::to_string(image.class_index) + ":" +
              image.path.substr(root_.string().size() + 1);
    return text;
  }

  const support::TempFolder folder_;
  const fs::path root_ = folder_ / "images";
};

TEST_F(ImageFolders, ClassesAndPathsAreSortedByBytes) {
  for (const char* const name : {"9/b.png", "10/z.jpg", "9/a.JPEG", "9/deep/er/c.Png", "B/x.jpg", "a/x.jpg", "9/B.jpg"})
    add(name);
  EXPECT_EQ(scan().classes, (std::vector<std::string>{"10", "9", "B", "a"}));
  EXPECT_EQ(listing(), "0:10/z.jpg 1:9/B.jpg 1:9/a.JPEG 1:9/b.png 1:9/deep/er/c.Png 2:B/x.jpg 3:a/x.jpg");
}

TEST_F(ImageFolders, WhatIsNoSampleIsLeftOutAndCounted) {
  for (const char* const name :
       {"cat/a.png", ".ipynb_checkpoints/a.png", ".DS_Store", "__MACOSX/cat/._a.png", "Thumbs.db", "cat/._a.png",
        "cat/.ipynb_checkpoints/a.png", "cat/.ipynb_checkpoints/b.png", "cat/THUMBS.DB", "cat/desktop.ini",
        "cat/notes.txt", "cat/a.gif", "cat/deep/png", "cat/a.png.bak", "README.md", "loose.png"})
    add(name);
  const ImageFolder found = scan();
  EXPECT_EQ(found.classes, std::vector<std::string>{"cat"});
  EXPECT_EQ(listing(), "0:cat/a.png");
  EXPECT_EQ(found.left_out.hidden, 8);
  EXPECT_EQ(found.left_out.other_ending, 4);
  EXPECT_EQ(found.left_out.outside_classes, 2);
}

TEST_F(ImageFolders, AnEmptyClassIsNamed) {
  add("cat/a.png");
  add("dog/a.txt");
  add("dog/.hidden.png");
  EXPECT_EQ(message(),
            "class 'dog' has no images: no file in DIR/dog ends with .png, .jpg or .jpeg; remove the folder or add "
            "images");
}

TEST_F(ImageFolders, AFolderWithoutClassesIsAnError) {
  add("a.png");
  EXPECT_EQ(message(), "DIR has no class folders; expected images as FOLDER/CLASS/NAME.png or .jpg");
}

// JSON documents would have the same name for both.
TEST_F(ImageFolders, NamesOfClassesAreUtf8) {
  add("caf\xc3\xa9/a.png");
  EXPECT_EQ(scan().classes, (std::vector<std::string>{"caf\xc3\xa9"}));
  add("caf\xe9/a.png");
  EXPECT_EQ(message(),
            "DIR: the name of the class folder 'caf\\xe9' is not UTF-8; rename it, because classes are named after the "
            "folders");
}

TEST_F(ImageFolders, ImagesWithoutClassesAreSorted) {
  for (const char* const name : {"b.png", "a/z.jpg", "a.txt", "Thumbs.db", "a/.hidden.png", "c/d/e.JPEG"}) add(name);
  const ImageFolder found = scan_images(root_.string());
  std::vector<std::string> names;
  for (const ClassImage& image : found.images) {
    names.push_back(image.path.substr(root_.string().size() + 1));
    EXPECT_EQ(image.class_index, 0);
  }
  EXPECT_EQ(names, (std::vector<std::string>{"a/z.jpg", "b.png", "c/d/e.JPEG"}));
  EXPECT_TRUE(found.classes.empty());
  EXPECT_EQ(found.left_out.hidden, 2);
  EXPECT_EQ(found.left_out.other_ending, 1);
  fs::create_symlink("missing", root_ / "c/broken.png");
  EXPECT_EQ(support::thrown_text([&] { scan_images(root_.string()); }, ErrorKind::kData),
            "cannot read " + (root_ / "c/broken.png").string() + ": No such file or directory");
}

TEST_F(ImageFolders, MissingFoldersAndFilesAreErrors) {
  EXPECT_EQ(message(), "cannot read DIR: No such file or directory");
  support::write_text(root_, "x");
  EXPECT_EQ(message(), "cannot read DIR: Not a directory");
}

TEST_F(ImageFolders, LinksAreFollowed) {
  add("cat/a.png");
  support::write_text(folder_ / "elsewhere/b.png", "x");
  fs::create_directory_symlink(folder_ / "elsewhere", root_ / "dog");
  fs::create_directory_symlink(folder_ / "elsewhere", root_ / "cat/more");
  fs::create_symlink(folder_ / "elsewhere/b.png", root_ / "cat/b.png");
  EXPECT_EQ(listing(), "0:cat/a.png 0:cat/b.png 0:cat/more/b.png 1:dog/b.png");
}

TEST_F(ImageFolders, LoopsAreErrors) {
  add("cat/a.png");
  fs::create_directory_symlink(root_, root_ / "cat/up");
  EXPECT_EQ(message(), "DIR/cat/up is a link to a folder that contains it; remove the link");
  fs::remove(root_ / "cat/up");
  fs::create_directory_symlink("itself", root_ / "itself");
  EXPECT_EQ(message(), "cannot read DIR/itself: Too many levels of symbolic links");
}

TEST_F(ImageFolders, BrokenLinksAndPipesAreErrors) {
  add("cat/a.png");
  fs::create_symlink("missing", root_ / "cat/b.png");
  EXPECT_EQ(message(), "cannot read DIR/cat/b.png: No such file or directory");
  fs::remove(root_ / "cat/b.png");
  ASSERT_EQ(::mkfifo((root_ / "cat/c.png").c_str(), 0600), 0);
  EXPECT_EQ(message(), "cannot read DIR/cat/c.png: it is a pipe");
}

TEST_F(ImageFolders, UnreadableFoldersAreErrors) {
  if (::geteuid() == 0) GTEST_SKIP() << "root reads every folder";
  add("cat/a.png");
  add("cat/deep/a.png");
  fs::permissions(root_ / "cat/deep", fs::perms::none);
  EXPECT_EQ(message(), "cannot read DIR/cat/deep: Permission denied");
}

}  // namespace
}  // namespace runner::images
