#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "runner/cli/command.h"
#include "runner/cli/standard_input.h"
#include "runner/report/documents.h"
#include "runner/report/output.h"
#include "runner/report/table.h"
#include "runner/text/tokenizer_file.h"
#include "schema/base/json.h"
#include "schema/base/text.h"

namespace runner::cli {
namespace {

struct TokenizeOptions : Options {
  std::vector<std::string> texts, pairs;  // none: not given
  std::string tokenizer;
  bool specials_as_text = false;
};

constexpr Argument kTokenizeArguments[] = {
    {"[TEXT]", "", "text to tokenize; default: each line of standard input", &TokenizeOptions::texts},
    {"--tokenizer", "PATH",
     "folder with tokenizer files, a tokenizer.json, a vocab.txt of BERT, a SentencePiece model, or `bytes`; required",
     &TokenizeOptions::tokenizer},
    {"--pair", "TEXT", "second text of a pair", &TokenizeOptions::pairs},
    {"--specials-as-text", "", "take special tokens in the text, such as [MASK], as text; for untrusted text",
     &TokenizeOptions::specials_as_text}};

text::Encoding encoded(const text::Tokenizer& tokenizer, std::string_view text, const TokenizeOptions& options) {
  const auto specials = options.specials_as_text ? text::SpecialTokens::kAsText : text::SpecialTokens::kMatch;
  const std::vector<int32_t> first = tokenizer.encode(text, specials);
  if (options.pairs.empty()) return tokenizer.with_specials(first);
  return tokenizer.with_specials(first, tokenizer.encode(options.pairs[0], specials));
}

std::vector<std::string> pieces_of(const text::Tokenizer& tokenizer, const text::Encoding& encoding) {
  std::vector<std::string> pieces;
  for (const int32_t id : encoding.ids) pieces.push_back(tokenizer.tokens()[static_cast<size_t>(id)]);
  return pieces;
}

json::Value encoding_json(const text::Tokenizer& tokenizer, const text::Encoding& encoding) {
  const auto integers = [](const std::vector<int32_t>& values) {
    return json::list_of(values, [](int32_t value) { return json::Value(int64_t{value}); });
  };
  return json::Object{{"ids", integers(encoding.ids)},
                      {"types", integers(encoding.types)},
                      {"pieces", json::list_of(pieces_of(tokenizer, encoding))}};
}

std::string encoding_table(const text::Tokenizer& tokenizer, const text::Encoding& encoding,
                           const report::Output& out) {
  using enum report::Align;
  report::Table table({{"id", kRight}, {"type", kRight}, {"piece"}});
  const std::vector<std::string> pieces = pieces_of(tokenizer, encoding);
  for (size_t i = 0; i < pieces.size(); ++i)
    table.add({std::to_string(encoding.ids[i]), std::to_string(encoding.types[i]), visible(pieces[i])});
  return table.render(out.data_width(), out.data_color());
}

void print_encoding(const text::Tokenizer& tokenizer, std::string_view text, const TokenizeOptions& options,
                    report::Output& out) {
  const text::Encoding encoding = encoded(tokenizer, text, options);
  if (options.json)
    out.data(json::line(encoding_json(tokenizer, encoding)));
  else
    out.colored_data(encoding_table(tokenizer, encoding, out));
}

void print_lines(const text::Tokenizer& tokenizer, const TokenizeOptions& options, report::Output& out) {
  const std::string input = read_standard_input();
  std::string_view rest = input;
  for (int64_t number = 1; !rest.empty(); ++number) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    try {
      print_encoding(tokenizer, rest.substr(0, end), options, out);
    } catch (Error& error) {
      throw error.note(fmt::format("in line {} of standard input", number));
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (!options.json && !rest.empty()) out.data("\n");
  }
}

// What the file asks for and this command does not do.
void say_limits(const text::FileLimits& limits, report::Output& out) {
  if (limits.truncation) out.say(fmt::format("the file asks for at most {} tokens; not applied", *limits.truncation));
  if (limits.padding)
    out.say(*limits.padding > 0 ? fmt::format("the file asks for padding to {} tokens; not applied", *limits.padding)
                                : "the file asks for padding to the longest text; not applied");
}

int tokenize(const TokenizeOptions& options, report::Output& out) {
  RUN_CHECK(!options.tokenizer.empty(), ErrorKind::kUsage,
            "tokenize: missing option --tokenizer; see `runner tokenize --help`");
  RUN_CHECK(options.texts.size() <= 1, ErrorKind::kUsage,
            "tokenize: expected one TEXT, got {}; put quotation marks around it", options.texts.size());
  RUN_CHECK(options.pairs.size() <= 1, ErrorKind::kUsage, "tokenize: --pair was given {} times", options.pairs.size());
  const text::Tokenizer tokenizer = text::open_tokenizer(options.tokenizer);
  say_limits(tokenizer.limits(), out);
  if (options.texts.empty())
    print_lines(tokenizer, options, out);
  else
    print_encoding(tokenizer, options.texts[0], options, out);
  return 0;
}

}  // namespace

const Command kTokenizeCommand{
    .name = "tokenize",
    .group = Group::kRecipe,
    .summary = "show the token ids and pieces of a text",
    .details =
        "Reads tokenizers of the Hugging Face libraries: BERT's WordPiece, GPT-2's byte-level BPE, "
        "and\nSentencePiece.\n"
        "With --json, prints one document per text, on one line.",
    .arguments = kTokenizeArguments,
    .examples =
        "runner tokenize 'The cat sat.' --tokenizer bytes\n"
        "runner tokenize 'Is it?' --pair 'It is.' --tokenizer bytes --json",
    .other_names = "encode tokenizer",
    .has_json = true,
    .action = action<tokenize>,
    .failure_document = report::failure_document,
};

}  // namespace runner::cli
