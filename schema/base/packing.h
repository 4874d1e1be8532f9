// Values as bytes that other processes of the same program read.
//
// A class lists its members: `static auto parts(auto& self) { return std::tie(self.a_, self.b_); }`, and has
// PartsAccess as a friend if that function or its default constructor is private. Large arrays are kept apart, so that
// processes can share them: their bytes are not copied, and an unpacked array stays in the memory it was read from.
#pragma once

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

#include "schema/base/error.h"
#include "schema/base/large_array.h"

namespace runner {

class PartsAccess {
 public:
  template <class T>
  static auto of(T& value) -> decltype(std::remove_const_t<T>::parts(value)) {
    return std::remove_const_t<T>::parts(value);
  }
  template <class T>
  static T make() {
    return T();
  }
};

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
// Whether values are their bytes.
template <class T>
inline constexpr bool kIsPlain =
    std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> && !HasParts<T> && !kIsView<T>;

inline constexpr size_t kAlignment = 64;  // of arrays in one piece of memory
constexpr size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

}  // namespace packing

class Packer {
 public:
  template <class T>
  void write(const T& value) {
    if constexpr (packing::kIsLargeArray<T>) {
      write(value.size());
      arrays_.push_back(std::as_bytes(std::span(value)));
    } else if constexpr (packing::HasParts<const T>) {
      std::apply([&](const auto&... part) { (write(part), ...); }, PartsAccess::of(value));
    } else if constexpr (packing::kIsView<T>) {
      write_list(value);
    } else if constexpr (packing::kIsList<T> || packing::kIsMap<T>) {
      write_list(value);
    } else if constexpr (packing::kIs<T, std::pair>) {
      write(value.first);
      write(value.second);
    } else if constexpr (packing::kIs<T, std::optional>) {
      write(value.has_value());
      if (value) write(*value);
    } else {
      static_assert(packing::kIsPlain<T>);
      write_bytes(&value, sizeof value);
    }
  }

  // Everything but the large arrays.
  const std::string& text() const& { return text_; }
  std::string text() && { return std::move(text_); }
  void reserve(size_t bytes) { text_.reserve(bytes); }
  // The large arrays that were written, which must still exist.
  size_t array_bytes() const {
    size_t bytes = 0;
    for (const auto& array : arrays_) bytes += packing::aligned(array.size());
    return bytes;
  }
  // Copies them. `memory`: array_bytes().
  void copy_arrays(std::span<std::byte> memory) const {
    size_t at = 0;
    for (const auto& array : arrays_) {
      if (!array.empty()) std::memcpy(memory.data() + at, array.data(), array.size());
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
  void write_bytes(const void* bytes, size_t count) { text_.append(static_cast<const char*>(bytes), count); }

  std::string text_;
  std::vector<std::span<const std::byte>> arrays_;
};

// Reads values in the order in which they were written. Throws Error(kRun) if the text ends early.
class Unpacker {
 public:
  // `arrays`: as Packer::copy_arrays() has written them; null if there are none.
  explicit Unpacker(std::string_view text, std::shared_ptr<std::byte> arrays = nullptr)
      : text_(text), arrays_(std::move(arrays)) {}

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
  std::string_view rest() const { return text_; }

 private:
  template <class T>
  LargeArray<T> read_array() {
    const auto count = read<size_t>();
    if (count == 0) return {};
    const std::shared_ptr<std::byte> memory(arrays_, arrays_.get() + array_at_);
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
        check(count <= text_.size() / sizeof(typename T::value_type));
        value.resize(count);
        read_bytes(value.data(), count * sizeof(typename T::value_type));
      } else {
        for (size_t i = 0; i < count; ++i) value.push_back(read<typename T::value_type>());
      }
    } else {
      static_assert(packing::kIsPlain<T>);
      read_bytes(&value, sizeof value);
    }
  }

  void read_bytes(void* bytes, size_t count) {
    check(count <= text_.size());
    if (count > 0) std::memcpy(bytes, text_.data(), count);
    text_.remove_prefix(count);
  }
  static void check(bool is_expected) {
    RUN_CHECK(is_expected, ErrorKind::kRun, "received unexpected data from another rank");
  }

  std::string_view text_;
  std::shared_ptr<std::byte> arrays_;
  size_t array_at_ = 0;
};

// A value without large arrays as text. unpack() throws Error(kRun) if the text is not that of one value of the type.
template <class T>
std::string pack(const T& value) {
  Packer packer;
  packer.write(value);
  return std::move(packer).text();
}
template <class T>
T unpack(std::string_view text) {
  Unpacker unpacker(text);
  T value = unpacker.read<T>();
  RUN_CHECK(unpacker.rest().empty(), ErrorKind::kRun, "received unexpected data from another rank");
  return value;
}

}  // namespace runner
