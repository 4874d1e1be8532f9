// Makes damaged inputs from valid ones: changes bits, bytes and numbers; removes, doubles or inserts pieces, from other
// inputs or a dictionary. The same seed gives the same inputs.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace runner::fuzz {

class Mutator {
 public:
  // `corpus`: at least one input.
  Mutator(uint32_t seed, std::vector<std::string> corpus, std::vector<std::string> dictionary);

  // Returns an input of at most `longest` bytes.
  std::string next(size_t longest);

 private:
  size_t below(size_t bound) { return random_() % bound; }
  std::string piece(const std::string& text);
  void edit(std::string& text);

  std::mt19937 random_;
  std::vector<std::string> corpus_, dictionary_;
};

// Returns the tokens of a libFuzzer dictionary: one line each, "token", with \\, \" and \xNN; also name="token"; #
// begins a comment. Throws std::runtime_error for any other line.
std::vector<std::string> parse_dictionary(std::string_view text);

}  // namespace runner::fuzz
