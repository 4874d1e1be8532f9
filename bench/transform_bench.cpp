// Samples per second through transforms of a hook, on one core, in CPU time of this thread.
//
//     transform_bench [SAMPLES]      200,000 samples of 64 features, like the digits
#include <cstdlib>
#include <vector>

#include <fmt/format.h>
#include <time.h>

#include "runner/lua/transform.h"

namespace {

using namespace runner;

constexpr struct {
  const char* name;
  const char* body;
} kTransforms[] = {
    {"does nothing", ""},
    {"flips half of the images", R"(
      local f = sample.features
      if math.random() < 0.5 then
        for i = 1, 64, 8 do
          for j = 0, 3 do f[i + j], f[i + 7 - j] = f[i + 7 - j], f[i + j] end
        end
      end)"},
    {"adds noise to each feature", "for i = 1, 64 do sample.features[i] = sample.features[i] + math.random() end"},
    {"shifts by a pixel", R"(
      local from, to = sample.features, {}
      local dx, dy = math.random(-1, 1), math.random(-1, 1)
      for y = 1, 8 do
        for x = 1, 8 do
          local inside = x + dx >= 1 and x + dx <= 8 and y + dy >= 1 and y + dy <= 8
          to[8 * (y - 1) + x] = inside and from[8 * (y + dy - 1) + x + dx] or 0
        end
      end
      return to)"},
};

double cpu_s() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

}  // namespace

int main(int argc, char** argv) {
  const int64_t samples = argc > 1 ? std::atoll(argv[1]) : 200'000;
  schema::Recipe recipe;
  recipe.hooks = "bench.lua";
  const backends::Shape shape{64};
  std::vector<float> features(64, 0.5F);
  for (const auto& [name, body] : kTransforms) {
    const auto transform = lua::make_transform(
        recipe, {{recipe.hooks, fmt::format("return {{transform = function(sample) {} end}}", body)}}, nullptr);
    const double start = cpu_s();
    for (int64_t id = 0; id < samples; ++id)
      transform->apply({.shape = shape, .features = features, .label = 0, .targets = {}, .id = id});
    const double seconds = cpu_s() - start;
    fmt::print("{:28} {:6.2f} us a sample {:10.0f} samples/s\n", name, seconds / static_cast<double>(samples) * 1e6,
               static_cast<double>(samples) / seconds);
  }
  return 0;
}
