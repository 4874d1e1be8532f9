#include "store/sql_functions.h"

#include <new>
#include <string>

#include <sqlite3.h>

#include "schema/base/clock.h"
#include "store/process.h"
#include "store/sqlite.h"

namespace runner::store {
namespace {

// Runs `work`; no exception may propagate through SQLite, which is C code. Returns the result code of `work`, or the
// code for the exception.
template <class Work>
int guarded(Work work) noexcept {
  try {
    return work();
  } catch (const std::bad_alloc&) {
    return SQLITE_NOMEM;
  } catch (...) {
    return SQLITE_ERROR;
  }
}

std::string text_of(sqlite3_value* value) {
  const auto* text = reinterpret_cast<const char*>(sqlite3_value_text(value));
  return text ? text : "";
}

// process_runs(host, boot_id, pid_namespace, pid, pid_start, heartbeat_ms): whether the process is running.
void process_runs(sqlite3_context* result, int, sqlite3_value** arguments) {
  const int code = guarded([&] {
    const Process process{text_of(arguments[0]), text_of(arguments[1]), text_of(arguments[2]),
                          sqlite3_value_int64(arguments[3]), sqlite3_value_int64(arguments[4])};
    sqlite3_result_int(result, is_running(process, sqlite3_value_int64(arguments[5]), now_ms()));
    return SQLITE_OK;
  });
  if (code != SQLITE_OK) sqlite3_result_error_code(result, code);
}

constexpr const char* kLiveStatus = R"(
  CASE WHEN status = 'running' AND NOT
    (SELECT process_runs(a.host, a.boot_id, a.pid_namespace, a.pid, a.pid_start, a.heartbeat_ms)
     FROM main.run AS r JOIN main.attempt AS a ON a.run_id = r.id AND a.no = r.attempts WHERE r.uid = stored.run)
  THEN 'crashed' ELSE status END AS status)";

// Returns a name for the stored view that stays usable when a temporary view hides it. In an older store, the view
// itself is temporary and is renamed.
std::string stored(Database& database, const std::string& view) {
  Statement temporary(database, "SELECT sql FROM temp.sqlite_schema WHERE type = 'view' AND name = ?1");
  if (!temporary.bind(view).step()) return "main." + view;
  const std::string sql = temporary.text(0);
  temporary.reset();
  database.exec(fmt::format("DROP VIEW temp.{0}; CREATE TEMP VIEW stored_{0}{1}", view, sql.substr(sql.find(" AS"))));
  return "temp.stored_" + view;
}

void register_live_status(Database& database, const std::string& view) {
  std::string columns;
  for (Statement names(database, "SELECT name FROM pragma_table_info('" + view + "')"); names.step();) {
    columns += columns.empty() ? "" : ", ";
    columns += names.text(0) == "status" ? kLiveStatus : names.text(0);
  }
  const std::string from = stored(database, view);
  database.exec(fmt::format("CREATE TEMP VIEW {} AS SELECT {} FROM {} AS stored", view, columns, from));
}

}  // namespace

void register_sql_functions(Database& database) {
  if (const int code = register_chunk_points(database.handle())) database.fail(code);
}

void register_live_status(Database& database) {
  const int code = sqlite3_create_function_v2(database.handle(), "process_runs", 6, SQLITE_UTF8 | SQLITE_INNOCUOUS,
                                              nullptr, process_runs, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) database.fail(code);
  for (const char* view : {"runs", "trash", "attempts"}) register_live_status(database, view);
}

}  // namespace runner::store
