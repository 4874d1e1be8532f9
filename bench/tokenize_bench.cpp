// Speed of a tokenizer on one core: a text at once, line by line, and of inputs that are hard for some tokenizers.
//
//     tokenize_bench TOKENIZER TEXT_FILE
#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <time.h>

#include "runner/text/tokenizer_file.h"
#include "schema/base/file.h"

namespace {

using runner::text::Tokenizer;

constexpr int kRounds = 5;

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Prints the best of several rounds. `encode` returns the number of tokens.
template <class Encode>
void measure(const std::string& name, size_t bytes, Encode encode) {
  double best = 1e9;
  size_t tokens = 0;
  for (int round = 0; round < kRounds; ++round) {
    const double begin = cpu_seconds();
    tokens = encode();
    best = std::min(best, cpu_seconds() - begin);
  }
  fmt::print("{:<20} {:8.2f} MB/s  {:10} tokens  {:8.4f} s\n", name, static_cast<double>(bytes) / best / 1e6, tokens,
             best);
}

std::string repeated(std::string_view part, size_t count) {
  std::string text;
  for (size_t i = 0; i < count; ++i) text += part;
  return text;
}

size_t count_by_lines(const Tokenizer& tokenizer, std::string_view text) {
  size_t tokens = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    tokens += tokenizer.encode(text.substr(0, end)).size();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return tokens;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: tokenize_bench TOKENIZER TEXT_FILE\n");
    return 2;
  }
  const double begin = cpu_seconds();
  const Tokenizer tokenizer = runner::text::open_tokenizer(argv[1]);
  fmt::print("{:<20} {:8.4f} s\n", "opening", cpu_seconds() - begin);
  const std::string text = runner::read_file(argv[2]).value_or("");
  measure("the text", text.size(), [&] { return tokenizer.encode(text).size(); });
  measure("its lines", text.size(), [&] { return count_by_lines(tokenizer, text); });
  for (const char* const part : {"z", " ", "_", "\xF0\x9F\x98\x80", "\xCC\x81\xCC\xA3"}) {
    const std::string hard = repeated(part, 100'000);
    measure(fmt::format("100,000 times {}", part == std::string_view(" ") ? "blank" : part), hard.size(),
            [&] { return tokenizer.encode(hard).size(); });
  }
}
