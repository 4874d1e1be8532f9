#include "runner/images/resize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "schema/base/error.h"

namespace runner::images {
namespace {

constexpr int kWeightBits = 22;  // of the fraction of a weight
constexpr int32_t kHalf = 1 << (kWeightBits - 1);

// Half values are rounded up.
int64_t nearest(double value) {
  return static_cast<int64_t>(std::floor(value + 0.5));
}

uint8_t rounded(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

// The input pixels of each output pixel along one axis, and their weights.
struct Filter {
  struct Window {
    int64_t begin = 0, count = 0;
    const int32_t* weights = nullptr;
  };
  int64_t most;                  // weights of an output pixel
  std::vector<Window> windows;   // one per output pixel
  std::vector<int32_t> weights;  // `most` per output pixel
};

// A triangle whose half width is one output pixel if the image shrinks, else one input pixel.
Filter make_filter(int64_t from, int64_t to) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double support = std::max(scale, 1.0);
  Filter filter{.most = static_cast<int64_t>(std::ceil(support)) * 2 + 1, .windows = {}, .weights = {}};
  filter.windows.resize(static_cast<size_t>(to));
  filter.weights.resize(static_cast<size_t>(to * filter.most));
  std::vector<double> exact(static_cast<size_t>(filter.most));
  for (int64_t i = 0; i < to; ++i) {
    const double center = (static_cast<double>(i) + 0.5) * scale;
    const int64_t begin = std::max<int64_t>(nearest(center - support), 0);
    const int64_t end = std::min(nearest(center + support), from);
    double sum = 0;
    for (int64_t k = 0; k < end - begin; ++k) {
      const double distance = std::abs((static_cast<double>(k + begin) - center + 0.5) * (1.0 / support));
      exact[k] = std::max(1.0 - distance, 0.0);
      sum += exact[k];
    }
    int32_t* const weights = filter.weights.data() + i * filter.most;
    for (int64_t k = 0; k < end - begin; ++k)
      weights[k] = static_cast<int32_t>(nearest(exact[k] / sum * (1 << kWeightBits)));
    filter.windows[i] = {.begin = begin, .count = end - begin, .weights = weights};
  }
  return filter;
}

Image resized_horizontally(const Image& image, int64_t width) {
  const Filter filter = make_filter(image.width, width);
  Image result = black_image(image.height, width);
  for (int64_t y = 0; y < image.height; ++y) {
    uint8_t* out = result.row(y);
    for (const Filter::Window& window : filter.windows) {
      const uint8_t* in = image.pixel(y, window.begin);
      int32_t red = kHalf, green = kHalf, blue = kHalf;
      for (int64_t k = 0; k < window.count; ++k, in += 3) {
        red += in[0] * window.weights[k];
        green += in[1] * window.weights[k];
        blue += in[2] * window.weights[k];
      }
      *out++ = rounded(red);
      *out++ = rounded(green);
      *out++ = rounded(blue);
    }
  }
  return result;
}

Image resized_vertically(const Image& image, int64_t height) {
  const Filter filter = make_filter(image.height, height);
  Image result = black_image(height, image.width);
  std::vector<int32_t> sums(static_cast<size_t>(image.row_bytes()));
  for (int64_t y = 0; y < height; ++y) {
    const Filter::Window& window = filter.windows[y];
    std::fill(sums.begin(), sums.end(), kHalf);
    for (int64_t k = 0; k < window.count; ++k) {
      const uint8_t* const in = image.row(window.begin + k);
      const int32_t weight = window.weights[k];
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += in[i] * weight;
    }
    std::transform(sums.begin(), sums.end(), result.row(y), rounded);
  }
  return result;
}

void check_result_size(const Image& image, int64_t height, int64_t width) {
  RUN_CHECK(has_valid_size(height, width), ErrorKind::kData,
            "cannot turn an image of {} x {} into {} x {} pixels (height x width); expected 1 to {} pixels",
            image.height, image.width, height, width, kMaxPixels);
}

// Pillow from 13.0 on begins with the vertical pass if the image loses many more rows than columns.
bool is_vertical_first(const Image& image, int64_t height, int64_t width) {
  return height < image.height && image.height - height > 2 * (image.width - width);
}

// Half of the difference, rounded to the nearest whole number, or to the even one if both are equally near.
int64_t centered(int64_t available, int64_t needed) {
  return static_cast<int64_t>(std::nearbyint(static_cast<double>(available - needed) / 2.0));
}

}  // namespace

Image cropped(const Image& image, const Box& box) {
  RUN_ASSERT(box.top >= 0 && box.left >= 0 && has_valid_size(box.height, box.width) &&
             box.top + box.height <= image.height && box.left + box.width <= image.width);
  Image result = black_image(box.height, box.width);
  for (int64_t y = 0; y < box.height; ++y)
    std::memcpy(result.row(y), image.pixel(box.top + y, box.left), static_cast<size_t>(result.row_bytes()));
  return result;
}

Image resized(const Image& image, int64_t height, int64_t width) {
  check_result_size(image, height, width);
  if (width == image.width) return height == image.height ? image : resized_vertically(image, height);
  if (height == image.height) return resized_horizontally(image, width);
  if (is_vertical_first(image, height, width)) return resized_horizontally(resized_vertically(image, height), width);
  return resized_vertically(resized_horizontally(image, width), height);
}

ImageSize size_with_shorter_side(const Image& image, int64_t side) {
  const auto longer = [&](int64_t of_image, int64_t shorter) {
    return static_cast<int64_t>(static_cast<double>(side * of_image) / static_cast<double>(shorter));
  };
  if (image.width <= image.height) return {.height = longer(image.height, image.width), .width = side};
  return {.height = side, .width = longer(image.width, image.height)};
}

Image center_crop(const Image& image, int64_t height, int64_t width) {
  check_result_size(image, height, width);
  // Offsets of the result in the image; negative where the image is padded.
  const auto offset = [](int64_t available, int64_t needed) {
    return needed > available ? -((needed - available) / 2) : centered(available, needed);
  };
  const int64_t top = offset(image.height, height), left = offset(image.width, width);
  Image result = black_image(height, width);
  const int64_t first_x = std::max<int64_t>(left, 0), end_x = std::min(left + width, image.width);
  const int64_t end_y = std::min(top + height, image.height);
  for (int64_t y = std::max<int64_t>(top, 0); y < end_y; ++y)
    std::memcpy(result.pixel(y - top, first_x - left), image.pixel(y, first_x),
                static_cast<size_t>(3 * (end_x - first_x)));
  return result;
}

}  // namespace runner::images
