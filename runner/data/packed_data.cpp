#include "runner/data/packed_data.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runner/data/byte_images.h"
#include "runner/data/image_files.h"
#include "runner/data/labels.h"
#include "runner/data/storage.h"
#include "runner/data/synthetic.h"
#include "schema/base/error.h"

namespace runner::data {
namespace {

// The tokens of a file that stay there.
struct PackedTokenFile {
  std::string path;
  int64_t first = 0, size = 0;

  static auto parts(auto& self) { return std::tie(self.path, self.first, self.size); }
};

enum class SourceType : uint8_t { kNone, kSynthetic, kImageFiles, kByteImages };

template <class Source>
bool write_as(SourceType type, Packer& packer, const SampleSource* source) {
  const auto* const found = dynamic_cast<const Source*>(source);
  if (found == nullptr) return false;
  packer.write(type);
  packer.write(*found);
  return true;
}

void write_source(Packer& packer, const SampleSource* source) {
  if (source == nullptr) return packer.write(SourceType::kNone);
  const bool is_written = write_as<Synthetic>(SourceType::kSynthetic, packer, source) ||
                          write_as<ImageFiles>(SourceType::kImageFiles, packer, source) ||
                          write_as<ByteImages>(SourceType::kByteImages, packer, source);
  RUN_ASSERT(is_written);
}

void read_source(Unpacker& unpacker, Storage& storage) {
  switch (unpacker.read<SourceType>()) {
    case SourceType::kNone: break;
    case SourceType::kSynthetic:
      storage.source = storage.rule = std::make_shared<const Synthetic>(unpacker.read<Synthetic>());
      break;
    case SourceType::kImageFiles:
      storage.source = storage.image_files = std::make_shared<const ImageFiles>(unpacker.read<ImageFiles>());
      break;
    case SourceType::kByteImages:
      storage.source = std::make_shared<const ByteImages>(unpacker.read<ByteImages>());
      break;
  }
}

void write_pointers(Packer& packer, const Storage& storage) {
  const auto write_if = [&](const auto& pointer, const auto& write) {
    packer.write(static_cast<bool>(pointer));
    if (pointer) write(*pointer);
  };
  write_if(storage.text.file, [&](const TokenFile& file) {
    packer.write(PackedTokenFile{.path = file.path(), .first = file.first(), .size = file.size()});
  });
  write_if(storage.masker, [&](const TokenMasker& masker) {
    packer.write(masker.masking());
    packer.write(masker.vocabulary());
  });
  write_source(packer, storage.source.get());
  packer.write(storage.label_map != nullptr);
  write_if(storage.stream, [&](const StreamedSource& source) { packer.write(source.spec.path); });
}

// `files`: with the stamps of the load.
TokenFile opened(const PackedTokenFile& packed, const std::vector<DataFile>& files) {
  const FileStamp now = stamp_of(packed.path);
  const TokenFile file(packed.path);
  const auto loaded = std::ranges::find(files, packed.path, &DataFile::path);
  const bool is_same = loaded == files.end() || loaded->stamp == now;
  RUN_CHECK(is_same && packed.first + packed.size <= file.size(), ErrorKind::kData,
            "{} has changed since it was loaded", packed.path);
  return file.part(packed.first, packed.size);
}

void read_pointers(Unpacker& unpacker, Storage& storage, const Encoding& encoding, const schema::DatasetSpec& section) {
  if (unpacker.read<bool>()) storage.text.file = opened(unpacker.read<PackedTokenFile>(), storage.files);
  if (unpacker.read<bool>()) {
    const auto masking = unpacker.read<Masking>();
    storage.masker = std::make_shared<const TokenMasker>(masking, unpacker.read<MaskVocabulary>());
  }
  read_source(unpacker, storage);
  if (unpacker.read<bool>()) storage.label_map = std::make_shared<const LabelMap>(encoding);
  if (unpacker.read<bool>()) {
    storage.stream->spec = section;
    storage.stream->spec.path = unpacker.read<std::string>();  // of the file of a folder
  }
}

void write_storage(Packer& packer, const Storage& storage) {
  packer.write(storage);
  write_pointers(packer, storage);
}

// `section`: of the recipe, that the samples come from.
std::shared_ptr<const Storage> read_storage(Unpacker& unpacker, const Encoding& encoding,
                                            const schema::DatasetSpec& section) {
  auto storage = std::make_shared<Storage>(unpacker.read<Storage>());
  read_pointers(unpacker, *storage, encoding, section);
  return storage;
}

}  // namespace

Packer pack_data(const Data& data) {
  Packer packer;
  packer.write(data.encoding.to_json());
  packer.write(data.warnings);
  packer.write(data.files);
  packer.write(data.class_counts);
  write_storage(packer, data.train.storage());
  packer.write(data.train);
  packer.write(data.eval.has_value());
  if (!data.eval) return packer;
  const bool is_same = data.eval->shared_storage() == data.train.shared_storage();
  packer.write(is_same);
  if (!is_same) write_storage(packer, data.eval->storage());
  packer.write(*data.eval);
  return packer;
}

Data unpack_data(std::string_view bytes, PackedArrays arrays, const schema::Recipe& recipe) {
  const schema::DataSpec& spec = recipe.data;
  Unpacker unpacker(bytes, std::move(arrays));
  Encoding encoding = Encoding::from_json(unpacker.read<std::string>());
  auto warnings = unpacker.read<std::vector<std::string>>();
  auto files = unpacker.read<std::vector<DataFile>>();
  auto class_counts = unpacker.read<std::vector<int64_t>>();
  const std::shared_ptr<const Storage> samples = read_storage(unpacker, encoding, spec.train);
  Dataset train = unpacker.read<Dataset>().with_storage(samples);
  std::optional<Dataset> eval;
  if (unpacker.read<bool>()) {
    const bool is_same = unpacker.read<bool>();
    const auto other = is_same ? samples : read_storage(unpacker, encoding, spec.eval ? *spec.eval : spec.train);
    eval = unpacker.read<Dataset>().with_storage(other);
  }
  std::shared_ptr<const Augmenter> augmenter = augmenter_of(train, spec.train);
  return {std::move(encoding), std::move(train),     std::move(eval),        std::move(warnings),
          std::move(files),    std::move(augmenter), std::move(class_counts)};
}

}  // namespace runner::data
