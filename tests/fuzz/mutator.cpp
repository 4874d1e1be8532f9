#include "tests/fuzz/mutator.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace runner::fuzz {
namespace {

constexpr uint64_t kNumbers[] = {0,         1,          2,          0x7f,       0x80,       0xff,       0x7fff,
                                 0x8000,    0xffff,     0x10000,    0x7fffffff, 0x80000000, 0xffffffff, 0x100000000,
                                 INT64_MAX, 1ULL << 63, UINT64_MAX, 64,         4096,       100'000'000};

int digit_of(char c) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  const size_t at = kDigits.find(c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c);
  if (at == std::string_view::npos) throw std::runtime_error("not a hexadecimal digit");
  return static_cast<int>(at);
}

std::string unescape(std::string_view text) {
  std::string token;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      token += text[i];
    } else if (text.substr(i, 2) == "\\x" && i + 3 < text.size()) {
      token += static_cast<char>(digit_of(text[i + 2]) * 16 + digit_of(text[i + 3]));
      i += 3;
    } else {
      token += text.at(++i);
    }
  }
  return token;
}

}  // namespace

Mutator::Mutator(uint32_t seed, std::vector<std::string> corpus, std::vector<std::string> dictionary)
    : random_(seed), corpus_(std::move(corpus)), dictionary_(std::move(dictionary)) {}

std::string Mutator::next(size_t longest) {
  std::string text = corpus_[below(corpus_.size())];
  for (size_t edits = size_t{1} << below(4); edits > 0; --edits) edit(text);
  if (text.size() > longest) text.resize(longest);
  return text;
}

// Up to 64 bytes of a text.
std::string Mutator::piece(const std::string& text) {
  return text.empty() ? "" : text.substr(below(text.size()), 1 + below(64));
}

void Mutator::edit(std::string& text) {
  const size_t at = text.empty() ? 0 : below(text.size());
  const size_t left = text.size() - at;
  const auto overwrite = [&](const std::string& with) { text.replace(at, std::min(with.size(), left), with); };
  switch (below(10)) {
    case 0:
      if (left > 0) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
      break;
    case 1:
      if (left > 0) text[at] = static_cast<char>(below(256));
      break;
    case 2: text.erase(at, 1 + below(16)); break;
    case 3: text.insert(at, piece(text)); break;
    case 4: text.insert(at, piece(corpus_[below(corpus_.size())])); break;
    case 5: overwrite(piece(corpus_[below(corpus_.size())])); break;
    case 6: {  // beginning of this one, end of another
      const std::string& other = corpus_[below(corpus_.size())];
      text.resize(at);
      if (!other.empty()) text += other.substr(below(other.size()));
      break;
    }
    case 7: {
      if (dictionary_.empty()) break;
      const std::string& token = dictionary_[below(dictionary_.size())];
      below(2) == 0 ? overwrite(token) : void(text.insert(at, token));
      break;
    }
    case 8: {
      const uint64_t number = kNumbers[below(std::size(kNumbers))] + below(3) - 1;
      std::string bytes(sizeof(number), '\0');
      std::memcpy(bytes.data(), &number, bytes.size());
      bytes.resize(size_t{1} << below(4));
      if (below(2) == 0) std::reverse(bytes.begin(), bytes.end());
      overwrite(bytes);
      break;
    }
    default:
      if (below(4) == 0) text.resize(at);
      break;
  }
}

std::vector<std::string> parse_dictionary(std::string_view text) {
  std::vector<std::string> tokens;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    const size_t open = line.find('"');
    if (open == std::string::npos || line.back() != '"' || line.size() < open + 3) {
      throw std::runtime_error("not a line of a dictionary: " + line);
    }
    tokens.push_back(unescape(std::string_view(line).substr(open + 1, line.size() - open - 2)));
  }
  return tokens;
}

}  // namespace runner::fuzz
