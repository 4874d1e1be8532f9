#include <new>
#include <span>
#include <vector>

#include <sqlite3.h>

#include "store/encoded_points.h"
#include "store/sql_functions.h"

namespace runner::store {
namespace {

// chunk_points(data): an eponymous virtual table whose rows are the points encoded in the blob `data`. The base structs
// allow SQLite's C pointers to be cast back to ours.

enum PointColumn { kStep, kTimeMs, kValue, kData };
constexpr const char* kDeclaration = "CREATE TABLE x(step INTEGER, time_ms INTEGER, value REAL, data BLOB HIDDEN)";

struct Cursor : sqlite3_vtab_cursor {
  std::vector<Point> points;
  size_t next = 0;
};

Cursor& self(sqlite3_vtab_cursor* cursor) {
  return *static_cast<Cursor*>(cursor);
}

int connect(sqlite3* handle, void*, int, const char* const*, sqlite3_vtab** table, char**) {
  // SQLITE_VTAB_INNOCUOUS: it has no side effects, so a view in an untrusted file may use it.
  sqlite3_vtab_config(handle, SQLITE_VTAB_INNOCUOUS);
  const int code = sqlite3_declare_vtab(handle, kDeclaration);
  if (code == SQLITE_OK) *table = new (std::nothrow) sqlite3_vtab{};
  return code == SQLITE_OK && *table == nullptr ? SQLITE_NOMEM : code;
}

int disconnect(sqlite3_vtab* table) {
  delete table;
  return SQLITE_OK;
}

// Accepts only the constraint "data = value"; the value becomes the argument of filter().
int best_index(sqlite3_vtab*, sqlite3_index_info* info) {
  const std::span constraints(info->aConstraint, static_cast<size_t>(info->nConstraint));
  for (size_t i = 0; i < constraints.size(); ++i) {
    const auto& constraint = constraints[i];
    if (constraint.iColumn != kData || constraint.op != SQLITE_INDEX_CONSTRAINT_EQ || !constraint.usable) continue;
    info->aConstraintUsage[i].argvIndex = 1;
    info->aConstraintUsage[i].omit = 1;
    info->estimatedCost = kEncodedPoints;
    info->estimatedRows = kEncodedPoints;
    return SQLITE_OK;
  }
  return SQLITE_CONSTRAINT;
}

int open_cursor(sqlite3_vtab*, sqlite3_vtab_cursor** cursor) {
  *cursor = new (std::nothrow) Cursor{};
  return *cursor == nullptr ? SQLITE_NOMEM : SQLITE_OK;
}

int close_cursor(sqlite3_vtab_cursor* cursor) {
  delete &self(cursor);
  return SQLITE_OK;
}

int filter(sqlite3_vtab_cursor* cursor, int, const char*, int, sqlite3_value** arguments) {
  try {
    const auto* data = static_cast<const std::byte*>(sqlite3_value_blob(arguments[0]));
    auto points = decode_points({data, data ? static_cast<size_t>(sqlite3_value_bytes(arguments[0])) : 0});
    if (!points) {
      sqlite3_free(cursor->pVtab->zErrMsg);
      cursor->pVtab->zErrMsg = sqlite3_mprintf("a chunk of metric points is damaged");
      return SQLITE_CORRUPT_VTAB;
    }
    self(cursor).points = std::move(*points);
    self(cursor).next = 0;
    return SQLITE_OK;
  } catch (const std::bad_alloc&) {  // SQLite is C code: no exception may propagate through it
    return SQLITE_NOMEM;
  }
}

int next(sqlite3_vtab_cursor* cursor) {
  ++self(cursor).next;
  return SQLITE_OK;
}

int at_end(sqlite3_vtab_cursor* cursor) {
  return self(cursor).next >= self(cursor).points.size();
}

int column(sqlite3_vtab_cursor* cursor, sqlite3_context* result, int which) {
  const Point& point = self(cursor).points[self(cursor).next];
  switch (which) {
    case kStep: sqlite3_result_int64(result, point.step); break;
    case kTimeMs: sqlite3_result_int64(result, point.time_ms); break;
    case kValue: sqlite3_result_double(result, point.value); break;
    default: sqlite3_result_null(result);
  }
  return SQLITE_OK;
}

int row_id(sqlite3_vtab_cursor* cursor, sqlite3_int64* id) {
  *id = static_cast<sqlite3_int64>(self(cursor).next);
  return SQLITE_OK;
}

const sqlite3_module* chunk_points_module() {
  static const sqlite3_module module = [] {
    sqlite3_module m{};
    m.xConnect = connect;
    m.xBestIndex = best_index;
    m.xDisconnect = disconnect;
    m.xOpen = open_cursor;
    m.xClose = close_cursor;
    m.xFilter = filter;
    m.xNext = next;
    m.xEof = at_end;
    m.xColumn = column;
    m.xRowid = row_id;
    return m;
  }();
  return &module;
}

}  // namespace

int register_chunk_points(sqlite3* handle) noexcept {
  return sqlite3_create_module_v2(handle, "chunk_points", chunk_points_module(), nullptr, nullptr);
}

}  // namespace runner::store
