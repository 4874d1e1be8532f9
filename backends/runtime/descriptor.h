// A file descriptor that is closed on destruction.
#pragma once

#include <utility>

#include <unistd.h>

namespace runner::backends {

class Descriptor {
 public:
  // `number`: negative for none.
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

}  // namespace runner::backends
