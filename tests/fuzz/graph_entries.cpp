// Entries of the persistent cache from arbitrary bytes: serialised Programs.
#include <algorithm>
#include <string>

#include "backends/ir/passes/passes.h"
#include "backends/ir/print.h"
#include "backends/ir/program_bytes.h"
#include "schema/base/error.h"
#include "tests/fuzz/target.h"

namespace runner::fuzz {
namespace {

// A Program with source lines for as many nodes as entries of the corpus have.
backends::Program lines() {
  backends::Program program;
  constexpr int kNodes = 256;
  for (int i = 0; i < kNodes; ++i) program.constant(0, {});
  return program;
}

}  // namespace

bool graph_entries(Bytes input) {
  static const backends::Program of_lines = lines();
  const std::span<const std::byte> bytes = std::as_bytes(input);
  try {
    backends::ByteReader from(bytes);
    const backends::Program program = backends::read_program(from, of_lines);
    from.end();
    require(backends::verify(program).empty(), "not well formed: " + backends::verify(program));
    backends::ByteWriter to;
    backends::write_program(to, program);
    require(std::ranges::equal(to.written(), bytes), "it is not written as it was read: " + to_string(program));
    return true;
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kData, "not an error of data: " + error.message());
    require(error.message().rfind("byte ", 0) == 0, "it does not say where: " + error.message());
    return false;
  }
}

}  // namespace runner::fuzz
