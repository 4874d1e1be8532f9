#include "runner/text/piece_json.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <string>

#include "schema/base/error.h"
#include "schema/base/text.h"
#include "schema/base/utf8.h"

namespace runner::text {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  fail(ErrorKind::kData,
       "{}, unlike the SentencePiece model of its folder; remove tokenizer.json to use the model as its class does",
       what);
}

// Checks the types of a normalizer or pre-tokenizer, or of those in a sequence.
void check_types(const json::Value& section, const char* name, const char* list,
                 std::span<const std::string_view> known) {
  if (section.is_null()) return;
  const std::string type = json::text_of(json::member(section, "type"));
  if (type == "Sequence") {
    for (const json::Value& part : json::elements_of(json::member(section, list))) check_types(part, name, list, known);
    return;
  }
  if (std::ranges::find(known, type) == known.end()) refuse(fmt::format("{} {} changes texts", name, in_quotes(type)));
}

// Scores in the file are doubles, those of the model floats.
void check_scores(const json::List& pieces, const PieceModel& model) {
  constexpr double kTolerance = 1e-4;
  for (size_t i = 0; i < std::min(pieces.size(), model.pieces.size()); ++i) {
    if (model.pieces[i].type != PieceType::kNormal) continue;
    const json::List& parts = json::elements_of(pieces[i]);
    const double score = parts.size() > 1 ? json::number_of(parts[1]).value_or(NAN) : NAN, own = model.pieces[i].score;
    if (!(std::abs(score - own) <= kTolerance * std::max(1.0, std::abs(own))))
      refuse(fmt::format("the score of {} is {}, not {}", in_quotes(model.pieces[i].text),
                         parts.size() > 1 ? json::compact(parts[1]) : "missing", model.pieces[i].score));
  }
}

// Each piece of several characters is the result of a merge.
void check_merges(const json::List& merges, const PieceModel& model) {
  std::set<std::string> results;
  for (const json::Value& merge : merges) {
    std::string result = json::text_of(merge);
    std::erase(result, ' ');  // "a b"
    for (const json::Value& part : json::elements_of(merge)) result += json::text_of(part);
    results.insert(std::move(result));
  }
  for (const Piece& piece : model.pieces)
    if (piece.type == PieceType::kNormal && utf8_length(piece.text, 0) < piece.text.size() &&
        !results.contains(piece.text))
      refuse(fmt::format("no merge makes {}", in_quotes(piece.text)));
}

}  // namespace

void check_piece_json(const json::Value& document, const PieceModel& model) {
  constexpr std::string_view kNormalizers[] = {"Precompiled", "Prepend", "Replace", "Strip"},
                             kPreTokenizers[] = {"Metaspace", "WhitespaceSplit"};
  check_types(json::member(document, "normalizer"), "normalizer", "normalizers", kNormalizers);
  check_types(json::member(document, "pre_tokenizer"), "pre_tokenizer", "pretokenizers", kPreTokenizers);
  const json::Value& own = json::member(document, "model");
  if (model.kind == PieceModel::kUnigram)
    check_scores(json::elements_of(json::member(own, "vocab")), model);
  else
    check_merges(json::elements_of(json::member(own, "merges")), model);
}

}  // namespace runner::text
