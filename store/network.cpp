#include "store/network.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <system_error>

#include <sys/vfs.h>

#include "schema/base/file.h"
#include "store/sqlite.h"

namespace runner::store {
namespace {

namespace fs = std::filesystem;

struct NetworkFileSystem {
  uint32_t magic;  // statfs.f_type, of linux/magic.h or the file system's own headers
  const char* name;
};

// All programs that use FUSE have the same magic number. On clusters they are network file systems: sshfs, s3fs,
// GlusterFS, …
constexpr NetworkFileSystem kNetworkFileSystems[] = {
    {0x6969, "nfs"},          {0x517b, "smb"},       {0xff534d42, "cifs"},   {0xfe534d42, "smb2"},
    {0x0bd00bd0, "lustre"},   {0x47504653, "gpfs"},  {0x19830326, "beegfs"}, {0x00c36400, "ceph"},
    {0x01021997, "9p"},       {0x65735546, "fuse"},  {0x5346414f, "afs"},    {0x6b414653, "kafs"},
    {0x73757245, "coda"},     {0x564c, "ncp"},       {0x01161970, "gfs2"},   {0x7461636f, "ocfs2"},
    {0x20030528, "orangefs"}, {0xaad7aaea, "panfs"}, {0x786f4256, "vboxsf"}, {0x6a656a63, "vmhgfs"},
};

std::string name_of(const fs::path& folder) {
  struct statfs system {};
  if (::statfs(folder.c_str(), &system) != 0) return "";
  const auto magic = static_cast<uint32_t>(system.f_type);
  const auto* const found = std::ranges::find(kNetworkFileSystems, magic, &NetworkFileSystem::magic);
  return found == std::end(kNetworkFileSystems) ? "" : found->name;
}

bool is_in_listed_folder(const fs::path& file, std::string_view folders) {
  for (size_t begin = 0; begin < folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    if (end > begin && is_inside(file, folders.substr(begin, end - begin))) return true;
    begin = end + 1;
  }
  return false;
}

}  // namespace

std::string network_file_system(const fs::path& file) {
  const char* const variable = std::getenv("RUNNER_NETWORK_STORE");
  const std::string_view chosen = variable != nullptr ? variable : "";
  if (chosen == "0") return "";
  std::error_code ignored;
  const fs::path real = fs::weakly_canonical(fs::absolute(file, ignored), ignored);
  if (is_in_listed_folder(real, chosen)) return "RUNNER_NETWORK_STORE";
  return name_of(folder_of(real));
}

}  // namespace runner::store
