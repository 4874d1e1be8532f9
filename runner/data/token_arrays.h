// Arrays that are prepared for transformers: ids of tokens, masks, segments, and labels that are tokens. Thread safety:
// none. All throw Error(kData) naming the array.
#pragma once

#include "runner/data/array.h"

namespace runner::data {

// Stores token ids, (N, T) whole numbers, as the samples.
void take_tokens(Storage& storage, const Array& array);
// Stores a further input, (N, T) whole numbers in [0, vocabulary). 0: any vocabulary. Call it after take_tokens().
void take_ids(Storage& storage, const Array& array, const char* name, int64_t vocabulary);
// Stores the attention mask, (N, T) of 0 and 1. With LabelsAs::kNextTokens hidden tokens must be the last of a sample,
// because causal models see all earlier tokens. Call it after take_tokens().
void take_mask(Storage& storage, const Array& array, const ReadOptions& options);

// Sets the labels (N, T) of tokens whose attention mask is 0 to `no_label`.
void hide_padding(const Storage& storage, std::span<int64_t> labels, int64_t no_label);
// Whether an array has the shape of the stored token ids.
bool has_shape_of_tokens(const Storage& storage, const Array& array);
// Stores labels that are tokens, (N, T), each at the place of its own token. With LabelsAs::kNextTokens it moves to the
// token before, as transformers does in a causal model. options.ignore_index becomes kNoLabel.
void take_token_labels(Storage& storage, const Array& array, const ReadOptions& options);
// The same for data without labels: each token is its own label, unless its attention mask is 0. Returns false if
// options.labels is not kNextTokens; then nothing is stored.
bool take_tokens_as_labels(Storage& storage, const ReadOptions& options);

}  // namespace runner::data
