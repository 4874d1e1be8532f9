// The vocabulary of a tokenizer with a SentencePiece model: its pieces, and the tokens that are added. Thread safety:
// none.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runner/text/added_tokens.h"
#include "runner/text/piece_model.h"
#include "runner/text/token_trie.h"
#include "schema/base/error.h"
#include "schema/base/text.h"

namespace runner::text {

class PieceVocabulary {
 public:
  explicit PieceVocabulary(const PieceModel& model) {
    for (const Piece& piece : model.pieces) {
      ids_.insert(piece.text, static_cast<int32_t>(tokens_.size()));
      tokens_.push_back(piece.text);
    }
  }

  std::optional<int32_t> find(const std::string& content) const {
    const int32_t id = ids_.find(content);
    return id < 0 ? std::nullopt : std::optional(id);
  }

  // Appends the token if it is new. A token that was added before gets these settings.
  int32_t add(AddedToken token) {
    token.id = ids_.insert(token.content, static_cast<int32_t>(tokens_.size()));
    if (static_cast<size_t>(token.id) == tokens_.size()) tokens_.push_back(token.content);
    const int32_t id = token.id;
    added_.insert_or_assign(id, std::move(token));
    return id;
  }
  int32_t add(AddedToken token, int64_t id, const std::string& place) {
    const std::optional<int32_t> known = find(token.content);
    RUN_CHECK(known || id == std::ssize(tokens_), ErrorKind::kData,
              "{}: token {} has id {}, but the vocabulary ends at {}", place, in_quotes(token.content), id,
              std::ssize(tokens_) - 1);
    RUN_CHECK(!known || *known == id, ErrorKind::kData, "{}: token {} has id {}, but in the model {}", place,
              in_quotes(token.content), id, known.value_or(0));
    return add(std::move(token));
  }
  // Makes the token special, and adds it if it is new.
  int32_t add_special(AddedToken token) {
    const std::optional<int32_t> known = find(token.content);
    const auto before = known ? added_.find(*known) : added_.end();
    if (before == added_.end()) return add(std::move(token));
    before->second.is_special = true;
    return *known;
  }

  std::vector<std::string> tokens() const { return tokens_; }
  std::vector<AddedToken> added() const {
    std::vector<AddedToken> list;
    for (const auto& [id, token] : added_) list.push_back(token);
    std::stable_partition(list.begin(), list.end(), [](const AddedToken& token) { return token.is_special; });
    return list;
  }

 private:
  std::vector<std::string> tokens_;
  TokenTrie ids_;
  std::map<int32_t, AddedToken> added_;
};

}  // namespace runner::text
