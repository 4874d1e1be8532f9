#include "runner/formats/safetensors.h"

#include <algorithm>
#include <utility>

#include "backends/tensor/rounding.h"
#include "runner/formats/input_file.h"
#include "runner/formats/reading_watch.h"
#include "runner/formats/write.h"
#include "schema/base/error.h"
#include "schema/base/json.h"
#include "schema/base/text.h"

namespace runner::formats {
namespace {

using backends::DType;

struct Type {
  std::string_view name;
  size_t bytes;
  std::optional<DType> dtype = {};  // of the engine
};

constexpr Type kTypes[] = {
    {"F32", 4, DType::kF32},
    {"F64", 8, DType::kF64},
    {"BF16", 2, DType::kBf16},
    {"F16", 2, DType::kF16},
    {"I32", 4, DType::kI32},
    {"I64", 8, DType::kI64},
    {"BOOL", 1, DType::kBool},
    {"U8", 1},
    {"I8", 1},
    {"I16", 2},
    {"U16", 2},
    {"U32", 4},
    {"U64", 8},
    {"F8_E4M3", 1},
    {"F8_E5M2", 1},
};

const Type& type_of(DType dtype) {
  return *std::ranges::find(kTypes, std::optional(dtype), &Type::dtype);
}

constexpr size_t kLengthBytes = 8;
constexpr uint64_t kMaxHeader = 100'000'000;  // limit of the format

// Validates the header length before memory is allocated.
size_t read_length(InputFile& input) {
  uint64_t length = 0;
  const size_t got = input.read(std::as_writable_bytes(std::span(&length, 1)));
  RUN_CHECK(got == kLengthBytes, ErrorKind::kData,
            "{}: the file is too short for safetensors: expected at least 8 bytes, got {}", input.path(), got);
  constexpr uint64_t kZip = 0x04034b50;  // "PK\3\4"
  RUN_CHECK((length & UINT32_MAX) != kZip, ErrorKind::kData,
            "{}: not a safetensors file, but a zip archive, as torch.save writes; save the tensors with "
            "safetensors.torch.save_file",
            input.path());
  // The number would show the first bytes of any file.
  RUN_CHECK(length <= static_cast<uint64_t>(input.most_left()), ErrorKind::kData,
            "{}: not a safetensors file, or cut off: its header would be longer than the file", input.path());
  RUN_CHECK(length <= kMaxHeader, ErrorKind::kData, "{}: the safetensors header has more than {} bytes", input.path(),
            kMaxHeader);
  return length;
}

std::vector<std::byte> read_rest(InputFile& input) {
  std::vector<std::byte> contents;
  constexpr size_t kChunk = 1 << 20;
  for (size_t got = kChunk; got == kChunk;) {  // allocates only as much as the file contains
    const size_t size = contents.size();
    contents.resize(size + kChunk);
    got = input.read(std::span(contents).subspan(size));
    contents.resize(size + got);
  }
  return contents;
}

// Header entry of one tensor, whose fields are validated when read.
class TensorEntry {
 public:
  TensorEntry(const std::string& path, const std::string& name, const json::Value& entry)
      : path_(path),
        name_(name),
        dtype_(member(entry, "dtype")),
        shape_(member(entry, "shape")),
        offsets_(member(entry, "data_offsets")) {}

  const std::string& type() const {
    if (dtype_.text() == nullptr) damaged(fmt::format("dtype is {}, expected a text", json::compact(dtype_)));
    return *dtype_.text();
  }

  std::vector<int64_t> shape() const {
    std::vector<int64_t> shape = integers("shape", shape_);
    if (shape.size() > backends::Shape::kMaxRank) damaged(fmt::format("expected at most 8 axes, got {}", shape.size()));
    return shape;
  }

  // Returns begin and end of its bytes. `size`: number of bytes of data.
  std::pair<int64_t, int64_t> offsets(size_t size) const {
    const std::vector<int64_t> offsets = integers("data_offsets", offsets_);
    if (offsets.size() != 2) damaged("data_offsets is not a pair");
    if (offsets[0] > offsets[1] || offsets[1] > static_cast<int64_t>(size)) {
      damaged(fmt::format("data_offsets {} are outside the {} bytes of data", json::compact(offsets_), size));
    }
    return {offsets[0], offsets[1]};
  }

  void check_size(const Type& type, const std::vector<int64_t>& shape, int64_t bytes) const {
    auto needed = static_cast<int64_t>(type.bytes);
    for (const int64_t dim : shape) needed = dim == 0 || needed <= INT64_MAX / dim ? needed * dim : INT64_MAX;
    if (needed == bytes) return;
    damaged(fmt::format("shape {} of {} needs {} bytes, data_offsets {} span {}", json::compact(shape_), type.name,
                        needed, json::compact(offsets_), bytes));
  }

 private:
  [[noreturn]] void damaged(const std::string& what) const {
    fail(ErrorKind::kData, "{}: tensor {}: {}", path_, in_quotes(name_), what);
  }

  const json::Value& member(const json::Value& entry, std::string_view key) const {
    for (const auto& [name, value] : json::members_of(entry))
      if (name == key) return value;
    damaged("dtype, shape or data_offsets is missing");
  }

  std::vector<int64_t> integers(const char* key, const json::Value& list) const {
    std::vector<int64_t> values;
    if (list.list() == nullptr) damaged(fmt::format("{} is not a list", key));
    for (const json::Value& value : *list.list()) {
      if (value.integer() == nullptr || *value.integer() < 0)
        damaged(fmt::format("expected integers of at least 0 in {}", key));
      values.push_back(*value.integer());
    }
    return values;
  }

