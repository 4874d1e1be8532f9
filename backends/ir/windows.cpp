#include "backends/ir/windows.h"

#include <string_view>

#include <fmt/format.h>

namespace runner::backends {

std::vector<Window> windows_of(std::span<const int64_t> numbers) {
  std::vector<Window> windows;
  for (; numbers.size() >= Window::kNumbers; numbers = numbers.subspan(Window::kNumbers))
    windows.push_back({numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]});
  return windows;
}

void append_to(std::vector<int64_t>& attrs, std::span<const Window> windows) {
  for (const Window& w : windows) attrs.insert(attrs.end(), {w.size, w.stride, w.dilation, w.before, w.after});
}

std::string windows_text(std::span<const int64_t> numbers) {
  const std::vector<Window> windows = windows_of(numbers);
  std::string text;
  const auto show = [&](std::string_view name, const std::string& nothing, const auto& each) {
    std::string values;
    bool is_shown = false;
    for (const Window& window : windows) {
      const std::string value = each(window);
      is_shown |= value != nothing;
      values += (values.empty() ? "" : "x") + value;
    }
    if (is_shown) text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, values);
  };
  show("size", "", [](const Window& w) { return std::to_string(w.size); });
  show("stride", "1", [](const Window& w) { return std::to_string(w.stride); });
  show("pad", "0_0", [](const Window& w) { return fmt::format("{}_{}", w.before, w.after); });
  show("rhs_dilate", "1", [](const Window& w) { return std::to_string(w.dilation); });
  return text;
}

std::string groups_fault(int64_t groups, int64_t in, int64_t out) {
  if (groups > 0 && in % groups == 0 && out % groups == 0) return "";
  return fmt::format("expected groups that divide {} and {} channels, got {}", in, out, groups);
}

// PyTorch refuses more padding than half of the window, without its dilation.
std::string Pooling::fault() const {
  if (size < 1 || stride < 1 || dilation < 1)
    return fmt::format("expected size, stride and dilation of at least 1, got {}, {} and {}", size, stride, dilation);
  const int64_t most = size / 2;
  if (padding >= 0 && padding <= most) return "";
  return fmt::format("expected a padding of at most half of the window, {}, got {}", most, padding);
}

Window Pooling::on(int64_t n) const {
  Window window{.size = size, .stride = stride, .dilation = dilation, .before = padding, .after = padding};
  if (!ceil_mode) return window;
  const int64_t rounded_up = n + 2 * padding - window.extent() + stride - 1;
  if (rounded_up < 0) return window;
  int64_t last = rounded_up / stride;  // the last window
  if (last * stride >= n + padding) --last;
  window.after = std::max(padding, last * stride + window.extent() - n - padding);
  return window;
}

}  // namespace runner::backends
