// Values as bytes that other processes of the same program read.
//
// Plain values, containers, and classes that list their members (parts.h). Large arrays are kept apart, so that
// processes can share them: an unpacked array stays in the memory it was read from.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

#include "schema/base/error.h"
#include "schema/base/large_array.h"
#include "schema/base/parts.h"

namespace runner {

namespace packing {

template <class T>
concept HasParts = requires(T& value) {
  PartsAccess::of(value);
};

template <class T, template <class...> class Template>
inline constexpr bool kIs = false;
template <class... Args, template <class...> class Template>
inline constexpr bool kIs<Template<Args...>, Template> = true;
template <class T>
inline constexpr bool kIsLargeArray = false;
template <class T>
inline constexpr bool kIsLargeArray<LargeArray<T>> = true;
template <class T>
inline constexpr bool kIsList = kIs<T, std::vector> || std::is_same_v<T, std::string>;
template <class T>
inline constexpr bool kIsView = std::is_same_v<T, std::string_view> || std::is_same_v<T, std::span<const std::byte>>;
template <class T>
inline constexpr bool kIsMap = kIs<T, std::map> || kIs<T, std::unordered_map>;
template <class T>
inline constexpr bool kIsArray = false;
template <class T, size_t n>
inline constexpr bool kIsArray<std::array<T, n>> = true;
// Whether values are their bytes, without padding or pointers.
template <class T>
inline constexpr bool kIsPlain = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class T, size_t n>
inline constexpr bool kIsPlain<std::array<T, n>> = kIsPlain<T>;

inline void check(bool is_expected) {
  RUN_CHECK(is_expected, ErrorKind::kRun, "received unexpected data from another rank");
}

// Gives the whole pages of memory that is not needed any more back to the system.
inline void return_pages(std::span<const std::byte> memory) {
  const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = (reinterpret_cast<uintptr_t>(memory.data()) + page - 1) / page * page;
  const auto end = reinterpret_cast<uintptr_t>(memory.data() + memory.size()) / page * page;
  if (begin < end) ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);  // a hint; may fail
}

inline constexpr size_t kAlignment = 64;  // of arrays in one piece of memory
constexpr size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace packing

// Writes values as bytes; collects large arrays separately.
class Packer {
 public:
  template <class T>
  void write(const T& value) {
    if constexpr (packing::kIsLargeArray<T>) {
      write(value.size());
      arrays_.push_back(std::as_bytes(std::span(value)));
    } else if constexpr (packing::HasParts<const T>) {
      std::apply([&](const auto&... part) { (write(part), ...); }, PartsAccess::of(value));
    } else if constexpr (packing::kIsList<T> || packing::kIsView<T> || packing::kIsMap<T>) {
      write_list(value);
    } else if constexpr (packing::kIs<T, std::pair>) {
      write(value.first);
      write(value.second);
    } else if constexpr (packing::kIs<T, std::optional>) {
      write(value.has_value());
      if (value) write(*value);
    } else if constexpr (packing::kIsArray<T> && !packing::kIsPlain<T>) {
      for (const auto& each : value) write(each);
    } else {
      static_assert(packing::kIsPlain<T>, "list the members of the class in parts()");
      write_bytes(&value, sizeof value);
    }
  }

  // The bytes of all values except large arrays.
  const std::string& bytes() const& { return bytes_; }
  std::string bytes() && { return std::move(bytes_); }
  void reserve(size_t bytes) { bytes_.reserve(bytes); }
  // Size of the large arrays, each aligned to 64 bytes. They must outlive this call and the next one.
  size_t array_bytes() const {
    size_t bytes = 0;
    for (const auto& array : arrays_) bytes += packing::aligned(array.size());
    return bytes;
  }
  // Moves the large arrays, so that memory never has all of them twice: afterwards, their values are undefined.
  // `memory`: array_bytes().
  void move_arrays(std::span<std::byte> memory) const {
    constexpr size_t kTogether = size_t{16} << 20;
    size_t at = 0;
    for (const auto& array : arrays_) {
      for (size_t from = 0; from < array.size(); from += kTogether) {
        const auto part = array.subspan(from, std::min(kTogether, array.size() - from));
        std::memcpy(memory.data() + at + from, part.data(), part.size());
        packing::return_pages(part);
      }
      at += packing::aligned(array.size());
    }
  }

