#include "runner/cli/scenarios/settings.h"

#include <string_view>

#include <fmt/format.h>

namespace runner::cli::scenarios {

Words with(Words settings, const Words& more) {
  for (const std::string& word : more) {
    const std::string_view key = std::string_view(word).substr(0, word.find('=') + 1);
    if (!key.empty()) std::erase_if(settings, [&](const std::string& old) { return old.starts_with(key); });
    settings.push_back(word);
  }
  return settings;
}

std::string processes(int count) {
  return fmt::format("num_processes={}", count);
}

std::string samples(int64_t count) {
  return fmt::format("data.train.samples={}", count);
}

std::string batch_size(int64_t size) {
  return fmt::format("data.batch_size={}", size);
}

Words global_batch(int64_t size, int count, int64_t accumulation) {
  return {processes(count), batch_size(size / count / accumulation),
          fmt::format("gradient_accumulation_steps={}", accumulation)};
}

Words short_run() {
  return {processes(3), samples(6), batch_size(2), "train.epochs=1", "data.eval=null"};
}

Words rich_training() {
  return {"model.dropout=0.2", "optimizer={type: adamw, lr: 0.01}", "scheduler={type: cosine, warmup: 2 steps}",
          "gradient_accumulation_steps=2"};
}

}  // namespace runner::cli::scenarios
