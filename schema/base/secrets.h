// Environment variables whose values are recorded and printed as digests only. Thread-safe.
//
// A recipe can put a secret into any of its values, and from there into file names and error messages. Records of a run
// and messages therefore pass through hide_secrets().
#pragma once

#include <string>
#include <string_view>

namespace runner {

// Start of a reference ${secret:NAME:DIGEST}, which replaces the value of a secret variable in records and messages.
inline constexpr std::string_view kSecretStart = "${secret:";

// Whether a variable is secret because of its name: it contains TOKEN, KEY, PASSWORD or SECRET, in any case.
bool is_secret_name(std::string_view variable);

// Returns the first 16 hexadecimal digits of the SHA-256 of "NAME=value".
std::string secret_digest(std::string_view variable, std::string_view value);

// Returns the reference, and remembers the value for hide_secrets().
std::string remember_secret(const std::string& variable, const std::string& value);

// Replaces the remembered values in `text` by their references. Values of less than six bytes are not replaced,
// because they occur in texts by chance.
std::string hide_secrets(std::string text);

}  // namespace runner
