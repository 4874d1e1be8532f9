// Result of work on another thread: a value, or the Error with which the work failed.
//
// Copies share the result. Unlike a std::future, it can be polled, and it can be read more than once. Each get() throws
// its own copy of the Error, so that threads never share an exception object. Thread-safe.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "schema/base/error.h"

namespace runner::store {

template <class T>
class Outcome {
 public:
  bool ready() const {
    const std::lock_guard lock(slot_->mutex);
    return slot_->result.has_value();
  }

  // Blocks until the work has finished or failed.
  void wait() const {
    std::unique_lock lock(slot_->mutex);
    slot_->done.wait(lock, [this] { return slot_->result.has_value(); });
  }

  // Blocks until the work has finished and returns its value. Throws the Error if it failed.
  T get() const {
    wait();
    const std::lock_guard lock(slot_->mutex);
    if (const Error* error = std::get_if<Error>(&*slot_->result)) throw Error(*error);
    return std::get<T>(*slot_->result);
  }

  // Runs `work` on the calling thread and stores its value or its error. Work that returns void yields T{}.
  template <class Work>
  void run(Work work) {
    try {
      if constexpr (std::is_void_v<decltype(work())>) {
        work();
        set(T{});
      } else {
        set(work());
      }
    } catch (const Error& error) {
      set(error);
    } catch (const std::exception& error) {
      set(Error(ErrorKind::kRun, error.what()));
    }
  }

 private:
  struct Slot {
    std::mutex mutex;
    std::condition_variable done;
    std::optional<std::variant<T, Error>> result;
  };

  void set(std::variant<T, Error> result) {
    {
      const std::lock_guard lock(slot_->mutex);
      slot_->result = std::move(result);
    }
    slot_->done.notify_all();
  }

  std::shared_ptr<Slot> slot_ = std::make_shared<Slot>();
};

}  // namespace runner::store
