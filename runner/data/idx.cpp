// IDX, the format of MNIST: two zero bytes, type, number of axes, axes as big-endian u32, big-endian elements.
// Reference: yann.lecun.com/exdb/mnist, "The IDX file format".
#include <array>

#include "runner/data/array.h"
#include "runner/formats/input_file.h"
#include "schema/base/error.h"

namespace runner::data {
namespace {

Element element_of(const formats::InputFile& input, unsigned type) {
  switch (type) {
    case 0x08: return Element::kU8;
    case 0x09: return Element::kI8;
    case 0x0B: return Element::kI16;
    case 0x0C: return Element::kI32;
    case 0x0D: return Element::kF32;
    case 0x0E: return Element::kF64;
    default:
      fail(ErrorKind::kData, "{}: unknown idx element type {:#04x}; expected one of 0x08, 0x09, 0x0b, 0x0c, 0x0d, 0x0e",
           input.path(), type);
  }
}

Array open_idx(formats::InputFile& input) {
  std::array<std::byte, 4> magic;
  input.read_exactly(magic, "the idx header");
  const auto [zero0, zero1, type, axes] = magic;
  RUN_CHECK(zero0 == std::byte{0} && zero1 == std::byte{0}, ErrorKind::kData,
            "{} is not an idx file: its first bytes are {:02x} {:02x}, expected 00 00", input.path(),
            static_cast<unsigned>(zero0), static_cast<unsigned>(zero1));
  Array array{.name = input.path(), .element = element_of(input, static_cast<unsigned>(type)), .big_endian = true};
  for (auto axis = static_cast<unsigned>(axes); axis-- > 0;) {
    std::array<std::byte, 4> bytes;
    input.read_exactly(bytes, "the idx header");
    int64_t dim = 0;
    for (const std::byte byte : bytes) dim = dim << 8 | static_cast<int64_t>(byte);
    array.shape.push_back(dim);
  }
  check_shape(array, input.most_left());
  return array;
}

Storage read_idx(const schema::DatasetSpec& spec, const ReadOptions& options) {
  return read_array_files(spec, options, open_idx);
}

}  // namespace

const DataFormatDef kIdxFormat{.format = schema::DataFormat::kIdx,
                               .sources = kArrayFiles,
                               .read = read_idx,
                               .stream = kNotStreamed,
                               .sample_count = kNoSampleCount};

}  // namespace runner::data
