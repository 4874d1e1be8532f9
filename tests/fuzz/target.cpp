#include "tests/fuzz/target.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "schema/base/error.h"
#include "schema/base/utf8.h"
#include "tests/support/allocations.h"

namespace runner::fuzz {
namespace {

// Memory that readers allocate for any input: the window of csv, the chunk of safetensors, the table of all characters.
constexpr size_t kBaseBytes = size_t{5} << 20;
// deflate's limit: bytes of gzip input count this often.
constexpr size_t kMaxExpansion = 1032;

size_t most_bytes(const Target& target, Bytes input) {
  const size_t expansion = input.size() > 1 && input[0] == 0x1f && input[1] == 0x8b ? kMaxExpansion : 1;
  return kBaseBytes + input.size() * target.bytes_per_byte * expansion;
}

// An unnamed file with a path that this process can open.
class FileInMemory {
 public:
  explicit FileInMemory(Bytes bytes) : file_(memfd_create("fuzz", MFD_CLOEXEC)) {
    require(file_ >= 0, "no file in memory can be made");
    while (!bytes.empty()) {
      const ssize_t written = write(file_, bytes.data(), bytes.size());
      require(written > 0, "the file in memory cannot be written");
      bytes = bytes.subspan(static_cast<size_t>(written));
    }
  }
  ~FileInMemory() { close(file_); }
  FileInMemory(const FileInMemory&) = delete;
  FileInMemory& operator=(const FileInMemory&) = delete;

  std::string path() const { return fmt::format("/proc/self/fd/{}", file_); }

 private:
  int file_;
};

}  // namespace

std::span<const Target> targets() {
  static constexpr Target kTargets[] = {
      {"recipe", recipe, 1024},  // a value takes some hundred bytes, and a recipe has a minimum size
      {"safetensors", safetensors, 64},
      {"shard_index", shard_index, 1024},
      {"npy", npy, 16},
      {"idx", idx, 16},
      {"cifar", cifar, 16},
      {"csv", csv, 64},
      {"text", text, 64},
      {"token_rows", token_rows, 256},
      {"lua_patterns", lua_patterns, 1024},
      {"where", where, 1024},
      {"metrics_report", metrics_report, 64},
      {"graph_entries", graph_entries, 64},
      {"tokenizer", tokenizer, 1024},
      {"sentence_piece", sentence_piece, 1024},
      {"image", image, 1032 * 8 * 3},  // a byte of deflate has that many pixels of one bit
  };
  return kTargets;
}

bool run(const Target& target, Bytes input) {
  support::take_largest_allocation();
  const bool accepted = target.run(input);
  const size_t largest = support::take_largest_allocation(), most = most_bytes(target, input);
  require(largest <= most, fmt::format("{} asked for {} bytes at once; {} bytes of input are worth {}", target.name,
                                       largest, input.size(), most));
  return accepted;
}

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: %s\n", what.c_str());
  std::abort();
}

std::string fault_of_message(const std::string& message, const std::string& file) {
  // Accepted instead of a line: a part of the file with a statement about it, or about the whole file.
  static constexpr std::string_view kPlaces[] = {
      "byte",           "starts",  "header",       "tensor",     "feature", "sample",     "shape",
      "type",           "row",     "gzip",         "empty",      "label",   "version",    "UTF-16",
      "records",        "model",   "vocabulary",   "merge",      "setting", "normalizer", "pre_tokenizer",
      "post_processor", "decoder", "added_tokens", "truncation", "image",   "PNG"};
  if (!is_utf8(message)) return "is not UTF-8";
  if (message.find('\n') != std::string::npos) return "has several lines";
  const size_t at = message.find(file);
  if (at == std::string::npos) return "does not name the file";
  const std::string rest = message.substr(at + file.size());
  const bool line = rest.size() > 1 && rest[0] == ':' && rest[1] >= '1' && rest[1] <= '9';
  const bool part = std::any_of(std::begin(kPlaces), std::end(kPlaces),
                                [&](std::string_view place) { return rest.find(place) != std::string::npos; });
  return line || part ? "" : "does not name a place";
}

void check_diagnostics(const std::vector<schema::Diagnostic>& diagnostics) {
  require(!diagnostics.empty(), "refused without a diagnostic");
  for (const schema::Diagnostic& found : diagnostics) {
    const std::string text =
        fmt::format("{}:{}:{}: {}", found.where.file, found.where.line, found.where.column, found.message);
    require(!found.where.file.empty() && found.where.line >= 1 && found.where.column >= 1 && found.width >= 1,
            "a diagnostic without a place: " + text);
    require(!found.message.empty() && found.message.find('\n') == std::string::npos, "not one line: " + text);
    require(is_utf8(found.message + found.key + found.hint + found.source_line), "not UTF-8: " + text);
  }
  require(is_utf8(schema::render_text(diagnostics, true)), "the rendered text is not UTF-8");
  require(is_utf8(schema::render_json(diagnostics)), "the document is not UTF-8");
}

bool accepts(Bytes bytes, void (*read)(const std::string& path)) {
  const FileInMemory file(bytes);
  try {
    read(file.path());
    return true;
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kData, fmt::format("an error of another kind: {}", error.what()));
    const std::string fault = fault_of_message(error.message(), file.path());
    require(fault.empty(), fmt::format("the message {}: {}", fault, error.message()));
    return false;
  }
}

}  // namespace runner::fuzz
