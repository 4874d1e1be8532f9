// npy, NumPy's format for one array: magic, version, header length, a Python dict with descr, fortran_order and shape,
// elements. Reference: numpy.lib.format, versions 1.0, 2.0 and 3.0.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/formats/input_file.h"

namespace runner::formats {

struct NpyHeader {
  std::string descr;  // NumPy's element type, such as "<f4"
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Reads the header; the elements follow. Throws Error(kData) naming the file and the fault. The caller validates the
// shape.
NpyHeader read_npy_header(InputFile& input);

// Returns the header of a row-major array in version 1.0. Its size is a multiple of 64 bytes.
std::string npy_header(std::string_view descr, std::span<const int64_t> shape);

}  // namespace runner::formats
