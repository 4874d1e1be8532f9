#include <algorithm>
#include <array>
#include <memory>
#include <set>

#include <sqlite3.h>

#include "schema/base/diagnostic.h"
#include "schema/base/duration.h"
#include "schema/base/text.h"
#include "schema/base/utf8.h"
#include "store/queries.h"
#include "store/sql_functions.h"
#include "store/sqlite.h"

namespace runner::store {
namespace {

using QueryClock = std::chrono::steady_clock;

constexpr int kLargestValueBytes = 64 << 20;
constexpr int64_t kLargestResultBytes = int64_t{512} << 20;  // size in memory
constexpr int64_t kMaxMemory = int64_t{1} << 30;             // SQLite's memory for sorting and temporary tables
constexpr int kStepsBetweenLooks = 10'000;                   // virtual machine instructions between two time checks,
                                                             // about 0.1 ms
constexpr std::string_view kViews =
    "runs, attempts, params, metrics, points, states, artifacts, events, sources, environments and trash";
constexpr std::array<std::string_view, 3> kPragmas{"table_info", "table_xinfo", "table_list"};  // pragmas with an
                                                                                                // argument
constexpr std::array<std::string_view, 2> kValues{"user_version", "application_id"};            // pragmas without an
                                                                                                // argument

// Functions that access files or the memory of the process.
bool is_forbidden(std::string_view function) {
  return function == "load_extension" || function == "fts3_tokenizer";
}

bool is_allowed(std::string_view pragma, const char* argument) {
  const auto among = [&](const auto& names) { return std::find(names.begin(), names.end(), pragma) != names.end(); };
  return among(kPragmas) || (argument == nullptr && among(kValues));
}

// Names of the tables and views that a query reads.
using ReadNames = std::set<std::string, std::less<>>;

// Authorizer: allows reads, and pragmas that describe tables and the file.
int authorize(void* read, int action, const char* first, const char* second, const char*, const char*) {
  switch (action) {
    case SQLITE_READ: static_cast<ReadNames*>(read)->insert(first); return SQLITE_OK;
    case SQLITE_SELECT:
    case SQLITE_RECURSIVE: return SQLITE_OK;
    case SQLITE_FUNCTION: return is_forbidden(second) ? SQLITE_DENY : SQLITE_OK;
    case SQLITE_PRAGMA: return is_allowed(first, second) ? SQLITE_OK : SQLITE_DENY;
    default: return SQLITE_DENY;
  }
}

int past(void* deadline) {
  return QueryClock::now() > *static_cast<QueryClock::time_point*>(deadline);
}

struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Query = std::unique_ptr<sqlite3_stmt, Finalize>;

// Removes the limits, so that our own queries can run on the connection.
void disable_guards(Database& database) {
  sqlite3_set_authorizer(database.handle(), nullptr, nullptr);
  sqlite3_progress_handler(database.handle(), 0, nullptr, nullptr);
}

// Returns the position of the token at byte `offset`: line, column, width and text of the line.
schema::Diagnostic place_in(std::string_view sql, size_t offset) {
  const auto before = sql.substr(0, offset);
  const size_t begin = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  const std::string_view line = sql.substr(begin, sql.find('\n', offset) - begin);
  const std::string_view rest = line.substr(offset - begin);
  const auto is_word = [](char c) { return is_word_byte(c) || static_cast<unsigned char>(c) >= 0x80; };
  const auto end = std::find_if_not(rest.begin(), rest.end(), is_word);
  schema::Diagnostic place;
  place.where = {"SQL", static_cast<int>(std::ranges::count(before, '\n')) + 1,
                 count_characters(line.substr(0, offset - begin)) + 1};
  place.width = std::max(1, count_characters(rest.substr(0, static_cast<size_t>(end - rest.begin()))));
  place.source_line = visible(line);
  return place;
}

[[noreturn]] void fail_wrong_sql(Database& database, std::string_view sql) {
  const std::string mistake = sqlite3_errmsg(database.handle());
  const int offset = sqlite3_error_offset(database.handle());
  disable_guards(database);
  database.check_tables({"sqlite_schema"});  // an unknown view may be the result of damage
  const bool is_name = mistake.find("no such") != std::string::npos;
  const std::string hint = is_name ? fmt::format("the views are {}", kViews) : "";
  if (offset < 0) fail(ErrorKind::kUsage, "invalid SQL: {}{}{}", mistake, is_name ? "; " : "", hint);
  schema::Diagnostic wrong = place_in(sql, static_cast<size_t>(offset));
  wrong.id = schema::ErrorId::kBadExpression;
  wrong.message = mistake;
  wrong.hint = hint;
  throw schema::RecipeError({std::move(wrong)});
}

// Throws the error for a failed query. Usually the SQL is wrong; rarely the store is at fault.
[[noreturn]] void fail_query(Database& database, int code, std::string_view sql, std::chrono::milliseconds limit) {
  switch (code & 0xff) {
    case SQLITE_AUTH: fail(ErrorKind::kUsage, "`runner sql` is read-only; write a SELECT statement");
    case SQLITE_INTERRUPT:
      fail(ErrorKind::kUsage,
           "the query exceeded the time limit of {}; narrow it with WHERE, or with LIMIT if it is recursive",
           limit_text(limit));
    case SQLITE_NOMEM:
      fail(ErrorKind::kUsage, "the query exceeded the memory limit of {} MiB; narrow it with WHERE or LIMIT",
           kMaxMemory >> 20);
    case SQLITE_ERROR:
    case SQLITE_TOOBIG:
    case SQLITE_RANGE:
    case SQLITE_MISMATCH: fail_wrong_sql(database, sql);
    default: database.fail(code);
  }
}

SqlValue value_of(sqlite3_stmt* row, int column) {
  switch (sqlite3_column_type(row, column)) {
    case SQLITE_INTEGER: return sqlite3_column_int64(row, column);
    case SQLITE_FLOAT: return sqlite3_column_double(row, column);
    case SQLITE_TEXT: {
      const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
      return std::string(text, static_cast<size_t>(sqlite3_column_bytes(row, column)));
    }
    case SQLITE_BLOB: {
      const auto* data = static_cast<const std::byte*>(sqlite3_column_blob(row, column));
      return std::vector<std::byte>(data, data + sqlite3_column_bytes(row, column));
    }
    default: return std::monostate{};
  }
}

// Limits SQLite's memory in the whole process for its lifetime. Temporary data never spills to a file, so an endless
// query could otherwise exhaust the machine's memory.
class MemoryLimit {
 public:
  explicit MemoryLimit(int64_t bytes) : before_(sqlite3_hard_heap_limit64(bytes)) {}
  ~MemoryLimit() { sqlite3_hard_heap_limit64(before_); }
  MemoryLimit(const MemoryLimit&) = delete;
  MemoryLimit& operator=(const MemoryLimit&) = delete;

