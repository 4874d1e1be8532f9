// npy, NumPy's format for one array: magic, version, header length, a Python dict of descr, fortran_order and shape,
// elements.  Format: numpy.lib.format, versions 1.0, 2.0 and 3.0.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runner/formats/input.h"

namespace runner::formats {

struct NpyHeader {
  std::string descr;  // element type as NumPy writes it: "<f4"
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// Reads up to the elements.  Throws Error(kData) naming the file and what is damaged; whether the shape makes sense is
// the caller's to judge.
NpyHeader read_npy_header(Input& input);

// What stands before the elements of a row-major array, version 1.0; a multiple of 64 bytes.
std::string npy_header(std::string_view descr, std::span<const int64_t> shape);

}  // namespace runner::formats
