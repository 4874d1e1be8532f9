// Text as tokens: UTF-8 characters, bytes, the tokens of a tokenizer, or token ids of a file.
//
// Sample i consists of `sequence_length` tokens starting at token i * stride. Its labels are the tokens that follow
// each of them; with masking, the tokens themselves. Tokens after the last complete sample are not used. Characters are
// numbered in the order of their code points; the vocabulary is Encoding::class_names. The number of a byte is its
// value. Every fault of the file throws Error(kData) naming the file and the byte.
#pragma once

#include <string>
#include <vector>

#include "runner/data/encoding.h"
#include "runner/data/storage.h"

namespace runner::data {

// Whether a section has a tokenizer rather than characters, bytes or token ids.
bool has_tokenizer(const schema::DatasetSpec& spec);

// Whether each row or line of the section is a text, which data.tokens turns into a sample.
bool has_text_rows(const schema::DatasetSpec& spec);

// Returns how the data become tokens: characters, bytes, ids, or the path of a tokenizer.
const std::string& tokens_word(const schema::DataSpec& spec);
// Returns the path of the tokenizer of the data: that of data.tokens, or of data.train; "" if it has no files.
std::string tokenizer_path(const schema::DataSpec& spec);

// Splits off the last `fraction` of a text for evaluation. Throws Error(kRecipe) if a part would have no sample.
struct TextParts {
  Storage train, eval;
};
TextParts split_text(Storage whole, double fraction, const std::string& file);

// Merges the vocabularies of both sections, so that tokens found only in the evaluation data count.
void merge_vocabularies(Encoding& encoding, Storage& train, Storage& eval);
// Numbers the tokens of a text by the vocabulary `tokens`, which is sorted. Throws Error(kData) naming `name` if the
// text has another token.
void use_vocabulary(Storage& storage, const std::vector<std::string>& tokens, const std::string& name);

}  // namespace runner::data