 private:
  int64_t before_;
};

// Size of a row in memory.
int64_t row_bytes(sqlite3_stmt* row, int columns) {
  int64_t bytes = 0;
  for (int i = 0; i < columns; ++i) bytes += static_cast<int64_t>(sizeof(SqlValue)) + sqlite3_column_bytes(row, i);
  return bytes;
}

Query prepare(Database& database, std::string_view sql, std::chrono::milliseconds limit) {
  sqlite3_stmt* handle = nullptr;
  const char* rest = nullptr;
  const int code = sqlite3_prepare_v2(database.handle(), sql.data(), static_cast<int>(sql.size()), &handle, &rest);
  if (code != SQLITE_OK) fail_query(database, code, sql, limit);
  Query query(handle);
  if (!query) fail(ErrorKind::kUsage, "there is no SQL to run; write a SELECT");
  for (const char* end = sql.data() + sql.size(); rest < end;) {  // only white space and comments may follow
    const std::string_view left(rest, static_cast<size_t>(end - rest));
    const int more = sqlite3_prepare_v2(database.handle(), rest, static_cast<int>(left.size()), &handle, &rest);
    const Query next(more == SQLITE_OK ? handle : nullptr);
    RUN_CHECK(more == SQLITE_OK && !next, ErrorKind::kUsage,
              "`runner sql` runs one statement, but more text follows it: {}", left);
  }
  return query;
}

// Throws if a table that the query has read is damaged, because a lost page looks like missing rows. Checks all tables
// read if the store is small, otherwise only those with one row per run, attempt, metric or checkpoint.
void check_tables_read(Database& database, const ReadNames& read) {
  constexpr int64_t kSmall = int64_t{8} << 20;  // bytes; checking takes about 20 ms
  constexpr std::array<std::string_view, 4> kShort{"run", "attempt", "series", "state"};
  disable_guards(database);
  const bool is_small = database.query_int64("PRAGMA page_count") * database.query_int64("PRAGMA page_size") <= kSmall;
  Statement tables(database, "SELECT name FROM main.sqlite_schema WHERE type = 'table'");
  while (tables.step()) {
    const std::string name = tables.text(0);
    const bool is_short = std::find(kShort.begin(), kShort.end(), name) != kShort.end();
    if (read.contains(name) && (is_small || is_short)) database.check_tables({name});
  }
}

}  // namespace

SqlResult sql_query(const std::filesystem::path& path, std::string_view sql, std::chrono::milliseconds limit) {
  const Store store = Store::open(path, Access::kRead);
  Database& database = store.database();
  database.exec("PRAGMA query_only = OFF");  // the temporary views are created in memory; the file is not written
  register_live_status(database);
  database.exec("PRAGMA query_only = ON");
  sqlite3_limit(database.handle(), SQLITE_LIMIT_LENGTH, kLargestValueBytes);
  ReadNames read;
  sqlite3_set_authorizer(database.handle(), authorize, &read);
  const MemoryLimit memory(kMaxMemory);
  auto deadline = QueryClock::now() + limit;
  sqlite3_progress_handler(database.handle(), kStepsBetweenLooks, past, &deadline);

  const Query query = prepare(database, sql, limit);
  SqlResult result;
  const int columns = sqlite3_column_count(query.get());
  for (int i = 0; i < columns; ++i) result.columns.emplace_back(sqlite3_column_name(query.get(), i));
  int code = SQLITE_OK;
  int64_t bytes = 0;
  while ((code = sqlite3_step(query.get())) == SQLITE_ROW) {
    bytes += row_bytes(query.get(), columns);
    RUN_CHECK(bytes <= kLargestResultBytes, ErrorKind::kUsage,
              "the result exceeds {} MiB; narrow it with WHERE or LIMIT", kLargestResultBytes >> 20);
    auto& row = result.rows.emplace_back();
    for (int i = 0; i < columns; ++i) row.push_back(value_of(query.get(), i));
  }
  if (code != SQLITE_DONE) fail_query(database, code, sql, limit);
  check_tables_read(database, read);
  return result;
}

}  // namespace runner::store
