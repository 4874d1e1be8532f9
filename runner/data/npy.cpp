// Reads npy data sets: the element types allowed for features and labels.
#include "runner/formats/npy.h"

#include <string_view>

#include "runner/data/array.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::data {
namespace {

// descr: byte order and type, such as "<f4" or "|u1".
void set_type(Array& array, std::string_view descr) {
  const bool has_order = !descr.empty() && std::string_view("<>|=").find(descr[0]) != std::string_view::npos;
  const std::optional<Element> element = npy_element(has_order ? descr.substr(1) : "");
  RUN_CHECK(element.has_value(), ErrorKind::kData, "{}: unsupported element type {}; expected one of {}", array.name,
            in_quotes(descr), npy_elements());
  array.element = *element;
  array.big_endian = descr[0] == '>';
}

Array open_npy(formats::InputFile& input) {
  formats::NpyHeader header = formats::read_npy_header(input);
  Array array{.name = input.path(), .column_major = header.fortran_order, .shape = std::move(header.shape)};
  set_type(array, header.descr);
  check_shape(array, input.most_left());
  return array;
}

Storage read_npy(const schema::DatasetSpec& spec, const ReadOptions& options) {
  return read_array_files(spec, options, open_npy);
}

}  // namespace

const DataFormatDef kNpyFormat{.format = schema::DataFormat::kNpy,
                               .sources = kNamedArrayFiles,
                               .read = read_npy,
                               .stream = kNotStreamed,
                               .sample_count = kNoSampleCount};

}  // namespace runner::data
