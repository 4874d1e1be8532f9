// Makes damaged inputs from good ones: bits, bytes, numbers, pieces cut out, doubled, taken from another input or from
// a dictionary.  The same seed gives the same inputs.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace runner::fuzz {

class Mutator {
 public:
  // corpus: at least one input.
  Mutator(uint32_t seed, std::vector<std::string> corpus, std::vector<std::string> dictionary);

  // At most `longest` bytes.
  std::string next(size_t longest);

 private:
  size_t below(size_t bound) { return random_() % bound; }
  std::string piece(const std::string& text);
  void edit(std::string& text);

  std::mt19937 random_;
  std::vector<std::string> corpus_, dictionary_;
};

// The tokens of a dictionary as libFuzzer has them: a line each, "token", with \\, \" and \xNN; name="token" too, # for
// comments.  Throws std::runtime_error for another line.
std::vector<std::string> parse_dictionary(std::string_view text);

}  // namespace runner::fuzz
