// Reads npy data sets: the element types allowed for features and labels.
#include "runner/formats/npy.h"

#include <string_view>
#include <utility>

#include "runner/data/array.h"
#include "schema/base/error.h"

namespace runner::data {
namespace {

void set_type(Array& array, std::string_view descr) {
  constexpr std::pair<std::string_view, Element> kTypes[] = {
      {"f4", Element::kF32}, {"f8", Element::kF64}, {"i4", Element::kI32}, {"i8", Element::kI64}, {"u1", Element::kU8}};
  for (const auto& [name, element] : kTypes) {
    if (descr.size() != 3 || descr.substr(1) != name || std::string_view("<>|=").find(descr[0]) > 3) continue;
    array.element = element;
    array.big_endian = descr[0] == '>';
    return;
  }
  fail(ErrorKind::kData, "{}: unsupported element type {}; expected f4, f8, i4, i8 or u1", array.name,
       formats::in_quotes(descr));
}

}  // namespace

Array open_npy(formats::Input& input) {
  formats::NpyHeader header = formats::read_npy_header(input);
  Array array{.name = input.path(), .column_major = header.fortran_order, .shape = std::move(header.shape)};
  set_type(array, header.descr);
  check_shape(array, input.most_left());
  return array;
}

}  // namespace runner::data