 private:
  template <class List>
  void write_list(const List& list) {
    write(list.size());
    if constexpr (!packing::kIsMap<List>)
      if constexpr (packing::kIsPlain<typename List::value_type>)
        return write_bytes(list.data(), list.size() * sizeof(*list.data()));
    for (const auto& each : list) write(each);
  }
  void write_bytes(const void* bytes, size_t count) { bytes_.append(static_cast<const char*>(bytes), count); }

  std::string bytes_;
  std::vector<std::span<const std::byte>> arrays_;
};

// Large arrays as Packer::move_arrays() has written them.
struct PackedArrays {
  std::shared_ptr<std::byte> memory = nullptr;
  size_t bytes = 0;
};

// Reads values in the order in which they were written. Throws Error(kRun) if there are fewer bytes or arrays.
class Unpacker {
 public:
  explicit Unpacker(std::string_view bytes, PackedArrays arrays = {}) : bytes_(bytes), arrays_(std::move(arrays)) {}

  template <class T>
  T read() {
    if constexpr (packing::kIsLargeArray<T>) {
      return read_array<typename T::value_type>();
    } else if constexpr (packing::kIs<T, std::pair>) {
      auto first = read<std::remove_const_t<typename T::first_type>>();
      return {std::move(first), read<typename T::second_type>()};
    } else if constexpr (packing::HasParts<T>) {
      T value = PartsAccess::make<T>();
      std::apply([&](auto&... part) { ((part = read<std::remove_reference_t<decltype(part)>>()), ...); },
                 PartsAccess::of(value));
      return value;
    } else {
      T value{};
      read_into(value);
      return value;
    }
  }

  // What has not been read.
  std::string_view rest() const { return bytes_; }

 private:
  template <class T>
  LargeArray<T> read_array() {
    const auto count = read<size_t>();
    if (count == 0) return {};
    packing::check(count <= (arrays_.bytes - array_at_) / sizeof(T));
    const std::shared_ptr<std::byte> memory(arrays_.memory, arrays_.memory.get() + array_at_);
    array_at_ += packing::aligned(count * sizeof(T));
    return large_array_in<T>(memory, count);
  }

  template <class T>
  void read_into(T& value) {
    if constexpr (packing::kIs<T, std::optional>) {
      if (read<bool>()) value = read<typename T::value_type>();
    } else if constexpr (packing::kIsMap<T>) {
      const auto count = read<size_t>();
      for (size_t i = 0; i < count; ++i) value.insert(read<typename T::value_type>());
    } else if constexpr (packing::kIsList<T>) {
      const auto count = read<size_t>();
      if constexpr (packing::kIsPlain<typename T::value_type>) {
        packing::check(count <= bytes_.size() / sizeof(typename T::value_type));
        value.resize(count);
        read_bytes(value.data(), count * sizeof(typename T::value_type));
      } else {
        for (size_t i = 0; i < count; ++i) value.push_back(read<typename T::value_type>());
      }
    } else if constexpr (packing::kIsArray<T> && !packing::kIsPlain<T>) {
      for (auto& each : value) each = read<typename T::value_type>();
    } else {
      static_assert(packing::kIsPlain<T>, "list the members of the class in parts()");
      read_bytes(&value, sizeof value);
    }
  }

  void read_bytes(void* bytes, size_t count) {
    packing::check(count <= bytes_.size());
    if (count > 0) std::memcpy(bytes, bytes_.data(), count);
    bytes_.remove_prefix(count);
  }

  std::string_view bytes_;
  PackedArrays arrays_;
  size_t array_at_ = 0;
};

// A value without large arrays as bytes. unpack() throws Error(kRun) if they are not those of one value of the type.
template <class T>
std::string pack(const T& value) {
  Packer packer;
  packer.write(value);
  RUN_ASSERT(packer.array_bytes() == 0);
  return std::move(packer).bytes();
}
template <class T>
T unpack(std::string_view bytes) {
  Unpacker unpacker(bytes);
  T value = unpacker.read<T>();
  packing::check(unpacker.rest().empty());
  return value;
}

}  // namespace runner