  const std::string& path_;
  const std::string& name_;
  const json::Value& dtype_;
  const json::Value& shape_;
  const json::Value& offsets_;
};

// Parses a tensor and checks it against the `data` after the header.
NamedTensor parse_tensor(const std::string& path, const std::string& name, const json::Value& entry,
                         std::span<const std::byte> data) {
  const TensorEntry checked(path, name, entry);
  const Type* const type = std::ranges::find(kTypes, checked.type(), &Type::name);
  const std::vector<int64_t> shape = checked.shape();
  const auto [begin, end] = checked.offsets(data.size());
  if (type != std::end(kTypes)) checked.check_size(*type, shape, end - begin);
  return {.name = name,
          .dtype = type != std::end(kTypes) ? type->dtype : std::nullopt,
          .shape = backends::Shape(shape),
          .bytes = data.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
          .type = checked.type()};
}

// Checks that every byte of the data belongs to exactly one tensor.
void check_cover(const std::string& path, std::span<const NamedTensor> tensors, std::span<const std::byte> data) {
  std::vector<std::span<const std::byte>> parts;
  for (const NamedTensor& tensor : tensors) parts.push_back(tensor.bytes);
  std::sort(parts.begin(), parts.end(),
            [](auto a, auto b) { return std::pair(a.data(), a.size()) < std::pair(b.data(), b.size()); });
  const std::byte* covered = data.data();
  const auto stray = std::find_if(parts.begin(), parts.end(), [&](std::span<const std::byte> part) {
    const bool follows = part.data() == covered;
    covered += follows ? part.size() : 0;
    return !follows;
  });
  RUN_CHECK(stray == parts.end() && covered == data.data() + data.size(), ErrorKind::kData,
            "{}: the data has a gap or overlap at byte {} after the header", path, covered - data.data());
}

json::Value parse_header(const std::string& path, std::string_view text) {
  json::Value header = json::parse(text);
  RUN_CHECK(header.map(), ErrorKind::kData,
            "{}: the safetensors header is not a JSON object, or is nested too deep: {}", path, in_quotes(text));
  return header;
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path) {
  const ReadingWatch watch;
  InputFile input(path);
  std::string text(read_length(input), '\0');
  input.read_exactly(std::as_writable_bytes(std::span(text)), "the safetensors header");
  data_ = read_rest(input);
  const std::span<const std::byte> data(data_);
  const json::Value parsed = parse_header(path, text);
  for (const auto& [name, entry] : json::members_of(parsed)) {
    if (name != "__metadata__") tensors_.push_back(parse_tensor(path, name, entry, data));
  }
  std::ranges::sort(tensors_, {}, &NamedTensor::name);
  const auto twice = std::ranges::adjacent_find(tensors_, {}, &NamedTensor::name);
  RUN_CHECK(twice == tensors_.end(), ErrorKind::kData, "{}: the header lists tensor {} twice", path,
            in_quotes(twice->name));
  check_cover(path, tensors_, data);
}

std::string tensor_names_text(std::span<const std::string> names) {
  constexpr size_t kListed = 8;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kListed); ++i) text += (i == 0 ? "it has " : ", ") + names[i];
  return names.empty() ? "it has no tensors" : text + (names.size() > kListed ? ", …" : "");
}

std::string tensor_names_text(std::span<const NamedTensor> tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& tensor : tensors) names.push_back(in_quotes(tensor.name));
  return tensor_names_text(names);
}

const NamedTensor* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& t) { return t.name == name; });
  return found == tensors_.end() ? nullptr : &*found;
}

namespace {

// Returns length and header of a file with these tensors. Sorts `tensors` by name.
std::string head_of(std::vector<NamedTensor>& tensors, const Metadata& metadata) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  json::Object header;
  if (!metadata.empty()) header.emplace_back("__metadata__", json::Object(metadata.begin(), metadata.end()));
  size_t offset = 0;
  for (const NamedTensor& tensor : tensors) {
    RUN_ASSERT(tensor.bytes.size() == static_cast<size_t>(tensor.shape.elements()) * type_of(*tensor.dtype).bytes);
    RUN_ASSERT(header.empty() || header.back().first != tensor.name);
    const auto begin = static_cast<int64_t>(offset);
    offset += tensor.bytes.size();
    header.emplace_back(tensor.name, json::Object{{"data_offsets", json::List{begin, static_cast<int64_t>(offset)}},
                                                  {"dtype", std::string(type_of(*tensor.dtype).name)},
                                                  {"shape", json::list_of(tensor.shape.dims())}});
  }
  std::string text = json::compact(header);
  text.resize(backends::round_up(text.size(), kLengthBytes), ' ');  // aligns the data to 8 bytes
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), kLengthBytes) + text;
}

}  // namespace

std::vector<std::byte> safetensors_bytes(std::vector<NamedTensor> tensors, const Metadata& metadata) {
  const std::string head = head_of(tensors, metadata);
  const auto begin = std::as_bytes(std::span(head));
  std::vector<std::byte> bytes(begin.begin(), begin.end());
  for (const NamedTensor& tensor : tensors) bytes.insert(bytes.end(), tensor.bytes.begin(), tensor.bytes.end());
  return bytes;
}

void write_safetensors(const std::string& path, std::vector<NamedTensor> tensors, const Metadata& metadata,
                       const WriteParts& write) {
  const std::string head = head_of(tensors, metadata);
  std::vector<std::string_view> parts = {head};
  for (const NamedTensor& tensor : tensors)
    parts.emplace_back(reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size());
  write(path, parts, FileKind::kSafetensors);
}

}  // namespace runner::formats
