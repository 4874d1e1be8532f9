// The result of work that another thread does: a value, or the Error that it failed with.
//
// A copy names the same result.  Unlike a std::future it can be asked without waiting and more than once, and no
// exception object is shared by two threads: whoever asks gets an Error of its own.
// Thread-safe.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "schema/error.h"

namespace runner::store {

template <class T>
class Outcome {
 public:
  bool ready() const {
    const std::lock_guard lock(slot_->mutex);
    return slot_->result.has_value();
  }

  // Waits for the result, whatever it is.
  void wait() const {
    std::unique_lock lock(slot_->mutex);
    slot_->done.wait(lock, [this] { return slot_->result.has_value(); });
  }

  // Waits for the result; throws the Error if there is none.
  T get() const {
    wait();
    const std::lock_guard lock(slot_->mutex);
    if (const Error* error = std::get_if<Error>(&*slot_->result)) throw Error(*error);
    return std::get<T>(*slot_->result);
  }

  // For the working thread: does the work and keeps what comes of it.  Work without a result has a T{}.
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
