// The layers of the source tree: which folder may include which.
//
// tests/cli/tree_test.cpp checks every include against this table; docs/structure.md is generated from it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace runner::support {

struct Folder {
  std::string path;        // from the root of the tree; its files, and those of folders below it that have no row
  std::string_view holds;  // what it is for
};

// Lowest first. A folder may include itself and the folders of earlier layers, but no other folder of its own layer.
const std::vector<std::vector<Folder>>& layers();

struct FolderOf {
  size_t layer = 0;
  const Folder* folder = nullptr;  // null: the file belongs to no folder of the table
};
// Returns the folder with the longest path that contains the file.
FolderOf folder_of(std::string_view file);

}  // namespace runner::support
