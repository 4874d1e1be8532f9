#include "runner/cli/version.h"

#include <cstring>
#include <span>

#include <elf.h>
#include <link.h>

#include "schema/base/error.h"
#include "schema/base/sha256.h"

namespace runner::cli {
namespace {

constexpr size_t kNoteAlignment = 4;

size_t padded(size_t bytes) {
  return (bytes + kNoteAlignment - 1) / kNoteAlignment * kNoteAlignment;
}

// Returns the build id in the notes of a segment, or an empty span.
std::span<const std::byte> build_id_in(std::span<const std::byte> notes) {
  ElfW(Nhdr) note;
  while (notes.size() >= sizeof(note)) {
    std::memcpy(&note, notes.data(), sizeof(note));
    const size_t name = sizeof(note) + padded(note.n_namesz), end = name + padded(note.n_descsz);
    if (end > notes.size()) break;
    const bool of_gnu = note.n_namesz == sizeof(ELF_NOTE_GNU) &&
                        std::memcmp(notes.data() + sizeof(note), ELF_NOTE_GNU, sizeof(ELF_NOTE_GNU)) == 0;
    if (of_gnu && note.n_type == NT_GNU_BUILD_ID) return notes.subspan(name, note.n_descsz);
    notes = notes.subspan(end);
  }
  return {};
}

// The first object is the program itself.
int find_build_id(dl_phdr_info* object, size_t, void* found) {
  for (const ElfW(Phdr) & segment : std::span(object->dlpi_phdr, object->dlpi_phnum)) {
    if (segment.p_type != PT_NOTE) continue;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the linker gives addresses as integers
    const auto* const notes = reinterpret_cast<const std::byte*>(object->dlpi_addr + segment.p_vaddr);
    const std::span<const std::byte> id = build_id_in({notes, segment.p_memsz});
    if (!id.empty()) *static_cast<std::string*>(found) = hex(id);
  }
  return 1;
}

}  // namespace

std::string version() {
  return "runner " RUNNER_VERSION;
}

std::string build_id() {
  std::string id;
  dl_iterate_phdr(find_build_id, &id);
  RUN_CHECK(!id.empty(), ErrorKind::kRun, "this program was linked without a build id (-Wl,--build-id)");
  return id;
}

}  // namespace runner::cli
