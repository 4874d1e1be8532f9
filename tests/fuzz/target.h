// Fuzz targets: each takes any bytes and aborts with a message when what must hold of them does not.
//
// What must hold: bytes that are accepted give a result whose parts fit together; bytes that are refused give an error
// that names the file and a place in it; memory is asked for in proportion to the input.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "schema/diagnostic.h"

namespace runner::fuzz {

using Bytes = std::span<const uint8_t>;

// Each returns whether the bytes were accepted.
bool recipe(Bytes input);
bool safetensors(Bytes input);
bool npy(Bytes input);
bool idx(Bytes input);
bool csv(Bytes input);
bool text(Bytes input);
bool lua_patterns(Bytes input);
bool where(Bytes input);
bool metrics_report(Bytes input);
bool graph_entries(Bytes input);

struct Target {
  const char* name;  // of the function, its corpus and its dictionary
  bool (*run)(Bytes input);
  size_t bytes_per_byte;  // the largest allocation for each byte of input
};
std::span<const Target> targets();

// Runs a target, and checks its largest allocation.  Needs tests/support/allocations.cpp.
bool run(const Target& target, Bytes input);

// Aborts with "what" unless it holds.
void require(bool holds, const std::string& what);

// What is wrong with the message of a refused file; empty: nothing.
std::string fault_of_message(const std::string& message, const std::string& file);

// Checks that each says in one line what is wrong and where, and that they can be printed.
void check_diagnostics(const std::vector<schema::Diagnostic>& diagnostics);

// Calls read(path) with a file in memory that holds the bytes.  False if that throws an Error(kData), whose message is
// then checked.
bool accepts(Bytes bytes, void (*read)(const std::string& path));

}  // namespace runner::fuzz
