// Fuzz targets: each takes arbitrary bytes and aborts with a message if an invariant is violated.
//
// Invariants: Accepted bytes give a consistent result. Rejected bytes give an error that names the file and a place in
// it. Memory is proportional to the input.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schema/base/diagnostic.h"

namespace runner::fuzz {

using Bytes = std::span<const uint8_t>;

// Each returns whether the bytes were accepted.
bool recipe(Bytes input);
bool safetensors(Bytes input);
bool shard_index(Bytes input);
bool npy(Bytes input);
bool idx(Bytes input);
bool cifar(Bytes input);
bool csv(Bytes input);
bool text(Bytes input);
bool token_rows(Bytes input);
bool lua_patterns(Bytes input);
bool where(Bytes input);
bool metrics_report(Bytes input);
bool graph_entries(Bytes input);
bool tokenizer(Bytes input);
bool sentence_piece(Bytes input);
bool image(Bytes input);

struct Target {
  const char* name;  // of the function, its corpus and its dictionary
  bool (*run)(Bytes input);
  size_t bytes_per_byte;  // largest allocation per byte of input
};
std::span<const Target> targets();

// Runs a target and checks its largest allocation. Requires tests/support/allocations.cpp.
bool run(const Target& target, Bytes input);

// Aborts with `what` unless `holds`.
void require(bool holds, const std::string& what);

// Returns what is wrong with the message of a rejected file; empty if nothing.
std::string fault_of_message(const std::string& message, const std::string& file);

// Checks that each says in one line what is wrong and where, and that they can be printed.
void check_diagnostics(const std::vector<schema::Diagnostic>& diagnostics);

// Calls read(path) with a file in memory that contains the bytes. Returns false if that throws Error(kData), after
// checking its message.
bool accepts(Bytes bytes, void (*read)(const std::string& path));

}  // namespace runner::fuzz
