// Fixture that writes images as arrays and as files.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "runner/images/write_png.h"
#include "tests/data/load_fixture.h"

namespace runner::data {

class ImageFixture : public FileTest {
 protected:
  static std::string idx_bytes(const std::vector<uint32_t>& dims, const std::string& elements) {
    const std::string header = {0, 0, 8, static_cast<char>(dims.size())};
    return header + bytes_of(dims, true) + elements;
  }

  // Bytes 0, 1, 2, … modulo 251.
  static std::string counting_bytes(int64_t count) {
    std::string bytes;
    for (int64_t i = 0; i < count; ++i) bytes += static_cast<char>(i % 251);
    return bytes;
  }

  // An array of counting_bytes().
  static std::string npy_bytes(const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (const int64_t dim : shape) count *= dim;
    const std::string comma = shape.size() == 1 ? "," : "";
    const std::string header =
        fmt::format("{{'descr': '|u1', 'fortran_order': False, 'shape': ({}{}), }}\n", fmt::join(shape, ", "), comma);
    return formats::npy(header, counting_bytes(count));
  }

  // idx files of images (height, width) with labels 0, 1, 2, 3, 0, …
  schema::DatasetSpec numbered_images(int64_t samples, int64_t height, int64_t width) {
    std::string labels;
    for (int64_t i = 0; i < samples; ++i) labels += static_cast<char>(i % 4);
    const std::vector<uint32_t> dims{static_cast<uint32_t>(samples), static_cast<uint32_t>(height),
                                     static_cast<uint32_t>(width)};
    const std::string bytes = counting_bytes(samples * height * width);
    return file_spec(schema::DataFormat::kIdx, write("images.idx", idx_bytes(dims, bytes)),
                     write("labels.idx", idx_bytes({dims[0]}, labels)));
  }

  // A PNG file of one colour, except for a pixel at (0, 0) that is 255 in all channels.
  std::string write_image(const std::string& name, int64_t height, int64_t width, std::array<uint8_t, 3> color) {
    images::Image image = images::black_image(height, width);
    for (size_t i = 0; i < image.rgb.size(); ++i) image.rgb[i] = i < 3 ? 255 : color[i % 3];
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    return write(name, images::png_bytes(image));
  }
};

}  // namespace runner::data
